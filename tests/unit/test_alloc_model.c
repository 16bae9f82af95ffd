// SPDX-License-Identifier: BSD-2-Clause
/*
 * Random programs against a simple model: threads allocate, resize and free
 * through layers that call one another as real allocators do, overlapping in
 * time, with addresses reused at once.  At R = 1 live set and totals must be
 * the model's; at larger R an exact thinning of them, and unbiased.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "alloc_sim.h"

#define NSLOTS	  48
#define NTHREADS  3
#define NLINES	  6
#define SLOT_BASE 0x10000000ull

/* Address slots are far apart, so that each could hold a pool or a mapping. */
static __u64 slot_addr(int slot, __u32 domain)
{
	__u64 addr = SLOT_BASE + slot * 0x100000ull;

	return domain == PHT_DOM_MMAP ? addr : addr + 0x30;
}

enum owner { FREE, BUSY, USED };

struct block {
	enum owner owner; /* BUSY: some call in flight has it */
	__u64 size;
	__u32 domain;
	int line;
};

/* What a thread's call in flight will do to the model when it returns. */
struct flight {
	bool on;
	__u64 rc;
	int slot;   /* -1: it fails */
	struct block block;
	int old;    /* -1: none */
	bool old_lives;
};

static struct {
	__u64 rng;
	struct block slots[NSLOTS];
	struct flight flights[NTHREADS];
	__u64 calls, bytes, pools;
	double truth[NLINES]; /* bytes allocated */
	__u64 alloc_bytes[NLINES][PHT_DOM_NR], allocs[NLINES][PHT_DOM_NR];
	__u64 freed_bytes[NLINES][PHT_DOM_NR], frees[NLINES][PHT_DOM_NR];
	bool pool_mode; /* Python's calls are not probed, pool grants are */
} m;

static __u64 rnd(__u64 n)
{
	return pht_rng_next(&m.rng) % n;
}

static int slot_with(enum owner owner, __u32 domains)
{
	int first = rnd(NSLOTS);

	for (int i = 0; i < NSLOTS; i++) {
		int slot = (first + i) % NSLOTS;
		const struct block *b = &m.slots[slot];

		if (b->owner == owner && (owner == FREE || domains & 1u << b->domain))
			return slot;
	}
	return -1;
}

static void model_free(int slot)
{
	struct block *b = &m.slots[slot];

	m.freed_bytes[b->line][b->domain] += b->size;
	m.frees[b->line][b->domain]++;
	b->owner = FREE;
}

/* The return of a call. */
static void land(struct sim_thread *t, struct flight *f)
{
	f->on = false;
	if (f->slot >= 0) {
		if (f->block.domain == PHT_DOM_POOL && m.slots[f->slot].owner == USED)
			model_free(f->slot); /* granted again, so it was given back */
		m.slots[f->slot] = f->block;
		m.slots[f->slot].owner = USED;
		m.alloc_bytes[f->block.line][f->block.domain] += f->block.size;
		m.allocs[f->block.line][f->block.domain]++;
		m.truth[f->block.line] += f->block.size;
	}
	if (f->old >= 0 && f->old_lives)
		m.slots[f->old].owner = USED;
	sim_ret(t, f->rc);
}

static __u64 random_size(__u64 most)
{
	return rnd(8) ? 1 + rnd(rnd(4) ? 64 : most) : rnd(8) ? most : 0;
}

static bool succeeds(void)
{
	return rnd(10) != 0;
}

/* Reserve a place for the block that a call is about to hand out. */
static __u64 take_off(struct flight *f, __u32 domain, __u64 size, int line)
{
	*f = (struct flight){.on = true, .slot = -1, .old = -1};
	f->block = (struct block){.size = size, .domain = domain, .line = line};
	m.calls++;
	m.bytes += size;
	f->slot = succeeds() ? slot_with(FREE, 0) : -1;
	if (f->slot < 0)
		return f->rc = domain == PHT_DOM_MMAP ? ~0ull : 0;
	m.slots[f->slot].owner = BUSY;
	return f->rc = slot_addr(f->slot, domain);
}

