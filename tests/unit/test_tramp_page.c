// SPDX-License-Identifier: BSD-2-Clause
/*
 * The trampoline page run in this very process: its originals are fake
 * allocators, its nop5 sites are rewritten to a call, as the kernel would.
 */
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <setjmp.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "tramp_image.h"

#ifdef __x86_64__

typedef void *(*malloc_fn)(void *ctx, size_t n);
typedef void *(*calloc_fn)(void *ctx, size_t n, size_t m);
typedef void *(*realloc_fn)(void *ctx, void *p, size_t n);
typedef void (*free_fn)(void *ctx, void *p);

static u8 *page;
static enum tramp_flavour flavour;

#define CTL ((volatile struct pht_tramp_ctl *)(page + PHT_TRAMP_CTL))
#define FN(type, fn) ((type)(void *)(page + PHT_ENTRY(fn)))
#define CTX ((void *)0x1234)

/* ---- what the sites saw ---- */

struct seen {
	u64 ptr, flags, size, r, ret;
};

static struct seen allocs[64], frees[64];
static unsigned nallocs, nfrees;
static bool record = true;

__attribute__((used)) static void on_alloc(u64 ptr, u64 flags, u64 size, u64 r, const u64 *rsp)
{
	if (record && nallocs < ARRAY_SIZE(allocs))
		allocs[nallocs++] = (struct seen){ ptr, flags, size, r, *rsp };
}

__attribute__((used)) static void on_free(u64 ptr, u64 flags)
{
	if (record && nfrees < ARRAY_SIZE(frees))
		frees[nfrees++] = (struct seen){ .ptr = ptr, .flags = flags };
}

/* As a uprobe: every register survives. */
#define SAVING(name, callee)                                                           \
	__asm__(".text\n" #name ":\n"                                                  \
		"push %rbp\n mov %rsp, %rbp\n"                                         \
		"push %rax\n push %rcx\n push %rdx\n push %rsi\n push %rdi\n"          \
		"push %r8\n push %r9\n push %r10\n push %r11\n push %r11\n"            \
		"lea 16(%rbp), %r8\n and $-16, %rsp\n call " #callee "\n"              \
		"lea -80(%rbp), %rsp\n"                                                \
		"pop %r11\n pop %r11\n pop %r10\n pop %r9\n pop %r8\n"                 \
		"pop %rdi\n pop %rsi\n pop %rdx\n pop %rcx\n pop %rax\n"               \
		"pop %rbp\n ret\n")
void alloc_probe(void);
void free_probe(void);
SAVING(alloc_probe, on_alloc);
SAVING(free_probe, on_free);

static void hook_site(u32 site, u32 thunk, void (*target)(void))
{
	u8 *at = page + site, *to = page + thunk;
	s32 rel = (s32)(thunk - site - 5);
	void *address = (void *)target;

	assert_memory_equal(at, "\x0f\x1f\x44\x00\x00\xc3", 6);
	at[0] = 0xe8;
	memcpy(at + 1, &rel, 4);
	memcpy(to, "\xff\x25\x00\x00\x00\x00", 6);
	memcpy(to + 6, &address, 8);
}

/* ---- fake allocators ---- */

static bool fail;
static bool want_ctx = true;
static void *give; /* next address to hand out, instead of a real one */
static unsigned calls;
static __thread void (*inside)(void); /* run within the original */

static void enter(void *ctx)
{
	/* A misaligned stack breaks SSE code in real allocators. */
	if ((uintptr_t)__builtin_frame_address(0) % 16 || (want_ctx && ctx != CTX))
		abort();
	calls++;
	if (inside)
		inside();
}

static void *hand_out(size_t n)
{
	void *p = give;

	if (fail)
		return NULL;
	give = NULL;
	return p ? p : malloc(n);
}

static bool is_fake(const void *p)
{
	return ((uintptr_t)p >> 44) == 2;
}

static __attribute__((noinline)) void *o_malloc(void *ctx, size_t n)
{
	enter(ctx);
	return hand_out(n);
}

static __attribute__((noinline)) void *o_calloc(void *ctx, size_t n, size_t m)
{
	size_t bytes;

	enter(ctx);
	return __builtin_mul_overflow(n, m, &bytes) ? NULL : hand_out(bytes);
}

