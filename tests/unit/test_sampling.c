// SPDX-License-Identifier: BSD-2-Clause
/* Sampling arithmetic against exact probabilities. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "sampling_tables.h"

static u32 log_table[PHT_LOG_TABLE];
static u32 weight_table[PHT_WEIGHT_TABLE];

static void assert_near(double got, double want, double rel, double abs)
{
	if (!(fabs(got - want) <= rel * fabs(want) + abs))
		fail_msg("got %.17g, want %.17g", got, want);
}

static void test_integers(void **state)
{
	__u64 rng = 1;

	for (int i = 0; i < 200000; i++) {
		__u64 a = pht_rng_next(&rng) >> (i & 63);
		__u64 b = pht_rng_next(&rng) >> (i >> 6 & 63);

		assert_int_equal(pht_mulhi(a, b), (u64)((unsigned __int128)a * b >> 64));
		if (a)
			assert_int_equal(pht_clz64(a), __builtin_clzll(a));
	}
	assert_int_equal(pht_mulhi(~0ull, ~0ull), ~0ull - 1);
	assert_int_equal(pht_clz64(1), 63);
	assert_int_equal(pht_clz64(~0ull), 0);
}

static void test_rng(void **state)
{
	unsigned long ones = 0, same = 0;
	__u64 a = 0;

	/* splitmix64's published sequence for seed 0 */
	assert_int_equal(pht_rng_next(&a), 0xe220a8397b1dcdaf);
	assert_int_equal(pht_rng_next(&a), 0x6e789e6aa1b965f4);
	assert_int_equal(pht_rng_seed(5, 7), pht_rng_seed(5, 7));
	assert_int_not_equal(pht_rng_seed(5, 7), pht_rng_seed(7, 5));
	/* Neighbouring threads and seeds must not run alike. */
	for (__u64 thread = 0; thread < 2000; thread++) {
		__u64 s = pht_rng_seed(42, thread), t = pht_rng_seed(42, thread + 1);

		for (int i = 0; i < 50; i++) {
			__u64 x = pht_rng_next(&s);

			ones += __builtin_popcountll(x);
			same += __builtin_popcountll(x ^ pht_rng_next(&t));
		}
	}
	assert_near(ones, 2000 * 50 * 32.0, 0, 4 * sqrt(2000 * 50 * 16.0));
	assert_near(same, 2000 * 50 * 32.0, 0, 4 * sqrt(2000 * 50 * 16.0));
}

static void check_neglog(__u64 rnd)
{
	double got = pht_neglog(rnd, log_table) * 0x1p-58;
	double want = rnd ? (double)-logl(rnd * 0x1p-64L) : 64 * M_LN2;

	if (rnd >> 63)
		want = (double)-log1pl(-(long double)-rnd * 0x1p-64L);
	/* Q58 truncates the tiniest. */
	assert_near(got, want, rnd ? 2e-6 : 0.02, 0x1p-57);
}

static void test_neglog(void **state)
{
	__u64 rng = 2;

	for (int i = 0; i < 64; i++)
		for (int d = -3; d <= 3; d++)
			check_neglog((1ull << i) + (__u64)d);
	for (int i = 0; i < 64; i++)
		check_neglog(-(1ull << i));
	check_neglog(0);
	check_neglog(1);
	for (int i = 0; i < 300000; i++)
		check_neglog(pht_rng_next(&rng) >> (i & 31));
}

static void test_interval_bounds(void **state)
{
	assert_int_equal(pht_exp_interval(123, 0, log_table), 0);
	assert_int_equal(pht_exp_interval(123, 1, log_table), 0);
	for (int bit = 1; bit <= 40; bit++) {
		__u64 mean = 1ull << bit;

		assert_int_equal(pht_exp_interval(~0ull, mean, log_table), 1);
		assert_near(pht_exp_interval(1, mean, log_table), mean * 64 * M_LN2, 2e-6, 1);
		assert_true(pht_exp_interval(0, mean, log_table) <= mean * 45);
	}
	for (__u64 rnd = 1; rnd; rnd <<= 1)
		assert_int_equal(pht_exp_interval(rnd, ~0ull, log_table),
				 pht_exp_interval(rnd, PHT_MAX_INTERVAL, log_table));
}

/*
 * The interval falls as rnd rises, so the share of the 2^64 random numbers
 * that give at most x is found exactly, by bisection.
 */