/* One of libc's allocating functions, by the way that some libc implements it. */
static void begin_libc(struct sim_thread *t, struct flight *f, int line)
{
	__u64 size = random_size(100000), addr = take_off(f, PHT_DOM_LIBC, size, line);

	switch (rnd(7)) {
	case 0:
		sim_call(t, PHT_FN_MALLOC, size, 0, 0);
		if (size > 50000) /* a mapping of its own */
			sim_run(t, PHT_FN_MMAP, 0, size + 4096, 3, addr ? addr - 16 : ~0ull);
		break;
	case 1:
		sim_call(t, PHT_FN_CALLOC, size, 1, 0);
		sim_run(t, PHT_FN_MALLOC, size, 0, 0, addr);
		break;
	case 2:
		sim_call(t, PHT_FN_ALIGNED, 64, size, 0);
		sim_call(t, PHT_FN_MALLOC, size + 64, 0, 0);
		sim_ret(t, addr);
		break;
	case 3: /* the result goes through memory */
		shim_poke(t->base + 0x800, addr);
		sim_call(t, PHT_FN_POSIX_MEMALIGN, t->base + 0x800, 64, size);
		sim_run(t, PHT_FN_ALIGNED, 64, size, 0, addr);
		f->rc = addr ? 0 : ENOMEM;
		break;
	case 4:
		sim_call(t, PHT_FN_VALLOC, size, 0, 0);
		sim_tail(t, PHT_FN_ALIGNED, 4096, size, 0);
		break;
	case 5:
		sim_call(t, PHT_FN_REALLOC, 0, size, 0);
		sim_tail(t, PHT_FN_MALLOC, size, 0, 0);
		break;
	default:
		sim_call(t, PHT_FN_PVALLOC, size, 0, 0);
		break;
	}
}

static void begin_mmap(struct sim_thread *t, struct flight *f, int line)
{
	__u64 size = 1 + rnd(200000);

	take_off(f, PHT_DOM_MMAP, size, line);
	sim_call4(t, PHT_FN_MMAP, 0, size, 3, 0x22);
}

/* Python's allocation of any size: its own up to 512 bytes, else libc's. */
static void begin_python(struct sim_thread *t, struct flight *f, int line)
{
	__u64 size = random_size(1000), addr;

	if (m.pool_mode || !size || size > 512) {
		addr = take_off(f, PHT_DOM_LIBC, size, line);
		if (!m.pool_mode)
			sim_call(t, PHT_FN_PY_MALLOC, 7, size, 0);
		else
			sim_call(t, PHT_FN_CALLOC, 1, size, 0);
		sim_tail(t, PHT_FN_MALLOC, size, 0, 0);
		return;
	}
	addr = take_off(f, PHT_DOM_PYMALLOC, size, line);
	switch (rnd(3)) {
	case 0:
		sim_call(t, PHT_FN_PY_MALLOC, 7, size, 0);
		break;
	case 1:
		sim_call(t, PHT_FN_PY_CALLOC, 7, size, 1);
		break;
	default:
		sim_call(t, PHT_FN_PY_REALLOC, 7, 0, size);
		sim_run(t, PHT_FN_PY_MALLOC, 7, size, 0, addr);
		break;
	}
}

static void begin_pool(struct sim_thread *t, struct flight *f, int line)
{
	int again = rnd(2) ? slot_with(USED, 1u << PHT_DOM_POOL) : -1;

	take_off(f, PHT_DOM_POOL, SIM_POOL, line);
	if (f->slot >= 0 && again >= 0) {
		m.slots[f->slot].owner = FREE;
		f->slot = again;
		f->rc = slot_addr(again, PHT_DOM_POOL);
	}
	m.pools += f->slot >= 0;
	sim_call(t, PHT_FN_PY_POOL, 1, 0, 0);
	sim.caller = SIM_PYTHON;
	sim_call4(t, PHT_FN_MMAP, 0, SIM_ARENA, 3, 0x22);
	sim_ret(t, 0x90000000);
	sim.caller = SIM_USER;
}

/* Let go of the old block within a resize: from now on others may have its place. */
static void drop_old(struct flight *f, int old)
{
	f->old = old;
	f->old_lives = f->slot < 0;
	if (f->old_lives)
		m.slots[old].owner = BUSY;
	else
		model_free(old);
}

static void begin_realloc_libc(struct sim_thread *t, struct flight *f, int line, int old)
{
	__u64 size = random_size(100000), addr = take_off(f, PHT_DOM_LIBC, size, line);
	__u64 was = slot_addr(old, PHT_DOM_LIBC);

	if (rnd(2)) {
		sim_call(t, PHT_FN_REALLOC, was, size, 0);
	} else {
		sim_call(t, PHT_FN_REALLOCARRAY, was, size, 1);
		sim_tail(t, PHT_FN_REALLOC, was, size, 0);
	}
	if (addr) {
		sim_run(t, PHT_FN_MALLOC, size, 0, 0, addr);
		sim_run(t, PHT_FN_FREE, was, 0, 0, 0);
	}
	drop_old(f, old);
	if (!size && f->old_lives) { /* realloc(p, 0) frees and returns NULL */
		model_free(old);
		f->old = -1;
	}
}

