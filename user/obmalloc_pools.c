// SPDX-License-Identifier: BSD-2-Clause
/* Pools: their headers, their free blocks, and a visit to all of them. */
#include "obmalloc.h"

#include <errno.h>
#include <string.h>

/* struct pool_header: the same in every version. */
struct header {
	u32 count, pad;
	u64 freeblock, nextpool, prevpool;
	u32 arenaindex, szidx, nextoffset, maxnextoffset;
};

_Static_assert(sizeof(struct header) == OBMALLOC_HEADER, "pool_header");

#define BATCH 1024

enum obmalloc_pool_state obmalloc_pool_parse(const struct obmalloc *ob,
					     const struct obmalloc_arena *arena, u64 addr,
					     const u8 *header, struct obmalloc_pool *out)
{
	u32 pool_size = ob->layout.pool_size;
	struct obmalloc_pool p = {.address = addr};
	struct header h;

	memcpy(&h, header, sizeof(h));
	if (!h.count) {
		*out = p;
		return OBMALLOC_POOL_EMPTY;
	}
	if (h.szidx >= OBMALLOC_CLASSES || h.arenaindex != arena->index)
		return OBMALLOC_POOL_TORN;
	p.szidx = h.szidx;
	p.block_size = obmalloc_class_size(h.szidx);
	p.nblocks = obmalloc_class_blocks(&ob->layout, h.szidx);
	p.used = h.count;
	p.next_offset = h.nextoffset;
	p.freeblock = h.freeblock;
	if (h.count > p.nblocks || h.nextoffset < OBMALLOC_HEADER || h.nextoffset > pool_size ||
	    (h.nextoffset - OBMALLOC_HEADER) % p.block_size)
		return OBMALLOC_POOL_TORN;
	*out = p;
	return OBMALLOC_POOL_OK;
}

int obmalloc_pool_free_map(const struct obmalloc *ob, const struct obmalloc_pool *pool,
			   const u8 *bytes, u64 map[OBMALLOC_MAP_WORDS])
{
	u32 carved = (pool->next_offset - OBMALLOC_HEADER) / pool->block_size, nfree = 0;
	u64 block = pool->freeblock;

	if (carved > pool->nblocks ||
	    pool->nblocks > obmalloc_class_blocks(&ob->layout, pool->szidx))
		return -EAGAIN;
	memset(map, 0, OBMALLOC_MAP_WORDS * sizeof(map[0]));
	while (block) {
		u64 offset = block - pool->address - OBMALLOC_HEADER;
		u64 i = offset / pool->block_size;

		if (offset % pool->block_size || i >= carved || map[i / 64] >> (i % 64) & 1)
			return -EAGAIN;
		map[i / 64] |= 1ull << (i % 64);
		nfree++;
		memcpy(&block, bytes + OBMALLOC_HEADER + offset, sizeof(block));
	}
	for (u32 i = carved; i < pool->nblocks; i++, nfree++)
		map[i / 64] |= 1ull << (i % 64);
	return nfree == pool->nblocks - pool->used ? (int)nfree : -EAGAIN;
}

/* Pools whose headers are read together. */
struct batch {
	size_t n;
	u64 addr[BATCH];
	const struct obmalloc_arena *arena[BATCH];
	u8 header[BATCH][OBMALLOC_HEADER];
	bool ok[BATCH];
};

struct walk {
	const struct obmalloc *ob;
	const struct reader *r;
	obmalloc_pool_fn fn;
	void *ctx;
	struct obmalloc_walk_stats stats;
	struct batch *batch;
};

static int visit_batch(struct walk *w)
{
	struct batch *b = w->batch;
	int err = reader_gather(w->r, b->addr, b->n, b->header, OBMALLOC_HEADER, b->ok);

	for (size_t i = 0; !err && i < b->n; i++) {
		struct obmalloc_pool pool = {.address = b->addr[i]};
		enum obmalloc_pool_state state;

		if (!b->ok[i]) {
			w->stats.vanished++;
			continue;
		}
		state = obmalloc_pool_parse(w->ob, b->arena[i], b->addr[i], b->header[i], &pool);
		w->stats.torn += state == OBMALLOC_POOL_TORN;
		err = w->fn(w->ctx, b->arena[i], state, &pool);
	}
	b->n = 0;
	return err;
}

static int visit_arena(struct walk *w, const struct obmalloc_arena *arena)
{
	int err = 0;

	for (u32 i = 0; !err && i < arena->carved; i++) {
		struct batch *b = w->batch;

		b->addr[b->n] = arena->first_pool + (u64)i * w->ob->layout.pool_size;
		b->arena[b->n] = arena;
		if (++b->n == BATCH)
			err = visit_batch(w);
	}
	return err;
}

int obmalloc_walk(const struct obmalloc *ob, const struct obmalloc_arenas *arenas,
		  const struct reader *r, obmalloc_pool_fn fn, void *ctx,
		  struct obmalloc_walk_stats *stats)
{
	AUTO_FREE struct batch *batch = malloc(sizeof(*batch));
	struct walk w = {.ob = ob, .r = r, .fn = fn, .ctx = ctx, .batch = batch};
	int err = 0;

	if (!batch)
		return -ENOMEM;
	batch->n = 0;
	for (size_t i = 0; !err && i < arenas->n; i++)
		err = visit_arena(&w, &arenas->v[i]);
	if (!err && batch->n)
		err = visit_batch(&w);
	if (!err)
		*stats = w.stats;
	return err;
}
