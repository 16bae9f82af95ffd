/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A scripted use of the malloc family whose outcome is counted by itself.
 * exact.py calls each op_*() from a line of its own; an op does its calls and
 * keeps some blocks.  The books are kept in static memory: nothing here
 * allocates but the calls under test.
 *
 * What a block counts for, as the report is to show it: the bytes asked for;
 * realloc of either kind is a free and an allocation by the caller of realloc,
 * whether or not the block moves; a call that fails changes nothing.
 *
 * Build: cc -O1 -g -fno-builtin -shared -fPIC -pthread exact.c -o exact.so
 */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_CALLS  100000
#define KEEP_EVERY 20
#define PAGE	   4096ul
#define HUGE_SIZE  ((size_t)PTRDIFF_MAX - 4096)

/* One line of the books; the order is that of OPS() in this file. */
struct account {
	uint64_t live_blocks, live_bytes;
	uint64_t allocated_blocks, allocated_bytes;
};

struct block {
	void *p;
	size_t size;
};

#define OPS(X)                                                                                     \
	X(malloc)                                                                                  \
	X(calloc)                                                                                  \
	X(realloc_source)                                                                          \
	X(realloc)                                                                                 \
	X(reallocarray)                                                                            \
	X(free_source)                                                                             \
	X(free)                                                                                    \
	X(posix_memalign)                                                                          \
	X(aligned_alloc)                                                                           \
	X(memalign)                                                                                \
	X(valloc)                                                                                  \
	X(pvalloc)                                                                                 \
	X(mmap)                                                                                    \
	X(munmap)                                                                                  \
	X(mremap)                                                                                  \
	X(realloc_null)                                                                            \
	X(realloc_zero)                                                                            \
	X(realloc_in_place)                                                                        \
	X(realloc_fails)                                                                           \
	X(free_null)                                                                               \
	X(calloc_overflow)                                                                         \
	X(fails)                                                                                   \
	X(mapped_by_malloc)                                                                        \
	X(realloc_mapped)                                                                          \
	X(inside_libc)                                                                             \
	X(many_blocks)                                                                             \
	X(thread_a)                                                                                \
	X(thread_b)                                                                                \
	X(free_threads)

enum op {
#define OP_ENUM(name) OP_##name,
	OPS(OP_ENUM)
#undef OP_ENUM
		OP_NR,
};

static struct account books[OP_NR];
static struct block shelf[OP_NR][MAX_CALLS];
static size_t calls;
static int armed;
/* A call that ought to fail and did not, or the reverse: the truth is void. */
static int surprises;

void exact_arm(unsigned long n)
{
	calls = n > MAX_CALLS ? MAX_CALLS : n;
	armed = 1;
}

int exact_surprises(void)
{
	return surprises;
}

void exact_account(int op, uint64_t out[4])
{
	if (op >= 0 && op < OP_NR)
		memcpy(out, &books[op], sizeof(books[op]));
}

const char *exact_name(int op)
{
	static const char *const names[] = {
#define OP_NAME(name) #name,
		OPS(OP_NAME)
#undef OP_NAME
	};

	return op >= 0 && op < OP_NR ? names[op] : NULL;
}

static void expect(int ok)
{
	if (!ok)
		surprises++;
}

static void took(enum op op, size_t i, void *p, size_t size)
{
	struct account *a = &books[op];

	expect(p != NULL && p != MAP_FAILED);
	shelf[op][i] = (struct block){p, size};
	a->live_blocks++;
	a->live_bytes += size;
	a->allocated_blocks++;
	a->allocated_bytes += size;
}

/* The block leaves op's live set; what becomes of it is the caller's affair. */
static void *gave(enum op op, size_t i)
{
	struct block *b = &shelf[op][i];
	void *p = b->p;

	books[op].live_blocks--;
	books[op].live_bytes -= b->size;
	b->p = NULL;
	return p;
}

/* Sizes on both sides of 512 and of glibc's tcache limit, never 0. */
static size_t size_of(size_t i)
{
	return 1 + i * 7919 % 2503;
}

static int kept(size_t i)
{
	return i % KEEP_EVERY == 0;
}

static void drop(enum op op, size_t i)
{
	if (!kept(i))
		free(gave(op, i));
}

