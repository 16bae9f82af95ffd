// SPDX-License-Identifier: BSD-2-Clause
/* The entries of the trampoline page: every call, its result, and what is reported of it. */

#ifdef __x86_64__
#include "tramp_harness.h"

static void test_image(void **state)
{
	struct tramp_image_spec spec = {.flavour = flavour, .small_max = 512}, back;
	static u8 image[PHT_TRAMP_CODE_SIZE];
	const u32 flips[] = {0,
			     8,
			     PHT_TRAMP_LOG2,
			     PHT_ENTRY(0),
			     PHT_TRAMP_SWAP,
			     PHT_SITE_ALLOC(1) + 1,
			     PHT_SITE_FREE(3) + 10,
			     PHT_TRAMP_CODE_SIZE - 1};

	for (int i = 0; i < PHT_TFN_NR; i++)
		spec.orig[i] = 0x1000 * i;
	assert_int_equal(tramp_image_build(&spec, image), 0);
	for (int i = 0; i < PHT_TFN_NR; i++)
		assert_memory_equal(image + PHT_ENTRY(i), "\xf3\x0f\x1e\xfa", 4);
	assert_memory_equal(image + PHT_SITE_ALLOC(PHT_SITE_NOP1), "\x90\xc3", 2);
	assert_memory_equal(image + PHT_SITE_FREE(PHT_SITE_NOP1), "\x90\xc3", 2);
	assert_memory_equal(image + PHT_SITE_ALLOC(PHT_SITE_NOP10),
			    "\x66\x2e\x0f\x1f\x84\0\0\0\0\0\xc3", 11);
	assert_memory_equal(image + PHT_SITE_FREE(PHT_SITE_NOP10),
			    "\x66\x2e\x0f\x1f\x84\0\0\0\0\0\xc3", 11);
	assert_true(tramp_image_parse(image, &back));
	assert_memory_equal(&back, &spec, sizeof(spec));
	for (size_t i = 0; i < ARRAY_SIZE(flips); i++) {
		image[flips[i]] ^= 1;
		assert_false(tramp_image_parse(image, &back));
		image[flips[i]] ^= 1;
	}
	/* Under a living tracer, or before the kernel is done with a dead one. */
	image[PHT_SITE_ALLOC(PHT_SITE_NOP1)] = 0xcc;
	memcpy(image + PHT_SITE_FREE(PHT_SITE_NOP5), "\xe8\1\2\3\4", 5);
	assert_true(tramp_image_parse(image, &back));
	spec.big_mode = 7;
	assert_int_equal(tramp_image_build(&spec, image), -22);
}

static void test_disabled_passes_through(void **state)
{
	map_page(512, PHT_TRAMP_BIG_RAW);
	for (int d = 0; d < PHT_TFN_TABLES; d += 4) {
		char *p = FN(malloc_fn, d)(CTX, 100);

		assert_non_null(p);
		p = FN(realloc_fn, d + 2)(CTX, p, 100000);
		memset(p, 1, 100000);
		FN(free_fn, d + 3)(CTX, p);
		p = FN(calloc_fn, d + 1)(CTX, 10, 20);
		assert_non_null(p);
		FN(free_fn, d + 3)(CTX, p);
		FN(free_fn, d + 3)(CTX, NULL);
	}
	assert_int_equal(calls, 3 * 6);
	assert_int_equal(nallocs + nfrees, 0);
	assert_int_equal(CTL->samples + CTL->frees, 0);
	assert_true(CTL->idle > 0);
	assert_int_equal(set_population(), 0);
	/* A thread looks up often enough to notice that it is enabled. */
	assert_in_range(gap(), 0, PHT_GAP_IDLE);
}

