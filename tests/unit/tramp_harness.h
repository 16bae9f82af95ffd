/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The trampoline page run in the test process itself: its originals are fake
 * allocators, its nop5 sites are rewritten to a call, as the kernel would.
 */
#ifndef PHT_TRAMP_HARNESS_H
#define PHT_TRAMP_HARNESS_H

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "tramp_image.h"

typedef void *(*malloc_fn)(void *ctx, size_t n);
typedef void *(*calloc_fn)(void *ctx, size_t n, size_t m);
typedef void *(*realloc_fn)(void *ctx, void *p, size_t n);
typedef void (*free_fn)(void *ctx, void *p);

static u8 *page;
static enum tramp_flavour flavour;

#define CTL	     ((volatile struct pht_tramp_ctl *)(page + PHT_TRAMP_CTL))
#define FN(type, fn) ((type)(void *)(page + PHT_ENTRY(fn)))
#define CTX	     ((void *)0x1234)

/* ---- what the sites saw ---- */

struct seen {
	u64 ptr, flags, size, r, ret;
	u64 map_flags; /* r8 */
};

static struct seen allocs[64], frees[64];
static unsigned nallocs, nfrees;
static bool record = true;

__attribute__((used)) static void on_alloc(u64 ptr, u64 flags, u64 size, u64 r, u64 map_flags,
					   const u64 *rsp)
{
	if (record && nallocs < ARRAY_SIZE(allocs))
		allocs[nallocs++] = (struct seen){ptr, flags, size, r, *rsp, map_flags};
}

__attribute__((used)) static void on_free(u64 ptr, u64 flags, u64 size)
{
	if (record && nfrees < ARRAY_SIZE(frees))
		frees[nfrees++] = (struct seen){.ptr = ptr, .flags = flags, .size = size};
}

/* As a uprobe: every register survives. */
#define SAVING(name, callee)                                                                       \
	__asm__(".text\n" #name ":\n"                                                              \
		"push %rbp\n mov %rsp, %rbp\n"                                                     \
		"push %rax\n push %rcx\n push %rdx\n push %rsi\n push %rdi\n"                      \
		"push %r8\n push %r9\n push %r10\n push %r11\n push %r11\n"                        \
		"lea 16(%rbp), %r9\n and $-16, %rsp\n call " #callee "\n"                          \
		"lea -80(%rbp), %rsp\n"                                                            \
		"pop %r11\n pop %r11\n pop %r10\n pop %r9\n pop %r8\n"                             \
		"pop %rdi\n pop %rsi\n pop %rdx\n pop %rcx\n pop %rax\n"                           \
		"pop %rbp\n ret\n")
void alloc_probe(void);
void free_probe(void);
SAVING(alloc_probe, on_alloc);
SAVING(free_probe, on_free);

static inline void hook_site(u32 site, u32 thunk, void (*target)(void))
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
static size_t asked;		      /* bytes, of CPython's originals */
static __thread void (*inside)(void); /* run within the original */

static inline void enter(void *ctx)
{
	/* A misaligned stack breaks SSE code in real allocators. */
	if ((uintptr_t)__builtin_frame_address(0) % 16 || (want_ctx && ctx != CTX))
		abort();
	calls++;
	if (inside)
		inside();
}

static inline void *hand_out(size_t n)
{
	void *p = give;

	if (fail)
		return NULL;
	give = NULL;
	return p ? p : malloc(n);
}

static inline bool is_fake(const void *p)
{
	return ((uintptr_t)p >> 44) == 2;
}

static __attribute__((noinline, unused)) void *o_malloc(void *ctx, size_t n)
{
	enter(ctx);
	asked = n;
	return hand_out(n);
}

static __attribute__((noinline, unused)) void *o_calloc(void *ctx, size_t n, size_t m)
{
	size_t bytes;

	enter(ctx);
	asked = n * m;
	return __builtin_mul_overflow(n, m, &bytes) ? NULL : hand_out(bytes);
}

static __attribute__((noinline, unused)) void *o_realloc(void *ctx, void *p, size_t n)
{
	enter(ctx);
	asked = n;
	if (fail)
		return NULL;
	if (!give && !is_fake(p))
		return realloc(p, n ? n : 1);
	return hand_out(n);
}

static __attribute__((noinline, unused)) void o_free(void *ctx, void *p)
{
	enter(ctx);
	if (!is_fake(p))
		free(p);
}

static inline void *l_malloc(size_t n)
{
	enter(CTX);
	return hand_out(n);
}

static inline void *l_calloc(size_t n, size_t m)
{
	return o_calloc(CTX, n, m);
}

static inline void *l_realloc(void *p, size_t n)
{
	enter(CTX);
	if (!n && p) {
		free(p);
		return NULL;
	}
	return fail ? NULL : realloc(p, n);
}

static inline void l_free(void *p)
{
	o_free(CTX, p);
}

static inline void *l_aligned(size_t align, size_t n)
{
	assert_int_equal(align, 64);
	return l_malloc(n);
}

