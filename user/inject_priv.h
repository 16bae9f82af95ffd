/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the parts of the injection; see inject.h. */
#ifndef PHT_INJECT_PRIV_H
#define PHT_INJECT_PRIV_H

#include <stdbool.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#include "inject.h"
#include "sigframe.h"

#define MS 1000000ull

#define MAX_STOPS  64  /* that are passed over while waiting for one */
#define EVENT_STOP 128 /* PTRACE_EVENT_STOP */

struct inject {
	pid_t pid, tid;
	int mem;
	struct inject_gadgets gadgets;
	struct user_regs_struct saved;
	u64 blocked; /* signals the thread blocks by itself */
	int resend;  /* a signal that could not stay queued */
	u64 since;
	bool have_regs;
	int broken; /* it did not stop in time, or is gone: nothing more to be tried */
	struct sigframe frame;
	u8 stack[SIGFRAME_MAX]; /* what the frame covers */
	u8 xstate[SIGFRAME_MAX];
};

/* ---- inject_ptrace.c: one request each ---- */

u64 inject_now(void);
int inject_ptrace(int request, pid_t tid, unsigned long addr, unsigned long data);
/* The next stop of the thread, within limit nanoseconds; -ESRCH, -ETIMEDOUT. */
int inject_wait(pid_t tid, u64 limit, int *status);
int inject_get_regs(const struct inject *in, struct user_regs_struct *regs);
int inject_set_regs(const struct inject *in, const struct user_regs_struct *regs);
int inject_set_blocked(const struct inject *in, u64 mask);
/* Registers as they must be whenever the tracer may die: at rt_sigreturn, over the frame. */
int inject_stand_by(const struct inject *in);

#endif
