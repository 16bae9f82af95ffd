// SPDX-License-Identifier: BSD-2-Clause
/* What the trampoline page samples, and how it keeps track of it. */
#include <math.h>
#include <pthread.h>

#ifdef __x86_64__
#include "tramp_harness.h"
static void test_sampled_blocks_only(void **state)
{
	enum { N = 20000 };
	static void *p[N];
	u64 samples;

	map_page(512, PHT_TRAMP_BIG_RAW);
	enable(8192);
	record = false;
	for (int i = 0; i < N; i++)
		p[i] = FN(malloc_fn, PHT_TFN_OBJ)(CTX, 100);
	samples = CTL->samples;
	/* 2,000,000 bytes at 8192: 244 +- 16. */
	assert_in_range(samples, 180, 310);
	assert_int_equal(set_population(), samples - CTL->lost);
	assert_int_equal(filter_population(), samples - CTL->lost);
	for (int i = 0; i < N; i++)
		FN(free_fn, PHT_TFN_OBJ + 3)(CTX, p[i]);
	assert_int_equal(CTL->frees, samples - CTL->lost);
	assert_int_equal(set_population(), 0);
	assert_int_equal(filter_population(), 0);
}

/* Share of calls for n bytes that are taken, each on a thread that never allocated. */
static double first_touch_share(u64 n, int runs)
{
	u64 before = CTL->samples;

	for (int i = 0; i < runs; i++) {
		forget_thread();
		give = (void *)(0x200000000000 + 16ul * (i % 1000));
		FN(free_fn, PHT_TFN_RAW + 3)(CTX, FN(malloc_fn, PHT_TFN_RAW)(CTX, n));
	}
	return (double)(CTL->samples - before) / runs;
}

static void near(double got, double p, int runs)
{
	double sigma = sqrt(p * (1 - p) / runs);

	if (fabs(got - p) > 4.5 * sigma + 1e-9)
		fail_msg("share %.5f, expected %.5f +- %.5f", got, p, sigma);
}

static void test_probability(void **state)
{
	const u64 sizes[] = {1, 17, 100, 1000, 5000};
	const int runs = 200000;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		double p = 1 - exp(-(double)sizes[i] / 1000);
		u64 before;
		int taken;

		map_page(512, PHT_TRAMP_BIG_RAW);
		enable(1000);
		record = false;
		near(first_touch_share(sizes[i], runs), p, runs);
		/* And in the middle of a stream. */
		before = CTL->samples;
		for (int k = 0; k < runs; k++) {
			give = (void *)(0x200000000000 + 16ul * (k % 1000));
			FN(free_fn, PHT_TFN_RAW + 3)
			(CTX, FN(malloc_fn, PHT_TFN_RAW)(CTX, sizes[i]));
		}
		taken = (int)(CTL->samples - before);
		near((double)taken / runs, p, runs);
		assert_int_equal(CTL->frees + CTL->lost, CTL->samples);
	}
}

static void test_gap_distribution(void **state)
{
	enum { RUNS = 200000, BINS = 20 };
	const u64 r = 1 << 19;
	int bin[BINS] = {0};
	double sum = 0, chi2 = 0;

	map_page(512, PHT_TRAMP_BIG_RAW);
	enable(r);
	for (int i = 0; i < RUNS; i++) {
		double u;

		forget_thread();
		free(FN(malloc_fn, PHT_TFN_RAW)(CTX, 0));
		sum += (double)gap();
		u = exp(-(double)gap() / (double)r);
		bin[u >= 1 ? BINS - 1 : (int)(u * BINS)]++;
	}
	assert_int_equal(CTL->samples, 0);
	assert_true(fabs(sum / RUNS / (double)r - 1) < 0.01);
	for (int i = 0; i < BINS; i++)
		chi2 += pow(bin[i] - RUNS / BINS, 2) / (RUNS / BINS);
	assert_true(chi2 < 50); /* 19 degrees of freedom: p = 0.0001 */
}

