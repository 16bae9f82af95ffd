/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Following processes: from program to program, into their children, and to
 * the moments at which their interpreter is ready and at which it goes.  At
 * such a moment the process is stopped until user space has done its part.
 */
#ifndef PHT_FOLLOW_BPF_H
#define PHT_FOLLOW_BPF_H

#include "maps.bpf.h"

#define SIGSTOP 19

static __always_inline void follow_stop(struct pht_follow *f)
{
	if (bpf_send_signal(SIGSTOP))
		loss(PHT_LOSS_stop_failed);
	else
		f->stopped = 1;
}

/*
 * A process ends with the last of its threads.  The first one may go before: of
 * its own will, or because another one executes a program and takes its place.
 */
static __always_inline bool is_last_thread(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	return !BPF_CORE_READ(task, signal, live.counter);
}

#define GROUP_EXIT 4u /* SIGNAL_GROUP_EXIT */

/* Or is this thread made to end because all of them are, or because one executes a program? */
static __always_inline bool ends_by_itself(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct signal_struct *signal = BPF_CORE_READ(task, signal);
	struct signal_struct___old *old = (struct signal_struct___old *)signal;

	if (BPF_CORE_READ(signal, flags) & GROUP_EXIT)
		return false;
	if (bpf_core_field_exists(signal->group_exec_task))
		return !BPF_CORE_READ(signal, group_exec_task);
	return !BPF_CORE_READ(old, group_exit_task);
}

/* The thread that a traced process's probes hang on goes, and others stay. */
static __always_inline void on_anchor_exit(__u64 id, const struct pht_proc *proc)
{
	if (proc->anchor == (__u32)id && !is_last_thread() && ends_by_itself())
		event_send(PHT_EV_ANCHOR, id >> 32, (__u32)id);
}

/* Those of an ended process's threads that are made to end have its code: the signal, or the
 * status. */
static __always_inline void on_traced_exit(struct pht_proc *proc)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	if (is_last_thread())
		proc->exit_signal = BPF_CORE_READ(task, exit_code) & 0x7f;
}

static __always_inline void on_follow_exit(__u32 tgid)
{
	if (is_last_thread())
		bpf_map_delete_elem(&follow, &tgid);
}

/* Is it followed? */
static __always_inline bool on_follow_exec(__u32 tgid)
{
	struct pht_follow *f = bpf_map_lookup_elem(&follow, &tgid);

	if (!f)
		return false;
	f->watch = 0;
	f->ready = 0;
	f->flags &= ~PHT_FOLLOW_ENTRY;
	if (f->flags & PHT_FOLLOW_STOP)
		follow_stop(f);
	return true;
}

/*
 * A child that still shares its parent's memory (vfork) is about to execute
 * another program: nothing of it is to be seen before that.
 */
static __always_inline bool shares_memory(struct task_struct *child)
{
	struct task_struct *parent = (struct task_struct *)bpf_get_current_task();

	return BPF_CORE_READ(child, mm) == BPF_CORE_READ(parent, mm);
}

static __always_inline void on_follow_fork(__u32 tgid, struct task_struct *child, bool is_traced)
{
	struct pht_follow *f = bpf_map_lookup_elem(&follow, &tgid), copy;
	bool followed = f && f->flags & PHT_FOLLOW_FORK, shared;
	__u32 child_tgid = BPF_CORE_READ(child, tgid);

	if (!(followed || is_traced) || (__u32)BPF_CORE_READ(child, pid) != child_tgid)
		return;
	shared = shares_memory(child);
	if (followed) {
		copy = *f;
		copy.stopped = 0;
		if (shared)
			copy.watch = 0;
		else if (copy.flags & PHT_FOLLOW_BIRTH)
			copy.flags |= PHT_FOLLOW_NEW;
		if (bpf_map_update_elem(&follow, &child_tgid, &copy, BPF_ANY))
			loss(PHT_LOSS_follow_map_full);
	}
	if (!shared && !(followed && f->flags & PHT_FOLLOW_BIRTH))
		event_send(PHT_EV_FORK, tgid, child_tgid);
}

/* In the child, when it runs for the first time. */
static __always_inline void on_follow_birth(__u32 tgid)
{
	struct pht_follow *f = bpf_map_lookup_elem(&follow, &tgid);

	if (!f || !(f->flags & PHT_FOLLOW_NEW))
		return;
	f->flags &= ~PHT_FOLLOW_NEW;
	follow_stop(f);
	event_send(PHT_EV_BORN, tgid, 0);
}

static __always_inline void on_follow_breakpoint(__u32 tgid)
{
	struct pht_follow *f = bpf_map_lookup_elem(&follow, &tgid);
	__u32 word = 0;

	if (!f)
		return;
	if (f->flags & PHT_FOLLOW_ENTRY) {
		f->flags &= ~PHT_FOLLOW_ENTRY;
		follow_stop(f);
		event_send(PHT_EV_ENTRY, tgid, 0);
		return;
	}
	if (!f->watch || bpf_probe_read_user(&word, sizeof(word), (void *)f->watch))
		return;
	/* The word is written more than once with the same value. */
	if (!word == !f->ready)
		return;
	f->ready = !!word;
	follow_stop(f);
	event_send(word ? PHT_EV_READY : PHT_EV_FINI, tgid, 0);
}

#endif