static void test_every_call(void **state)
{
	void *p, *q;

	map_page(512, PHT_TRAMP_BIG_RAW);
	enable(1);
	for (int d = 0; d < PHT_TFN_TABLES; d += 4) {
		nallocs = nfrees = 0;
		p = FN(malloc_fn, d)(CTX, 48);
		q = FN(calloc_fn, d + 1)(CTX, 6, 7);
		assert_int_equal(nallocs, 2);
		assert_int_equal(allocs[0].ptr, (uintptr_t)p);
		assert_int_equal(allocs[0].size, 48);
		assert_int_equal(allocs[0].r, 1);
		assert_int_equal(allocs[0].flags, d / 4);
		assert_int_equal(allocs[1].ptr, (uintptr_t)q);
		assert_int_equal(allocs[1].size, 42);
		FN(free_fn, d + 3)(CTX, NULL);
		assert_int_equal(nfrees, 0);
		FN(free_fn, d + 3)(CTX, p);
		FN(free_fn, d + 3)(CTX, q);
		assert_int_equal(nfrees, 2);
		assert_int_equal(frees[0].ptr, (uintptr_t)p);
		assert_int_equal(frees[1].ptr, (uintptr_t)q);
	}
	/* An empty request reaches the raw domain from pymalloc: once, there. */
	nallocs = 0;
	free(FN(malloc_fn, PHT_TFN_OBJ)(CTX, 0));
	assert_int_equal(nallocs, 0);
	free(FN(malloc_fn, PHT_TFN_RAW)(CTX, 0));
	assert_int_equal(nallocs, 1);
	assert_int_equal(set_population(), 0);
}

static void __attribute__((noinline)) call_once(void)
{
	free(FN(malloc_fn, PHT_TFN_OBJ)(CTX, 300));
	__asm__ volatile("" ::: "memory");
}

static void test_return_address_at_site(void **state)
{
	map_page(512, PHT_TRAMP_BIG_RAW);
	enable(ALWAYS);
	call_once();
	assert_int_equal(nallocs, 1);
	assert_in_range(allocs[0].ret, (uintptr_t)call_once, (uintptr_t)call_once + 128);
	/* Counted after the call: the frame is gone again. */
	map_page(0, PHT_TRAMP_BIG_COUNT);
	enable(ALWAYS);
	call_once();
	assert_int_equal(nallocs, 1);
	assert_in_range(allocs[0].ret, (uintptr_t)call_once, (uintptr_t)call_once + 128);
}

static void realloc_in(int fn)
{
	void *a = (void *)0x200000000100, *b = (void *)0x200000000200;

	map_page(512, PHT_TRAMP_BIG_RAW);
	enable(ALWAYS);
	give = a;
	assert_ptr_equal(FN(realloc_fn, fn)(CTX, NULL, 300), a);
	assert_int_equal(nallocs, 1);
	assert_int_equal(nfrees, 0);
	give = b;
	assert_ptr_equal(FN(realloc_fn, fn)(CTX, a, 700), b);
	assert_int_equal(nfrees, 1);
	assert_int_equal(frees[0].ptr, (uintptr_t)a);
	assert_int_equal(frees[0].flags, PHT_TS_REALLOC);
	assert_int_equal(nallocs, 2);
	assert_int_equal(allocs[1].ptr, (uintptr_t)b);
	assert_int_equal(allocs[1].size, 700);
	fail = true;
	assert_null(FN(realloc_fn, fn)(CTX, b, 900));
	assert_int_equal(nfrees, 2);
	assert_int_equal(nallocs, 3);
	assert_int_equal(allocs[2].ptr, (uintptr_t)b);
	assert_int_equal(allocs[2].flags, (fn / 4) | PHT_TS_UNDO);
	assert_int_equal(set_population(), 1);
	/* Not sampled, and failing: nothing to undo. */
	assert_null(FN(realloc_fn, fn)(CTX, a, 900));
	assert_int_equal(nallocs, 3);
	fail = false;
	FN(free_fn, fn + 1)(CTX, b);
	assert_int_equal(nfrees, 3);
	assert_int_equal(set_population(), 0);
}

static void test_realloc_calls(void **state)
{
	realloc_in(PHT_TFN_RAW + 2);
	realloc_in(PHT_TFN_MEM + 2);
	realloc_in(PHT_TFN_OBJ + 2);
}

static void raw_inside(void)
{
	inside = NULL;
	give = NULL;
	free(FN(malloc_fn, PHT_TFN_RAW)(CTX, 300));
	free(FN(calloc_fn, PHT_TFN_RAW + 1)(CTX, 30, 10));
	free(FN(realloc_fn, PHT_TFN_RAW + 2)(CTX, NULL, 300));
	free(((void *(*)(size_t))(void *)(page + PHT_ENTRY(PHT_TFN_MALLOC)))(300));
}

