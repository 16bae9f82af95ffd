// SPDX-License-Identifier: BSD-2-Clause
#include "census_heap.h"

#include <errno.h>
#include <string.h>

#include "progress.h"

#define RETRIES	     4
#define SLOTS_MAX    (1u << 22) /* a wider spread of arenas is not indexed */
#define SLOTS_SINGLE 2

static bool fatal(int err)
{
	return err == -ESRCH || err == -EPERM || err == -ETIMEDOUT || err == -ENOMEM;
}

static int read_arenas(struct census_heap *h)
{
	h->arenas = calloc(h->ob->n + 1, sizeof(*h->arenas));
	if (!h->arenas)
		return -ENOMEM;
	for (size_t i = 0; i < h->ob->n; i++) {
		int err = -EFAULT;

		for (int try = 0; try < RETRIES && err && !fatal(err); try++)
			err = obmalloc_arenas_read(h->ob, &h->ob->state[i], &h->r, &h->arenas[i]);
		/* The main interpreter's must be there; another may be going away. */
		if (fatal(err) || (err && i == 0))
			return err;
	}
	return 0;
}

static int index_arenas(struct census_heap *h)
{
	u64 low = UINT64_MAX, high = 0, n;

	h->arena_size = h->ob ? h->ob->layout.arena_size : 1u << 20;
	while ((1ull << h->arena_shift) < h->arena_size)
		h->arena_shift++;
	for (size_t i = 0; h->ob && i < h->ob->n; i++) {
		const struct obmalloc_arenas *a = &h->arenas[i];

		if (!a->n)
			continue;
		if (a->v[0].address < low)
			low = a->v[0].address;
		if (a->v[a->n - 1].address > high)
			high = a->v[a->n - 1].address;
	}
	if (low > high)
		low = high = 0;
	/* Spread wider than any real process: index the part that fits. */
	n = ((high - low) >> h->arena_shift) + 3;
	if (n > SLOTS_MAX)
		n = SLOTS_MAX;
	h->slots = calloc(n, sizeof(*h->slots));
	if (!h->slots)
		return -ENOMEM;
	h->nslots = n;
	h->slots_base = low - (1ull << h->arena_shift);
	for (size_t i = 0; h->ob && i < h->ob->n; i++)
		for (size_t k = 0; k < h->arenas[i].n; k++) {
			u64 at = h->arenas[i].v[k].address;
			u64 s = (at - h->slots_base) >> h->arena_shift;

			if (s < n)
				h->slots[s] = at;
		}
	return 0;
}

int census_heap_open(const struct pyinfo *info, const struct reader *r, struct proc_maps *maps,
		     struct census_heap *out)
{
	struct census_heap h = {.info = info, .r = *r, .maps = *maps};
	int err = 0;

	*maps = (struct proc_maps){0};
	h.ob = malloc(sizeof(*h.ob));
	if (!h.ob)
		err = -ENOMEM;
	if (!err)
		err = obmalloc_find(info, r, h.ob);
	if (!err)
		err = read_arenas(&h);
	if (err && !fatal(err)) {
		free(h.ob);
		h.ob = NULL;
		err = 0;
	}
	if (!err)
		err = index_arenas(&h);
	if (!err) {
		err = glibc_heap_find(r, &h.maps, &h.glibc);
		h.have_glibc = !err;
		if (!fatal(err))
			err = 0;
	}
	if (err) {
		census_heap_close(&h);
		return err;
	}
	*out = h;
	return 0;
}

void census_heap_close(struct census_heap *h)
{
	for (size_t i = 0; h->arenas && h->ob && i < h->ob->n; i++)
		obmalloc_arenas_free(&h->arenas[i]);
	free(h->arenas);
	free(h->ob);
	free(h->slots);
	glibc_heap_free(&h->glibc);
	proc_maps_free(&h->maps);
	*h = (struct census_heap){0};
}

