/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line as one struct. */
#ifndef PHT_OPTS_H
#define PHT_OPTS_H

#include "choose.h"
#include "report.h"

enum opts_command { CMD_TRACE, CMD_CHECK, CMD_RUN };
enum opts_collector { COLLECT_AUTO, COLLECT_TRAMPOLINE, COLLECT_PROBE, COLLECT_GROWTH };

struct opts {
	enum opts_command command;
	pid_t *pids; /* owned */
	size_t npids;
	double duration; /* seconds; 0 = until Ctrl-C */
	double interval; /* seconds between refreshes */
	size_t top;
	enum group_by group_by;
	bool threads;	    /* the thread is the outermost caller */
	bool by_domain;	    /* see struct report; set by commands, not by an option */
	bool json, flame;   /* -f; neither = text */
	bool plain;	    /* no full screen */
	bool countdown;	    /* of the duration, on a terminal's stderr */
	const char *output; /* NULL = stdout */
	enum report_metric metric;
	double temporary; /* seconds: blocks that lived no longer were temporary */
	u64 sample_interval;
	u64 seed;
	bool seed_given;
	enum opts_collector collector;
	double max_overhead; /* percent */
	int verbose;
	struct choose_rule choose; /* further processes */
	bool follow;		   /* children of those traced, too */
	bool merge;		   /* one report of all processes */
	char *const *argv;	   /* a program to start and trace, or NULL */
};

/*
 * Parse argv.  0: go on.  1: --help or --version was printed, exit 0.
 * -EINVAL: one line was logged, exit 2.
 */
int opts_parse(int argc, char **argv, struct opts *out);
/* The same for "run", with argv[0] that word; out->argv points into argv. */
int opts_parse_run(int argc, char **argv, struct opts *out);
void opts_free(struct opts *opts);

#define OPTS_TEMPORARY 0.01 /* the default */

/* "512K" -> 524288; K, M, G are powers of 1024; 0, -EINVAL, or -ERANGE (0, above 1024G). */
int opts_parse_size(const char *text, u64 *out);
/* "1.5", "10s", "2m", "1h" -> seconds; 0, -EINVAL, or -ERANGE (0, above a year). */
int opts_parse_seconds(const char *text, double *out);

#endif
