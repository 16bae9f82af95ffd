/* SPDX-License-Identifier: BSD-2-Clause */
/* Small questions about machine code, answered with capstone.  Pure; bytes are hostile. */
#ifndef PHT_INSN_H
#define PHT_INSN_H

#include <stdbool.h>

#include "util.h"

/* What a probe at an instruction costs (design 1). */
enum probe_cost {
	PROBE_EMULATED, /* the kernel emulates it: push, 1-byte nop, jmp, jcc, call */
	PROBE_STEPPED,	/* single-stepped out of line: several times dearer */
};

struct probe_site {
	u64 offset; /* bytes from the function's start */
	enum probe_cost cost;
};

struct prologue_query {
	const u8 *code; /* the function's first bytes */
	size_t len;
	u64 vaddr;	   /* of code[0] */
	u64 size;	   /* of the function; 0 = unknown */
	int nargs;	   /* integer arguments that must still be in place (0..6) */
	bool needs_return; /* the return half will be used: rsp must still hold the return address
			    */
	bool null_skip_ok; /* a leading `test rdi,rdi; jz` may be passed (free: NULL is no event) */
};

/*
 * The cheapest instruction near a function's start that is executed exactly
 * once per call and still has the arguments in their registers.  Offset 0 is
 * always a right answer.  Never returns a site that a jump inside the
 * function comes back to.
 */
struct probe_site insn_probe_site(const struct prologue_query *q);

/*
 * Targets of direct calls and jumps out of code[0..len) that lie in none of
 * its own bytes.  Returns how many were stored (at most max).
 */
size_t insn_branch_targets(const u8 *code, size_t len, u64 vaddr, u64 *targets, size_t max);

#endif