static inline int l_posix_memalign(void **out, size_t align, size_t n)
{
	assert_int_equal(align, 64);
	if (fail)
		return 12;
	*out = l_malloc(n);
	return 0;
}

static inline void *l_reallocarray(void *p, size_t n, size_t m)
{
	size_t bytes;

	enter(CTX);
	return __builtin_mul_overflow(n, m, &bytes) ? NULL : realloc(p, bytes);
}

static inline void *l_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	enter(CTX);
	assert_int_equal((uintptr_t)addr, 1);
	assert_int_equal(prot, 3);
	assert_int_equal(flags, 0x21);
	assert_int_equal(fd, -1);
	assert_int_equal(off, 0x77000);
	return fail ? MAP_FAILED : hand_out(len);
}

static inline int l_munmap(void *addr, size_t len)
{
	enter(CTX);
	assert_int_equal(len, 4096);
	return is_fake(addr) ? 0 : -1;
}

static inline void *l_mremap(void *addr, size_t from, size_t to, int flags, void *there)
{
	enter(CTX);
	assert_int_equal(from, 4096);
	assert_int_equal(flags, 3);
	assert_int_equal((uintptr_t)there, 0x5000);
	assert_true(is_fake(addr));
	return fail ? MAP_FAILED : hand_out(to);
}

/* ---- set-up ---- */

static inline u8 *thread_words(void)
{
	u64 fs;

	__asm__("mov %%fs:0, %0" : "=r"(fs));
	if (flavour == TRAMP_TCB)
		return (u8 *)fs + PHT_TCB_OFFSET;
	return page + PHT_TRAMP_SLOTS + ((fs >> 8) & 0x3ff0);
}

static inline void forget_thread(void)
{
	memset(thread_words(), 0, PHT_THR_SIZE);
}

static inline s64 gap(void)
{
	s64 v;

	memcpy(&v, thread_words() + PHT_THR_COUNT, sizeof(v));
	return v;
}

static u64 *home; /* where the tables are; NULL = nowhere */

static inline void map_page(u64 small_max, u32 big_mode)
{
	struct tramp_image_spec spec = {
		.flavour = flavour,
		.small_max = small_max,
		.big_mode = big_mode,
		.orig = {[PHT_TFN_MALLOC] = (uintptr_t)l_malloc,
			 [PHT_TFN_CALLOC] = (uintptr_t)l_calloc,
			 [PHT_TFN_REALLOC] = (uintptr_t)l_realloc,
			 [PHT_TFN_FREE] = (uintptr_t)l_free,
			 [PHT_TFN_ALIGNED_ALLOC] = (uintptr_t)l_aligned,
			 [PHT_TFN_MEMALIGN] = (uintptr_t)l_aligned,
			 [PHT_TFN_POSIX_MEMALIGN] = (uintptr_t)l_posix_memalign,
			 [PHT_TFN_REALLOCARRAY] = (uintptr_t)l_reallocarray,
			 [PHT_TFN_VALLOC] = (uintptr_t)l_malloc,
			 [PHT_TFN_PVALLOC] = (uintptr_t)l_malloc,
			 [PHT_TFN_MMAP] = (uintptr_t)l_mmap,
			 [PHT_TFN_MUNMAP] = (uintptr_t)l_munmap,
			 [PHT_TFN_MREMAP] = (uintptr_t)l_mremap},
	};

	for (int d = 0; d < PHT_TFN_TABLES; d += 4) {
		spec.orig[d] = (uintptr_t)o_malloc;
		spec.orig[d + 1] = (uintptr_t)o_calloc;
		spec.orig[d + 2] = (uintptr_t)o_realloc;
		spec.orig[d + 3] = (uintptr_t)o_free;
	}
	for (int fn = 0; home && fn < PHT_TFN_TABLES; fn++)
		spec.home[fn] = (uintptr_t)&home[fn];
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

static inline void set_interval(u32 gen, u64 r)
{
	struct pht_tramp_params par = tramp_params_make(gen, r);

	memcpy((void *)&CTL->params[gen % PHT_TRAMP_NPARAMS], &par, sizeof(par));
	CTL->gen = gen;
}

static inline void enable(u64 r)
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

static inline u64 set_population(void)
{
	const u64 *set = (const u64 *)(page + PHT_TRAMP_SET);
	u64 n = 0;

	for (u32 i = 0; i < (1u << PHT_FILTER_BITS); i++)
		n += set[i] != 0;
	return n;
}

static inline u64 filter_population(void)
{
	u64 n = 0;

	for (u32 i = 0; i < (1u << PHT_FILTER_BITS); i++)
		n += page[PHT_TRAMP_FILTER + i];
	return n;
}

static inline int tcb_flavour(void **state)
{
	flavour = TRAMP_TCB;
	return 0;
}

static inline int slot_flavour(void **state)
{
	flavour = TRAMP_SLOT;
	return 0;
}

#define BOTH(t)                                                                                    \
	{#t " (tcb)", t, tcb_flavour, NULL, NULL},                                                 \
	{                                                                                          \
#t " (slot)", t, slot_flavour, NULL, NULL                                          \
	}

#endif