#define ALLOCATING_OP(name, size, call)                                                            \
	void op_##name(void)                                                                       \
	{                                                                                          \
		if (!armed)                                                                        \
			return;                                                                    \
		for (size_t i = 0; i < calls; i++) {                                               \
			const size_t n = (size);                                                   \
			took(OP_##name, i, (call), n);                                             \
			drop(OP_##name, i);                                                        \
		}                                                                                  \
	}

static void *by_posix_memalign(size_t alignment, size_t n)
{
	void *p = NULL;

	return posix_memalign(&p, alignment, n) ? NULL : p;
}

ALLOCATING_OP(malloc, size_of(i), malloc(n))
ALLOCATING_OP(calloc, 8 * size_of(i), calloc(size_of(i), 8))
ALLOCATING_OP(posix_memalign, size_of(i), by_posix_memalign(64, n))
ALLOCATING_OP(aligned_alloc, 64 * (1 + i % 20), aligned_alloc(64, n))
ALLOCATING_OP(memalign, size_of(i), memalign(128, n))
ALLOCATING_OP(valloc, size_of(i), valloc(n))
ALLOCATING_OP(pvalloc, PAGE *(1 + i % 2), pvalloc(n))
ALLOCATING_OP(realloc_null, size_of(i), realloc(NULL, n))

static void fill(enum op op, size_t n, size_t size)
{
	for (size_t i = 0; i < n; i++)
		took(op, i, malloc(size ? size : size_of(i)), size ? size : size_of(i));
}

/* The blocks that realloc() and reallocarray() take over: half each. */
void op_realloc_source(void)
{
	if (armed)
		fill(OP_realloc_source, calls, 0);
}

void op_realloc(void)
{
	if (!armed)
		return;
	for (size_t i = 0; i < calls; i += 2) {
		const size_t first = 40 + size_of(i), second = 3 * first;

		took(OP_realloc, i, realloc(gave(OP_realloc_source, i), first), first);
		took(OP_realloc, i, realloc(gave(OP_realloc, i), second), second);
		drop(OP_realloc, i);
	}
}

void op_reallocarray(void)
{
	if (!armed)
		return;
	for (size_t i = 1; i < calls; i += 2) {
		const size_t n = 1 + i % 99;

		took(OP_reallocarray, i, reallocarray(gave(OP_realloc_source, i), n, 24), n * 24);
		took(OP_reallocarray, i, reallocarray(gave(OP_reallocarray, i), n, 72), n * 72);
		if (i % KEEP_EVERY != 1)
			free(gave(OP_reallocarray, i));
	}
}

void op_free_source(void)
{
	if (armed)
		fill(OP_free_source, calls, 0);
}

void op_free(void)
{
	if (!armed)
		return;
	for (size_t i = 0; i < calls; i++)
		free(gave(OP_free_source, i));
}

static void *map(size_t n)
{
	return mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* Every other page count, so that neighbours do not make one vm area of them all. */
void op_mmap(void)
{
	if (!armed)
		return;
	for (size_t i = 0; i < calls; i++) {
		const size_t n = PAGE * (1 + i % 3);

		took(OP_mmap, i, map(n), n);
		if (i % 100 != 0)
			munmap(gave(OP_mmap, i), n);
	}
}

/* munmap() of what another line mapped, as a whole; each time after a call that fails. */
void op_munmap(void)
{
	if (!armed)
		return;
	for (size_t i = 0; i < calls; i += 200) {
		const size_t n = shelf[OP_mmap][i].size;

		expect(munmap(shelf[OP_mmap][i].p, 0) == -1);
		munmap(gave(OP_mmap, i), n);
	}
}

/* One mapping that grows and shrinks, moved or not, and at last a failure. */
void op_mremap(void)
{
	if (!armed)
		return;
	took(OP_mremap, 0, map(PAGE), PAGE);
	for (size_t i = 0; i < calls; i++) {
		const size_t old = shelf[OP_mremap][0].size, n = PAGE * (1 + (i + 1) % 4);

		took(OP_mremap, 0, mremap(gave(OP_mremap, 0), old, n, MREMAP_MAYMOVE), n);
	}
	expect(mremap(shelf[OP_mremap][0].p, shelf[OP_mremap][0].size, HUGE_SIZE & ~(PAGE - 1),
		      MREMAP_MAYMOVE) == MAP_FAILED);
}

/* glibc frees and returns NULL. */
void op_realloc_zero(void)
{
	if (!armed)
		return;
	fill(OP_realloc_zero, calls / 10, 0);
	for (size_t i = 0; i < calls / 10; i++)
		expect(realloc(gave(OP_realloc_zero, i), 0) == NULL);
}

/* Shrinking by a byte or two stays in place; growing back too. */
void op_realloc_in_place(void)
{
	if (!armed)
		return;
	fill(OP_realloc_in_place, calls / 10, 120);
	for (size_t i = 0; i < calls / 10; i++) {
		void *p = gave(OP_realloc_in_place, i), *q = realloc(p, 118);

		expect(p == q);
		took(OP_realloc_in_place, i, q, 118);
		q = realloc(gave(OP_realloc_in_place, i), 119);
		expect(p == q);
		took(OP_realloc_in_place, i, q, 119);
	}
}

/* The old block stays, and stays its maker's. */
void op_realloc_fails(void)
{
	volatile size_t huge = HUGE_SIZE;

	if (!armed)
		return;
	fill(OP_realloc_fails, calls / 10, 200);
	for (size_t i = 0; i < calls / 10; i++) {
		void *p = shelf[OP_realloc_fails][i].p;

		expect(realloc(p, huge) == NULL);
		expect(reallocarray(p, huge, 16) == NULL);
	}
}

void op_free_null(void)
{
	if (!armed)
		return;
	for (size_t i = 0; i < calls; i++)
		free(NULL);
}

void op_calloc_overflow(void)
{
	volatile size_t huge = SIZE_MAX / 2 + 1;

	if (!armed)
		return;
	for (size_t i = 0; i < calls / 10; i++)
		expect(calloc(huge, 4) == NULL); /* the product wraps round to 0 */
	for (size_t i = 0; i < calls / 10; i++)
		expect(calloc(huge + 8, 2) == NULL); /* and to 16 */
}

void op_fails(void)
{
	volatile size_t huge = HUGE_SIZE;
	void *untouched = &books;

	if (!armed)
		return;
	for (size_t i = 0; i < calls / 100; i++) {
		expect(malloc(huge) == NULL);
		expect(calloc(huge, 1) == NULL);
		expect(realloc(NULL, huge) == NULL);
		expect(memalign(64, huge) == NULL);
		expect(aligned_alloc(64, huge) == NULL);
		expect(valloc(huge) == NULL);
		expect(pvalloc(huge) == NULL);
		expect(posix_memalign(&untouched, 64, huge) == ENOMEM);
		expect(posix_memalign(&untouched, 3, 100) == EINVAL);
		expect(untouched == &books);
		expect(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
	}
}

/* malloc() that calls mmap() itself: one block, not two. */
void op_mapped_by_malloc(void)
{
	if (!armed)
		return;
	mallopt(M_MMAP_THRESHOLD, 128 * 1024);
	for (size_t i = 0; i < calls / 100; i++) {
		const size_t n = 200000 + i;

		took(OP_mapped_by_malloc, i, malloc(n), n);
		if (i % 2)
			free(gave(OP_mapped_by_malloc, i));
	}
}

/* realloc() that calls mremap() itself. */
void op_realloc_mapped(void)
{
	if (!armed)
		return;
	fill(OP_realloc_mapped, calls / 1000, 150000);
	for (size_t i = 0; i < calls / 1000; i++)
		for (size_t n = 300000; n <= 900000; n += 300000)
			took(OP_realloc_mapped, i, realloc(gave(OP_realloc_mapped, i), n), n);
}

/* Allocations that libc makes on our behalf through its own malloc. */
void op_inside_libc(void)
{
	static char text[700];

	if (!armed)
		return;
	memset(text, 'x', sizeof(text) - 1);
	for (size_t i = 0; i < calls / 10; i++) {
		took(OP_inside_libc, i, strdup(text), sizeof(text));
		drop(OP_inside_libc, i);
	}
}

/* Many blocks alive at once. */
void op_many_blocks(void)
{
	if (armed)
		fill(OP_many_blocks, calls, 48);
}

void op_thread_a(void)
{
	if (armed)
		fill(OP_thread_a, calls, 0);
}

void op_thread_b(void)
{
	if (armed)
		fill(OP_thread_b, calls, 0);
}

/* Another thread than the maker frees; every KEEP_EVERY-th stays. */
void op_free_threads(void)
{
	if (!armed)
		return;
	for (size_t i = 0; i < calls; i++) {
		drop(OP_thread_a, i);
		drop(OP_thread_b, i);
	}
}
