// SPDX-License-Identifier: BSD-2-Clause
#include "snapshot_diff.h"

#include <errno.h>
#include <math.h>

#include "estimate.h"

/* Share of before's samples that are certainly among after's. */
static double kept_share(const struct snap_total *before, const struct snap_total *after,
			 bool same_run)
{
	double had = before->live.samples, freed;

	if (!same_run || !before->live.samples || after->samples < before->samples)
		return 0;
	/* Samples do not vanish: what is not live any more was freed in between. */
	freed = had + (double)(after->samples - before->samples) - after->live.samples;
	return freed <= 0 ? 1 : freed >= had ? 0 : 1 - freed / had;
}

/* e less a share of other's: what is left of the sums without those blocks. */
static struct estimator without(const struct estimator *e, const struct estimator *other,
				double share)
{
	double samples = e->samples - share * other->samples;
	struct estimator out = {
		.bytes = fmax(e->bytes - share * other->bytes, 0),
		.blocks = fmax(e->blocks - share * other->blocks, 0),
		.var = fmax(e->var - share * other->var, 0),
		.skew = e->skew - share * other->skew,
		.covar = e->covar - share * other->covar,
		.blocks_var = fmax(e->blocks_var - share * other->blocks_var, 0),
		.blocks_covar = fmax(e->blocks_covar - share * other->blocks_covar, 0),
		.samples = samples >= 0.5 ? llround(samples) : 0,
	};

	/* Which blocks were seen is certain only where all or none are left out. */
	if (share == 0 || share == 1)
		out.seen = fmax(e->seen - share * other->seen, 0);
	return out;
}

/* From the intervals of two independent numbers that of their difference. */
static struct estimate subtract(const struct estimate *gained, const struct estimate *lost)
{
	struct estimate d = {.value = gained->value - lost->value};

	d.low = d.value - hypot(gained->value - gained->low, lost->high - lost->value);
	d.high = d.value + hypot(gained->high - gained->value, lost->value - lost->low);
	return d;
}

static struct estimate difference(const struct snap_total *before, u64 before_interval,
				  const struct snap_total *after, u64 after_interval, double kept)
{
	struct estimator gained = without(&after->live, &before->live, kept);
	struct estimator lost = without(&before->live, &before->live, kept);
	struct estimate up = snap_interval(&gained, after_interval);
	struct estimate down = snap_interval(&lost, before_interval);

	return subtract(&up, &down);
}

/*
 * What stayed is a share of the sums, the same of each of them.  Where blocks of
 * one kind stay and those of another go, little may be left of a variance and
 * much of what is divided by it.  But to know what stayed can only narrow the
 * interval that two independent sums have.  Shifted to its value, which is free
 * of what rounding leaves of blocks taken out of both.
 */
static struct estimate narrower(struct estimate paired, struct estimate independent, double value)
{
	return (struct estimate){
		.value = value,
		.low = value + fmax(paired.low - paired.value, independent.low - independent.value),
		.high = value +
			fmin(paired.high - paired.value, independent.high - independent.value),
	};
}

struct estimate snap_difference(const struct snap_total *before, u64 before_interval,
				const struct snap_total *after, u64 after_interval, bool same_run)
{
	double kept = kept_share(before, after, same_run);

	return narrower(difference(before, before_interval, after, after_interval, kept),
			difference(before, before_interval, after, after_interval, 0),
			after->live.bytes - before->live.bytes);
}

/*
 * Without a sample, up to three gaps' worth of blocks may have been missed, as
 * with bytes: blocks as small as those that were sampled.
 */
static struct estimate count_interval(const struct estimator *e, const struct snap_total *alike,
				      double slope)
{
	struct estimate out = estimate_blocks(e, slope);
	double each = alike->samples ? alike->allocated_blocks / (double)alike->samples : 0;

	if (!e->samples && each > 1)
		out.high = fmax(out.high, out.value + 3 * each);
	return out;
}

static struct estimate count_difference(const struct snap_total *before,
					const struct snap_total *after, double kept)
{
	/* Of all that is known here: what came and went are fewer samples. */
	double slope =
		fmax(estimate_blocks_slope(&before->live), estimate_blocks_slope(&after->live));
	struct estimator gained = without(&after->live, &before->live, kept);
	struct estimator lost = without(&before->live, &before->live, kept);
	struct estimate up = count_interval(&gained, after->samples ? after : before, slope);
	struct estimate down = count_interval(&lost, before->samples ? before : after, slope);

	return subtract(&up, &down);
}

struct estimate snap_count_difference(const struct snap_total *before,
				      const struct snap_total *after, bool same_run)
{
	double kept = kept_share(before, after, same_run);

	return narrower(count_difference(before, after, kept), count_difference(before, after, 0),
			after->live.blocks - before->live.blocks);
}

