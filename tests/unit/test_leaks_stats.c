// SPDX-License-Identifier: BSD-2-Clause
/* The statistics behind verdicts, and the verdict on a whole process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "leaks_process.h"
#include "leaks_stats.h"

/* ---- the process */

#define MIB (1 << 20)

struct process_case {
	double rss_per_look, live_per_look;
	bool once; /* all of it at the 30th look */
	enum leaks_process_kind kind;
};

static void test_process(void **state)
{
	static const struct process_case cases[] = {
		{0, 0, false, LEAKS_RSS_LEVEL},
		{0.01 * MIB, 0, false, LEAKS_RSS_LEVEL},
		{MIB, MIB, false, LEAKS_RSS_LIVE},
		{MIB, 0.8 * MIB, false, LEAKS_RSS_LIVE},
		{MIB, 0, false, LEAKS_RSS_FRAGMENTATION},
		{MIB, 0.2 * MIB, false, LEAKS_RSS_FRAGMENTATION},
		{MIB, -0.5 * MIB, false, LEAKS_RSS_FRAGMENTATION},
		{-MIB, 0, false, LEAKS_RSS_LEVEL},
		{MIB, 0, true, LEAKS_RSS_LEVEL},
	};
	struct leaks_look total[60];
	struct leaks_process v;
	double times[60];
	u64 rss[60];

	for (size_t c = 0; c < ARRAY_SIZE(cases); c++) {
		for (size_t i = 0; i < 60; i++) {
			double steps = !cases[c].once ? (double)i : i < 30 ? 0 : 60;

			times[i] = (double)i + 1;
			rss[i] = (u64)(100.0 * MIB + cases[c].rss_per_look * steps);
			total[i].live = (float)(50.0 * MIB + cases[c].live_per_look * steps);
			total[i].var = (float)MIB * MIB;
		}
		leaks_judge_process(times, rss, total, 60, &v);
		assert_int_equal(v.kind, cases[c].kind);
		leaks_judge_process(times, rss, total, 4, &v);
		assert_int_equal(v.kind, LEAKS_RSS_UNKNOWN);
	}
	leaks_judge_process(times, rss, total, 0, &v);
	assert_int_equal(v.kind, LEAKS_RSS_UNKNOWN);
}

/* ---- statistics, against tables */

static void near(double got, double want)
{
	assert_true(fabs(got - want) <= 2e-3 * want + 1e-12);
}

static void test_statistics(void **state)
{
	const double x[] = {1, 2, 3, 4};
	const double same[] = {2, 2, 2};
	struct stats_mean m;

	near(stats_normal_tail(1.96), 0.024998);
	near(stats_normal_tail(0), 0.5);
	near(stats_student_tail(12.706, 1), 0.025);
	near(stats_student_tail(2.571, 5), 0.025);
	near(stats_student_tail(-2.571, 5), 0.975);
	near(stats_student_tail(3.169, 10), 0.005);
	near(stats_student_95(10), 2.2281);
	near(stats_student_95(1e6), 1.95997);
	near(stats_poisson_tail(3, 1), 0.080301);
	near(stats_poisson_tail(0, 5), 1);
	near(stats_poisson_tail(10, 4), 0.008132);
	near(stats_poisson_tail(20300, 20000), 0.017096);
	m = stats_mean_of(x, 4);
	near(m.mean, 2.5);
	near(m.error, 0.645497);
	m = stats_mean_of(same, 3);
	assert_true(stats_mean_above_zero(&m) == 0);
	m = stats_mean_of(x, 1);
	assert_true(stats_mean_above_zero(&m) == 1);
	assert_true(stats_ratio(0, 0) == 0 && isinf(stats_ratio(1, 0)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_statistics),
		cmocka_unit_test(test_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