static void test_nesting(void **state)
{
	void *p;

	map_page(512, PHT_TRAMP_BIG_RAW);
	enable(ALWAYS);
	/* What realloc of mem or obj does below is its own business. */
	inside = raw_inside;
	p = FN(realloc_fn, PHT_TFN_OBJ + 2)(CTX, NULL, 300);
	assert_int_equal(calls, 5);
	assert_int_equal(nallocs, 1);
	assert_int_equal(allocs[0].ptr, (uintptr_t)p);
	free(p);
	/* Big requests go down and are counted there. */
	nallocs = 0;
	free(FN(malloc_fn, PHT_TFN_OBJ)(CTX, 513));
	free(FN(calloc_fn, PHT_TFN_MEM + 1)(CTX, 513, 1));
	assert_int_equal(nallocs, 0);
	free(FN(malloc_fn, PHT_TFN_OBJ)(CTX, 512));
	assert_int_equal(nallocs, 1);

	/* Unknown hooks: the outermost call counts. */
	map_page(0, PHT_TRAMP_BIG_COUNT);
	enable(ALWAYS);
	inside = raw_inside;
	free(FN(malloc_fn, PHT_TFN_OBJ)(CTX, 400));
	inside = raw_inside;
	free(FN(calloc_fn, PHT_TFN_MEM + 1)(CTX, 20, 20));
	assert_int_equal(nallocs, 2);
	assert_int_equal(allocs[0].size, 400);
	/* And the raw domain counts again by itself afterwards. */
	free(FN(malloc_fn, PHT_TFN_RAW)(CTX, 300));
	assert_int_equal(nallocs, 3);
}

static jmp_buf out;

static void jump_out(void)
{
	inside = NULL;
	longjmp(out, 1);
}

static void __attribute__((noinline)) jumping_call(void)
{
	char room[4096];

	memset(room, 0, sizeof(room));
	__asm__ volatile("" ::"r"(room) : "memory");
	inside = jump_out;
	FN(realloc_fn, PHT_TFN_OBJ + 2)(CTX, NULL, 300);
}

static void test_longjmp_out(void **state)
{
	map_page(512, PHT_TRAMP_BIG_RAW);
	enable(ALWAYS);
	if (!setjmp(out))
		jumping_call();
	free(FN(malloc_fn, PHT_TFN_RAW)(CTX, 300));
	assert_int_equal(nallocs, 1);
}

static void test_odd_sizes(void **state)
{
	void *p = (void *)0x200000000300;

	map_page(512, PHT_TRAMP_BIG_COUNT);
	enable(ALWAYS);
	assert_null(FN(calloc_fn, PHT_TFN_RAW + 1)(CTX, 1ul << 40, 1ul << 40));
	assert_null(FN(calloc_fn, PHT_TFN_OBJ + 1)(CTX, 1ul << 40, 1ul << 40));
	fail = true;
	assert_null(FN(malloc_fn, PHT_TFN_RAW)(CTX, 300));
	assert_int_equal(CTL->failed, 1);
	assert_null(FN(malloc_fn, PHT_TFN_OBJ)(CTX, SIZE_MAX));
	assert_null(((void *(*)(size_t))(void *)(page + PHT_ENTRY(PHT_TFN_MALLOC)))(SIZE_MAX - 5));
	assert_int_equal(nallocs, 0);
	fail = false;
	/* None of that made the thread blind. */
	give = p;
	FN(malloc_fn, PHT_TFN_RAW)(CTX, 300);
	assert_int_equal(nallocs, 1);
}

