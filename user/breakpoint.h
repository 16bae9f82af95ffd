/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hardware breakpoints: one of the processor's four debug registers, set for
 * one thread and those that it starts from then on, in children too.  Nothing
 * is written into the process.
 */
#ifndef PHT_BREAKPOINT_H
#define PHT_BREAKPOINT_H

#include "probes.h"

enum breakpoint_kind {
	BREAK_EXEC,  /* before the instruction at addr */
	BREAK_WRITE, /* after a write to the 4 bytes at addr */
};

struct bpf_link;

/* 0, or -errno without a message: machines and kernels without them are common. */
int breakpoint_set(const struct probes *probes, pid_t tid, u64 addr, enum breakpoint_kind kind,
		   struct bpf_link **out);
/* The first page fault of each process that tid, or what it starts, forks from now on. */
int breakpoint_births(const struct probes *probes, pid_t tid, struct bpf_link **out);
void breakpoint_remove(struct bpf_link *link); /* NULL is fine */

#endif
