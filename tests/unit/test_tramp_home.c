// SPDX-License-Identifier: BSD-2-Clause
/* The page on its own, without a tracer: it puts CPython's pointers back. */
#ifdef __x86_64__
#include "tramp_harness.h"

/* CPython's tables: all ours, but for one pointer that somebody replaced. */
static u64 tables[PHT_TFN_TABLES];

static void swap_tables(void)
{
	for (int fn = 0; fn < PHT_TFN_TABLES; fn++)
		tables[fn] = (uintptr_t)(page + PHT_ENTRY(fn));
	tables[5] = 0x5555;
}

static bool tables_are_ours(void)
{
	for (int fn = 0; fn < PHT_TFN_TABLES; fn++)
		if (fn != 5 && tables[fn] != (uintptr_t)(page + PHT_ENTRY(fn)))
			return false;
	return true;
}

static void assert_tables_restored(void)
{
	const struct pht_tramp_header *h = (const void *)page;

	for (int fn = 0; fn < PHT_TFN_TABLES; fn++)
		assert_int_equal(tables[fn], fn == 5 ? 0x5555 : h->orig[fn]);
}

/* The probe went with the tracer: the first sample finds out, whatever the site. */
static void test_abandoned(void **state)
{
	static const u32 sites[] = {PHT_SITE_NOP1, PHT_SITE_NOP10};

	for (size_t i = 0; i < ARRAY_SIZE(sites); i++) {
		home = tables;
		map_page(512, PHT_TRAMP_BIG_RAW);
		swap_tables();
		enable(ALWAYS);
		CTL->state = PHT_STATE_DIRTY;
		free(FN(malloc_fn, PHT_TFN_OBJ)(CTX, 300));
		assert_int_equal(nallocs, 1);
		assert_true(tables_are_ours());
		CTL->site = sites[i];
		/* Called by a library that may outlive CPython: off, but no look at its tables. */
		free(FN(void *(*)(size_t), PHT_TFN_MALLOC)(300));
		assert_int_equal(CTL->gen, 0);
		assert_true(tables_are_ours());
		set_interval(2, ALWAYS);
		forget_thread();
		free(FN(malloc_fn, PHT_TFN_OBJ)(CTX, 300));
		assert_int_equal(CTL->gen, 0);
		assert_int_equal(CTL->expired, 2);
		assert_int_equal(CTL->samples, 1);
		assert_tables_restored();
	}
	home = NULL;
}

/* A child of fork: its data read as zeros, and the tables are the parent's. */
static void test_child_goes_home(void **state)
{
	home = tables;
	map_page(512, PHT_TRAMP_BIG_RAW);
	swap_tables();
	memset(page + PHT_TRAMP_CTL, 0, PHT_TRAMP_SIZE - PHT_TRAMP_CTL);
	forget_thread();
	free(FN(void *(*)(size_t), PHT_TFN_MALLOC)(300));
	assert_true(tables_are_ours());
	/* Disabled only: whoever did that restores what there is to restore. */
	CTL->state = PHT_STATE_WIPE;
	forget_thread();
	free(FN(malloc_fn, PHT_TFN_MEM)(CTX, 300));
	assert_true(tables_are_ours());
	CTL->state = 0;
	forget_thread();
	free(FN(malloc_fn, PHT_TFN_MEM)(CTX, 300));
	assert_tables_restored();
	assert_int_equal(nallocs, 0);
	home = NULL;
}

/* Where calls are counted when they return: below a hook, and by realloc. */
static void test_child_of_the_hooked(void **state)
{
	void *p;

	home = tables;
	map_page(0, PHT_TRAMP_BIG_COUNT);
	for (int i = 0; i < 2; i++) {
		swap_tables();
		memset(page + PHT_TRAMP_CTL, 0, PHT_TRAMP_SIZE - PHT_TRAMP_CTL);
		forget_thread();
		p = i ? FN(realloc_fn, PHT_TFN_OBJ + 2)(CTX, NULL, 300)
		      : FN(malloc_fn, PHT_TFN_MEM)(CTX, 300);
		assert_non_null(p);
		memset(p, 1, 300);
		free(p);
		assert_tables_restored();
	}
	assert_int_equal(nallocs, 0);
	home = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(test_abandoned),
		BOTH(test_child_goes_home),
		BOTH(test_child_of_the_hooked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
	return 0;
}
#endif
