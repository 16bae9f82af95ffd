// SPDX-License-Identifier: BSD-2-Clause
#include "inject_priv.h"

#ifdef __x86_64__
#include <elf.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#define SPIN_NS 50000

u64 inject_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * 1000000000 + (u64)ts.tv_nsec;
}

int inject_ptrace(int request, pid_t tid, unsigned long addr, unsigned long data)
{
	return ptrace(request, tid, (void *)addr, (void *)data) < 0 ? -errno : 0;
}

/*
 * Until the kernel says that a thread stopped.  Another thread of ours may eat
 * that signal, hence no longer than a moment.
 */
static void nap(void)
{
	const struct timespec moment = {.tv_nsec = 200000};
	sigset_t chld;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigtimedwait(&chld, NULL, &moment);
}

/*
 * Spin first: the stop usually takes microseconds, and the target stands still.
 * Then sleep: it may be waiting for the very processor that we spin on, above
 * all if we have the higher priority.
 */
int inject_wait(pid_t tid, u64 limit, int *status)
{
	u64 start = inject_now();

	for (;;) {
		pid_t got = waitpid(tid, status, __WALL | __WNOTHREAD | WNOHANG);
		u64 waited = inject_now() - start;

		if (got == tid)
			return WIFSTOPPED(*status) ? 0 : -ESRCH;
		if (got < 0 && errno != EINTR)
			return errno == ECHILD ? -ESRCH : -errno;
		if (waited > limit)
			return -ETIMEDOUT;
		if (waited < SPIN_NS)
			sched_yield();
		else
			nap();
	}
}

int inject_get_regs(const struct inject *in, struct user_regs_struct *regs)
{
	struct iovec iov = {regs, sizeof(*regs)};

	return inject_ptrace(PTRACE_GETREGSET, in->tid, NT_PRSTATUS, (unsigned long)&iov);
}

int inject_set_regs(const struct inject *in, const struct user_regs_struct *regs)
{
	struct iovec iov = {(void *)regs, sizeof(*regs)};

	return inject_ptrace(PTRACE_SETREGSET, in->tid, NT_PRSTATUS, (unsigned long)&iov);
}

int inject_set_blocked(const struct inject *in, u64 mask)
{
	return inject_ptrace(PTRACE_SETSIGMASK, in->tid, sizeof(mask), (unsigned long)&mask);
}

int inject_stand_by(const struct inject *in)
{
	struct user_regs_struct regs = in->saved;

	regs.orig_rax = (unsigned long)-1;
	regs.rax = 0;
	regs.rip = in->gadgets.sigreturn;
	regs.rsp = in->frame.uc;
	regs.eflags &= ~0x400ul; /* DF clear, as every function expects */
	return inject_set_regs(in, &regs);
}
#endif
