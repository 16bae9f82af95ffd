/* SPDX-License-Identifier: BSD-2-Clause */
/* The trace command: attach, refresh, report until told to stop. */
#ifndef PHT_TRACE_H
#define PHT_TRACE_H

#include "drain.h"
#include "opts.h"

/*
 * Where reports go instead of to a stream: called every opts->interval and
 * once at the end (r->final).  What it returns other than 0 ends the trace
 * after one line of its own.  pid of the report tells processes apart; d is
 * what the report was made from.
 */
struct trace_sink {
	int (*open)(void *ctx); /* before anything is attached to; 0 or -errno after one line */
	int (*report)(void *ctx, const struct report *r, const struct drained *d);
	void *ctx;
};

/*
 * A sink that somebody sits in front of.  Tracing goes on when the processes
 * have ended, until it is told to stop; a process's end is reported at once.
 */
struct trace_screen {
	int input;		   /* readable when something was typed */
	int (*typed)(void *ctx);   /* 0, 1: stop, or -errno after one line */
	int (*resized)(void *ctx); /* 0 or -errno after one line */
	void (*close)(void *ctx);  /* give the terminal back; may come twice */
	const struct opts *final;  /* how the final report, on stdout, is to be */
	void *ctx;
};

/* Returns the exit code: 0, or 1 after one line on stderr. */
int trace_main(const struct opts *opts);
int trace_to_sink(const struct opts *opts, const struct trace_sink *sink);
int trace_on_screen(const struct opts *opts, const struct trace_sink *sink,
		    const struct trace_screen *screen);

#endif
