/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes that become targets while tracing goes on: the program that "run"
 * starts, children of traced processes, and what these execute.  Where their
 * Python is, and when it can be traced, is found here; tracing is the caller's.
 *
 * A process that executes a program is stopped at its first instruction, at the
 * entry point of the program (by when shared libraries are there), and when its
 * interpreter says that it is initialised; there tracing begins.  It is stopped
 * once more when the interpreter begins to shut down, for the last report.
 */
#ifndef PHT_FLEET_H
#define PHT_FLEET_H

#include "drain.h"

/* Followed at the same time, traced or not. */
#define FLEET_MAX 1024

struct fleet_hooks {
	/* Trace it.  0, or -errno after one line (none for -ESRCH). */
	int (*begin)(void *ctx, pid_t pid);
	/* Make its last report, if it is being traced.  alive: it goes on without us. */
	void (*end)(void *ctx, pid_t pid, const char *reason, bool alive);
	void *ctx;
};

struct fleet; /* opaque */

/* 0 or -errno after one line. */
int fleet_open(struct probes *probes, const struct fleet_hooks *hooks, struct fleet **out);
/* Lets everything go that is still stopped. */
void fleet_close(struct fleet *f);

/*
 * A process that has not executed its program yet.  Children: follow those,
 * too, from their first instruction.
 */
int fleet_expect(struct fleet *f, pid_t pid, bool children);
/* A process that is being traced: from here on its children and what it executes, too. */
int fleet_adopt(struct fleet *f, pid_t pid);

/* Is it an event for here? */
static inline bool fleet_wants(const struct pht_event *ev)
{
	return ev->type == PHT_EV_EXEC || ev->type == PHT_EV_FORK || ev->type == PHT_EV_ENTRY ||
	       ev->type == PHT_EV_BORN || ev->type == PHT_EV_READY || ev->type == PHT_EV_FINI;
}
/* Take note of an event of the kernel's.  What follows from it is done by fleet_run(). */
void fleet_on_event(struct fleet *f, const struct pht_event *ev);
/* Readable when there is something to do that no event told. */
int fleet_fd(const struct fleet *f);
void fleet_run(struct fleet *f);
/* Every second. */
void fleet_tick(struct fleet *f);
/* Is there any process that may yet be traced? */
bool fleet_waiting(const struct fleet *f);

struct fleet_counts {
	u64 begun;  /* traced */
	u64 missed; /* gone before they could be traced */
	u64 failed; /* a Python that could not be traced */
	u64 over;   /* not followed: FLEET_MAX were already */
};
struct fleet_counts fleet_counts(const struct fleet *f);

#endif
