// SPDX-License-Identifier: BSD-2-Clause
#include "obmalloc_stats.h"

#include <errno.h>

#define MAX_TRIES 5

static const u32 bucket_pcts[OBMALLOC_BUCKETS] = OBMALLOC_BUCKET_PCTS;

struct count {
	const struct obmalloc *ob;
	struct obmalloc_stats *stats;
	const struct obmalloc_arena *arena; /* whose pools are being visited */
	u64 used_bytes;			    /* in it */
};

/* Pools come arena by arena: the next arena's first pool closes the one before. */
static void close_arena(struct count *c)
{
	u64 size = c->ob->layout.arena_size;
	size_t b = 0;

	while (b + 1 < OBMALLOC_BUCKETS && c->used_bytes * 100 >= size * bucket_pcts[b])
		b++;
	c->stats->bucket[b].arenas++;
	c->stats->bucket[b].used_bytes += c->used_bytes;
	c->used_bytes = 0;
}

static int count_pool(void *ctx, const struct obmalloc_arena *arena, enum obmalloc_pool_state state,
		      const struct obmalloc_pool *pool)
{
	struct count *c = ctx;
	struct obmalloc_class_stats *class;

	if (c->arena && c->arena != arena)
		close_arena(c);
	c->arena = arena;
	if (state != OBMALLOC_POOL_OK)
		return 0;
	class = &c->stats->class[pool->szidx];
	class->pools++;
	class->used += pool->used;
	class->avail += pool->nblocks - pool->used;
	c->used_bytes += (u64)pool->used * pool->block_size;
	if (pool->used * 100 < pool->nblocks * OBMALLOC_SPARSE_PCT) {
		class->sparse++;
		class->sparse_used += pool->used;
	}
	return 0;
}

static void count_arenas(const struct obmalloc *ob, const struct obmalloc_arenas *a,
			 struct obmalloc_stats *s)
{
	u32 fit = ob->layout.arena_size / ob->layout.pool_size;

	s->arenas = a->n;
	s->ntimes = a->ntimes;
	s->highwater = a->highwater;
	s->map_mid = a->map_mid;
	s->map_bot = a->map_bot;
	s->torn = a->torn;
	for (size_t i = 0; i < a->n; i++) {
		s->unused_pools += a->v[i].nfree;
		s->total_pools += a->v[i].ntotal;
		s->aligned_pools += fit - a->v[i].ntotal;
	}
}

static int read_once(const struct obmalloc *ob, const struct obmalloc_state *state,
		     const struct reader *r, struct obmalloc_stats *out)
{
	struct obmalloc_stats s = {.interp_id = state->interp_id};
	struct obmalloc_walk_stats walk;
	struct obmalloc_arenas arenas;
	struct count c = {.ob = ob, .stats = &s};
	u64 start = reader_now();
	int err = obmalloc_arenas_read(ob, state, r, &arenas);

	if (err)
		return err;
	count_arenas(ob, &arenas, &s);
	err = obmalloc_walk(ob, &arenas, r, count_pool, &c, &walk);
	obmalloc_arenas_free(&arenas);
	if (err)
		return err;
	if (c.arena)
		close_arena(&c);
	s.torn += walk.torn;
	s.vanished = walk.vanished;
	s.walk_ns = reader_now() - start;
	*out = s;
	return 0;
}

int obmalloc_stats_read(const struct obmalloc *ob, const struct obmalloc_state *state,
			const struct reader *r, struct obmalloc_stats *out)
{
	struct obmalloc_stats best, s;
	bool have = false;
	u64 tries;
	int err = 0;

	for (tries = 1; tries <= MAX_TRIES; tries++) {
		err = read_once(ob, state, r, &s);
		if (err && err != -EFAULT && err != -EINVAL)
			return err;
		if (err)
			continue;
		if (!have || s.torn + s.vanished < best.torn + best.vanished)
			best = s;
		have = true;
		if (!best.torn && !best.vanished)
			break;
	}
	if (!have)
		return err;
	best.tries = tries <= MAX_TRIES ? tries : MAX_TRIES;
	*out = best;
	return 0;
}

void obmalloc_stats_add(struct obmalloc_stats *sum, const struct obmalloc_stats *other)
{
	for (size_t i = 0; i < OBMALLOC_CLASSES; i++) {
		sum->class[i].pools += other->class[i].pools;
		sum->class[i].used += other->class[i].used;
		sum->class[i].avail += other->class[i].avail;
		sum->class[i].sparse += other->class[i].sparse;
		sum->class[i].sparse_used += other->class[i].sparse_used;
	}
	for (size_t i = 0; i < OBMALLOC_BUCKETS; i++) {
		sum->bucket[i].arenas += other->bucket[i].arenas;
		sum->bucket[i].used_bytes += other->bucket[i].used_bytes;
	}
	sum->arenas += other->arenas;
	sum->ntimes += other->ntimes;
	sum->highwater += other->highwater;
	sum->map_mid += other->map_mid;
	sum->map_bot += other->map_bot;
	sum->unused_pools += other->unused_pools;
	sum->aligned_pools += other->aligned_pools;
	sum->total_pools += other->total_pools;
	sum->torn += other->torn;
	sum->vanished += other->vanished;
	sum->tries += other->tries;
	sum->walk_ns += other->walk_ns;
}

struct obmalloc_bytes obmalloc_stats_bytes(const struct obmalloc_layout *l,
					   const struct obmalloc_stats *s)
{
	struct obmalloc_bytes b = {
		.unused_pools = s->unused_pools * l->pool_size,
		.alignment = s->aligned_pools * l->pool_size,
	};

	for (u32 i = 0; i < OBMALLOC_CLASSES; i++) {
		u32 size = obmalloc_class_size(i);

		b.used += s->class[i].used * size;
		b.avail += s->class[i].avail * size;
		b.headers += s->class[i].pools * OBMALLOC_HEADER;
		b.quantization += s->class[i].pools * ((l->pool_size - OBMALLOC_HEADER) % size);
	}
	b.total = b.used + b.avail + b.unused_pools + b.headers + b.quantization + b.alignment;
	return b;
}

struct obmalloc_fragmentation obmalloc_stats_fragmentation(const struct obmalloc_layout *l,
							   const struct obmalloc_stats *s)
{
	struct obmalloc_fragmentation f = {0};
	u64 pools = 0, per_arena = l->arena_size / l->pool_size;

	for (u32 i = 0; i < OBMALLOC_CLASSES; i++) {
		const struct obmalloc_class_stats *c = &s->class[i];
		u32 per_pool = obmalloc_class_blocks(l, i);

		f.sparse_pools += c->sparse;
		f.sparse_pool_used += c->sparse_used * obmalloc_class_size(i);
		pools += (c->used + per_pool - 1) / per_pool;
	}
	f.sparse_pool_bytes = f.sparse_pools * l->pool_size;
	for (size_t i = 0; i < OBMALLOC_BUCKETS && bucket_pcts[i] <= OBMALLOC_SPARSE_PCT; i++) {
		f.sparse_arenas += s->bucket[i].arenas;
		f.sparse_arena_used += s->bucket[i].used_bytes;
	}
	f.sparse_arena_bytes = f.sparse_arenas * l->arena_size;
	/* arenas of which an unaligned start takes a pool stay that way */
	if (s->arenas && s->aligned_pools == s->arenas)
		per_arena--;
	f.needed_arenas = (pools + per_arena - 1) / per_arena;
	if (f.needed_arenas < s->arenas)
		f.excess_bytes = (s->arenas - f.needed_arenas) * l->arena_size;
	return f;
}