static __attribute__((noinline)) void *o_realloc(void *ctx, void *p, size_t n)
{
	enter(ctx);
	if (fail)
		return NULL;
	if (!give && !is_fake(p))
		return realloc(p, n ? n : 1);
	return hand_out(n);
}

static __attribute__((noinline)) void o_free(void *ctx, void *p)
{
	enter(ctx);
	if (!is_fake(p))
		free(p);
}

static void *l_malloc(size_t n)
{
	enter(CTX);
	return hand_out(n);
}

static void *l_calloc(size_t n, size_t m)
{
	return o_calloc(CTX, n, m);
}

static void *l_realloc(void *p, size_t n)
{
	enter(CTX);
	if (!n && p) {
		free(p);
		return NULL;
	}
	return fail ? NULL : realloc(p, n);
}

static void l_free(void *p)
{
	o_free(CTX, p);
}

static void *l_aligned(size_t align, size_t n)
{
	assert_int_equal(align, 64);
	return l_malloc(n);
}

static int l_posix_memalign(void **out, size_t align, size_t n)
{
	assert_int_equal(align, 64);
	if (fail)
		return 12;
	*out = l_malloc(n);
	return 0;
}

static void *l_reallocarray(void *p, size_t n, size_t m)
{
	size_t bytes;

	enter(CTX);
	return __builtin_mul_overflow(n, m, &bytes) ? NULL : realloc(p, bytes);
}

/* ---- set-up ---- */

static u8 *thread_words(void)
{
	u64 fs;

	__asm__("mov %%fs:0, %0" : "=r"(fs));
	if (flavour == TRAMP_TCB)
		return (u8 *)fs + PHT_TCB_OFFSET;
	return page + PHT_TRAMP_SLOTS + ((fs >> 8) & 0x3ff0);
}

static void forget_thread(void)
{
	memset(thread_words(), 0, PHT_THR_SIZE);
}

static s64 gap(void)
{
	s64 v;

	memcpy(&v, thread_words() + PHT_THR_COUNT, sizeof(v));
	return v;
}

