// SPDX-License-Identifier: GPL-2.0
/* Entry points only; each calls one function of the headers. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "alloc.bpf.h"
#include "follow.bpf.h"
#include "growth.bpf.h"
#include "ownstack.bpf.h"
#include "tramp.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/*
 * One program for all functions where probes have cookies and entry can
 * cancel its return half (uprobe session, 6.13).  At entry the instruction
 * pointer is the probed address; at the return it is the caller's.
 */
SEC("uprobe")
int session_any(struct pt_regs *ctx)
{
	__u32 cookie = bpf_get_attach_cookie(ctx);

	KEEP_TASK_STACK(no_probes);
	if (PT_REGS_IP(ctx) == bpf_get_func_ip(ctx))
		return !on_enter(ctx, cookie);
	on_return(ctx, cookie);
	return 0;
}

/* uprobe_multi without sessions (6.6), and perf probes with cookies (5.15). */
SEC("uprobe")
int cookie_enter(struct pt_regs *ctx)
{
	KEEP_TASK_STACK(no_probes);
	on_enter(ctx, bpf_get_attach_cookie(ctx));
	return 0;
}

SEC("uprobe")
int cookie_return(struct pt_regs *ctx)
{
	KEEP_TASK_STACK(no_probes);
	on_return(ctx, bpf_get_attach_cookie(ctx));
	return 0;
}

/* Before cookies: one pair of programs a function. */
#define FUNC_PROGS(name, func)                                                                     \
	SEC("uprobe")                                                                              \
	int enter_##name(struct pt_regs *ctx)                                                      \
	{                                                                                          \
		KEEP_TASK_STACK(no_probes);                                                        \
		on_enter(ctx, func);                                                               \
		return 0;                                                                          \
	}                                                                                          \
	SEC("uprobe")                                                                              \
	int return_##name(struct pt_regs *ctx)                                                     \
	{                                                                                          \
		KEEP_TASK_STACK(no_probes);                                                        \
		on_return(ctx, func);                                                              \
		return 0;                                                                          \
	}

FUNC_PROGS(malloc, PHT_FN_MALLOC)
FUNC_PROGS(calloc, PHT_FN_CALLOC)
FUNC_PROGS(realloc, PHT_FN_REALLOC)
FUNC_PROGS(reallocarray, PHT_FN_REALLOCARRAY)
FUNC_PROGS(free, PHT_FN_FREE)
FUNC_PROGS(posix_memalign, PHT_FN_POSIX_MEMALIGN)
FUNC_PROGS(aligned, PHT_FN_ALIGNED)
FUNC_PROGS(valloc, PHT_FN_VALLOC)
FUNC_PROGS(pvalloc, PHT_FN_PVALLOC)
FUNC_PROGS(mmap, PHT_FN_MMAP)
FUNC_PROGS(munmap, PHT_FN_MUNMAP)
FUNC_PROGS(mremap, PHT_FN_MREMAP)
FUNC_PROGS(py_malloc, PHT_FN_PY_MALLOC)
FUNC_PROGS(py_calloc, PHT_FN_PY_CALLOC)
FUNC_PROGS(py_realloc, PHT_FN_PY_REALLOC)
FUNC_PROGS(py_free, PHT_FN_PY_FREE)
FUNC_PROGS(py_pool, PHT_FN_PY_POOL)

/* Sites of the page that the trampoline collector maps into the target. */
SEC("uprobe")
int tramp_alloc(struct pt_regs *ctx)
{
	KEEP_TASK_STACK(no_sites);
	on_tramp_alloc(ctx);
	return 0;
}

SEC("uprobe")
int tramp_free(struct pt_regs *ctx)
{
	KEEP_TASK_STACK(no_sites);
	on_tramp_free(ctx);
	return 0;
}

static __always_inline struct pht_proc *traced(__u32 tgid)
{
	return bpf_map_lookup_elem(&procs, &tgid);
}

/* Attached only for the growth collector: it runs at every fault of the machine. */
SEC("raw_tp/page_fault_user")
int page_fault(struct bpf_raw_tracepoint_args *ctx)
{
	on_page_fault(ctx->args[0], ctx->args[2]);
	return 0;
}

SEC("raw_tp/sched_process_exit")
int process_exit(void *ctx __attribute__((unused)))
{
	__u64 id = bpf_get_current_pid_tgid();
	struct pht_proc *proc = traced(id >> 32);

	bpf_map_delete_elem(&threads, &id);
	if (proc) {
		on_anchor_exit(id, proc);
		on_traced_exit(proc);
	}
	on_follow_exit(id >> 32);
	return 0;
}

/* The old program's memory is gone, and with it every address we know. */
SEC("raw_tp/sched_process_exec")
int process_exec(void *ctx __attribute__((unused)))
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct pht_proc *proc = traced(tgid);

	if (proc)
		proc->flags &= ~PHT_PROC_ENABLED;
	if (on_follow_exec(tgid) || proc)
		event_send(PHT_EV_EXEC, tgid, 0);
	return 0;
}

SEC("raw_tp/sched_process_fork")
int process_fork(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct task_struct *child = (struct task_struct *)ctx->args[1];

	on_follow_fork(tgid, child, traced(tgid));
	return 0;
}

/* At page faults of followed processes: the first thing that a child does is to write to its stack.
 */
SEC("perf_event")
int process_birth(void *ctx __attribute__((unused)))
{
	on_follow_birth(bpf_get_current_pid_tgid() >> 32);
	return 0;
}

/* A hardware breakpoint that user space has set on a followed process. */
SEC("perf_event")
int breakpoint(void *ctx __attribute__((unused)))
{
	on_follow_breakpoint(bpf_get_current_pid_tgid() >> 32);
	return 0;
}
