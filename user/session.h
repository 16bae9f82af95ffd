/* SPDX-License-Identifier: BSD-2-Clause */
/* One traced process from attach to its last report. */
#ifndef PHT_SESSION_H
#define PHT_SESSION_H

#include "aggregate.h"
#include "before.h"
#include "collector.h"
#include "drain.h"
#include "opts.h"
#include "probes.h"
#include "pyinfo.h"
#include "symbolize.h"

struct session {
	struct pyinfo info;
	const struct collector *collector; /* NULL when detached */
	const char *collector_name;
	void *state; /* the collector's */
	struct symbolizer *sym;
	struct before *before;
	struct aggregate_history history;
	char coverage[256];
	bool complete;
	char wrote[128]; /* what was written into the process; "" = nothing */
	char comm[32];
	u64 interval, interval_asked; /* R now, and what was asked for */
	double overhead;	/* share of its time lost to us at the last look; < 0 = unknown */
	double overhead_core;	/* the same of one core, of all processes together; 0 = unknown */
	int pidfd;		/* readable when the process has exited; -1 = none */
	double started;		/* CLOCK_MONOTONIC seconds */
	double ended;		/* 0 while it is being traced */
	const char *end_reason; /* why tracing ended by itself, or NULL */
	char killed[64];	/* what end_reason leads to where it was a signal */
	u64 rss;		/* last seen */
	struct report *last;	/* owned; the report that stays when the tables are emptied of it */
	pid_t anchor;		/* the thread that probes hang on, if not the first; 0 = that */
	u64 anchor_gaps;	/* times that probes had to be placed for another thread */
	bool forked;		/* since the collector looked */
	bool metric_missed;	/* said that what is to be shown is not known */
};

double monotonic_seconds(void);

/* Examine the process.  0, or -errno after one line; then s needs no free. */
int session_open(struct session *s, pid_t pid);
/* Begin to trace, or begin again in another way.  0, or -errno after one line. */
int session_attach(struct session *s, struct probes *probes, const struct opts *opts);
/* The process is gone or has become another program: keep what was seen. */
void session_end(struct session *s, struct probes *probes, const char *reason);
/* The same for one that has exited: the reason tells by what signal, if any. */
void session_exited(struct session *s, struct probes *probes);
/* probes may be NULL when session_attach() was not called. */
/* Stop tracing a process that goes on running. */
void session_stop(struct session *s, struct probes *probes, const char *reason);
void session_free(struct session *s, struct probes *probes);

/* Housekeeping of the collector, every second. */
void session_tick(struct session *s, struct probes *probes);

/* A stack was stored: resolve it while its code objects are there. */
void session_on_stack(struct session *s, const struct probes *probes, u64 stack_id);

/* The thread that the process's probes hang on ends, and others do not. */
void session_anchor(struct session *s, struct probes *probes, u32 ended);

/* Fill a report from the drained tables.  Free r->rows afterwards.  0 or -errno. */
int session_report(struct session *s, const struct probes *probes, const struct drained *d,
		   const struct opts *opts, struct report *r);

/*
 * Make the report that all later ones repeat, and give what it was made from
 * back to the kernel's tables.  For a process that has ended.
 */
int session_archive(struct session *s, const struct probes *probes, const struct opts *opts);

#endif