static void map_page(u64 small_max, u32 big_mode)
{
	struct tramp_image_spec spec = {
		.flavour = flavour,
		.small_max = small_max,
		.big_mode = big_mode,
		.orig = { [PHT_TFN_MALLOC] = (uintptr_t)l_malloc,
			  [PHT_TFN_CALLOC] = (uintptr_t)l_calloc,
			  [PHT_TFN_REALLOC] = (uintptr_t)l_realloc,
			  [PHT_TFN_FREE] = (uintptr_t)l_free,
			  [PHT_TFN_ALIGNED_ALLOC] = (uintptr_t)l_aligned,
			  [PHT_TFN_MEMALIGN] = (uintptr_t)l_aligned,
			  [PHT_TFN_POSIX_MEMALIGN] = (uintptr_t)l_posix_memalign,
			  [PHT_TFN_REALLOCARRAY] = (uintptr_t)l_reallocarray },
	};

	for (int d = 0; d < PHT_TFN_TABLES; d += 4) {
		spec.orig[d] = (uintptr_t)o_malloc;
		spec.orig[d + 1] = (uintptr_t)o_calloc;
		spec.orig[d + 2] = (uintptr_t)o_realloc;
		spec.orig[d + 3] = (uintptr_t)o_free;
	}
	if (page)
		munmap(page, PHT_TRAMP_SIZE);
	page = mmap(NULL, PHT_TRAMP_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	assert_ptr_not_equal(page, MAP_FAILED);
	assert_int_equal(tramp_image_build(&spec, page), 0);
	hook_site(PHT_SITE_ALLOC(PHT_SITE_NOP5), PHT_TRAMP_CODE_SIZE - 64, alloc_probe);
	hook_site(PHT_SITE_FREE(PHT_SITE_NOP5), PHT_TRAMP_CODE_SIZE - 32, free_probe);
	assert_int_equal(mprotect(page, PHT_TRAMP_CODE_SIZE, PROT_READ | PROT_EXEC), 0);
	CTL->rng = 42;
	CTL->budget = 1 << 30;
	nallocs = nfrees = calls = 0;
	fail = false;
	give = NULL;
	record = true;
	forget_thread();
}

static void set_interval(u32 gen, u64 r)
{
	struct pht_tramp_params par = tramp_params_make(gen, r);

	memcpy((void *)&CTL->params[gen % PHT_TRAMP_NPARAMS], &par, sizeof(par));
	CTL->gen = gen;
}

static void enable(u64 r)
{
	if (r <= 1) {
		CTL->flags = PHT_CTL_F_ALL;
		memset(page + PHT_TRAMP_FILTER, PHT_FILTER_ALL, 1 << PHT_FILTER_BITS);
	}
	CTL->site = PHT_SITE_NOP5;
	set_interval(1, r);
}

/* With R = 2 and more than 200 bytes, a call is as good as always taken. */
#define ALWAYS 2

static u64 set_population(void)
{
	const u64 *set = (const u64 *)(page + PHT_TRAMP_SET);
	u64 n = 0;

	for (u32 i = 0; i < (1u << PHT_FILTER_BITS); i++)
		n += set[i] != 0;
	return n;
}

static u64 filter_population(void)
{
	u64 n = 0;

	for (u32 i = 0; i < (1u << PHT_FILTER_BITS); i++)
		n += page[PHT_TRAMP_FILTER + i];
	return n;
}

static int tcb_flavour(void **state)
{
	flavour = TRAMP_TCB;
	return 0;
}

static int slot_flavour(void **state)
{
	flavour = TRAMP_SLOT;
	return 0;
}

/* ---- tests ---- */

static void test_image(void **state)
{
	struct tramp_image_spec spec = { .flavour = flavour, .small_max = 512 }, back;
	static u8 image[PHT_TRAMP_CODE_SIZE];
	const u32 flips[] = { 0, 8, PHT_TRAMP_LOG2, PHT_ENTRY(0), PHT_TRAMP_SWAP,
			      PHT_SITE_ALLOC(1), PHT_TRAMP_CODE_SIZE - 1 };

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
	const u64 sizes[] = { 1, 17, 100, 1000, 5000 };
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
			FN(free_fn, PHT_TFN_RAW + 3)(CTX,
						     FN(malloc_fn, PHT_TFN_RAW)(CTX, sizes[i]));
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
	int bin[BINS] = { 0 };
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

	freef(mallocf(300));
	freef(callocf(20, 20));
	freef(alignedf(64, 500));
	freef(memalignf(64, 600));
	assert_int_equal(posixf(&p, 64, 700), 0);
	freef(p);
	assert_int_equal(nallocs, 5);
	assert_int_equal(nfrees, 5);
	for (unsigned i = 0; i < 5; i++) {
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

static void test_site_choice(void **state)
{
	map_page(512, PHT_TRAMP_BIG_RAW);
	enable(ALWAYS);
	for (u32 site = PHT_SITE_NONE; site <= PHT_SITE_NOP10 + 1; site++) {
		CTL->site = site;
		FN(free_fn, PHT_TFN_RAW + 3)(CTX, FN(malloc_fn, PHT_TFN_RAW)(CTX, 300));
	}
	assert_int_equal(nallocs, 1);
	assert_int_equal(nfrees, 1);
	assert_int_equal(CTL->samples, 5);
	assert_int_equal(CTL->frees, 5);
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

enum { ROUNDS = 60000, HELD = 256 };

static void *churn(void *arg)
{
	void *held[HELD] = { 0 };
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

static void test_swap_offsets(void **state)
{
	/* The loop itself ends in rt_sigreturn; here only that it is where we say. */
	map_page(512, PHT_TRAMP_BIG_RAW);
	assert_memory_equal(page + PHT_TRAMP_SWAP, "\xf3\x0f\x1e\xfa", 4);
	assert_true(PHT_TRAMP_SWAP + 64 < PHT_TRAMP_SITES);
}

#define BOTH(t)                                                                        \
	{ #t " (tcb)", t, tcb_flavour, NULL, NULL }, { #t " (slot)", t, slot_flavour, NULL, NULL }

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(test_image),
		BOTH(test_disabled_passes_through),
		BOTH(test_every_call),
		BOTH(test_return_address_at_site),
		BOTH(test_sampled_blocks_only),
		BOTH(test_probability),
		BOTH(test_gap_distribution),
		BOTH(test_interval_change),
		BOTH(test_lease),
		BOTH(test_full_bucket),
		BOTH(test_realloc_calls),
		BOTH(test_nesting),
		BOTH(test_longjmp_out),
		BOTH(test_odd_sizes),
		BOTH(test_libc_family),
		BOTH(test_site_choice),
		BOTH(test_disabled_again),
		BOTH(test_threads),
		BOTH(test_swap_offsets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
	return 77;
}
#endif
