/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The difference of two snapshots, group by group, as tracemalloc's
 * compare_to() gives it, and how sure it is.
 *
 * Of one run, blocks that live in both moments are the same samples with the
 * same weights: their errors cancel.  So the interval is that of what was
 * gained less what was lost, where the share of the first snapshot's samples
 * that certainly survived (from the counts of samples taken in between) is
 * taken out of both.  Of two runs nothing cancels.
 */
#ifndef PHT_SNAPSHOT_DIFF_H
#define PHT_SNAPSHOT_DIFF_H

#include "snapshot_group.h"

struct snap_change {
	struct snap_group before, after; /* zero sums where a group is not there */
	u32 stack;			 /* as in struct snap_group */
	double size, size_diff;		 /* bytes; of after, and after - before */
	double count, count_diff;	 /* blocks */
	struct estimate diff;		 /* size_diff with its 95 % interval */
	struct estimate counts;		 /* the same of count_diff */
	bool noise;			 /* the interval has 0 in it, though size_diff is not 0 */
	bool count_noise;
};

struct snap_diff {
	struct snap_change *changes; /* owned */
	size_t n;
	struct snap_change total;
};

enum snap_diff_sort {
	SNAP_DIFF_SIZE,	  /* |size_diff|, size, |count_diff|, count: compare_to's order */
	SNAP_DIFF_COUNT,  /* |count_diff| first */
	SNAP_DIFF_GROWTH, /* size_diff, largest first */
	SNAP_DIFF_SURE,	  /* the bound of the interval nearest to 0, furthest from it first */
};

/* Of sums at R; same_run: after was taken later in the run of before. */
struct estimate snap_difference(const struct snap_total *before, u64 before_interval,
				const struct snap_total *after, u64 after_interval, bool same_run);

/* The same of the number of blocks. */
struct estimate snap_count_difference(const struct snap_total *before,
				      const struct snap_total *after, bool same_run);

/* Both snapshots' stacks in one store.  0, -EINVAL or -ENOMEM. */
int snapshot_diff(const struct snapshot *before, const struct snapshot *after,
		  const struct stacks *stacks, const struct snap_view *view, bool same_run,
		  struct snap_diff *out);
void snap_diff_sort(struct snap_diff *d, const struct stacks *stacks, const struct snap_view *view,
		    enum snap_diff_sort by);
void snap_diff_free(struct snap_diff *d);

#endif
