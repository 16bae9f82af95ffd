// SPDX-License-Identifier: BSD-2-Clause
/* The order of groups: that of tracemalloc, where equal numbers are told apart by place. */
#include <string.h>

#include "snapshot_group.h"

static int compare_frames(const struct frame *a, const struct frame *b, enum group_by by)
{
	int order = a->file == b->file ? 0 : strcmp(a->file, b->file);

	if (!order && by != GROUP_FILE && by != GROUP_FUNCTION)
		order = (a->line > b->line) - (a->line < b->line);
	return order ? order : by == GROUP_FILE ? 0 : strcmp(a->function, b->function);
}

int snap_compare_places(const struct stacks *stacks, enum group_by by, u32 a, u32 b)
{
	struct frame fa[STACKS_MAX_DEPTH], fb[STACKS_MAX_DEPTH];
	u32 na, nb;

	if (a == b)
		return 0;
	if (by != GROUP_TRACEBACK)
		return compare_frames(stacks_frame(stacks, stacks_top(stacks, a)),
				      stacks_frame(stacks, stacks_top(stacks, b)), by);
	na = stacks_expand(stacks, a, fa, STACKS_MAX_DEPTH);
	nb = stacks_expand(stacks, b, fb, STACKS_MAX_DEPTH);
	while (na && nb) {
		int order = compare_frames(&fa[--na], &fb[--nb], by);

		if (order)
			return order;
	}
	return (na > nb) - (na < nb);
}

struct order {
	const struct stacks *stacks;
	enum group_by group_by;
	enum snap_sort by;
};

static int descending(double a, double b)
{
	return (a < b) - (a > b);
}

static int compare_groups(const void *pa, const void *pb, void *ctx)
{
	const struct snap_group *a = pa, *b = pb;
	const struct order *o = ctx;
	const struct snap_total *x = &a->sum, *y = &b->sum;
	int order = 0;

	if (o->by == SNAP_SORT_COUNT)
		order = descending(x->live.blocks, y->live.blocks);
	else if (o->by == SNAP_SORT_ALLOCATED)
		order = descending(x->allocated_bytes, y->allocated_bytes);
	return order ?: descending(x->live.bytes, y->live.bytes)
			?: descending(x->live.blocks, y->live.blocks)
			?: descending(x->allocated_bytes, y->allocated_bytes)
			?: snap_compare_places(o->stacks, o->group_by, b->stack, a->stack);
}

void snap_groups_sort(struct snap_groups *g, const struct stacks *stacks,
		      const struct snap_view *view, enum snap_sort by)
{
	struct order o = {stacks, view->group_by, by};

	if (g->n)
		qsort_r(g->groups, g->n, sizeof(*g->groups), compare_groups, &o);
}