static void test_interval_change(void **state)
{
	u32 gen;

	map_page(512, PHT_TRAMP_BIG_RAW);
	enable(ALWAYS);
	free(FN(malloc_fn, PHT_TFN_RAW)(CTX, 300));
	set_interval(2, 3);
	/* The gap under way was drawn with the old R, and says so. */
	free(FN(malloc_fn, PHT_TFN_RAW)(CTX, 300));
	free(FN(malloc_fn, PHT_TFN_RAW)(CTX, 300));
	assert_int_equal(nallocs, 3);
	assert_int_equal(allocs[1].r, ALWAYS);
	assert_int_equal(allocs[2].r, 3);
	/* Parameters that are gone: start afresh. */
	for (u32 g = 3; g <= 2 + PHT_TRAMP_NPARAMS; g++)
		set_interval(g, 4);
	free(FN(malloc_fn, PHT_TFN_RAW)(CTX, 300));
	assert_int_equal(nallocs, 4);
	assert_int_equal(allocs[3].r, 4);
	/* Half-written parameters are not used. */
	CTL->params[2].gen = 77;
	free(FN(malloc_fn, PHT_TFN_RAW)(CTX, 300));
	assert_int_equal(nallocs, 4);
	/* A huge R does not keep a thread away for ever. */
	set_interval(11, PHT_TRAMP_R_MAX);
	forget_thread();
	free(FN(malloc_fn, PHT_TFN_RAW)(CTX, 300));
	assert_in_range(gap(), PHT_GAP_MAX - 300, PHT_GAP_MAX);
	memcpy(&gen, thread_words() + PHT_THR_GEN, 4);
	assert_int_equal(gen, 11 | PHT_GEN_CUT);
	nallocs = 0;
	give = (void *)0x200000000010;
	FN(malloc_fn, PHT_TFN_RAW)(CTX, PHT_GAP_MAX);
	assert_int_equal(nallocs, 0);
	assert_true(gap() > 0);
}

static void test_lease(void **state)
{
	map_page(512, PHT_TRAMP_BIG_RAW);
	enable(ALWAYS);
	CTL->budget = 3;
	for (int i = 0; i < 10; i++)
		free(FN(malloc_fn, PHT_TFN_RAW)(CTX, 300));
	assert_int_equal(nallocs, 3);
	assert_true(CTL->expired > 0);
	CTL->budget = 100;
	for (int i = 0; i < 100; i++)
		free(FN(malloc_fn, PHT_TFN_RAW)(CTX, 300));
	assert_true(nallocs > 3);
}

static void test_full_bucket(void **state)
{
	map_page(512, PHT_TRAMP_BIG_RAW);
	enable(ALWAYS);
	for (u64 i = 0; i <= PHT_SET_WAYS; i++) {
		give = (void *)(0x200000000000 + (i << 36));
		FN(malloc_fn, PHT_TFN_RAW)(CTX, 300);
		assert_int_equal(allocs[i].flags,
				 i < PHT_SET_WAYS ? PHT_TS_RAW : PHT_TS_RAW | PHT_TS_LOST);
	}
	assert_int_equal(CTL->lost, 1);
	assert_int_equal(set_population(), PHT_SET_WAYS);
	/* An address whose free was missed comes again: still one entry. */
	give = (void *)(0x200000000000 + (3ul << 36));
	FN(malloc_fn, PHT_TFN_RAW)(CTX, 300);
	assert_int_equal(CTL->lost, 1);
	assert_int_equal(set_population(), PHT_SET_WAYS);
	/* Same hash, not in the set: not for the kernel. */
	FN(free_fn, PHT_TFN_RAW + 3)(CTX, (void *)(0x200000000000 + (17ul << 36)));
	assert_int_equal(nfrees, 0);
	assert_int_equal(CTL->false_pos, 1);
	for (u64 i = 0; i < PHT_SET_WAYS; i++)
		FN(free_fn, PHT_TFN_RAW + 3)(CTX, (void *)(0x200000000000 + (i << 36)));
	assert_int_equal(nfrees, PHT_SET_WAYS);
	assert_int_equal(filter_population(), 0);
	/* Twice freed is reported once. */
	FN(free_fn, PHT_TFN_RAW + 3)(CTX, (void *)0x200000000000);
	assert_int_equal(nfrees, PHT_SET_WAYS);
}

