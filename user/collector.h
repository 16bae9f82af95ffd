/* SPDX-License-Identifier: BSD-2-Clause */
/* The ways to see allocations, one file each behind this struct. */
#ifndef PHT_COLLECTOR_H
#define PHT_COLLECTOR_H

#include "opts.h"
#include "probes.h"

struct session;

struct collector {
	const char *name;
	bool no_probes; /* stops the target nowhere: costs it next to nothing */
	/*
	 * Begin to trace s->info.pid; sets s->state, s->coverage, s->complete
	 * and s->wrote.  0, or -errno after one line; then nothing is left behind.
	 */
	int (*attach)(struct session *s, struct probes *probes, const struct opts *opts);
	/* Called every second while attached; may be NULL. */
	void (*tick)(struct session *s, struct probes *probes);
	/* Sample one in so many bytes from now on; NULL when that would not lower the cost. */
	int (*throttle)(struct session *s, u64 interval);
	/*
	 * The thread by which the kernel knows whom the probes are for has ended:
	 * place them for another one.  NULL where there are none, or that does not
	 * matter.  0 or -errno.
	 */
	int (*anchor)(struct session *s, struct probes *probes, pid_t tid);
	/* Stop and free s->state.  alive tells whether the process still runs. */
	void (*detach)(struct session *s, struct probes *probes, bool alive);
	/* Add the collector's own counters; may be NULL. */
	void (*losses)(const struct session *s, u64 losses[PHT_LOSS_NR]);
};

extern const struct collector collector_probe;
extern const struct collector collector_trampoline;
extern const struct collector collector_growth;

#endif
