/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Growth seen at the only place it has to pass: the first write to a page.
 * Costs nothing but a look-up per fault; says who made the process bigger,
 * not who holds which block.
 */
#ifndef PHT_GROWTH_BPF_H
#define PHT_GROWTH_BPF_H

#include "alloc.bpf.h"

#define FAULT_PAGE 4096ull

static __always_inline void on_page_fault(__u64 addr, __u64 error)
{
	struct hit hit;

	/* Reading an untouched page maps the shared zero page: no growth. */
	if (!(error & MACHINE_FAULT_WRITE) || !hit_init(&hit, NULL))
		return;
	if (!(hit.proc->flags & PHT_PROC_FAULTS))
		return;
	hit.th = thread_get(hit.id);
	if (!hit.th)
		return;
	stat_add(PHT_STAT_CALLS, 1);
	stat_add(PHT_STAT_BYTES, FAULT_PAGE);
	if (sample(hit.th, FAULT_PAGE, hit.proc->interval))
		pht_insert(addr & ~(FAULT_PAGE - 1), FAULT_PAGE, hit.th->interval, PHT_DOM_FAULT);
}

#endif