static u64 same_granule(u64 i)
{
	return 0x200000000000 + (i << 24);
}

/* More samples under one byte of the filter than it can count: none is forgotten. */
static void test_stuck_filter(void **state)
{
	const volatile u8 *byte;

	map_page(512, PHT_TRAMP_BIG_RAW);
	enable(ALWAYS);
	record = false;
	byte = page + PHT_TRAMP_FILTER;
	for (u64 i = 0; i < PHT_FILTER_STUCK - 1; i++) {
		give = (void *)same_granule(i);
		FN(malloc_fn, PHT_TFN_RAW)(CTX, 300);
	}
	assert_int_equal(*byte, PHT_FILTER_STUCK - 1);
	for (u64 i = 0; i < PHT_FILTER_STUCK - 1; i++)
		FN(free_fn, PHT_TFN_RAW + 3)(CTX, (void *)same_granule(i));
	assert_int_equal(*byte, 0);
	assert_int_equal(CTL->frees, PHT_FILTER_STUCK - 1);

	for (u64 i = 0; i < 300; i++) {
		give = (void *)same_granule(i);
		FN(malloc_fn, PHT_TFN_RAW)(CTX, 300);
	}
	assert_int_equal(CTL->lost, 0);
	assert_int_equal(*byte, PHT_FILTER_TOP);
	CTL->frees = 0;
	for (u64 i = 0; i < 300; i++)
		FN(free_fn, PHT_TFN_RAW + 3)(CTX, (void *)same_granule(i));
	assert_int_equal(CTL->frees, 300);
	assert_int_equal(set_population(), 0);
	assert_in_range(*byte, PHT_FILTER_STUCK, PHT_FILTER_TOP);
	FN(free_fn, PHT_TFN_RAW + 3)(CTX, (void *)same_granule(0));
	assert_int_equal(CTL->frees, 300);
}

enum { ROUNDS = 60000, HELD = 256 };

static void *churn(void *arg)
{
	void *held[HELD] = {0};
	u32 x = (u32)(uintptr_t)arg;

	for (int i = 0; i < ROUNDS; i++) {
		u32 k, n;

		x = x * 1103515245 + 12345;
		k = (x >> 8) % HELD;
		n = 1 + (x >> 16) % 400;
		if (x >> 31) {
			FN(free_fn, PHT_TFN_OBJ + 3)(CTX, held[k]);
			held[k] = FN(malloc_fn, PHT_TFN_OBJ)(CTX, n);
		} else {
			held[k] = FN(realloc_fn, PHT_TFN_RAW + 2)(CTX, held[k], n);
		}
		memset(held[k], 0xa5, n);
	}
	for (int k = 0; k < HELD; k++)
		FN(free_fn, PHT_TFN_RAW + 3)(CTX, held[k]);
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t t[4];

	map_page(512, PHT_TRAMP_BIG_RAW);
	enable(2000);
	record = false;
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		assert_int_equal(pthread_create(&t[i], NULL, churn, (void *)(i + 1)), 0);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		pthread_join(t[i], NULL);
	assert_true(CTL->samples > 1000);
	assert_int_equal(CTL->frees + CTL->lost, CTL->samples);
	assert_int_equal(set_population(), 0);
	assert_int_equal(filter_population(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(test_sampled_blocks_only), BOTH(test_probability), BOTH(test_gap_distribution),
		BOTH(test_interval_change),	BOTH(test_lease),	BOTH(test_full_bucket),
		BOTH(test_stuck_filter),	BOTH(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
	return 0;
}
#endif
