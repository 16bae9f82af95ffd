// SPDX-License-Identifier: BSD-2-Clause
/* Choosing, stopping and borrowing a thread. */
#include "inject_priv.h"

#ifdef __x86_64__
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "inject_pick.h"
#include "procmem.h"

#define FIRST_STOP_NS (1500 * MS) /* it runs on meanwhile, or waits for a processor */
#define PICK_NS	      (2000 * MS)
#define CANDIDATES    6

#define USER_CS		    0x33
#define OPT_SUSPEND_SECCOMP (1u << 21)
#define GET_RSEQ	    0x420f
#define ERR_RESTART_NOHND   -514

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
	} conf = {0};
	u64 cs = 0;

	if (ptrace(GET_RSEQ, in->tid, sizeof(conf), &conf) < 0 || !conf.area)
		return false;
	return procmem_read(in->mem, conf.area + 8, &cs, sizeof(cs)) || cs;
}

/* ---- stopping ---- */

static int seize(pid_t tid, const char **why)
{
	int err = inject_ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD | OPT_SUSPEND_SECCOMP);

	if (err == -EPERM || err == -EINVAL) {
		if (has_seccomp(tid)) {
			*why = "it has a seccomp filter, which may not be suspended from here";
			return -EACCES;
		}
		err = inject_ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD);
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
	err = inject_ptrace(PTRACE_INTERRUPT, in->tid, 0, 0);
	for (int i = 0; !err && i < MAX_STOPS; i++) {
		err = inject_wait(in->tid, FIRST_STOP_NS, &status);
		if (err)
			break;
		if (status >> 16 == EVENT_STOP) {
			in->since = inject_now();
			return 0;
		}
		/* A signal was first: it takes its course, the interrupt stays due. */
		err = inject_ptrace(PTRACE_CONT, in->tid, 0, (unsigned long)WSTOPSIG(status));
	}
	return err ? err : -EAGAIN;
}

static int read_state(struct inject *in)
{
	struct iovec iov = {in->xstate, sizeof(in->xstate)};
	int err = inject_get_regs(in, &in->saved);

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
	err = inject_ptrace(PTRACE_GETSIGMASK, in->tid, sizeof(in->blocked),
			    (unsigned long)&in->blocked);
	if (!err)
		err = inject_ptrace(PTRACE_GETREGSET, in->tid, NT_X86_XSTATE, (unsigned long)&iov);
	if (!err)
		err = sigframe_build(&in->saved, in->blocked, in->xstate, iov.iov_len,
				     in->gadgets.sigreturn, &in->frame);
	return err;
}

/*
 * Not through procmem, which reads and writes what the thread itself may not: with
 * little stack left the frame would land in the guard below, out of the kernel's
 * reach, or beyond it.
 */
static int put_frame(struct inject *in)
{
	struct iovec local = {in->frame.bytes, in->frame.len};
	struct iovec remote = {(void *)in->frame.addr, in->frame.len};
	int err = proc_read(in->tid, in->frame.addr, in->stack, in->frame.len);
	ssize_t n;

	if (err)
		return err;
	n = process_vm_writev(in->tid, &local, 1, &remote, 1, 0);
	if (n == (ssize_t)in->frame.len)
		return 0;
	err = n < 0 ? -errno : -EFAULT;
	procmem_write(in->mem, in->frame.addr, in->stack, in->frame.len);
	return err;
}

/* The order matters: at no point may a dead tracer leave the thread with a changed mask. */
static int borrow(struct inject *in)
{
	const u64 faults = 1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1);
	int err = read_state(in);

	if (!err)
		err = put_frame(in);
	if (err) {
		/* The registers are as they were, except for the restart. */
		if (in->have_regs)
			inject_set_regs(in, &in->saved);
		return err;
	}
	err = inject_stand_by(in);
	/* A blocked fault would reset the program's handler for it. */
	return err ? err : inject_set_blocked(in, ~faults);
}

static int try_thread(struct inject *in, const char **why)
{
	int err = stop_thread(in, why);

	if (err)
		return err;
	err = borrow(in);
	if (err)
		inject_ptrace(PTRACE_DETACH, in->tid, 0, 0);
	if (err == -ENOTSUP)
		*why = "it is a 32-bit process";
	if (err == -EFAULT)
		*why = "no thread that can be stopped just now has room on its stack";
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
	const struct timespec nap = {.tv_nsec = 20 * MS};
	AUTO_FREE struct inject *in = calloc(1, sizeof(*in));
	u64 start = inject_now();
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
			*in = (struct inject){
				.pid = pid, .tid = tids[i], .mem = mem, .gadgets = *gadgets};
			err = try_thread(in, why);
			if (!err) {
				*out = TAKE_PTR(in);
				return 0;
			}
			if (hopeless(err))
				return err;
		}
		nanosleep(&nap, NULL);
	} while (inject_now() - start < PICK_NS);
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
#endif