static void begin_realloc_python(struct sim_thread *t, struct flight *f, int line, int old)
{
	__u32 had = m.slots[old].domain;
	__u64 size = 1 + rnd(1000), was = slot_addr(old, had), addr;
	__u32 domain = had == PHT_DOM_LIBC || size > 512 ? PHT_DOM_LIBC : PHT_DOM_PYMALLOC;

	addr = take_off(f, domain, size, line);
	sim_call(t, PHT_FN_PY_REALLOC, 7, was, size);
	if (had == PHT_DOM_LIBC) {
		sim_run(t, PHT_FN_REALLOC, was, size, 0, addr);
		if (size <= 512) { /* Python could not know that it is not its own */
			m.calls++;
			m.bytes += size;
		}
	} else {
		sim_call(t, PHT_FN_PY_MALLOC, 7, size, 0);
		if (size > 512)
			sim_tail(t, PHT_FN_MALLOC, size, 0, 0);
		sim_ret(t, addr);
		if (addr)
			sim_run(t, PHT_FN_PY_FREE, 7, was, 0, 0);
	}
	drop_old(f, old);
}

static void begin_mremap(struct sim_thread *t, struct flight *f, int line, int old)
{
	__u64 size = 1 + rnd(200000);

	take_off(f, PHT_DOM_MMAP, size, line);
	sim_call(t, PHT_FN_MREMAP, slot_addr(old, PHT_DOM_MMAP), m.slots[old].size, size);
	drop_old(f, old);
}

static void begin_resize(struct sim_thread *t, struct flight *f, int line)
{
	int old = slot_with(USED, ~(1u << PHT_DOM_POOL));

	if (old < 0)
		return;
	if (m.slots[old].domain == PHT_DOM_MMAP)
		begin_mremap(t, f, line, old);
	else if (m.pool_mode || (m.slots[old].domain == PHT_DOM_LIBC && rnd(2)))
		begin_realloc_libc(t, f, line, old);
	else
		begin_realloc_python(t, f, line, old);
}

static void release(struct sim_thread *t)
{
	int slot = slot_with(USED, ~(1u << PHT_DOM_POOL));
	__u64 addr;

	if (slot < 0)
		return;
	addr = slot_addr(slot, m.slots[slot].domain);
	if (m.slots[slot].domain == PHT_DOM_MMAP) {
		sim_run(t, PHT_FN_MUNMAP, addr, m.slots[slot].size, 0, 0);
	} else if (m.pool_mode) {
		sim_run(t, PHT_FN_FREE, addr, 0, 0, 0);
	} else {
		sim_call(t, PHT_FN_PY_FREE, 7, addr, 0);
		if (m.slots[slot].domain == PHT_DOM_LIBC)
			sim_tail(t, PHT_FN_FREE, addr, 0, 0);
		sim_ret(t, 0);
	}
	model_free(slot);
}

static void step(void)
{
	int i = rnd(NTHREADS), line = rnd(NLINES);
	struct sim_thread *t = &sim.threads[i];
	struct flight *f = &m.flights[i];

	if (f->on) {
		land(t, f);
		return;
	}
	sim_line(t, 2 * line);
	switch (rnd(8)) {
	case 0:
		begin_libc(t, f, line);
		break;
	case 1:
		begin_mmap(t, f, line);
		break;
	case 2:
	case 3:
		if (m.pool_mode && rnd(2))
			begin_pool(t, f, line);
		else
			begin_python(t, f, line);
		break;
	case 4:
	case 5:
		begin_resize(t, f, line);
		break;
	default:
		release(t);
		break;
	}
}

static void model_init(__u64 seed, bool session, __u64 interval, bool pool_mode)
{
	sim_init(session, interval, 1000 + 10 * seed);
	memset(&m, 0, sizeof(m));
	m.rng = seed;
	m.pool_mode = pool_mode;
	/* What plan.c says of functions that call others. */
	sim.proc.always_return = 1u << PHT_FN_CALLOC | 1u << PHT_FN_ALIGNED | 1u << PHT_FN_VALLOC |
				 1u << PHT_FN_POSIX_MEMALIGN | 1u << PHT_FN_REALLOC |
				 1u << PHT_FN_REALLOCARRAY | 1u << PHT_FN_PY_REALLOC |
				 1u << PHT_FN_PY_POOL | 1u << PHT_FN_MALLOC;
	sim_proc_store();
}

static void run(int steps)
{
	for (int i = 0; i < steps; i++)
		step();
	for (int i = 0; i < NTHREADS; i++)
		if (m.flights[i].on)
			land(&sim.threads[i], &m.flights[i]);
}

