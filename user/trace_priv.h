/* SPDX-License-Identifier: BSD-2-Clause */
/* One run of the trace command: shared by the trace*.c files only. */
#ifndef PHT_TRACE_PRIV_H
#define PHT_TRACE_PRIV_H

#include "choose.h"
#include "fleet.h"
#include "governor.h"
#include "launch.h"
#include "session.h"
#include "trace.h"

#define SESSIONS_MAX 256 /* as many as the kernel's table holds */

/* A process that fits and yet is not traced. */
struct refused {
	pid_t pid;
	char comm[32];
	char why[256];
};

struct trace {
	const struct opts *opts;
	const struct trace_sink *sink;	   /* NULL: print to out */
	const struct trace_screen *screen; /* or NULL */
	struct probes *probes;
	struct drain_events *events;
	struct governor governor;
	struct session *sessions; /* owned; never moves */
	size_t nsessions, max_sessions;
	size_t forgotten;	 /* ended ones that made room */
	struct choose *choose;	 /* NULL: none are looked for */
	struct refused *refused; /* owned */
	size_t nrefused;
	u64 more_refused;     /* not kept */
	u64 over;	      /* followed, but not traced: SESSIONS_MAX were already */
	struct fleet *fleet;  /* NULL: the processes are those given */
	struct launch launch; /* pid 0: nothing to start */
	size_t ended;	      /* of them, when the screen was last told */
	FILE *out;
	bool tty;
	double end; /* CLOCK_MONOTONIC seconds, where there is a duration */
	int epoll, signals, refresh, deadline, tick; /* fds */
	double next_tick; /* seconds from one tick to the next: short ones first */
	bool stop, timed;
};

/* ---- what wakes it, in trace_loop.c ---- */

int trace_open_loop(struct trace *t);
int trace_watch(struct trace *t, int fd);
/* Of drain_events_open(); ctx is the trace. */
void trace_on_event(void *ctx, const struct pht_event *ev);
/* The session of a process that is being traced, or NULL. */
struct session *trace_session_of(struct trace *t, u32 tgid);
/* The time asked for begins, unless it has. */
void trace_start_duration(struct trace *t);
/* Soon after attaching, for what costs too much, then every second. */
void trace_schedule_tick(struct trace *t);
/* Until there is nothing to wait for, or somebody ends it. */
int trace_loop(struct trace *t);

/* ---- printing, in trace_print.c ---- */

int trace_print_reports(struct trace *t, bool final);
int trace_print_report(struct trace *t, struct report *r, size_t index);
/* Says so, where it is worth saying; yields err. */
int trace_cannot_write(int err);

/* ---- processes that come and go, in trace_fleet.c ---- */

/* May there be processes other than those given?  And more than one at a time? */
bool trace_is_dynamic(const struct opts *opts);
bool trace_may_be_many(const struct opts *opts);
int trace_start_fleet(struct trace *t);
/* Every second. */
int trace_look_around(struct trace *t);
/* Add what was missed of them. */
void trace_add_losses(const struct trace *t, struct report *r);
/* What there is to say when all is over. */
void trace_conclude(const struct trace *t);
int trace_print_refused(struct trace *t);
int trace_print_merged(struct trace *t, const struct drained *d, bool final);
/*
 * Whatever became of tracing, the program that was started runs to its end;
 * its exit status.
 */
int trace_end_launch(struct trace *t);

#endif
