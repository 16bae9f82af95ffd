/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What differs between machines: registers at a call, and where a thread's own
 * data lie.  Arguments, results and stack pointers are libbpf's PT_REGS_*.
 */
#ifndef PHT_MACHINE_BPF_H
#define PHT_MACHINE_BPF_H

#if defined(__TARGET_ARCH_x86)

#define MACHINE_THREAD_POINTER fsbase
/* A call pushes this much, which the return takes off again. */
#define MACHINE_CALL_BYTES 8
/* pthread_self() is the thread pointer itself. */
#define MACHINE_SELF_SPAN 1
/* The thread's vector of TLS blocks is at thread pointer + this. */
#define MACHINE_DTV 8
/* glibc keeps the first 32 pthread keys' values here in the thread descriptor. */
#define MACHINE_KEY_SLOT(tp, key) ((tp) + 0x310 + 16ull * (key) + 8)
/* Of the error code of a page fault. */
#define MACHINE_FAULT_WRITE 2

#elif defined(__TARGET_ARCH_arm64)

/*
 * The register itself cannot be read here.  The kernel notes it whenever the
 * thread gives up its CPU, and libc sets it once, before main().
 */
#define MACHINE_THREAD_POINTER	  uw.tp_value
/* The return address is in a register. */
#define MACHINE_CALL_BYTES	  0
/*
 * The thread descriptor, which is what pthread_self() gives, ends at the thread
 * pointer.  Its size depends on libc and version (glibc: under 2 KiB, musl: a few
 * hundred bytes); no two threads' pointers are a page apart, for between them
 * is at least a stack.
 */
#define MACHINE_SELF_SPAN	  4096
#define MACHINE_DTV		  0
/* So nothing inside it is at a known place: the list of thread states serves. */
#define MACHINE_KEY_SLOT(tp, key) 0
/* Nor is there a tracepoint for page faults (and no program for it runs). */
#define MACHINE_FAULT_WRITE	  0

#else
#error "no register table for this machine"
#endif

/* What tells a thread from all others of its process. */
static __always_inline __u64 thread_pointer(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	return BPF_CORE_READ(task, thread.MACHINE_THREAD_POINTER);
}

/* Is this pthread_self() of the thread with that pointer? */
static __always_inline bool thread_is(__u64 self, __u64 tp)
{
	return tp - self < MACHINE_SELF_SPAN;
}

/* At the first instruction of a function: where it will return to. */
static __always_inline __u64 return_address(struct pt_regs *ctx)
{
	__u64 addr = 0;

	if (!MACHINE_CALL_BYTES)
		return PT_REGS_RET(ctx);
	bpf_probe_read_user(&addr, sizeof(addr), (void *)PT_REGS_SP(ctx));
	return addr;
}

#endif
