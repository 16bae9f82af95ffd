// SPDX-License-Identifier: BSD-2-Clause
#include "snapshot_group.h"

#include <errno.h>
#include <string.h>

#include "estimate.h"

/* What counting has to remember of a group. */
struct progress {
	u32 last_row; /* number, from 1, of the row that counted for it last */
	u32 stack;    /* whose rows are being weighed */
	double weight;
};

/* Work of one snapshot_group(). */
struct grouping {
	const struct stacks *stacks;
	const struct snap_view *view;
	u32 *group_of; /* frame (or stack, by traceback) -> group + 1 */
	struct hashmap index;
	struct progress *progress; /* parallel to out->groups */
	size_t cap;
	struct snap_groups *out;
};

/* by_name: threads of different runs, where ids say nothing. */
static void key_of(enum group_by by, bool by_name, const struct frame *f, u64 *a, u64 *b)
{
	if (by == GROUP_THREAD) {
		bool own = f->kind == FRAME_THREAD && !by_name;

		*a = own ? (uintptr_t)f->file : 0;
		*b = own ? 0 : (uintptr_t)f->function;
		return;
	}
	*a = (uintptr_t)f->file;
	*b = by == GROUP_FUNCTION ? (uintptr_t)f->function : by == GROUP_LINE ? (u32)f->line : 0;
}

static int grow(struct grouping *g)
{
	size_t cap = g->cap ? g->cap * 2 : 256;
	void *groups = reallocarray(g->out->groups, cap, sizeof(*g->out->groups));
	void *progress;

	if (!groups)
		return -ENOMEM;
	g->out->groups = groups;
	progress = reallocarray(g->progress, cap, sizeof(*g->progress));
	if (!progress)
		return -ENOMEM;
	g->progress = progress;
	g->cap = cap;
	return 0;
}

static int new_group(struct grouping *g, u64 a, u64 b, u32 *out)
{
	size_t n = g->out->n;
	int err = n >= g->cap ? grow(g) : 0;

	if (err)
		return err;
	g->out->groups[n] = (struct snap_group){.a = a, .b = b, .weight = -1};
	g->progress[n] = (struct progress){.stack = UINT32_MAX};
	g->out->n++;
	*out = n;
	return 0;
}

/* The group of a stack, seen at its top frame. */
static int find_group(struct grouping *g, u32 stack, u32 *out)
{
	bool whole = g->view->group_by == GROUP_TRACEBACK;
	u32 at = whole ? stack : stacks_top(g->stacks, stack);
	uintptr_t known;
	u64 a = stack, b = 0;
	int err;

	if (g->group_of[at]) {
		*out = g->group_of[at] - 1;
		return 0;
	}
	if (!whole)
		key_of(g->view->group_by, g->view->threads_by_name, stacks_frame(g->stacks, at), &a,
		       &b);
	known = whole ? 0 : (uintptr_t)hashmap_get(&g->index, a, b);
	if (known) {
		*out = known - 1;
	} else {
		err = new_group(g, a, b, out);
		if (!err && !whole)
			err = hashmap_put(&g->index, a, b, (void *)((uintptr_t)*out + 1));
		if (err)
			return err;
	}
	g->group_of[at] = *out + 1;
	return 0;
}

/* Rows come by stack, so those of one stack follow each other. */
static void weigh(struct grouping *g, u32 group, u32 stack, u32 at, const struct snap_row *row)
{
	struct snap_group *to = &g->out->groups[group];
	struct progress *now = &g->progress[group];
	/* What is live counts; what was allocated only breaks ties. */
	double weight = row->live.bytes + (row->live.samples ? 1 : 0) + row->samples * 1e-9;

	if (now->stack != stack)
		now->weight = 0;
	now->stack = stack;
	now->weight += weight;
	if (now->weight > to->weight) {
		to->weight = now->weight;
		to->stack = at;
	}
}

/* Count a row (number, from 1) for every frame of its stack, or only the first. */
static int count_row(struct grouping *g, const struct snap_row *row, u32 number)
{
	u32 at = g->view->group_by == GROUP_THREAD ? stacks_outermost(g->stacks, row->stack)
						   : row->stack;
	u32 group;
	bool again;

	do {
		int err = find_group(g, at, &group);

		if (err)
			return err;
		again = g->progress[group].last_row == number;
		if (!again || g->view->cumulative == SNAP_EACH_FRAME)
			snap_total_add(&g->out->groups[group].sum, row);
		if (!again)
			weigh(g, group, row->stack, at, row);
		g->progress[group].last_row = number;
		at = at < STACK_FIRST ? STACK_ROOT : stacks_parent(g->stacks, at);
	} while (g->view->cumulative != SNAP_SELF && at >= STACK_FIRST);
	return 0;
}

static int count_rows(struct grouping *g, const struct snapshot *s)
{
	const struct snap_filter *filter = &g->view->filter;
	AUTO_FREE u8 *pass = snap_filter_stacks(g->stacks, filter);
	int err = 0;

	if (!pass)
		return -ENOMEM;
	for (size_t i = 0; i < s->nrows && !err; i++) {
		const struct snap_row *row = &s->rows[i];

		if (!pass[row->stack] || (filter->domains && !(filter->domains >> row->domain & 1)))
			continue;
		snap_total_add(&g->out->total, row);
		err = count_row(g, row, (u32)i + 1);
	}
	return err;
}

int snapshot_group(const struct snapshot *s, const struct stacks *stacks,
		   const struct snap_view *view, struct snap_groups *out)
{
	struct snap_groups groups = {0};
	struct grouping g = {.stacks = stacks, .view = view, .out = &groups};
	u32 n = view->group_by == GROUP_TRACEBACK ? stacks_count(stacks)
						  : stacks_frame_count(stacks);
	int err;

	if ((view->group_by == GROUP_TRACEBACK || view->group_by == GROUP_THREAD) &&
	    view->cumulative != SNAP_SELF)
		return -EINVAL;
	g.group_of = calloc(n + 1, sizeof(*g.group_of));
	err = g.group_of ? grow(&g) ?: count_rows(&g, s) : -ENOMEM;
	free(g.group_of);
	free(g.progress);
	hashmap_clear(&g.index, NULL);
	if (err) {
		snap_groups_free(&groups);
		return err;
	}
	*out = groups;
	return 0;
}

void snap_groups_free(struct snap_groups *g)
{
	free(g->groups);
	*g = (struct snap_groups){0};
}