static void test_libc_family(void **state)
{
	void *(*mallocf)(size_t) = (void *)(page + PHT_ENTRY(PHT_TFN_MALLOC));
	void *p = NULL;

	map_page(512, PHT_TRAMP_BIG_RAW);
	enable(ALWAYS);
	mallocf = (void *)(page + PHT_ENTRY(PHT_TFN_MALLOC));
	void *(*callocf)(size_t, size_t) = (void *)(page + PHT_ENTRY(PHT_TFN_CALLOC));
	void *(*reallocf)(void *, size_t) = (void *)(page + PHT_ENTRY(PHT_TFN_REALLOC));
	void *(*arrayf)(void *, size_t, size_t) = (void *)(page + PHT_ENTRY(PHT_TFN_REALLOCARRAY));
	void (*freef)(void *) = (void *)(page + PHT_ENTRY(PHT_TFN_FREE));
	void *(*alignedf)(size_t, size_t) = (void *)(page + PHT_ENTRY(PHT_TFN_ALIGNED_ALLOC));
	void *(*memalignf)(size_t, size_t) = (void *)(page + PHT_ENTRY(PHT_TFN_MEMALIGN));
	int (*posixf)(void **, size_t, size_t) = (void *)(page + PHT_ENTRY(PHT_TFN_POSIX_MEMALIGN));
	void *(*vallocf)(size_t) = (void *)(page + PHT_ENTRY(PHT_TFN_VALLOC));
	void *(*pvallocf)(size_t) = (void *)(page + PHT_ENTRY(PHT_TFN_PVALLOC));

	freef(mallocf(300));
	freef(callocf(20, 20));
	freef(alignedf(64, 500));
	freef(memalignf(64, 600));
	assert_int_equal(posixf(&p, 64, 700), 0);
	freef(p);
	freef(vallocf(800));
	freef(pvallocf(900));
	assert_int_equal(nallocs, 7);
	assert_int_equal(nfrees, 7);
	for (unsigned i = 0; i < 7; i++) {
		assert_int_equal(allocs[i].ptr, frees[i].ptr);
		assert_int_equal(allocs[i].flags, PHT_TS_LIBC);
		assert_int_equal(allocs[i].size, 300 + 100 * i);
	}
	nallocs = nfrees = 0;
	p = reallocf(NULL, 300);
	p = arrayf(p, 40, 10);
	assert_int_equal(nallocs, 2);
	assert_int_equal(nfrees, 1);
	assert_int_equal(allocs[1].size, 400);
	assert_null(arrayf(p, 1ul << 40, 1ul << 40));
	assert_int_equal(nallocs, 3);
	assert_int_equal(allocs[2].flags, PHT_TS_LIBC | PHT_TS_UNDO);
	assert_null(reallocf(p, 0));
	assert_int_equal(nallocs, 3);
	assert_int_equal(nfrees, 3);
	assert_int_equal(set_population(), 0);
	fail = true;
	p = (void *)1;
	assert_int_equal(posixf(&p, 64, 300), 12);
	assert_ptr_equal(p, (void *)1);
	assert_int_equal(nallocs, 3);
}

typedef void *(*mmap_fn)(void *, size_t, int, int, int, off_t);
typedef int (*munmap_fn)(void *, size_t);
typedef void *(*mremap_fn)(void *, size_t, size_t, int, ...);

#define MAP_A ((void *)0x200000001000)
#define MAP_B ((void *)0x200000009000)

static __attribute__((noinline)) void *call_mmap(size_t len)
{
	return FN(mmap_fn, PHT_TFN_MMAP)((void *)1, len, 3, 0x21, -1, 0x77000);
}

static void map_all(void)
{
	give = MAP_A;
	assert_ptr_equal(call_mmap(4096), MAP_A);
	give = MAP_B;
	assert_ptr_equal(FN(mremap_fn, PHT_TFN_MREMAP)(MAP_A, 4096, 8192, 3, 0x5000ul), MAP_B);
	fail = true;
	assert_ptr_equal(FN(mremap_fn, PHT_TFN_MREMAP)(MAP_B, 4096, 12288, 3, 0x5000ul),
			 MAP_FAILED);
	assert_ptr_equal(call_mmap(4096), MAP_FAILED);
	fail = false;
	assert_int_equal(FN(munmap_fn, PHT_TFN_MUNMAP)(MAP_B, 4096), 0);
	assert_int_equal(FN(munmap_fn, PHT_TFN_MUNMAP)((void *)8, 4096), -1);
}

static void mmap_inside(void)
{
	inside = NULL;
	give = MAP_A;
	assert_ptr_equal(call_mmap(4096), MAP_A);
	give = NULL;
}

