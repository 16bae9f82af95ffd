/* SPDX-License-Identifier: BSD-2-Clause */
/* Records of one process -> rows of a report. */
#ifndef PHT_AGGREGATE_H
#define PHT_AGGREGATE_H

#include "drain.h"
#include "hashmap.h"
#include "symbolize.h"

/* What a process's rows were at the previous refresh, for growth and rates. */
struct aggregate_history {
	struct hashmap rows;	 /* group key -> struct row_then */
	double when;		 /* seconds since attach */
	struct life_hist *lives; /* owned; what rows of the last report point at */
	size_t nlives;
};

/* Live content of a block where it is less than its size (pools); see pools.h. */
struct live_use {
	u64 bytes, blocks;
};

/*
 * Group the records of info->pid into r->rows (sorted) and r's totals.  uses
 * is parallel to d->live; peak is NULL where none is known.  Reads r->duration
 * and r->group_by; updates history, which rows point into until the next time.
 * 0 or -ENOMEM.
 */
int aggregate(const struct drained *d, const struct live_use *uses, pid_t pid,
	      const struct pht_peak *peak, const struct symbolizer *sym,
	      struct aggregate_history *history, struct report *r);
void aggregate_history_free(struct aggregate_history *history);

#endif
