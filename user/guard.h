/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What tracing costs the target right now.  The kernel tells how often and
 * how long our programs ran; what a trap costs besides was measured at the
 * start on this very machine; the target's CPU clock tells how much it ran.
 */
#ifndef PHT_GUARD_H
#define PHT_GUARD_H

#include <sys/types.h>

#include "probes.h"

struct guard {
	int stats_fd;	     /* keeps the kernel's program statistics on; -1 = not to be had */
	double trap_ns;	     /* of one hit beside the program: a push, emulated by the kernel */
	double fast_trap_ns; /* the same for the trampoline's site */
	/* At the previous look. */
	u64 runs, run_ns;
	double cpu, when; /* seconds, of CPU time and of CLOCK_MONOTONIC */
	bool looked;
	/* What was lost between the two latest looks, of one core; < 0: not known. */
	double core_share;
};

/* Calibrate.  Without statistics or calibration guard_slowdown() yields < 0. */
void guard_open(struct guard *g, struct probes *probes);
void guard_close(struct guard *g);

/* CPU seconds that a process has used; < 0 when it is gone. */
double guard_process_cpu(pid_t pid);
/*
 * The share of time that the traced processes lost to us since the previous
 * look: 0.05 = 5 % slower.  cpu: what they have used so far, all together.
 * < 0 when they ran too little to tell.  fast: hits are on the trampoline's
 * site.
 */
double guard_slowdown(struct guard *g, const struct probes *probes, double cpu, bool fast);

#endif
