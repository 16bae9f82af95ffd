// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "estimate.h"
#include "sampling_tables.h"

#define RUNS 10000

static u32 log_table[PHT_LOG_TABLE];

static double uniform(__u64 *rng)
{
	return ((pht_rng_next(rng) >> 11) + 0.5) * 0x1p-53;
}

/* Sizes as programs have them: mostly small, with a Pareto tail up to 4 MiB. */
static u64 size_mixed(__u64 *rng)
{
	double u = uniform(rng);

	if (u < 0.75)
		return 16 * (1 + pht_rng_next(rng) % 32);
	return (u64)fmin(512 * pow(uniform(rng), -1 / 0.9), 4 << 20);
}

/* Blocks near R, where seen and unseen parts are alike. */
static u64 size_large(__u64 *rng)
{
	return (64 << 10) + pht_rng_next(rng) % (4 << 20);
}

static u64 size_100(__u64 *rng)
{
	return 100;
}

/* Nearly all are sampled; the error is that a few are not. */
static u64 size_2m(__u64 *rng)
{
	return 2 << 20;
}

static const struct scenario {
	const char *name;
	u64 (*size)(__u64 *rng);
	u64 interval;
	u64 bytes;  /* of a run's population, about */
	bool fixed; /* the same population in every run */
	bool vary;  /* from half to one and a half of bytes: else few samples are few values */
} scenarios[] = {
	{"mixed, R 512K, ~100 samples", size_mixed, 512 << 10, 100 << 19, false, false},
	{"mixed, R 512K, one population", size_mixed, 512 << 10, 100 << 19, true, false},
	{"mixed, R 512K, ~20 samples", size_mixed, 512 << 10, 20 << 19, false, false},
	{"mixed, R 512K, ~6 samples", size_mixed, 512 << 10, 6 << 19, false, true},
	{"mixed, R 64K, ~100 samples", size_mixed, 64 << 10, 100 << 16, false, false},
	{"mixed, R 4K, ~300 samples", size_mixed, 4 << 10, 300 << 12, false, false},
	{"mixed, R 1M, ~20 samples", size_mixed, 1 << 20, 20 << 20, false, false},
	{"64K..4M, R 512K", size_large, 512 << 10, 60 << 20, false, false},
	{"2M, R 512K", size_2m, 512 << 10, 800 << 20, false, false},
	{"2M, R 512K, a miss is rare", size_2m, 512 << 10, 4 << 20, false, false},
	{"100 B, R 4K, ~30 samples", size_100, 4 << 10, 30 << 12, false, true},
	{"100 B, R 4K, ~8 samples", size_100, 4 << 10, 8 << 12, false, true},
	{"100 B, R 4K, ~4 samples", size_100, 4 << 10, 4 << 12, false, true},
};

struct outcome {
	double truth, estimate, blocks, est_blocks, error2;
	unsigned long covered, below, above;
};

/* Samples a population with the countdown that the kernel side uses. */
static void one_run(const struct scenario *s, __u64 *sizes_rng, __u64 *rng, struct outcome *o)
{
	struct estimator e = {0};
	struct estimate est;
	__s64 countdown = pht_exp_interval(pht_rng_next(rng), s->interval, log_table);
	u64 truth = 0, blocks = 0, want = s->bytes;

	if (s->vary)
		want = s->bytes / 2 + (u64)(uniform(sizes_rng) * s->bytes);
	for (; truth < want; blocks++) {
		u64 size = s->size(sizes_rng);

		truth += size;
		if (pht_countdown(&countdown, size, s->interval, rng, log_table))
			estimate_add(&e, size, s->interval);
	}
	est = estimate_interval(&e);
	assert_true(est.low >= e.seen && est.low <= est.value && est.value <= est.high);
	o->truth += truth;
	o->estimate += est.value;
	o->error2 += (est.value - truth) * (est.value - truth);
	o->blocks += blocks;
	o->est_blocks += e.blocks;
	o->above += truth > est.high;
	o->below += truth < est.low;
	o->covered += truth >= est.low && truth <= est.high;
}

static void check_scenario(const struct scenario *s, const struct outcome *o)
{
	double coverage = (double)o->covered / RUNS;
	double bias = o->estimate / o->truth - 1;
	double se = sqrt(o->error2) / o->truth;

	print_message("%-30s coverage %.2f %% (under %.2f, over %.2f), bias %+.3f +- %.3f %%, "
		      "blocks %+.3f %%\n",
		      s->name, 100 * coverage, 100.0 * o->above / RUNS, 100.0 * o->below / RUNS,
		      100 * bias, 100 * se, 100 * (o->est_blocks / o->blocks - 1));
	assert_true(coverage >= 0.93 && coverage <= 0.97);
	/* Few samples a run: 10,000 runs do not tell 0.5 % from chance. */
	assert_true(fabs(bias) < fmax(0.005, 3 * se));
	assert_true(fabs(bias) < 4 * se);
}

