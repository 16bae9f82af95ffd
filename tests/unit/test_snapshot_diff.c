// SPDX-License-Identifier: BSD-2-Clause
/* Differences of snapshots, and that their intervals hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <errno.h>
#include <math.h>

#include <cmocka.h>

#include "snapshot_heap.h"
#include "snapshot_diff.h"

static void exact_differences(void **state)
{
	struct snap_view view = {.group_by = GROUP_LINE};
	struct heap a, b;
	struct snap_diff d;

	(void)state;
	heap_open(&a);
	b = a;
	b.s.rows = b.rows;
	add_blocks(&b, stack(a.stacks, &main_frame, 1, false), PHT_DOM_LIBC, 50, 4);
	qsort(b.rows, b.s.nrows, sizeof(b.rows[0]), sim_order);
	for (size_t i = 0; i < b.s.nrows; i++)
		if (!strcmp(stacks_frame(b.stacks, stacks_top(b.stacks, b.rows[i].stack))->file,
			    "/usr/lib/json.py"))
			b.rows[i].live = (struct estimator){0};
	assert_int_equal(snapshot_diff(&a.s, &b.s, a.stacks, &view, true, &d), 0);
	snap_diff_sort(&d, a.stacks, &view, SNAP_DIFF_SIZE);
	assert_int_equal(d.n, 3);
	assert_true(d.changes[0].size_diff == -5000 && d.changes[0].count_diff == -1);
	assert_true(d.changes[0].diff.low == -5000 && d.changes[0].diff.high == -5000);
	assert_true(d.changes[0].counts.low == -1 && d.changes[0].counts.high == -1);
	assert_true(d.changes[1].size_diff == 200 && d.changes[1].count == 4);
	assert_true(d.changes[2].size_diff == 0 && !d.changes[2].noise);
	assert_true(d.total.size_diff == -4800 && !d.total.noise);
	snap_diff_sort(&d, a.stacks, &view, SNAP_DIFF_GROWTH);
	assert_true(d.changes[0].size_diff == 200);
	snap_diff_sort(&d, a.stacks, &view, SNAP_DIFF_COUNT);
	assert_true(d.changes[0].count_diff == 4);
	snap_diff_free(&d);
	/* The other way round everything changes its sign. */
	assert_int_equal(snapshot_diff(&b.s, &a.s, a.stacks, &view, false, &d), 0);
	snap_diff_sort(&d, a.stacks, &view, SNAP_DIFF_SIZE);
	assert_true(d.changes[0].size_diff == 5000);
	snap_diff_free(&d);
	stacks_free(a.stacks);
}

static double uniform(struct sim *s)
{
	return ((double)sim_random(s) + 0.5) / 2147483648.0;
}

/* A heap of one site: some blocks stay, some go, some come; all sampled with R. */
static void simulate(struct sim *s, struct snap_total *before, struct snap_total *after, int stay,
		     int go, int come, double *truth, double *count_truth)
{
	*count_truth = come - go;
	*before = *after = (struct snap_total){0};
	*truth = 0;
	for (int i = 0; i < stay + go + come; i++) {
		/* Every other block of a mixed heap is a large one, that is hardly ever missed. */
		u64 size = s->sites && i % 2 ? 4 * R : 100 + (u64)(uniform(s) * 3000);
		bool sampled = uniform(s) < estimate_probability(size, R);
		bool early = i < stay + go, late = i < stay || i >= stay + go;

		*truth += ((int)late - (int)early) * (double)size;
		if (!sampled)
			continue;
		after->samples++;
		after->allocated_blocks += 1 / estimate_probability(size, R);
		if (early) {
			before->allocated_blocks += 1 / estimate_probability(size, R);
			before->samples++;
			estimate_add(&before->live, size, R);
		}
		if (late)
			estimate_add(&after->live, size, R);
	}
}

struct covered {
	double bytes, blocks;
};

static struct covered coverage(struct sim *s, int stay, int go, int come, bool same_run, int runs)
{
	int inside = 0, counted = 0;

	for (int i = 0; i < runs; i++) {
		struct snap_total before, after;
		struct estimate d, c;
		double truth, count_truth;

		simulate(s, &before, &after, stay, go, come, &truth, &count_truth);
		c = snap_count_difference(&before, &after, same_run);
		assert_true(c.low <= c.value && c.value <= c.high);
		counted += count_truth >= c.low && count_truth <= c.high;
		d = snap_difference(&before, R, &after, R, same_run);
		assert_true(d.low <= d.value && d.value <= d.high);
		inside += truth >= d.low && truth <= d.high;
	}
	return (struct covered){(double)inside / runs, (double)counted / runs};
}

/* The interval of a change holds the true change at least nineteen times in twenty. */
static void intervals_hold(void **state)
{
	static const int cases[][3] = {{0, 0, 500},	 {2000, 0, 500},   {2000, 500, 0},
				       {2000, 500, 500}, {2000, 100, 700}, {0, 1000, 1000},
				       {3000, 0, 60},	 {3000, 40, 60}};
	struct sim s = {.random = 99};

	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
		const int *c = cases[i / 2];
		struct covered share;

		s.sites = i % 2; /* a mixed heap */
		share = coverage(&s, c[0], c[1], c[2], true, 3000);
		if (share.bytes < 0.93 || share.blocks < 0.93)
			fail_msg("stay %d go %d come %d%s: covered %.3f of bytes, %.3f of blocks",
				 c[0], c[1], c[2], i % 2 ? ", mixed" : "", share.bytes,
				 share.blocks);
	}
}

