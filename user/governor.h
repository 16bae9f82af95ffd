/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keeps the cost of tracing within --max-overhead: measures it, raises the
 * sampling interval where that helps, and otherwise stops tracing.
 */
#ifndef PHT_GOVERNOR_H
#define PHT_GOVERNOR_H

#include "guard.h"
#include "session.h"

struct governor {
	struct guard guard;
	double budget; /* 0.05 = 5 % */
};

void governor_open(struct governor *g, struct probes *probes, double max_overhead_percent);
void governor_close(struct governor *g);

/*
 * Just after attaching: a moment's measurement.  -E2BIG after one line with
 * the estimate and the alternative when the budget cannot be kept; narrow: the
 * line says instead that the caller goes on with the growth collector.
 */
int governor_admit(struct governor *g, struct probes *probes, struct session *s, size_t n,
		   bool narrow);
/* Processes have come or gone: what was measured before says nothing about those. */
void governor_reset(struct governor *g);
/* Every second.  Sessions that cannot be kept within the budget are ended. */
void governor_tick(struct governor *g, struct probes *probes, struct session *s, size_t n);

#endif
