/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The truth about CPython's allocators: a hook through PyMem_SetAllocator()
 * that keeps books of every block, by the kind that the program says it is
 * making.  Loaded by kinds.py.  Takes nothing from libc's malloc family, so
 * that it does not add to what it counts.
 *
 * Only the outermost call counts: pymalloc hands large and empty requests down
 * to the raw domain, which is hooked too.  What it takes from there for itself,
 * the table of arenas, counts if the program wants it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define NR_KINDS  256
#define SMALL_MAX 512
#define BITS	  24
#define CAPACITY  (1u << BITS)

struct allocator {
	void *ctx;
	void *(*malloc)(void *ctx, size_t size);
	void *(*calloc)(void *ctx, size_t count, size_t size);
	void *(*realloc)(void *ctx, void *old, size_t size);
	void (*free)(void *ctx, void *ptr);
};

struct entry {
	uintptr_t addr; /* 0: unused */
	uint64_t size;
	uint64_t kind;
};

/* As kinds.py reads it. */
struct sum {
	uint64_t blocks, bytes, live_blocks, live_bytes;
	/* Variance of the sampled estimates of blocks and bytes. */
	double var_blocks, var_bytes;
};

static struct allocator below[3];
static struct entry *table;
static struct sum sums[NR_KINDS];
static double interval;
static int lock;
static bool overflow;
static unsigned int used;
static __thread int kind_now;
static bool count_own;
static __thread enum {
	OUTERMOST,
	SERVES_LARGE, /* the outer call is counted, nothing below it */
	SERVES_SMALL, /* what comes is pymalloc's own */
} nested;

static void take(void)
{
	while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
		;
}

static void release(void)
{
	__atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
}

static unsigned int slot_of(uintptr_t addr)
{
	return (unsigned int)((addr >> 4) * 0x9e3779b97f4a7c15ull >> (64 - BITS));
}

static unsigned int find(uintptr_t addr)
{
	unsigned int i = slot_of(addr);

	while (table[i].addr && table[i].addr != addr)
		i = (i + 1) % CAPACITY;
	return i;
}

/* Entries that were pushed past the hole move up, so that no search ends early. */
static void erase(unsigned int hole)
{
	unsigned int i = hole;

	for (;;) {
		i = (i + 1) % CAPACITY;
		if (!table[i].addr)
			break;
		if ((i - slot_of(table[i].addr)) % CAPACITY >= (i - hole) % CAPACITY) {
			table[hole] = table[i];
			hole = i;
		}
	}
	table[hole].addr = 0;
	used--;
}

static void put(uintptr_t addr, uint64_t size, uint64_t kind)
{
	unsigned int i = find(addr);

	if (table[i].addr || used > CAPACITY / 4 * 3) {
		overflow = true;
		return;
	}
	table[i] = (struct entry){addr, size, kind};
	used++;
	sums[kind].live_blocks++;
	sums[kind].live_bytes += size;
}

static void book(void *ptr, uint64_t size)
{
	struct sum *s = &sums[kind_now];
	double x = (double)(size ? size : 1) / interval, odds = 1 / expm1(x);

	take();
	put((uintptr_t)ptr, size, (uint64_t)kind_now);
	s->blocks++;
	s->bytes += size;
	if (interval > 1) {
		/* (1 - p) / p with p = 1 - exp(-x) */
		s->var_blocks += odds;
		s->var_bytes += odds * (double)size * (double)size;
	}
	release();
}

/* What was there; addr = 0 when it is none of ours. */
static struct entry unbook(void *ptr)
{
	struct entry e = {0, 0, 0};
	unsigned int i;

	if (!ptr)
		return e;
	take();
	i = find((uintptr_t)ptr);
	if (table[i].addr) {
		e = table[i];
		sums[e.kind].live_blocks--;
		sums[e.kind].live_bytes -= e.size;
		erase(i);
	}
	release();
	return e;
}

static void enter(size_t size)
{
	nested = count_own && size && size <= SMALL_MAX ? SERVES_SMALL : SERVES_LARGE;
}

static void *book_own(void *ptr, uint64_t size)
{
	if (ptr && nested == SERVES_SMALL)
		book(ptr, size);
	return ptr;
}

static void *hook_malloc(void *ctx, size_t size)
{
	const struct allocator *a = ctx;
	void *ptr;

	if (nested)
		return book_own(a->malloc(a->ctx, size), size);
	enter(size);
	ptr = a->malloc(a->ctx, size);
	nested = OUTERMOST;
	if (ptr)
		book(ptr, size);
	return ptr;
}

static void *hook_calloc(void *ctx, size_t count, size_t size)
{
	const struct allocator *a = ctx;
	void *ptr;

	if (nested)
		return book_own(a->calloc(a->ctx, count, size), count * size);
	enter(count * size);
	ptr = a->calloc(a->ctx, count, size);
	nested = OUTERMOST;
	if (ptr)
		book(ptr, count * size);
	return ptr;
}

static void *hook_realloc(void *ctx, void *old, size_t size)
{
	const struct allocator *a = ctx;
	struct entry was;
	void *ptr;

	/* Before the call: afterwards the address may be somebody else's. */
	was = unbook(old);
	if (nested)
		return book_own(a->realloc(a->ctx, old, size), size);
	nested = SERVES_LARGE;
	ptr = a->realloc(a->ctx, old, size);
	nested = OUTERMOST;
	if (ptr) {
		book(ptr, size);
	} else if (was.addr) {
		take();
		put(was.addr, was.size, was.kind);
		release();
	}
	return ptr;
}

static void hook_free(void *ctx, void *ptr)
{
	const struct allocator *a = ctx;

	int outer = nested;

	unbook(ptr);
	nested = SERVES_LARGE;
	a->free(a->ctx, ptr);
	nested = outer;
}

/* With the GIL held.  0, or -1. */
int ledger_install(double sample_interval, int own)
{
	void (*get)(int, struct allocator *) = dlsym(RTLD_DEFAULT, "PyMem_GetAllocator");
	void (*set)(int, struct allocator *) = dlsym(RTLD_DEFAULT, "PyMem_SetAllocator");

	table = mmap(NULL, sizeof(*table) * CAPACITY, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!get || !set || table == MAP_FAILED)
		return -1;
	interval = sample_interval;
	count_own = own;
	/* The first use of the thread's own words may allocate. */
	kind_now = 0;
	nested = OUTERMOST;
	for (int domain = 0; domain < 3; domain++) {
		struct allocator ours = {&below[domain], hook_malloc, hook_calloc, hook_realloc,
					 hook_free};

		get(domain, &below[domain]);
		set(domain, &ours);
	}
	return 0;
}

/* What this thread makes from now on. */
void ledger_kind(int kind)
{
	kind_now = kind >= 0 && kind < NR_KINDS ? kind : 0;
}

/* 0, or -1 when the books are not to be trusted. */
int ledger_sum(int kind, struct sum *out)
{
	if (overflow || kind < 0 || kind >= NR_KINDS)
		return -1;
	take();
	*out = sums[kind];
	release();
	return 0;
}

/* What was made so far counts no more; its frees are not ours to see. */
void ledger_reset(void)
{
	take();
	memset(table, 0, sizeof(*table) * CAPACITY);
	memset(sums, 0, sizeof(sums));
	used = 0;
	release();
}