static void fill_change(struct snap_change *c, const struct snapshot *before,
			const struct snapshot *after, bool same_run)
{
	c->size = c->after.sum.live.bytes;
	c->count = c->after.sum.live.blocks;
	c->size_diff = c->size - c->before.sum.live.bytes;
	c->count_diff = c->count - c->before.sum.live.blocks;
	c->diff = snap_difference(&c->before.sum, before->sample_interval, &c->after.sum,
				  after->sample_interval, same_run);
	c->counts = snap_count_difference(&c->before.sum, &c->after.sum, same_run);
	c->count_noise = c->count_diff != 0 && c->counts.low <= 0 && c->counts.high >= 0;
	c->noise = c->size_diff != 0 && c->diff.low <= 0 && c->diff.high >= 0;
}

static int pair(const struct snap_groups *before, const struct snap_groups *after,
		struct snap_change *changes, size_t *n)
{
	struct hashmap index = {0}; /* key -> number of the change + 1 */
	int err = 0;

	for (size_t i = 0; i < after->n && !err; i++) {
		const struct snap_group *g = &after->groups[i];

		changes[i] = (struct snap_change){.after = *g, .stack = g->stack};
		err = hashmap_put(&index, g->a, g->b, (void *)(uintptr_t)(i + 1));
	}
	*n = after->n;
	for (size_t i = 0; i < before->n && !err; i++) {
		const struct snap_group *g = &before->groups[i];
		uintptr_t at = (uintptr_t)hashmap_get(&index, g->a, g->b);

		if (at)
			changes[at - 1].before = *g;
		else
			changes[(*n)++] = (struct snap_change){.before = *g, .stack = g->stack};
	}
	hashmap_clear(&index, NULL);
	return err;
}

static int compare_groups(const struct snap_groups *gb, const struct snap_groups *ga,
			  const struct snapshot *before, const struct snapshot *after,
			  bool same_run, struct snap_diff *out)
{
	struct snap_change *changes = calloc(gb->n + ga->n + 1, sizeof(*changes));
	size_t n;

	if (!changes || pair(gb, ga, changes, &n)) {
		free(changes);
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++)
		fill_change(&changes[i], before, after, same_run);
	*out = (struct snap_diff){.changes = changes, .n = n};
	out->total.before.sum = gb->total;
	out->total.after.sum = ga->total;
	fill_change(&out->total, before, after, same_run);
	return 0;
}

int snapshot_diff(const struct snapshot *before, const struct snapshot *after,
		  const struct stacks *stacks, const struct snap_view *view, bool same_run,
		  struct snap_diff *out)
{
	struct snap_groups gb = {0}, ga = {0};
	struct snap_view in = *view;
	int err;

	in.threads_by_name = !same_run;
	err = snapshot_group(before, stacks, &in, &gb) ?: snapshot_group(after, stacks, &in, &ga) ?:
		  compare_groups(&gb, &ga, before, after, same_run, out);

	snap_groups_free(&gb);
	snap_groups_free(&ga);
	return err;
}

struct order {
	const struct stacks *stacks;
	enum group_by group_by;
	enum snap_diff_sort by;
};

/* The bound of the interval that is nearest to no change; 0 within noise. */
static double sure(const struct snap_change *c)
{
	return c->diff.low > 0 ? c->diff.low : c->diff.high < 0 ? -c->diff.high : 0;
}

static int descending(double a, double b)
{
	return (a < b) - (a > b);
}

static int compare_changes(const void *pa, const void *pb, void *ctx)
{
	const struct snap_change *a = pa, *b = pb;
	const struct order *o = ctx;
	int order = 0;

	if (o->by == SNAP_DIFF_COUNT)
		order = descending(fabs(a->count_diff), fabs(b->count_diff));
	else if (o->by == SNAP_DIFF_GROWTH)
		order = descending(a->size_diff, b->size_diff);
	else if (o->by == SNAP_DIFF_SURE)
		order = descending(sure(a), sure(b));
	return order ?: descending(fabs(a->size_diff), fabs(b->size_diff))
			?: descending(a->size, b->size)
			?: descending(fabs(a->count_diff), fabs(b->count_diff))
			?: descending(a->count, b->count)
			?: snap_compare_places(o->stacks, o->group_by, b->stack, a->stack);
}

void snap_diff_sort(struct snap_diff *d, const struct stacks *stacks, const struct snap_view *view,
		    enum snap_diff_sort by)
{
	struct order o = {stacks, view->group_by, by};

	if (d->n)
		qsort_r(d->changes, d->n, sizeof(*d->changes), compare_changes, &o);
}

void snap_diff_free(struct snap_diff *d)
{
	free(d->changes);
	*d = (struct snap_diff){0};
}
