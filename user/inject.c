// SPDX-License-Identifier: BSD-2-Clause
#include "inject.h"

#ifdef __x86_64__
#include <elf.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

#include "inject_pick.h"
#include "procmem.h"
#include "sigframe.h"

#define MS 1000000ull

#define FIRST_STOP_NS (300 * MS)
#define STOP_NS	      (2000 * MS)
#define PICK_NS	      (2000 * MS)
#define MAX_STOPS     64
#define CANDIDATES    6

#define USER_CS		 0x33
#define OPT_SUSPEND_SECCOMP (1u << 21)
#define GET_RSEQ	 0x420f
#define EVENT_STOP	 128
#define SYSCALL_STOP	 (SIGTRAP | 0x80)
#define ERR_RESTART_NOHND -514

struct inject {
	pid_t pid, tid;
	int mem;
	struct inject_gadgets gadgets;
	struct user_regs_struct saved;
	u64 blocked; /* signals the thread blocks by itself */
	int resend;  /* a signal that could not stay queued */
	u64 since;
	bool have_regs;
	struct sigframe frame;
	u8 stack[SIGFRAME_MAX]; /* what the frame covers */
	u8 xstate[SIGFRAME_MAX];
};

static u64 now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * 1000000000 + (u64)ts.tv_nsec;
}

static int trace(int request, pid_t tid, unsigned long addr, unsigned long data)
{
	return ptrace(request, tid, (void *)addr, (void *)data) < 0 ? -errno : 0;
}

/* Spin first: the stop usually takes microseconds, and the target stands still. */
static int wait_stop(pid_t tid, u64 limit, int *status)
{
	const struct timespec nap = { .tv_nsec = 50000 };
	u64 start = now();

	for (;;) {
		pid_t got = waitpid(tid, status, __WALL | __WNOTHREAD | WNOHANG);
		u64 waited = now() - start;

		if (got == tid)
			return WIFSTOPPED(*status) ? 0 : -ESRCH;
		if (got < 0 && errno != EINTR)
			return errno == ECHILD ? -ESRCH : -errno;
		if (waited > limit)
			return -ETIMEDOUT;
		if (waited < 2 * MS)
			sched_yield();
		else
			nanosleep(&nap, NULL);
	}
}

static int get_regs(const struct inject *in, struct user_regs_struct *regs)
{
	struct iovec iov = { regs, sizeof(*regs) };

	return trace(PTRACE_GETREGSET, in->tid, NT_PRSTATUS, (unsigned long)&iov);
}

static int set_regs(const struct inject *in, const struct user_regs_struct *regs)
{
	struct iovec iov = { (void *)regs, sizeof(*regs) };

	return trace(PTRACE_SETREGSET, in->tid, NT_PRSTATUS, (unsigned long)&iov);
}

static int set_blocked(const struct inject *in, u64 mask)
{
	return trace(PTRACE_SETSIGMASK, in->tid, sizeof(mask), (unsigned long)&mask);
}

/* ---- checks ---- */

int inject_permitted(pid_t pid, const char **why)
{
	char buf[256];
	int err = proc_status(pid, "TracerPid", buf, sizeof(buf));

	if (err == -ESRCH) {
		*why = "the process is gone";
		return err;
	}
	if (!err && atoi(buf)) {
		*why = "another tracer (a debugger, strace) is attached to it";
		return -EBUSY;
	}
	if (!proc_status(pid, "x86_Thread_features", buf, sizeof(buf)) && strstr(buf, "shstk")) {
		*why = "it runs with a hardware shadow stack";
		return -ENOTSUP;
	}
	return 0;
}

static bool has_seccomp(pid_t tid)
{
	char buf[32];

	return proc_status(tid, "Seccomp", buf, sizeof(buf)) || atoi(buf);
}

/* Interrupted in a restartable sequence, the thread must not be sent elsewhere. */
static bool in_rseq(const struct inject *in)
{
	struct {
		u64 area;
		u32 size, signature, flags, pad;
	} conf = { 0 };
	u64 cs = 0;

	if (ptrace(GET_RSEQ, in->tid, sizeof(conf), &conf) < 0 || !conf.area)
		return false;
	return procmem_read(in->mem, conf.area + 8, &cs, sizeof(cs)) || cs;
}

