// SPDX-License-Identifier: BSD-2-Clause
/* Looks at sites: how many are kept, which, and what is in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "leaks_series.h"

#define SITES 5

struct world {
	struct stacks *stacks;
	u32 stack[2 * SITES]; /* two callers for each line */
	struct leaks_series series;
	struct snap_row rows[2 * SITES];
	struct snapshot now;
};

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->stacks = stacks_new();
	assert_non_null(w->stacks);
	for (int i = 0; i < 2 * SITES; i++) {
		struct frame frames[2] = {{"make", "app.py", 10 + i % SITES, FRAME_PYTHON},
					  {i < SITES ? "a" : "b", "app.py", 1, FRAME_PYTHON}};

		assert_int_equal(stacks_add(w->stacks, frames, 2, false, &w->stack[i]), 0);
	}
	leaks_series_init(&w->series, w->stacks, GROUP_LINE);
	w->now = (struct snapshot){.rows = w->rows, .rss = 1 << 20};
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	leaks_series_free(&w->series);
	stacks_free(w->stacks);
	free(w);
	return 0;
}

/* Each stack has allocated 100 bytes times its number and the time, and holds a half. */
static void look(struct world *w, double t, size_t nrows)
{
	w->now.duration = t;
	w->now.nrows = nrows;
	for (size_t i = 0; i < nrows; i++) {
		double bytes = 100.0 * (double)(i + 1) * t;

		w->rows[i] = (struct snap_row){
			.stack = w->stack[i],
			.live = {.bytes = bytes / 2, .var = 7, .samples = 3},
			.allocated_bytes = bytes,
			.samples = 5,
			.freed_samples = 2,
		};
	}
	assert_int_equal(leaks_series_add(&w->series, &w->now), 0);
}

static void check_looks(const struct leaks_series *s)
{
	for (size_t i = 0; i < s->n; i++) {
		double sum = 0;

		assert_true(!i || s->times[i] > s->times[i - 1]);
		for (size_t k = 0; k < s->nsites; k++)
			sum += s->sites[k]->looks[i].live;
		assert_true(fabs(sum - s->total[i].live) <= 1e-5 * sum);
		assert_true(fabs(sum - 50.0 * 55 * s->times[i]) <= 1e-5 * sum);
	}
}

static void test_bounded(void **state)
{
	struct world *w = *state;
	const struct leaks_series *s = &w->series;

	for (int i = 1; i <= 5000; i++) {
		look(w, i, 2 * SITES);
		assert_true(s->n <= LEAKS_LOOKS && s->n >= (i < 32 ? (size_t)i : 32));
		assert_true(s->times[s->n - 1] == i);
		if (i % 97 == 0)
			check_looks(s);
	}
	check_looks(s);
	/* Evenly spread, but for the newest. */
	for (size_t i = 1; i + 1 < s->n; i++)
		assert_true(s->times[i] - s->times[i - 1] == (double)s->stride);
}

static void test_sites(void **state)
{
	struct world *w = *state;
	const struct leaks_site *last;

	look(w, 1, 2 * SITES);
	assert_int_equal(w->series.nsites, SITES);
	last = w->series.sites[SITES - 1];
	assert_int_equal(last->samples, 10);
	assert_int_equal(last->freed_samples, 4);
	assert_int_equal(last->live.samples, 6);
	assert_true(last->looks[0].allocated == 1500);
	/* The heavier of its two stacks stands for it. */
	assert_int_equal(last->stack, w->stack[2 * SITES - 1]);
}

static void test_by_traceback(void **state)
{
	struct world *w = *state;

	w->series.by = GROUP_TRACEBACK;
	look(w, 1, 2 * SITES);
	assert_int_equal(w->series.nsites, 2 * SITES);
	w->series.by = GROUP_LINE;
}

/* One that turns up late had nothing before; a moment that is no later is no look. */
static void test_late_and_odd(void **state)
{
	struct world *w = *state;
	const struct leaks_site *last;

	look(w, 1, 1);
	look(w, 2, 2 * SITES);
	last = w->series.sites[SITES - 1];
	assert_true(last->looks[0].live == 0 && last->looks[1].live > 0);
	look(w, 2, 2 * SITES);
	look(w, 1.5, 2 * SITES);
	look(w, NAN, 2 * SITES);
	look(w, INFINITY, 2 * SITES);
	look(w, -1, 2 * SITES);
	assert_int_equal(w->series.n, 2);
}

/* Leaks first, by how much they leak for certain; then the rest, however much it holds. */
static void test_order(void **state)
{
	struct world *w = *state;
	struct leaks_series *s = &w->series;
	struct leaks_site *steady;

	for (int i = 1; i <= 60; i++)
		look(w, i, 2 * SITES);
	steady = s->sites[2];
	steady->samples = 100;
	for (size_t i = 0; i < s->n; i++)
		steady->looks[i].live = 1e6;
	for (size_t k = 0; k < s->nsites; k++)
		s->sites[k]->live.bytes = 1e6 * (double)(k + 1);
	leaks_series_judge(s, 0);
	assert_ptr_equal(s->sites[SITES - 1], steady);
	assert_int_equal(steady->verdict.kind, LEAKS_STEADY);
	for (size_t k = 0; k + 1 < s->nsites; k++)
		assert_true(leaks_is_leak(s->sites[k]->verdict.kind));
	for (size_t k = 0; k + 2 < s->nsites; k++)
		assert_true(s->sites[k]->verdict.per_hour.low >=
			    s->sites[k + 1]->verdict.per_hour.low);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_bounded, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_sites, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_by_traceback, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_late_and_odd, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_order, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
