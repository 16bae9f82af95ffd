/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes that are followed: shared by fleet.c and fleet_wait.c only. */
#ifndef PHT_FLEET_PRIV_H
#define PHT_FLEET_PRIV_H

#include "breakpoint.h"
#include "fleet.h"
#include "stopguard.h"

/* Where the processor cannot watch the word for us. */
#define POLL_EVERY 0.001

enum stage {
	AT_FORK,   /* until FORK_GRACE is over */
	AT_EXEC,   /* until the entry point */
	AWAITED,   /* Python is there, the processor watches it */
	POLLED,	   /* Python is there, we watch it */
	NO_PYTHON, /* looked at now and then */
	TRACED,
	DONE, /* Python has ended, or could not be traced; exec begins anew */
};

struct member {
	pid_t pid;
	u64 start_time;
	enum stage stage;
	double due; /* when to look at it: AT_FORK, NO_PYTHON */
	double wait;
	u64 word; /* address of Python's "initialised" */
	struct bpf_link *link;
};

struct fleet {
	struct probes *probes;
	struct fleet_hooks hooks;
	struct stopguard guard;
	struct bpf_link *births;
	int map, timer;
	struct member *members; /* owned */
	size_t n;
	struct pht_event *queue; /* owned */
	size_t nqueue, queue_cap;
	struct fleet_counts counts;
};

/* ---- in fleet_wait.c ---- */

/* Let it go on, if it was stopped for us. */
void fleet_resume(struct fleet *f, pid_t pid);
/*
 * Change its entry in the kernel's table; the process is stopped, or we are the
 * only one who does.  0 or -errno.
 */
int fleet_set_entry(const struct fleet *f, pid_t pid, u64 watch, u32 set_flags, bool ready);
void fleet_remove_breakpoint(struct member *m);
/* Trace it: its Python is initialised. */
void fleet_begin(struct fleet *f, struct member *m);
/* Look for Python now; where there is none, again later. */
void fleet_look(struct fleet *f, struct member *m);
/* It has just executed a program: Python is part of it, or comes with what is loaded. */
void fleet_await_loader(struct fleet *f, struct member *m);

#endif
