/* SPDX-License-Identifier: BSD-2-Clause */
/* One x86-64 instruction after another, through capstone.  For insn*.c only. */
#ifndef PHT_INSN_X86_H
#define PHT_INSN_X86_H

#include <stdbool.h>

#include <capstone/capstone.h>

#include "util.h"

struct x86_decoder {
	csh handle;
	cs_insn *insn; /* the current one, with details */
	const u8 *pos;
	size_t left;
	u64 addr; /* of pos */
};

enum x86_flow {
	X86_FLOW_NONE,
	X86_FLOW_CALL,	/* direct: the target is known */
	X86_FLOW_JMP,	/* direct */
	X86_FLOW_JCC,	/* direct, conditional */
	X86_FLOW_END,	/* ret, indirect jump, trap: nothing follows */
	X86_FLOW_OTHER, /* indirect call, system call */
};

/* 0 or -ENOMEM. */
int x86_open(struct x86_decoder *d, const u8 *code, size_t len, u64 vaddr);
void x86_close(struct x86_decoder *d);
void x86_seek(struct x86_decoder *d, const u8 *code, size_t len, u64 vaddr);
/* The next instruction into d->insn; false at the end or at undecodable bytes. */
bool x86_next(struct x86_decoder *d);
/* Pass one undecodable byte; false at the end. */
bool x86_skip_byte(struct x86_decoder *d);

/* What the current instruction does to the flow of control. */
enum x86_flow x86_flow(const struct x86_decoder *d, u64 *target);
/* 0..15 in encoding order (rax, rcx, rdx, rbx, rsp, ...) for any width, or -1. */
int x86_reg_index(x86_reg reg);
/*
 * General registers that the current instruction may write, as a set of bits
 * numbered by x86_reg_index(); errs towards too many.
 */
u32 x86_writes(const struct x86_decoder *d);

enum { X86_RAX, X86_RCX, X86_RDX, X86_RBX, X86_RSP, X86_RBP, X86_RSI, X86_RDI, X86_R8, X86_R9 };

#endif
