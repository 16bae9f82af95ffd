/* SPDX-License-Identifier: BSD-2-Clause */
/* Which data a function refers to, by reading its code.  x86-64; elsewhere nothing is found. */
#ifndef PHT_INSN_REFS_H
#define PHT_INSN_REFS_H

#include <stdbool.h>

#include "util.h"

enum insn_ref_kind {
	INSN_REF_LOAD, /* reads size bytes at value, or jumps or calls through it */
	INSN_REF_CMP,  /* compares something with the constant value */
};

struct insn_ref {
	enum insn_ref_kind kind;
	u64 value;
	u32 size;
};

/* Eight bytes of the process at addr (a GOT slot, say); false when unreadable. */
typedef bool (*insn_peek_fn)(void *ctx, u64 addr, u64 *value);

/*
 * The references in code[0..len) at run-time address addr, read in one line
 * from start to end: addresses that depend on the way taken are missed or,
 * rarely, wrong.  Verify what comes out.  Returns how many were stored.
 */
size_t insn_refs(const u8 *code, size_t len, u64 addr, insn_peek_fn peek, void *ctx,
		 struct insn_ref *out, size_t max);

/* Fetch up to len bytes of code at addr; how many there are, 0 for none. */
typedef size_t (*insn_fetch_fn)(void *ctx, u64 addr, u8 *buf, size_t len);

#define INSN_FACTS_CALLS 24

/* What a function of unknown size does, found by following its branches. */
struct insn_facts {
	u64 calls[INSN_FACTS_CALLS]; /* direct calls, each target once */
	size_t ncalls;
	u64 jumps[INSN_FACTS_CALLS]; /* jumps out: tail calls, or its own unlikely code */
	size_t njumps;
	bool small_limit; /* compares with 511 or 512, or as clang does, first: pymalloc's border */
	bool mi_limit;	  /* compares with 1024 first: mimalloc's */
};

/* 0, -EFAULT (no code at addr), -ENOMEM. */
int insn_facts(u64 addr, insn_fetch_fn fetch, void *ctx, struct insn_facts *out);

#endif
