/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which probes a process needs so that every byte is counted once, and what
 * can then be seen.  Pure decisions over what pyinfo and allocfind found.
 */
#ifndef PHT_PLAN_H
#define PHT_PLAN_H

#include "allocfind.h"
#include "pyinfo.h"

#define PLAN_MAX_PROBES 64

struct plan_probe {
	int object; /* index into plan.fds */
	u64 offset; /* file offset of the instruction */
	enum pht_func func;
	u32 cookie; /* PHT_COOKIE() of it */
	bool with_return;
};

struct plan {
	int fds[3]; /* objects: heap, mappings, interpreter; -1 = none; owned */
	struct plan_probe probes[PLAN_MAX_PROBES];
	size_t nprobes;
	struct pht_proc proc; /* what BPF must know of the process */
	bool complete;	      /* small Python blocks are seen one by one */
	char coverage[256];   /* in words */
};

/* What BPF must know of any traced process. */
void plan_proc(const struct pyinfo *info, u64 interval, struct pht_proc *proc);
/* 0, or -errno after one line. */
int plan_make(const struct pyinfo *info, u64 interval, struct plan *out);
/* Its own descriptors, too; NULL: no memory or no descriptors. */
struct plan *plan_copy(const struct plan *plan);
void plan_free(struct plan *plan);

#endif