/* Every tracked block is one of the model's; how many there are. */
static __u64 check_live(void)
{
	__u64 found = 0;

	for (int i = 0; i < NSLOTS; i++) {
		const struct block *b = &m.slots[i];
		__u64 addr = slot_addr(i, b->domain);
		const struct pht_live *v;

		assert_int_not_equal(b->owner, BUSY);
		v = sim_live(b->domain == PHT_DOM_POOL ? addr & ~(SIM_POOL - 1ull) : addr);
		if (b->owner != USED || !v)
			continue;
		found++;
		assert_int_equal(v->size, b->size);
		assert_int_equal(v->domain, b->domain);
		assert_int_equal(sim_stack_line(v->stack_id), 2 * b->line);
	}
	assert_int_equal(shim_count(&live), found);
	return found;
}

static void check_counters(void)
{
	for (int i = 0; i < PHT_LOSS_NR; i++)
		assert_int_equal(sim_loss(i), 0);
	assert_int_equal(sim_stat(PHT_STAT_CALLS), m.calls);
	assert_int_equal(sim_stat(PHT_STAT_BYTES), m.bytes);
	assert_int_equal(sim_stat(PHT_STAT_POOLS), m.pools);
	for (int i = 0; i < NTHREADS; i++) {
		__u64 id = (__u64)SIM_TGID << 32 | sim.threads[i].tid;
		const struct pht_thread *th = bpf_map_lookup_elem(&threads, &id);

		assert_int_equal(th ? th->depth : 0, 0);
	}
}

static void check_exact(void)
{
	__u64 used = 0;

	for (int i = 0; i < NSLOTS; i++)
		used += m.slots[i].owner == USED;
	assert_int_equal(check_live(), used);
	check_counters();
	for (int line = 0; line < NLINES; line++)
		for (__u32 dom = 0; dom < PHT_DOM_NR; dom++) {
			struct pht_site s = sim_site(2 * line, dom);

			assert_int_equal(s.alloc_bytes, m.alloc_bytes[line][dom]);
			assert_int_equal(s.alloc_blocks16, m.allocs[line][dom] << 16);
			assert_int_equal(s.freed_bytes, m.freed_bytes[line][dom]);
			assert_int_equal(s.freed_blocks16, m.frees[line][dom] << 16);
		}
}

static void test_exact(void **state)
{
	(void)state;
	for (__u64 seed = 1; seed <= 2000; seed++) {
		model_init(seed, seed & 1, 1, seed & 2);
		run(200);
		check_exact();
	}
}

/* At any interval: no block that is not there, none twice, every call counted once. */
static void test_thinned(void **state)
{
	(void)state;
	for (__u64 seed = 1; seed <= 1000; seed++) {
		struct pht_site all;
		__u64 tracked;

		model_init(seed, seed & 1, 1 + seed % 3 * 100 + (seed & 4) * 1000, seed & 2);
		run(200);
		tracked = check_live();
		check_counters();
		all = sim_site(-1, PHT_DOM_NR);
		assert_int_equal(all.samples - all.freed_samples, tracked);
		assert_int_equal(sim_stat(PHT_STAT_SAMPLES), all.samples);
	}
}

/*
 * The sum of the weights over many runs against the truth: each run's error
 * has mean zero, and its spread is measured from the runs themselves.
 */
static void check_unbiased(__u64 interval, bool pool_mode)
{
	double sum = 0, sum2 = 0, truth = 0, mean, err;
	int n = 600;

	for (int i = 0; i < n; i++) {
		double off = 0;

		model_init(7000 + i, i & 1, interval, pool_mode);
		run(150);
		for (int line = 0; line < NLINES; line++) {
			off -= m.truth[line];
			truth += m.truth[line];
		}
		off += sim_site(-1, PHT_DOM_NR).alloc_bytes;
		sum += off;
		sum2 += off * off;
	}
	mean = sum / n;
	err = sqrt((sum2 / n - mean * mean) / n);
	if (fabs(mean) > 3 * err || !(err > 0) || err * n > truth * 0.05)
		fail_msg("R %llu: off by %g +- %g a run, of %g", interval, mean, err, truth / n);
}

static void test_unbiased(void **state)
{
	(void)state;
	check_unbiased(300, false);
	check_unbiased(4096, false);
	check_unbiased(65536, false);
	check_unbiased(4096, true);
	check_unbiased(65536, true);
}

static int teardown(void **state)
{
	(void)state;
	shim_reset();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_exact, teardown),
		cmocka_unit_test_teardown(test_thinned, teardown),
		cmocka_unit_test_teardown(test_unbiased, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