/* ---- stopping ---- */

static int seize(pid_t tid, const char **why)
{
	int err = trace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD | OPT_SUSPEND_SECCOMP);

	if (err == -EPERM || err == -EINVAL) {
		if (has_seccomp(tid)) {
			*why = "it has a seccomp filter, which may not be suspended from here";
			return -EACCES;
		}
		err = trace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD);
	}
	if (err == -EPERM)
		*why = "ptrace is refused (another tracer, or a security policy)";
	return err;
}

static int stop_thread(struct inject *in, const char **why)
{
	int status, err = seize(in->tid, why);

	if (err)
		return err;
	err = trace(PTRACE_INTERRUPT, in->tid, 0, 0);
	for (int i = 0; !err && i < MAX_STOPS; i++) {
		err = wait_stop(in->tid, FIRST_STOP_NS, &status);
		if (err)
			break;
		if (status >> 16 == EVENT_STOP) {
			in->since = now();
			return 0;
		}
		/* A signal was first: it takes its course, the interrupt stays due. */
		err = trace(PTRACE_CONT, in->tid, 0, (unsigned long)WSTOPSIG(status));
	}
	return err ? err : -EAGAIN;
}

/* What the thread stands at whenever the tracer may die: rt_sigreturn over the frame. */
static int stand_by(const struct inject *in)
{
	struct user_regs_struct regs = in->saved;

	regs.orig_rax = (unsigned long)-1;
	regs.rax = 0;
	regs.rip = in->gadgets.sigreturn;
	regs.rsp = in->frame.uc;
	regs.eflags &= ~0x400ul; /* DF clear, as every function expects */
	return set_regs(in, &regs);
}

static int read_state(struct inject *in)
{
	struct iovec iov = { in->xstate, sizeof(in->xstate) };
	int err = get_regs(in, &in->saved);

	if (err)
		return err;
	in->have_regs = true;
	if (in->saved.cs != USER_CS)
		return -ENOTSUP;
	if (in_rseq(in))
		return -EAGAIN;
	/* The EINTR is ours: wait again, unless a handler runs first. */
	if ((s64)in->saved.rax == -EINTR && inject_eintr_restartable((long)in->saved.orig_rax))
		in->saved.rax = (unsigned long)ERR_RESTART_NOHND;
	err = trace(PTRACE_GETSIGMASK, in->tid, sizeof(in->blocked), (unsigned long)&in->blocked);
	if (!err)
		err = trace(PTRACE_GETREGSET, in->tid, NT_X86_XSTATE, (unsigned long)&iov);
	if (!err)
		err = sigframe_build(&in->saved, in->blocked, in->xstate, iov.iov_len,
				     in->gadgets.sigreturn, &in->frame);
	return err;
}

/* The order matters: at no point may a dead tracer leave the thread with a changed mask. */
static int borrow(struct inject *in)
{
	const u64 faults = 1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1);
	int err = read_state(in);

	if (!err)
		err = procmem_read(in->mem, in->frame.addr, in->stack, in->frame.len);
	if (!err)
		err = procmem_write(in->mem, in->frame.addr, in->frame.bytes, in->frame.len);
	if (err) {
		/* The registers are as they were, except for the restart. */
		if (in->have_regs)
			set_regs(in, &in->saved);
		return err;
	}
	err = stand_by(in);
	/* A blocked fault would reset the program's handler for it. */
	return err ? err : set_blocked(in, ~faults);
}

static int try_thread(struct inject *in, const char **why)
{
	int err = stop_thread(in, why);

	if (err)
		return err;
	err = borrow(in);
	if (err)
		trace(PTRACE_DETACH, in->tid, 0, 0);
	if (err == -ENOTSUP)
		*why = "it is a 32-bit process";
	return err;
}

