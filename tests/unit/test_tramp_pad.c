// SPDX-License-Identifier: BSD-2-Clause
/* PHT_CTL_F_PAD: sampled blocks that pymalloc would serve come from the raw domain. */
#ifdef __x86_64__
#include "tramp_harness.h"

#define SMALL_MAX 512

static void pad(void)
{
	map_page(SMALL_MAX, PHT_TRAMP_BIG_RAW);
	enable(ALWAYS);
	CTL->flags = PHT_CTL_F_PAD;
}

/* What pymalloc does with a request above its limit: it asks the table of the raw domain. */
static void ask_raw(void)
{
	inside = NULL;
	free(FN(malloc_fn, PHT_TFN_RAW)(CTX, SMALL_MAX + 1));
}

static void takes(int domain)
{
	void *p;

	pad();
	inside = ask_raw;
	p = FN(malloc_fn, domain)(CTX, 300);
	assert_int_equal(nallocs, 1);
	assert_int_equal(allocs[0].ptr, (uintptr_t)p);
	assert_int_equal(allocs[0].size, 300);
	assert_int_equal(allocs[0].flags, domain / 4);
	assert_int_equal(set_population(), 1);
	/* The raw domain's free is what sees it go. */
	FN(free_fn, PHT_TFN_RAW + 3)(CTX, p);
	assert_int_equal(nfrees, 1);
	assert_int_equal(frees[0].ptr, (uintptr_t)p);
	assert_int_equal(set_population(), 0);
	/* The next raw call is one of its own again. */
	free(FN(malloc_fn, PHT_TFN_RAW)(CTX, 300));
	assert_int_equal(nallocs, 2);
}

static void test_malloc_calls(void **state)
{
	takes(PHT_TFN_MEM);
	takes(PHT_TFN_OBJ);
}

static void test_sizes(void **state)
{
	void *p;

	pad();
	free(FN(malloc_fn, PHT_TFN_OBJ)(CTX, 300));
	assert_int_equal(asked, SMALL_MAX + 1);
	p = FN(calloc_fn, PHT_TFN_OBJ + 1)(CTX, 3, 100);
	assert_int_equal(asked, SMALL_MAX + 1);
	assert_int_equal(allocs[1].size, 300);
	p = FN(realloc_fn, PHT_TFN_MEM + 2)(CTX, p, 400);
	assert_int_equal(asked, SMALL_MAX + 1);
	assert_int_equal(allocs[2].size, 400);
	assert_int_equal(allocs[2].flags, PHT_TS_MEM);
	assert_int_equal(nfrees, 1);
	assert_int_equal(frees[0].flags, PHT_TS_REALLOC);
	/* Larger ones are what they are, and counted once they are there. */
	p = FN(realloc_fn, PHT_TFN_MEM + 2)(CTX, p, 900);
	assert_int_equal(asked, 900);
	assert_int_equal(allocs[3].size, 900);
	free(p);
	free(FN(malloc_fn, PHT_TFN_OBJ)(CTX, 900));
	assert_int_equal(asked, 900);
	assert_int_equal(nallocs, 4);
}

/* Most calls hold no mark: they ask for what they were asked. */
static void test_unsampled(void **state)
{
	s64 before;
	void *p;

	pad();
	set_interval(2, 1ull << 40);
	forget_thread();
	free(FN(malloc_fn, PHT_TFN_OBJ)(CTX, 100));
	before = gap();
	p = FN(malloc_fn, PHT_TFN_OBJ)(CTX, 100);
	assert_int_equal(asked, 100);
	p = FN(realloc_fn, PHT_TFN_OBJ + 2)(CTX, p, 200);
	assert_int_equal(asked, 200);
	assert_int_equal(gap(), before - 300);
	/* Also where the stretch ends, without a mark. */
	forget_thread();
	p = FN(realloc_fn, PHT_TFN_OBJ + 2)(CTX, p, 250);
	assert_int_equal(asked, 250);
	forget_thread();
	free(p);
	free(FN(calloc_fn, PHT_TFN_OBJ + 1)(CTX, 2, 50));
	assert_int_equal(asked, 100);
	assert_int_equal(nallocs, 0);
}

static void test_failures(void **state)
{
	void *p, *q;

	pad();
	p = FN(malloc_fn, PHT_TFN_OBJ)(CTX, 300);
	fail = true;
	assert_null(FN(malloc_fn, PHT_TFN_OBJ)(CTX, 300));
	assert_int_equal(CTL->failed, 1);
	/* The old block lives on. */
	q = FN(realloc_fn, PHT_TFN_OBJ + 2)(CTX, p, 400);
	assert_null(q);
	assert_int_equal(CTL->failed, 2);
	assert_int_equal(CTL->undone, 1);
	assert_int_equal(nallocs, 2);
	assert_int_equal(allocs[1].ptr, (uintptr_t)p);
	assert_int_equal(allocs[1].flags, PHT_TS_OBJ | PHT_TS_UNDO);
	assert_int_equal(set_population(), 1);
	/* One that was not sampled leaves nothing to undo. */
	assert_null(FN(realloc_fn, PHT_TFN_OBJ + 2)(CTX, (void *)0x200000000100, 400));
	assert_int_equal(nallocs, 2);
	fail = false;
	FN(free_fn, PHT_TFN_RAW + 3)(CTX, p);
	assert_int_equal(set_population(), 0);
}

/* The raw realloc below one of a small block is not counted. */
static void ask_raw_realloc(void)
{
	inside = NULL;
	free(FN(realloc_fn, PHT_TFN_RAW + 2)(CTX, NULL, SMALL_MAX + 1));
}

static void test_nested_realloc(void **state)
{
	void *p;

	pad();
	p = FN(malloc_fn, PHT_TFN_OBJ)(CTX, 300);
	inside = ask_raw_realloc;
	p = FN(realloc_fn, PHT_TFN_OBJ + 2)(CTX, p, 310);
	assert_int_equal(nallocs, 2);
	FN(free_fn, PHT_TFN_RAW + 3)(CTX, p);
	assert_int_equal(nfrees, 2);
	assert_int_equal(set_population(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(test_malloc_calls), BOTH(test_sizes),	    BOTH(test_unsampled),
		BOTH(test_failures),	 BOTH(test_nested_realloc),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
	return 0;
}
#endif