/* Each call passes a site, whatever R is; all of them reach the original. */
static void test_mappings(void **state)
{
	map_page(512, PHT_TRAMP_BIG_RAW);
	map_all();
	assert_int_equal(calls, 6);
	assert_int_equal(nallocs + nfrees, 0);

	enable(1ull << 40);
	map_all();
	assert_int_equal(calls, 12);
	assert_int_equal(nallocs, 3);
	assert_int_equal(allocs[0].ptr, (uintptr_t)MAP_A);
	assert_int_equal(allocs[0].flags, PHT_TS_MMAP);
	assert_int_equal(allocs[0].size, 4096);
	assert_int_equal(allocs[0].r, 0);
	assert_int_equal(allocs[0].map_flags, 0x21);
	assert_in_range(allocs[0].ret, (uintptr_t)call_mmap, (uintptr_t)call_mmap + 256);
	assert_int_equal(allocs[1].ptr, (uintptr_t)MAP_B);
	assert_int_equal(allocs[1].flags, PHT_TS_MMAP);
	assert_int_equal(allocs[1].size, 8192);
	assert_int_equal(allocs[1].map_flags, 0);
	assert_int_equal(allocs[2].ptr, (uintptr_t)MAP_B);
	assert_int_equal(allocs[2].flags, PHT_TS_MMAP | PHT_TS_UNDO);
	assert_int_equal(nfrees, 4);
	assert_int_equal(frees[0].ptr, (uintptr_t)MAP_A);
	assert_int_equal(frees[0].flags, PHT_TS_MMAP | PHT_TS_REALLOC);
	assert_int_equal(frees[1].ptr, (uintptr_t)MAP_B);
	assert_int_equal(frees[2].ptr, (uintptr_t)MAP_B);
	assert_int_equal(frees[2].flags, PHT_TS_MMAP);
	assert_int_equal(frees[2].size, 4096);
	assert_int_equal(set_population() + filter_population(), 0);

	/* What an allocator maps within a call that is counted belongs to it. */
	nallocs = 0;
	inside = mmap_inside;
	free(FN(realloc_fn, PHT_TFN_OBJ + 2)(CTX, NULL, 300));
	assert_int_equal(nallocs, 0);
	give = MAP_A;
	call_mmap(4096);
	assert_int_equal(nallocs, 1);
}

static void test_site_choice(void **state)
{
	map_page(512, PHT_TRAMP_BIG_RAW);
	enable(ALWAYS);
	for (u32 site = PHT_SITE_NONE; site <= PHT_SITE_NOP10 + 1; site++) {
		/* No probe of ours is there: as if the tracer were gone. */
		if (site == PHT_SITE_NOP1 || site == PHT_SITE_NOP10)
			continue;
		CTL->site = site;
		FN(free_fn, PHT_TFN_RAW + 3)(CTX, FN(malloc_fn, PHT_TFN_RAW)(CTX, 300));
	}
	assert_int_equal(nallocs, 1);
	assert_int_equal(nfrees, 1);
	assert_int_equal(CTL->samples, 3);
	assert_int_equal(CTL->frees, 3);
}

static void test_disabled_again(void **state)
{
	void *p;

	map_page(512, PHT_TRAMP_BIG_RAW);
	enable(ALWAYS);
	p = FN(malloc_fn, PHT_TFN_OBJ)(CTX, 300);
	assert_int_equal(nallocs, 1);
	CTL->gen = 0;
	FN(free_fn, PHT_TFN_OBJ + 3)(CTX, p);
	for (int i = 0; i < 1000; i++)
		free(FN(malloc_fn, PHT_TFN_OBJ)(CTX, 300));
	assert_int_equal(nallocs, 1);
	assert_int_equal(nfrees, 0);
	/* As in a child whose data were wiped. */
	memset(page + PHT_TRAMP_CTL, 0, PHT_TRAMP_SIZE - PHT_TRAMP_CTL);
	for (int i = 0; i < 1000; i++)
		FN(free_fn, PHT_TFN_OBJ + 3)(CTX, FN(malloc_fn, PHT_TFN_OBJ)(CTX, 300));
	assert_int_equal(nallocs, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(test_image),	  BOTH(test_disabled_passes_through),
		BOTH(test_every_call),	  BOTH(test_return_address_at_site),
		BOTH(test_realloc_calls), BOTH(test_nesting),
		BOTH(test_longjmp_out),	  BOTH(test_odd_sizes),
		BOTH(test_libc_family),	  BOTH(test_mappings),
		BOTH(test_site_choice),	  BOTH(test_disabled_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
	return 0;
}
#endif
