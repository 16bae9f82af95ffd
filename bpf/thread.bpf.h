/* SPDX-License-Identifier: GPL-2.0 */
/* Whose stack it is, for reports by thread.  Only where stacks are kept apart by thread. */
#ifndef PHT_THREAD_BPF_H
#define PHT_THREAD_BPF_H

#include "maps.bpf.h"

static __always_inline __u64 user_u64(__u64 addr)
{
	__u64 value = 0;

	bpf_probe_read_user(&value, sizeof(value), (void *)addr);
	return value;
}

/* The first threads to be sampled have a place of their own for as long as they live. */
static __always_inline bool thread_has_place(struct pht_thread *th)
{
	if (th->place == PLACE_UNKNOWN) {
		th->place = thread_places < PHT_THREADS_MAX ? PLACE_OWN : PLACE_SHARED;
		if (th->place == PLACE_OWN)
			__sync_fetch_and_add(&thread_places, 1);
	}
	if (th->place == PLACE_OWN)
		return true;
	loss(PHT_LOSS_threads_merged);
	return false;
}

/*
 * Fill in the thread of the stack that has been walked.  User space finds a
 * Thread object by what the outermost frame has as its first argument.
 */
static __always_inline void stack_owner(struct pht_thread *th, const struct pht_pyoffsets *off)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct pht_stack_thread *t = &th->stack.thread;
	bool whole = !(th->stack.flags & (PHT_STACK_TRUNCATED | PHT_STACK_UNREADABLE));

	*t = (struct pht_stack_thread){.known = 1};
	if (!thread_has_place(th))
		return;
	t->tid = (__u32)bpf_get_current_pid_tgid();
	t->start_ns = BPF_CORE_READ(task, start_boottime);
	if (whole && th->walk.outer && off->fr_locals != PHT_ABSENT)
		t->object = user_u64(th->walk.outer + off->fr_locals) & ~(__u64)off->code_tag_mask;
	bpf_get_current_comm(t->comm, sizeof(t->comm));
}

#endif