static bool in_malloc_heap(const struct census_heap *h, u64 addr)
{
	size_t lo = 0, hi = h->glibc.nranges;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (h->glibc.ranges[mid].end <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < h->glibc.nranges && h->glibc.ranges[lo].start <= addr;
}

enum pytypes_place census_place(void *heap, u64 addr)
{
	struct census_heap *h = heap;
	const struct proc_map *m;

	if (census_in_arena(h, addr))
		return PYTYPES_SMALL;
	if (in_malloc_heap(h, addr))
		return PYTYPES_HEAP;
	m = proc_maps_find(&h->maps, addr);
	/* Nothing there, or code: as good as a place that is too small. */
	if (!m || !m->r)
		return PYTYPES_SMALL;
	if (m->inode)
		return PYTYPES_STATIC;
	/* Zero-initialised data follows its file; whatever else follows it is examined, too. */
	if (m > h->maps.v && m[-1].end == m->start && m[-1].inode && m->end - m->start < 64u << 20)
		return PYTYPES_STATIC;
	return PYTYPES_OTHER;
}

/* ---- pools */

struct pool_walk {
	struct census_heap *h;
	census_block_fn fn;
	void *ctx;
	struct census_heap_stats *stats;
	u8 *buf; /* an arena */
};

/* Visit the blocks of a pool that are in use. */
static int visit_pool(struct pool_walk *w, const struct obmalloc_pool *pool, const u8 *bytes,
		      const u64 *map)
{
	struct census_block b = {
		.size = pool->block_size, .where = CENSUS_POOL, .szidx = pool->szidx};
	u32 free = pool->nblocks - pool->used;

	w->stats->used_blocks[pool->szidx] += pool->used;
	w->stats->free_blocks[pool->szidx] += free;
	b.avail = b.size;
	for (u32 i = 0; i < pool->nblocks; i++) {
		u32 offset = OBMALLOC_HEADER + i * pool->block_size;
		int err;

		if (map[i / 64] >> i % 64 & 1)
			continue;
		b.addr = pool->address + offset;
		b.bytes = bytes + offset;
		err = w->fn(w->ctx, &b);
		if (err)
			return err;
	}
	return 0;
}

static int one_pool(struct pool_walk *w, const struct obmalloc_arena *arena, u64 addr, u8 *bytes)
{
	const struct obmalloc *ob = w->h->ob;
	u64 map[OBMALLOC_MAP_WORDS];

	w->stats->pools++;
	for (int try = 0; try <= RETRIES; try++) {
		struct obmalloc_pool pool;
		enum obmalloc_pool_state state;
		int err;

		if (try) {
			/* It changed while it was read: read it alone. */
			err = reader_read(&w->h->r, addr, bytes, ob->layout.pool_size);
			if (fatal(err))
				return err;
			if (err) {
				w->stats->vanished++;
				return 0;
			}
		}
		state = obmalloc_pool_parse(ob, arena, addr, bytes, &pool);
		if (state == OBMALLOC_POOL_EMPTY)
			return 0;
		if (state != OBMALLOC_POOL_OK || obmalloc_pool_free_map(ob, &pool, bytes, map) < 0)
			continue;
		w->stats->retried += try > 0;
		return visit_pool(w, &pool, bytes, map);
	}
	w->stats->torn_pools++;
	return 0;
}

static int one_arena(struct pool_walk *w, const struct obmalloc_arena *arena)
{
	u32 size = w->h->ob->layout.pool_size;
	u64 len = (u64)arena->carved * size;
	int err;

	w->stats->arenas++;
	w->stats->arena_bytes += w->h->ob->layout.arena_size;
	if (len > w->h->ob->layout.arena_size)
		len = w->h->ob->layout.arena_size;
	err = reader_read(&w->h->r, arena->first_pool, w->buf, len);
	if (fatal(err))
		return err;
	if (err) {
		w->stats->vanished += arena->carved;
		return 0;
	}
	for (u64 o = 0; o + size <= len; o += size) {
		err = one_pool(w, arena, arena->first_pool + o, w->buf + o);
		if (err)
			return err;
	}
	return 0;
}

int census_walk_pools(struct census_heap *h, census_block_fn fn, void *ctx,
		      struct census_heap_stats *stats)
{
	struct pool_walk w = {.h = h, .fn = fn, .ctx = ctx, .stats = stats};
	u64 done = 0, total = 0;
	int err = 0;

	if (!h->ob)
		return 0;
	w.buf = malloc(h->ob->layout.arena_size);
	if (!w.buf)
		return -ENOMEM;
	for (size_t i = 0; i < h->ob->n; i++)
		total += h->arenas[i].n;
	for (size_t i = 0; i < h->ob->n && !err; i++)
		for (size_t k = 0; k < h->arenas[i].n && !err; k++) {
			progress_at("reading small objects", done++, total);
			err = one_arena(&w, &h->arenas[i].v[k]);
		}
	free(w.buf);
	return err;
}
