/* SPDX-License-Identifier: BSD-2-Clause */
/* The program that "run" starts: it waits until we are ready, and its end is ours. */
#ifndef PHT_LAUNCH_H
#define PHT_LAUNCH_H

#include <signal.h>
#include <stdbool.h>
#include <sys/signalfd.h>
#include <sys/types.h>

struct launch {
	pid_t pid;  /* 0 = none */
	int pidfd;  /* readable when it has ended */
	int go;	    /* pipe: a byte lets it begin */
	int failed; /* pipe: why it could not begin, as an errno */
	const char *name;
	bool ended;
	int status; /* as of waitpid() */
};

/* Exit status when the program could not be started, as the shell has it. */
#define LAUNCH_NOT_FOUND 127
#define LAUNCH_NOT_EXEC	 126
/* And when that is our own fault. */
#define LAUNCH_OUR_FAULT 125

/*
 * Fork; the child holds still.  Call before signals are blocked or limits
 * raised, which it would inherit.  0 or -errno after one line.
 */
int launch_prepare(struct launch *l, char *const argv[]);
/* Let it execute argv.  0, or -errno after one line: it could not be executed. */
int launch_go(struct launch *l);
/* Signals that a person or a supervisor sends to us are meant for the program. */
void launch_signals(sigset_t *set);
void launch_forward(const struct launch *l, const struct signalfd_siginfo *info);
/* Wait for its end, passing signals on that come through signals (a signalfd). */
void launch_wait(struct launch *l, int signals);
/* The exit status that stands for its end. */
int launch_exit_status(const struct launch *l);
/* Nothing was started yet: take it back. */
void launch_cancel(struct launch *l);

#endif