static __u64 first_within(__u64 x, __u64 mean)
{
	__u64 lo = 0, hi = ~0ull;

	while (lo < hi) {
		__u64 mid = lo + (hi - lo) / 2;

		if (pht_exp_interval(mid, mean, log_table) <= x)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

static void test_distribution_exact(void **state)
{
	static const double odd[] = {1, 1.37, 1.9};
	double worst = 0, worst_tail = 0;

	for (int m = 0; m < 34 * 3; m++) {
		__u64 mean = (__u64)(odd[m % 3] * (double)(2ull << m / 3));

		for (int k = 0; k < 40 * 3; k++) {
			__u64 x = (__u64)(odd[k % 3] * (double)(1ull << k / 3));
			double t = (double)x / (double)mean, p, tail;
			__u64 at;

			if (t > 30)
				continue;
			at = first_within(x, mean);
			p = (double)-at * 0x1p-64;
			tail = (double)at * 0x1p-64;
			assert_near(p, -expm1(-t), 3e-6, 0);
			assert_near(tail, exp(-t), 3e-5, 0x1p-63);
			worst = fmax(worst, fabs(p / -expm1(-t) - 1));
			worst_tail = fmax(worst_tail, fabs(tail / exp(-t) - 1));
		}
	}
	print_message("P(n <= x): worst relative error %.1e, of P(n > x) %.1e\n", worst,
		      worst_tail);
}

static void test_monotone(void **state)
{
	__u64 rng = 3;

	for (int i = 0; i < 300000; i++) {
		__u64 a = pht_rng_next(&rng), b = a + (pht_rng_next(&rng) >> (1 + i % 63));

		if (b > a)
			assert_true(pht_exp_interval(a, 1ull << 40, log_table) >=
				    pht_exp_interval(b, 1ull << 40, log_table));
	}
}

static int compare_u64(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return (x > y) - (x < y);
}

#define DRAWS 200000
#define BINS  100

/* Kolmogorov-Smirnov and chi-square of drawn intervals; limits at p = 0.001. */
static void check_draws(__u64 mean, u64 *draw)
{
	__u64 rng = pht_rng_seed(99, mean);
	u32 bins[BINS] = {0};
	double d = 0, chi2 = 0;

	for (int i = 0; i < DRAWS; i++) {
		draw[i] = pht_exp_interval(pht_rng_next(&rng), mean, log_table);
		/* The middle of the byte: the law is continuous, the draw is not. */
		bins[(int)(-expm1(-(draw[i] - 0.5) / mean) * BINS)]++;
	}
	qsort(draw, DRAWS, sizeof(*draw), compare_u64);
	for (int i = 0; i < DRAWS; i++) {
		double f = -expm1(-(double)draw[i] / mean);

		/* Ties: the step ends at the last of equals. */
		if (i + 1 == DRAWS || draw[i + 1] != draw[i])
			d = fmax(d, fabs(f - (i + 1.0) / DRAWS));
	}
	assert_true(d < 1.95 / sqrt(DRAWS));
	for (int i = 0; i < BINS; i++)
		chi2 += pow(bins[i] - DRAWS / (double)BINS, 2) / (DRAWS / (double)BINS);
	/* Bins are of equal chance only where a byte is a small step. */
	if (mean >= 1 << 16)
		assert_true(chi2 < 148.2);
}

static void test_distribution_drawn(void **state)
{
	u64 *draw = calloc(DRAWS, sizeof(*draw));

	assert_non_null(draw);
	for (int bit = 1; bit <= 40; bit += 3)
		check_draws(1ull << bit, draw);
	check_draws(512 << 10, draw);
	check_draws(1000003, draw);
	free(draw);
}

#define BLOCKS 100000

/* The share of sampled blocks, when blocks of one size follow each other. */
static void test_inclusion(void **state)
{
	double chi2 = 0;
	int cells = 0;

	for (__u64 mean = 2; mean <= 1ull << 34; mean <<= 2) {
		for (int shift = -6; shift <= 3; shift++) {
			__u64 size = shift < 0 ? mean >> -shift : mean << shift;
			double p, z, n = 0;
			__u64 rng = pht_rng_seed(mean, size);
			__s64 left = pht_exp_interval(pht_rng_next(&rng), mean, log_table);

			if (!size)
				continue;
			p = -expm1(-(double)size / mean);
			for (int i = 0; i < BLOCKS; i++)
				n += pht_countdown(&left, size, mean, &rng, log_table);
			z = (n - BLOCKS * p) / sqrt(BLOCKS * p * (1 - p) + 1e-9);
			if (BLOCKS * (1 - p) < 50) {
				assert_true(n <= BLOCKS && n > BLOCKS * p - 50);
				continue;
			}
			if (fabs(z) > 4.2)
				fail_msg("size %llu, mean %llu: %.0f sampled, %.1f expected", size,
					 mean, n, BLOCKS * p);
			chi2 += z * z;
			cells++;
		}
	}
	print_message("%d cells, chi-square %.1f\n", cells, chi2);
	assert_true(cells > 120);
	assert_near(chi2, cells, 0, 4 * sqrt(2.0 * cells));
}

/* Blocks of different sizes in one stream, each size with its own chance. */
static void test_inclusion_mixed(void **state)
{
	static const u64 sizes[] = {0, 16, 100, 512, 4096, 70000, 1 << 20};
	double n[ARRAY_SIZE(sizes)] = {0}, total = 0, weights = 0, var = 0;
	const u64 mean = 20000;
	__u64 rng = 11, pick = 12;
	__s64 left = pht_exp_interval(pht_rng_next(&rng), mean, log_table);
	unsigned long seen[ARRAY_SIZE(sizes)] = {0};

	for (int i = 0; i < 3000000; i++) {
		size_t k = pht_rng_next(&pick) % ARRAY_SIZE(sizes);

		seen[k]++;
		total += sizes[k];
		if (pht_countdown(&left, sizes[k], mean, &rng, log_table)) {
			n[k]++;
			weights += pht_weight_bytes(sizes[k], mean, weight_table);
		}
	}
	for (size_t k = 0; k < ARRAY_SIZE(sizes); k++) {
		double x = sizes[k] ? sizes[k] : 1, p = -expm1(-x / mean);

		assert_near(n[k], seen[k] * p, 0, 4 * sqrt(seen[k] * p * (1 - p)) + 0.5);
		var += seen[k] * (double)sizes[k] * sizes[k] * (1 - p) / p;
	}
	assert_near(weights, total, 1e-5, 4 * sqrt(var));
}

static void test_countdown_edges(void **state)
{
	__u64 rng = 1, before;
	__s64 left = 77;

	/* Interval 1: everything, and the state is left alone. */
	assert_int_equal(pht_countdown(&left, 0, 1, &rng, log_table), 1);
	assert_int_equal(pht_countdown(&left, 5, 0, &rng, log_table), 1);
	assert_true(left == 77 && rng == 1);
	assert_int_equal(pht_countdown(&left, 76, 4096, &rng, log_table), 0);
	assert_int_equal(left, 1);
	/* An empty block counts as one byte, and the byte counted out is a hit. */
	before = rng;
	assert_int_equal(pht_countdown(&left, 0, 4096, &rng, log_table), 1);
	assert_true(left > 0 && rng != before);
	left = INT64_MAX;
	assert_int_equal(pht_countdown(&left, ~0ull, 4096, &rng, log_table), 1);
	assert_true(left > 0 && left < 1 << 20);
	left = INT64_MIN;
	assert_int_equal(pht_countdown(&left, 1, 4096, &rng, log_table), 1);
	assert_true(left > 0);
}

static void check_weight(__u64 size, __u64 mean, double *worst)
{
	double x = size, p = -expm1(-(size ? x : 1.0) / mean);
	__u64 bytes = pht_weight_bytes(size, mean, weight_table);
	double blocks = pht_weight_blocks16(size, mean, bytes) / 65536.0;

	assert_near(bytes, x / p, 1e-5, 0.501);
	if (size)
		assert_near(blocks, 1 / p, 1e-5, 0.501 / x + 0x1p-16);
	else
		assert_near(blocks, 1 / p, 1e-3, 0);
	if (x / p > 1e6)
		*worst = fmax(*worst, fabs(bytes / (x / p) - 1));
}

static void test_weights(void **state)
{
	__u64 rng = 4;
	double worst = 0;

	for (int m = 1; m <= 40; m++) {
		for (int s = 0; s <= 40; s++)
			for (int d = -1; d <= 1; d++) {
				check_weight((1ull << s) + d, 1ull << m, &worst);
				check_weight((1ull << s) + d, (1ull << m) + (m < 40), &worst);
			}
	}
	for (int i = 0; i < 500000; i++) {
		double m = 1 + 33 * ((pht_rng_next(&rng) >> 11) * 0x1p-53);
		double s = 40 * ((pht_rng_next(&rng) >> 11) * 0x1p-53);

		check_weight((__u64)exp2(s), (__u64)exp2(m), &worst);
	}
	print_message("weights: worst relative error %.1e\n", worst);
}

static void test_weight_edges(void **state)
{
	static const u64 sizes[] = {0, 1, 100, 1ull << 40, 1ull << 47, 1ull << 63, UINT64_MAX};

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		for (__u64 mean = 0; mean < 2; mean++) {
			assert_int_equal(pht_weight_bytes(sizes[i], mean, weight_table), sizes[i]);
			assert_int_equal(pht_weight_blocks16(sizes[i], mean, sizes[i]), 65536);
		}
	}
	assert_int_equal(pht_weight_bytes(UINT64_MAX, 4096, weight_table), UINT64_MAX);
	assert_int_equal(pht_weight_blocks16(UINT64_MAX, 4096, UINT64_MAX), 65536);
	assert_int_equal(pht_weight_bytes(1ull << 45, ~0ull, weight_table),
			 pht_weight_bytes(1ull << 45, PHT_MAX_INTERVAL, weight_table));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_integers),
		cmocka_unit_test(test_rng),
		cmocka_unit_test(test_neglog),
		cmocka_unit_test(test_interval_bounds),
		cmocka_unit_test(test_monotone),
		cmocka_unit_test(test_distribution_exact),
		cmocka_unit_test(test_distribution_drawn),
		cmocka_unit_test(test_inclusion),
		cmocka_unit_test(test_inclusion_mixed),
		cmocka_unit_test(test_countdown_edges),
		cmocka_unit_test(test_weights),
		cmocka_unit_test(test_weight_edges),
	};

	sampling_tables_fill(log_table, weight_table);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
