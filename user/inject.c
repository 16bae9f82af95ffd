// SPDX-License-Identifier: BSD-2-Clause
/* What a borrowed thread is made to do, and giving it back. */
#include "inject_priv.h"

#ifdef __x86_64__
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "procmem.h"

#define STOP_NS	     (2000 * MS)
#define SYSCALL_STOP (SIGTRAP | 0x80)

/* ---- running ---- */

/* 0: pass it over; else the error it means. */
static int on_signal(struct inject *in, int sig)
{
	siginfo_t info = {0};

	if (sig != SIGSEGV && sig != SIGBUS)
		return 0;
	ptrace(PTRACE_GETSIGINFO, in->tid, NULL, &info);
	if (info.si_code > 0)
		return -EFAULT;
	in->resend = sig;
	return 0;
}

/* Let the thread run to its next stop. */
static int run_to_stop(struct inject *in, int request, unsigned long deliver, int *status)
{
	int err = in->broken;

	if (!err)
		err = inject_ptrace(request, in->tid, 0, deliver);
	if (!err)
		err = inject_wait(in->tid, STOP_NS, status);
	if (err == -ETIMEDOUT || err == -ESRCH)
		in->broken = err;
	return err;
}

/* On to the next entry to, or return from, a system call. */
static int run_to_syscall(struct inject *in)
{
	unsigned long deliver = 0;

	for (int i = 0; i < MAX_STOPS; i++) {
		int status, sig, err = run_to_stop(in, PTRACE_SYSCALL, deliver, &status);

		if (err)
			return err;
		deliver = 0;
		sig = WSTOPSIG(status);
		if (sig == SYSCALL_STOP)
			return 0;
		if (status >> 16)
			continue; /* a job-control stop; it takes hold again when we let go */
		if (sig == SIGSTOP)
			deliver = SIGSTOP;
		else if ((err = on_signal(in, sig)))
			return err;
	}
	return -EAGAIN;
}

int inject_syscall(struct inject *in, long nr, const u64 args[6], s64 *ret)
{
	struct user_regs_struct regs;
	int err = run_to_syscall(in);

	if (!err)
		err = inject_get_regs(in, &regs);
	if (err)
		return err;
	if (regs.orig_rax != SYS_rt_sigreturn)
		return -EPROTO;
	regs.orig_rax = (unsigned long)nr;
	regs.rdi = args[0];
	regs.rsi = args[1];
	regs.rdx = args[2];
	regs.r10 = args[3];
	regs.r8 = args[4];
	regs.r9 = args[5];
	/* Afterwards: ret, to the word below the frame, to rt_sigreturn. */
	regs.rip = in->gadgets.ret;
	regs.rsp = in->frame.uc - 8;
	err = inject_set_regs(in, &regs);
	if (!err)
		err = run_to_syscall(in);
	if (!err)
		err = inject_get_regs(in, &regs);
	if (!err && regs.rip != in->gadgets.ret)
		err = -EPROTO;
	if (!err)
		*ret = (s64)regs.rax;
	inject_stand_by(in);
	return err;
}

int inject_run(struct inject *in, u64 rip, u64 rdi, u64 rsi)
{
	struct user_regs_struct regs = in->saved;
	int err;

	regs.orig_rax = (unsigned long)-1;
	regs.rip = rip;
	regs.rdi = rdi;
	regs.rsi = rsi;
	regs.rsp = in->frame.uc;
	regs.eflags &= ~0x400ul;
	err = inject_set_regs(in, &regs);
	if (!err)
		err = run_to_syscall(in);
	if (!err)
		err = inject_get_regs(in, &regs);
	if (!err && regs.orig_rax != SYS_rt_sigreturn)
		err = -EPROTO;
	/* Its rt_sigreturn is not to happen yet: pass it over. */
	inject_stand_by(in);
	if (!err)
		err = run_to_syscall(in);
	inject_stand_by(in);
	return err;
}

/* ---- letting go ---- */

/*
 * Restoring the registers at a stop inside signal handling, and only there,
 * makes the kernel restart the system call that we interrupted.
 */
static int to_event_stop(struct inject *in)
{
	unsigned long deliver = 0;
	int err = in->broken ? in->broken : inject_stand_by(in);

	if (!err)
		err = inject_ptrace(PTRACE_INTERRUPT, in->tid, 0, 0);
	for (int i = 0; !err && i < MAX_STOPS; i++) {
		int status, sig;

		err = run_to_stop(in, PTRACE_CONT, deliver, &status);
		if (err)
			break;
		if (status >> 16 == EVENT_STOP)
			return 0;
		sig = WSTOPSIG(status);
		deliver = sig == SIGSTOP ? SIGSTOP : 0;
		on_signal(in, sig);
	}
	return err ? err : -EAGAIN;
}

static int restore(struct inject *in)
{
	int err = inject_set_blocked(in, in->blocked);

	if (!err)
		err = inject_set_regs(in, &in->saved);
	/* From here on the frame is not needed. */
	if (!err)
		procmem_write(in->mem, in->frame.addr, in->stack, in->frame.len);
	return err;
}

int inject_end(struct inject *in, u64 *stopped_ns)
{
	int err = to_event_stop(in);

	if (!err)
		err = restore(in);
	if (!err)
		err = inject_ptrace(PTRACE_DETACH, in->tid, 0, 0);
	if (in->resend)
		syscall(SYS_tgkill, in->pid, in->tid, in->resend);
	if (stopped_ns)
		*stopped_ns = inject_now() - in->since;
	free(in);
	return err;
}
#endif
