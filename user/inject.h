/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Borrow one stopped thread of a target for a few system calls.
 *
 * The thread runs nothing of ours but an rt_sigreturn instruction that its
 * libc already has: at its entry the tracer exchanges the system call.  All
 * signals are blocked meanwhile (they stay queued, with their siginfo).  At
 * every moment a signal frame on its stack holds what it was doing, so that
 * it goes on by itself if the tracer is killed: see sigframe.h.  Only
 * PTRACE_SYSCALL is used; a single step would leave the trap flag behind.
 *
 * Everything here must be called from one thread (see bounded.h), and every
 * wait in it is bounded.
 */
#ifndef PHT_INJECT_H
#define PHT_INJECT_H

#include <sys/types.h>

#include "proc.h"
#include "util.h"

/* Instructions of the target's own that the thread is sent to. */
struct inject_gadgets {
	u64 sigreturn; /* mov $15, %eax; syscall */
	u64 ret;
};

struct inject;

/* 0, -ENOENT (neither libc nor anything else has them), -errno. */
int inject_find_gadgets(pid_t pid, int mem, const struct proc_maps *maps,
			struct inject_gadgets *out);

/*
 * May this process be written to at all?  -EBUSY: another tracer; -ENOTSUP:
 * shadow stack or 32-bit; *why is set to a reason for people on any failure.
 */
int inject_permitted(pid_t pid, const char **why);

/*
 * Stop a well-chosen thread.  mem is the target's procmem fd.  -EPERM:
 * refused by the kernel; -EACCES: seccomp filter that cannot be suspended;
 * -EBUSY: no thread could be interrupted without harm; -ETIMEDOUT; -ESRCH.
 * *why as above.
 */
int inject_begin(pid_t pid, int mem, const struct inject_gadgets *gadgets, struct inject **out,
		 const char **why);
pid_t inject_tid(const struct inject *in);
/* Thread pointer of the stopped thread. */
u64 inject_fs_base(const struct inject *in);

/* Put up to 64 bytes where the target can read them until inject_end; their address. */
int inject_scratch(struct inject *in, const void *data, size_t len, u64 *addr);

/* One system call; *ret is its result, -errno included.  0 or -errno of the injection itself. */
int inject_syscall(struct inject *in, long nr, const u64 args[6], s64 *ret);

/* Run code at rip with two arguments; the code ends in rt_sigreturn at the frame. */
int inject_run(struct inject *in, u64 rip, u64 rdi, u64 rsi);

/*
 * Put everything back and let go; in is freed.  *stopped_ns, if not NULL, is
 * how long the thread stood still.  0 or -errno; on failure the thread goes on
 * by way of its frame when the calling thread ends.
 */
int inject_end(struct inject *in, u64 *stopped_ns);

#endif