static void test_coverage(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(scenarios); i++) {
		const struct scenario *s = &scenarios[i];
		__u64 rng = pht_rng_seed(7, i);
		struct outcome o = {0};

		for (int run = 0; run < RUNS; run++) {
			__u64 sizes_rng = pht_rng_seed(1000 + i, s->fixed ? 0 : run);

			one_run(s, &sizes_rng, &rng, &o);
		}
		check_scenario(s, &o);
	}
}

static void assert_near(double got, double want, double rel)
{
	if (!(fabs(got - want) <= rel * fabs(want)))
		fail_msg("got %.17g, want %.17g", got, want);
}

static void test_probability(void **state)
{
	assert_true(estimate_probability(100, 0) == 1.0);
	assert_true(estimate_probability(100, 1) == 1.0);
	assert_near(estimate_probability(1, 1ull << 40), 0x1p-40, 1e-12);
	assert_near(estimate_probability(0, 4096), 1 - exp(-1.0 / 4096), 1e-11);
	assert_near(estimate_probability(512 << 10, 512 << 10), 0.63212055882855767, 1e-14);
	assert_near(estimate_probability(UINT64_MAX, 2), 1.0, 0);
}

static void test_exact(void **state)
{
	struct estimator e = {0};
	struct estimate est = estimate_interval(&e);

	assert_true(est.value == 0 && est.low == 0 && est.high == 0);
	estimate_add(&e, 0, 1);
	estimate_add(&e, 123, 1);
	estimate_add(&e, 1ull << 40, 0);
	est = estimate_interval(&e);
	assert_true(est.value == 123 + 0x1p40 && est.low == est.value && est.high == est.value);
	assert_true(e.blocks == 3 && e.samples == 3 && e.seen == est.value);
}

static void test_sums(void **state)
{
	struct estimator e = {0};
	double p = 1 - exp(-0.25);

	estimate_add(&e, 1024, 4096);
	assert_near(e.bytes, 1024 / p, 1e-12);
	assert_near(e.blocks, 1 / p, 1e-12);
	assert_near(e.var, (1 - p) * 1024 * 1024 / (p * p), 1e-12);
	assert_near(e.skew, (1 - p) * (1 - 2 * p) * pow(1024 / p, 3), 1e-12);
	assert_near(e.covar, (1 - p) * (1 - p) * pow(1024 / p, 3), 1e-12);
	assert_true(e.seen == 1024);
	/* An empty block stands for blocks, not for bytes. */
	estimate_add(&e, 0, 4096);
	assert_near(e.bytes, 1024 / p, 1e-12);
	assert_near(e.blocks, 1 / p + 4096.5, 1e-6);
}

/* A part counts with the chance that the whole was drawn with. */
static void test_part(void **state)
{
	struct estimator e = {0};
	double p = 1 - exp(-0.25);

	estimate_add_part(&e, 300, 3, 1024, 4096);
	assert_near(e.bytes, 300 / p, 1e-12);
	assert_near(e.blocks, 3 / p, 1e-12);
	assert_near(e.var, (1 - p) * 300 * 300 / (p * p), 1e-12);
	assert_true(e.seen == 300 && e.samples == 1);
}

static void test_merge(void **state)
{
	struct estimator a = {0}, b = {0}, all = {0};
	struct estimate ea, eb;
	__u64 rng = 3;

	for (int i = 0; i < 100; i++) {
		u64 size = size_mixed(&rng);
		u64 interval = i % 3 ? 512 << 10 : 8 << 10;

		estimate_add(i & 1 ? &a : &b, size, interval);
		estimate_add(&all, size, interval);
	}
	estimate_merge(&a, &b);
	ea = estimate_interval(&a);
	eb = estimate_interval(&all);
	assert_int_equal(a.samples, 100);
	assert_near(a.blocks, all.blocks, 1e-12);
	assert_near(ea.value, eb.value, 1e-12);
	assert_near(ea.low, eb.low, 1e-9);
	assert_near(ea.high, eb.high, 1e-9);
	assert_true(ea.low < ea.value && ea.value < ea.high);
}

/* A block that cannot well have been missed has next to no uncertainty. */
static void test_certain(void **state)
{
	struct estimator e = {0};
	struct estimate est;

	estimate_add(&e, 16 << 20, 1 << 20);
	est = estimate_interval(&e);
	assert_true(est.low == e.seen);
	assert_near(est.value, 16 << 20, 1e-6);
	assert_near(est.high, 16 << 20, 2e-3);
	estimate_add(&e, 1ull << 50, 1 << 20);
	est = estimate_interval(&e);
	assert_near(est.low, 0x1p50, 1e-6);
	assert_near(est.high, 0x1p50, 1e-6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_probability), cmocka_unit_test(test_exact),
		cmocka_unit_test(test_sums),	    cmocka_unit_test(test_part),
		cmocka_unit_test(test_merge),	    cmocka_unit_test(test_certain),
		cmocka_unit_test(test_coverage),
	};

	sampling_tables_fill(log_table, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
