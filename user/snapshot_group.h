/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Filters and groups over a snapshot, with the meaning that tracemalloc gives
 * them: a pattern looks at the innermost frame (all_frames: at any), a row is
 * in when one include pattern matches (or there is none) and no exclude
 * pattern does.
 */
#ifndef PHT_SNAPSHOT_GROUP_H
#define PHT_SNAPSHOT_GROUP_H

#include "hashmap.h"
#include "snapshot.h"

struct snap_filter {
	const char *const *include; /* globs on file names; * matches / too */
	size_t ninclude;
	const char *const *exclude;
	size_t nexclude;
	bool all_frames;
	u32 domains; /* 1 << domain of those wanted; 0 = all */
};

enum snap_cumulative {
	SNAP_SELF,	 /* a stack counts for its innermost frame */
	SNAP_CUMULATIVE, /* for every frame in it, once */
	SNAP_EACH_FRAME, /* as often as the frame is in it: tracemalloc's cumulative */
};

/* Which sum orders groups. */
enum snap_sort { SNAP_SORT_SIZE, SNAP_SORT_COUNT, SNAP_SORT_ALLOCATED };

struct snap_view {
	enum group_by group_by;
	bool threads_by_name;		 /* GROUP_THREAD: threads of one name are one */
	enum snap_cumulative cumulative; /* not with GROUP_TRACEBACK or GROUP_THREAD: -EINVAL */
	struct snap_filter filter;
};

/*
 * A line of a table: stacks that agree in what group_by names.  As with
 * tracemalloc a line is a file and a number: a comprehension and the function
 * around it are one.
 */
struct snap_group {
	u64 a, b;      /* the key: equal keys are the same group in any snapshot of one store */
	u32 stack;     /* the heaviest stack of the group, down to the frame they agree in */
	double weight; /* of that stack */
	struct snap_total sum;
};

struct snap_groups {
	struct snap_group *groups; /* owned; in no order until sorted */
	size_t n;
	struct snap_total total; /* of the rows let through, each once */
};

/* For each stack whether its file names pass; NULL on no memory.  One byte per stack; free(). */
u8 *snap_filter_stacks(const struct stacks *stacks, const struct snap_filter *filter);

/* 0, -EINVAL or -ENOMEM. */
int snapshot_group(const struct snapshot *s, const struct stacks *stacks,
		   const struct snap_view *view, struct snap_groups *out);
void snap_groups_free(struct snap_groups *g);

/* Largest first; ties by what tracemalloc breaks them with (size, count, then place). */
void snap_groups_sort(struct snap_groups *g, const struct stacks *stacks,
		      const struct snap_view *view, enum snap_sort by);

/*
 * A struct report that prints like a live one, rows in the order of the
 * groups; growth and rate are since earlier (or NULL), which was grouped in
 * the same way, in seconds_between.  The first detailed rows have all their
 * frames, the others the first.  The texts are s's.  *frames is the memory
 * that rows point into; free it and r->rows.  0 or -ENOMEM.
 */
int snapshot_to_report(const struct snapshot *s, const struct stacks *stacks,
		       const struct snap_view *view, const struct snap_groups *g,
		       const struct snap_groups *earlier, double seconds_between, size_t detailed,
		       struct report *r, struct frame **frames);

/* Order of two places as tracemalloc has it: by file and line, outermost frame first. */
int snap_compare_places(const struct stacks *stacks, enum group_by by, u32 a, u32 b);

#endif
