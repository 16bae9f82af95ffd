/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A simple model of a heap with several threads, and the probe hits that its
 * random operations would make: layers call one another as real allocators
 * do, calls overlap in time, addresses are reused at once.
 */
#ifndef PHT_ALLOC_MODEL_H
#define PHT_ALLOC_MODEL_H

#include "alloc_sim.h"

#define NSLOTS	  48
#define NTHREADS  3
#define NLINES	  6
#define SLOT_BASE 0x10000000ull

/* Address slots are far apart, so that each could hold a pool or a mapping. */
static inline __u64 slot_addr(int slot, __u32 domain)
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
	int slot; /* -1: it fails */
	struct block block;
	int old; /* -1: none */
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

static inline __u64 rnd(__u64 n)
{
	return pht_rng_next(&m.rng) % n;
}

static inline int slot_with(enum owner owner, __u32 domains)
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

static inline void model_free(int slot)
{
	struct block *b = &m.slots[slot];

	m.freed_bytes[b->line][b->domain] += b->size;
	m.frees[b->line][b->domain]++;
	b->owner = FREE;
}

/* The return of a call. */
static inline void land(struct sim_thread *t, struct flight *f)
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

static inline __u64 random_size(__u64 most)
{
	return rnd(8) ? 1 + rnd(rnd(4) ? 64 : most) : rnd(8) ? most : 0;
}

static inline bool succeeds(void)
{
	return rnd(10) != 0;
}

/* Reserve a place for the block that a call is about to hand out. */
static inline __u64 take_off(struct flight *f, __u32 domain, __u64 size, int line)
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
static inline void begin_libc(struct sim_thread *t, struct flight *f, int line)
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

static inline void begin_mmap(struct sim_thread *t, struct flight *f, int line)
{
	__u64 size = 1 + rnd(200000);

	take_off(f, PHT_DOM_MMAP, size, line);
	sim_call4(t, PHT_FN_MMAP, 0, size, 3, 0x22);
}

/* Python's allocation of any size: its own up to 512 bytes, else libc's. */
static inline void begin_python(struct sim_thread *t, struct flight *f, int line)
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

static inline void begin_pool(struct sim_thread *t, struct flight *f, int line)
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
static inline void drop_old(struct flight *f, int old)
{
	f->old = old;
	f->old_lives = f->slot < 0;
	if (f->old_lives)
		m.slots[old].owner = BUSY;
	else
		model_free(old);
}

static inline void begin_realloc_libc(struct sim_thread *t, struct flight *f, int line, int old)
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

static inline void begin_realloc_python(struct sim_thread *t, struct flight *f, int line, int old)
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

static inline void begin_mremap(struct sim_thread *t, struct flight *f, int line, int old)
{
	__u64 size = 1 + rnd(200000);

	take_off(f, PHT_DOM_MMAP, size, line);
	sim_call(t, PHT_FN_MREMAP, slot_addr(old, PHT_DOM_MMAP), m.slots[old].size, size);
	drop_old(f, old);
}

static inline void begin_resize(struct sim_thread *t, struct flight *f, int line)
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

static inline void release(struct sim_thread *t)
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

static inline void step(void)
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

static inline void model_init(__u64 seed, bool session, __u64 interval, bool pool_mode)
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

static inline void run(int steps)
{
	for (int i = 0; i < steps; i++)
		step();
	for (int i = 0; i < NTHREADS; i++)
		if (m.flights[i].on)
			land(&sim.threads[i], &m.flights[i]);
}

#endif