static bool hopeless(int err)
{
	/* After a timeout the thread is still ours to stop, until this thread of ours ends. */
	return err == -EPERM || err == -EACCES || err == -ENOTSUP || err == -ETIMEDOUT;
}

int inject_begin(pid_t pid, int mem, const struct inject_gadgets *gadgets, struct inject **out,
		 const char **why)
{
	const struct timespec nap = { .tv_nsec = 20 * MS };
	AUTO_FREE struct inject *in = calloc(1, sizeof(*in));
	u64 start = now();
	int err = -EBUSY;

	if (!in)
		return -ENOMEM;
	*why = "none of its threads can be interrupted without harm just now";
	do {
		pid_t tids[CANDIDATES];
		int n = inject_pick(pid, tids, CANDIDATES);

		if (n < 0)
			return n;
		for (int i = 0; i < n; i++) {
			*in = (struct inject){ .pid = pid, .tid = tids[i], .mem = mem,
					       .gadgets = *gadgets };
			err = try_thread(in, why);
			if (!err) {
				*out = TAKE_PTR(in);
				return 0;
			}
			if (hopeless(err))
				return err;
		}
		nanosleep(&nap, NULL);
	} while (now() - start < PICK_NS);
	return err;
}

pid_t inject_tid(const struct inject *in)
{
	return in->tid;
}

u64 inject_fs_base(const struct inject *in)
{
	return in->saved.fs_base;
}

int inject_scratch(struct inject *in, const void *data, size_t len, u64 *addr)
{
	if (len > SIGFRAME_SCRATCH)
		return -EINVAL;
	*addr = in->frame.addr;
	return procmem_write(in->mem, in->frame.addr, data, len);
}

/* ---- running ---- */

/* 0: pass it over; else the error it means. */
static int on_signal(struct inject *in, int sig)
{
	siginfo_t info = { 0 };

	if (sig != SIGSEGV && sig != SIGBUS)
		return 0;
	ptrace(PTRACE_GETSIGINFO, in->tid, NULL, &info);
	if (info.si_code > 0)
		return -EFAULT;
	in->resend = sig;
	return 0;
}

/* On to the next entry to, or return from, a system call. */
static int run_to_syscall(struct inject *in)
{
	unsigned long deliver = 0;

	for (int i = 0; i < MAX_STOPS; i++) {
		int status, sig, err = trace(PTRACE_SYSCALL, in->tid, 0, deliver);

		if (!err)
			err = wait_stop(in->tid, STOP_NS, &status);
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
		err = get_regs(in, &regs);
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
	err = set_regs(in, &regs);
	if (!err)
		err = run_to_syscall(in);
	if (!err)
		err = get_regs(in, &regs);
	if (!err && regs.rip != in->gadgets.ret)
		err = -EPROTO;
	if (!err)
		*ret = (s64)regs.rax;
	stand_by(in);
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
	err = set_regs(in, &regs);
	if (!err)
		err = run_to_syscall(in);
	if (!err)
		err = get_regs(in, &regs);
	if (!err && regs.orig_rax != SYS_rt_sigreturn)
		err = -EPROTO;
	/* Its rt_sigreturn is not to happen yet: pass it over. */
	stand_by(in);
	if (!err)
		err = run_to_syscall(in);
	stand_by(in);
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
	int err = stand_by(in);

	if (!err)
		err = trace(PTRACE_INTERRUPT, in->tid, 0, 0);
	for (int i = 0; !err && i < MAX_STOPS; i++) {
		int status, sig;

		err = trace(PTRACE_CONT, in->tid, 0, deliver);
		if (!err)
			err = wait_stop(in->tid, STOP_NS, &status);
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
	int err = set_blocked(in, in->blocked);

	if (!err)
		err = set_regs(in, &in->saved);
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
		err = trace(PTRACE_DETACH, in->tid, 0, 0);
	if (in->resend)
		syscall(SYS_tgkill, in->pid, in->tid, in->resend);
	if (stopped_ns)
		*stopped_ns = now() - in->since;
	free(in);
	return err;
}
#endif
