// SPDX-License-Identifier: BSD-2-Clause
/* A grouped snapshot -> a report, so that a capture prints as a live process does. */
#include <errno.h>
#include <string.h>

#include "snapshot_group.h"

static void fill_head(const struct snapshot *s, const struct snap_view *view,
		      const struct snap_groups *g, struct report *r)
{
	*r = (struct report){
		.pid = s->pid,
		.collector = s->collector,
		.coverage = s->coverage,
		.coverage_share = s->coverage_share,
		.coverage_complete = s->coverage_complete,
		.sample_interval = s->sample_interval,
		.overhead = s->overhead,
		.wrote = s->wrote,
		.duration = s->duration,
		.rss = s->rss,
		.final = s->final,
		.end_reason = *s->end_reason ? s->end_reason : NULL,
		.live_bytes = snap_interval(&g->total.live, s->sample_interval),
		.live_blocks = g->total.live.blocks,
		.allocated_bytes = g->total.allocated_bytes,
		.allocated_blocks = g->total.allocated_blocks,
		.samples = g->total.samples,
		.live_samples = g->total.live.samples,
		.calls = s->calls,
		.frees = s->frees,
		.metric = s->metric,
		.peak_seconds = s->peak_seconds,
		.peak_bytes = snap_interval(&g->total.peak, s->sample_interval),
		.peak_blocks = g->total.peak.blocks,
		.temporary_seconds = s->temporary_ns / 1e9,
		.temporary_bytes = snap_interval(&g->total.temporary, s->sample_interval),
		.temporary_blocks = g->total.temporary.blocks,
		.group_by = view->group_by,
	};
	for (size_t i = 0; i < s->nlives; i++) {
		u32 bucket = s->lives[i].log2 - (PHT_LIFE_SHIFT - 1);

		if (bucket >= PHT_LIFE_BUCKETS)
			continue;
		r->lives.bytes[bucket] += s->lives[i].bytes;
		r->lives.blocks[bucket] += s->lives[i].blocks;
		r->lives.samples[bucket] += s->lives[i].samples;
	}
	memcpy(r->comm, s->comm, sizeof(r->comm));
	memcpy(r->python_version, s->python_version, sizeof(r->python_version));
	memcpy(r->losses, s->losses, sizeof(r->losses));
}

static void fill_row(const struct snapshot *s, const struct snap_group *g,
		     const struct snap_group *then, double seconds, struct row *row)
{
	const struct snap_total *t = &g->sum;

	*row = (struct row){
		.live = t->live,
		.live_bytes = snap_interval(&t->live, s->sample_interval),
		.live_blocks = t->live.blocks,
		.allocated_bytes = t->allocated_bytes,
		.allocated_blocks = t->allocated_blocks,
		.growth_bytes = t->live.bytes - (then ? then->sum.live.bytes : 0),
		.samples = t->samples,
		.live_samples = t->live.samples,
		.freed_bytes = t->freed_bytes,
		.freed_blocks = t->freed_blocks,
		.freed_samples = t->freed_samples,
		.peak = t->peak,
		.temporary = t->temporary,
		.peak_bytes = snap_interval(&t->peak, s->sample_interval),
		.temporary_bytes = snap_interval(&t->temporary, s->sample_interval),
	};
	if (seconds > 0)
		row->alloc_rate =
			(t->allocated_bytes - (then ? then->sum.allocated_bytes : 0)) / seconds;
}

/* Frames that the rows take together. */
static size_t count_frames(const struct stacks *stacks, const struct snap_groups *g,
			   size_t detailed)
{
	size_t n = 0;

	for (size_t i = 0; i < g->n; i++)
		n += i < detailed ? stacks_depth(stacks, g->groups[i].stack) + 1 : 1;
	return n;
}

static u32 fill_frames(const struct stacks *stacks, u32 stack, bool whole, struct frame *out)
{
	u32 n = stacks_expand(stacks, stack, out, whole ? STACKS_MAX_DEPTH : 1);

	if (n)
		return n;
	*out = *stacks_frame(stacks, stacks_top(stacks, stack));
	return 1;
}

static int index_groups(const struct snap_groups *g, struct hashmap *index)
{
	int err = 0;

	for (size_t i = 0; g && i < g->n && !err; i++)
		err = hashmap_put(index, g->groups[i].a, g->groups[i].b, &g->groups[i]);
	return err;
}

static void fill_rows(const struct snapshot *s, const struct stacks *stacks,
		      const struct snap_groups *g, const struct hashmap *earlier, double seconds,
		      size_t detailed, struct report *r, struct frame *frames)
{
	for (size_t i = 0; i < g->n; i++) {
		const struct snap_group *group = &g->groups[i];
		struct row *row = &r->rows[r->nrows++];

		fill_row(s, group, hashmap_get(earlier, group->a, group->b), seconds, row);
		row->frames = frames;
		row->nframes = fill_frames(stacks, group->stack, i < detailed, frames);
		row->truncated = stacks_truncated(stacks, group->stack);
		frames += row->nframes;
	}
}

int snapshot_to_report(const struct snapshot *s, const struct stacks *stacks,
		       const struct snap_view *view, const struct snap_groups *g,
		       const struct snap_groups *earlier, double seconds_between, size_t detailed,
		       struct report *r, struct frame **frames)
{
	struct hashmap index = {0};
	struct frame *all = calloc(count_frames(stacks, g, detailed) + 1, sizeof(*all));
	struct row *rows = calloc(g->n + 1, sizeof(*rows));

	if (!all || !rows || index_groups(earlier, &index)) {
		free(all);
		free(rows);
		hashmap_clear(&index, NULL);
		return -ENOMEM;
	}
	fill_head(s, view, g, r);
	r->rows = rows;
	fill_rows(s, stacks, g, &index, seconds_between, detailed, r, all);
	hashmap_clear(&index, NULL);
	*frames = all;
	return 0;
}