/* A file that has no variance of counts: as if the blocks were of one size. */
static void old_files_have_intervals_too(void **state)
{
	struct estimator e = {0};
	struct estimate with, without;

	(void)state;
	for (int i = 0; i < 50; i++)
		estimate_add(&e, 1000, R);
	with = estimate_blocks(&e, 0);
	assert_true(with.low < with.value && with.high > with.value && with.low >= 50);
	e.blocks_var = e.blocks_covar = 0;
	without = estimate_blocks(&e, 0);
	assert_true(fabs(without.low - with.low) < 1e-6 * with.value);
	assert_true(fabs(without.high - with.high) < 1e-6 * with.value);
	/* Every block was seen. */
	e = (struct estimator){0};
	estimate_add(&e, 1000, 1);
	with = estimate_blocks(&e, 0);
	assert_true(with.low == 1 && with.high == 1);
}

/* What stayed does not blur what came: the point of one run's differences. */
static void one_run_is_sharper(void **state)
{
	struct snap_total before, after;
	struct estimate one, two;
	struct sim s = {.random = 5};
	double truth, count_truth;

	(void)state;
	simulate(&s, &before, &after, 20000, 0, 2000, &truth, &count_truth);
	one = snap_difference(&before, R, &after, R, true);
	two = snap_difference(&before, R, &after, R, false);
	assert_true(one.value == two.value);
	assert_true((one.high - one.low) * 2 < two.high - two.low);
	assert_true(one.low > 0);
	one = snap_count_difference(&before, &after, true);
	two = snap_count_difference(&before, &after, false);
	assert_true((one.high - one.low) * 2 < two.high - two.low);
	assert_true(one.low > 0);
}

/*
 * Most of a heap stays, what goes are a few samples of another weight, and of the
 * heap before little more than its variance is known, as at a peak: the interval
 * may not be wider than if nothing were known of what stayed.
 */
static void what_stayed_makes_no_interval_wider(void **state)
{
	(void)state;
	for (u64 size = 16; size <= 64 * R; size *= 2) {
		for (int go = 1; go <= 4; go++) {
			struct snap_total before = {.samples = 81}, after = {.samples = 83};
			struct estimate one, two;

			for (int i = 0; i < 20; i++)
				estimate_add(&after.live, 5000, i < 12 ? R / 8 : R);
			before.live = after.live;
			for (int i = 0; i < go; i++)
				estimate_add(&before.live, size, R);
			before.live = estimate_of_sums(before.live.bytes, before.live.blocks,
						       before.live.var, before.live.samples);
			one = snap_difference(&before, R, &after, R, true);
			two = snap_difference(&before, R, &after, R, false);
			assert_true(one.low <= one.value && one.value <= one.high);
			assert_true(one.low >= two.low && one.high <= two.high);
			one = snap_count_difference(&before, &after, true);
			two = snap_count_difference(&before, &after, false);
			assert_true(one.low >= two.low && one.high <= two.high);
		}
	}
}

static void noise_is_called_noise(void **state)
{
	struct snap_view view = {.group_by = GROUP_LINE};
	struct stacks *stacks = stacks_new();
	u32 at = stack(stacks, &leaf, 1, false);
	struct snap_row rows[2] = {{.stack = at, .samples = 10}, {.stack = at, .samples = 12}};
	struct snapshot a = {.sample_interval = R, .rows = &rows[0], .nrows = 1};
	struct snapshot b = {.sample_interval = R, .rows = &rows[1], .nrows = 1};
	struct snap_diff d;

	(void)state;
	for (int i = 0; i < 10; i++)
		estimate_add(&rows[0].live, 1000, R);
	for (int i = 0; i < 12; i++)
		estimate_add(&rows[1].live, 1000, R);
	/* Two samples more: between two runs nothing, and little within one. */
	assert_int_equal(snapshot_diff(&a, &b, stacks, &view, false, &d), 0);
	assert_true(d.changes[0].noise && d.changes[0].size_diff > 0);
	assert_true(d.changes[0].diff.low < 0 && d.changes[0].diff.high > 0);
	assert_true(d.changes[0].count_noise && d.changes[0].count_diff > 0);
	assert_true(d.changes[0].counts.low < 0 && d.changes[0].counts.high > 0);
	snap_diff_free(&d);
	for (int i = 0; i < 40; i++)
		estimate_add(&rows[1].live, 1000, R);
	rows[1].samples += 40;
	assert_int_equal(snapshot_diff(&a, &b, stacks, &view, true, &d), 0);
	assert_false(d.changes[0].noise);
	assert_true(d.changes[0].diff.low > 0);
	assert_true(!d.changes[0].count_noise && d.changes[0].counts.low > 0);
	snap_diff_free(&d);
	stacks_free(stacks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exact_differences),
		cmocka_unit_test(intervals_hold),
		cmocka_unit_test(old_files_have_intervals_too),
		cmocka_unit_test(one_run_is_sharper),
		cmocka_unit_test(what_stayed_makes_no_interval_wider),
		cmocka_unit_test(noise_is_called_noise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
