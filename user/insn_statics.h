/* SPDX-License-Identifier: BSD-2-Clause */
/* Which static variables a function uses, by following its code.  x86-64; elsewhere none. */
#ifndef PHT_INSN_STATICS_H
#define PHT_INSN_STATICS_H

#include "insn_refs.h"

#define INSN_STATIC_MIN 0x1000

struct insn_static {
	u64 addr;
	u32 size; /* of the access; 0 = only its address is formed, or it is an array's base */
};

/*
 * The addresses that the code reachable from addr by jumps names, each with
 * its first access, in an order that keeps this: what is always executed
 * before something else comes before it.  Constants of at least INSN_STATIC_MIN that are
 * moved to a register look like addresses and are among them: verify.  Returns
 * how many were stored.
 */
size_t insn_statics(u64 addr, insn_fetch_fn fetch, void *ctx, struct insn_static *out, size_t max);

#endif
