// SPDX-License-Identifier: BSD-2-Clause
/* The two allocators' memory, in use and free. */
#include <errno.h>
#include <string.h>

#include "glibc_heap.h"
#include "obmalloc.h"
#include "rss_collect.h"

#define NEARLY_EMPTY 10 /* per cent of an arena's bytes in use, at most */
#define RETRIES	     5

/* ---- pymalloc */

struct arena_sum {
	u64 given, used; /* resident bytes given away; bytes in use, resident or not */
	u64 used_resident;
	bool ours;
};

struct pymalloc_walk {
	struct rss_view *v;
	const struct obmalloc *ob;
	const struct obmalloc_arenas *arenas;
	struct arena_sum *sum;
};

static int on_pool(void *ctx, const struct obmalloc_arena *arena, enum obmalloc_pool_state state,
		   const struct obmalloc_pool *pool)
{
	struct pymalloc_walk *w = ctx;
	struct arena_sum *sum = &w->sum[arena - w->arenas->v];
	u64 end = pool->address + w->ob->layout.pool_size, used = 0, here;
	enum rss_kind rest = RSS_PYMALLOC_PARTLY;

	if (!sum->ours)
		return 0;
	w->v->out->pools++;
	if (state == OBMALLOC_POOL_OK) {
		used = (u64)pool->used * pool->block_size;
	} else if (state == OBMALLOC_POOL_EMPTY) {
		w->v->out->pools_free++;
		rest = RSS_PYMALLOC_FREE;
	}
	here = rss_give_split(w->v, pool->address, end, used, RSS_PYMALLOC_USED, rest);
	sum->given += here;
	sum->used += used;
	sum->used_resident += used < here ? used : here;
	return 0;
}

/* Pools that were never carved, and the bytes lost to alignment. */
static void arena_rest(struct pymalloc_walk *w, const struct obmalloc_arena *a,
		       const struct arena_sum *sum)
{
	struct rss *out = w->v->out;
	u64 size = w->ob->layout.arena_size;
	u64 all = rss_resident(w->v, a->address, a->address + size);
	u64 carved = a->first_pool + (u64)a->carved * w->ob->layout.pool_size;

	rss_give(w->v, carved, a->address + size, RSS_PYMALLOC_FREE);
	rss_give(w->v, a->address, a->first_pool, RSS_PYMALLOC_PARTLY);
	out->arenas++;
	out->arena_bytes += size;
	out->arenas_resident += all;
	if (sum->used * 100 <= size * NEARLY_EMPTY) {
		out->arenas_nearly_empty++;
		out->nearly_empty_free += all > sum->used_resident ? all - sum->used_resident : 0;
	}
}

static int take_state(struct rss_view *v, const struct obmalloc *ob,
		      const struct obmalloc_state *state)
{
	struct obmalloc_arenas arenas;
	struct obmalloc_walk_stats stats = {0};
	struct pymalloc_walk w = {.v = v, .ob = ob, .arenas = &arenas};
	int err = -EFAULT;

	for (int try = 0; try < RETRIES && err == -EFAULT; try++)
		err = obmalloc_arenas_read(ob, state, &v->reader, &arenas);
	if (err)
		return err;
	w.sum = calloc(arenas.n + 1, sizeof(*w.sum));
	if (!w.sum)
		err = -ENOMEM;
	for (size_t i = 0; i < arenas.n && !err; i++) {
		u64 at = arenas.v[i].address;
		int claim = rss_claim(v, at, at + ob->layout.arena_size);

		w.sum[i].ours = !claim;
		if (claim == -ENOMEM)
			err = claim;
	}
	if (!err)
		err = obmalloc_walk(ob, &arenas, &v->reader, on_pool, &w, &stats);
	for (size_t i = 0; i < arenas.n && !err; i++)
		if (w.sum[i].ours)
			arena_rest(&w, &arenas.v[i], &w.sum[i]);
	v->out->torn_pools += stats.torn + arenas.torn;
	v->out->vanished += stats.vanished;
	free(w.sum);
	obmalloc_arenas_free(&arenas);
	return err;
}

static bool fatal(int err)
{
	return err == -ESRCH || err == -EPERM || err == -ETIMEDOUT || err == -ENOMEM;
}

int rss_take_pymalloc(struct rss_view *v)
{
	struct obmalloc *ob = malloc(sizeof(*ob));
	int err;

	if (!ob)
		return -ENOMEM;
	err = obmalloc_find(v->info, &v->reader, ob);
	v->out->pymalloc_known = !err;
	for (size_t i = 0; !err && i < ob->n; i++) {
		err = take_state(v, ob, &ob->state[i]);
		if (err && !fatal(err)) {
			v->out->pymalloc_known = false;
			err = 0;
		}
	}
	free(ob);
	return fatal(err) ? err : 0;
}

/* ---- glibc */

struct glibc_walk {
	struct rss_view *v;
	const struct glibc_heap *heap;
	struct rss_arena *arena;
	u64 *given; /* per range */
	size_t range;
};

static void give_chunk(struct glibc_walk *w, const struct glibc_chunk *c)
{
	struct rss_arena *a = &w->arena[c->arena];
	u64 end = c->addr + c->size, n;

	while (w->range + 1 < w->heap->nranges && c->addr >= w->heap->ranges[w->range].end)
		w->range++;
	if (c->kind == GLIBC_USED) {
		a->used += c->size;
		n = rss_give(w->v, c->addr, end, RSS_MALLOC_USED);
	} else if (c->kind == GLIBC_FREE) {
		a->free += c->size;
		n = rss_give(w->v, c->addr, end, RSS_MALLOC_FREE);
		a->free_resident += n;
	} else {
		a->top += c->size;
		n = rss_give(w->v, c->addr, end, RSS_MALLOC_TOP);
		a->top_resident += n;
	}
	w->given[w->range] += n;
	/* The chunk's own fields stay; whole pages behind them can go. */
	if (c->kind == GLIBC_FREE || (c->kind == GLIBC_TOP && a->main))
		a->trimmable += rss_resident_pages(w->v, c->addr + 48, end);
}

static int on_chunk(void *ctx, const struct glibc_chunk *c)
{
	give_chunk(ctx, c);
	return 0;
}

/* Ranges overlapping what another allocator has are a lie: leave them out. */
static int claim_ranges(struct rss_view *v, struct glibc_heap *h)
{
	size_t n = 0;

	for (size_t i = 0; i < h->nranges; i++) {
		struct glibc_range *g = &h->ranges[i];
		struct rss_arena *a = &v->out->arena[g->arena];
		int err = rss_claim(v, g->map_start, g->end);

		if (err == -ENOMEM)
			return err;
		if (err)
			continue;
		a->heaps++;
		a->mapped += g->end - g->map_start;
		a->resident += rss_resident(v, g->map_start, g->end);
		h->ranges[n++] = *g;
	}
	h->nranges = n;
	return 0;
}

/* Heap that no chunk was found for: descriptors, torn chains. */
static void give_rest(struct rss_view *v, const struct glibc_walk *w)
{
	for (size_t i = 0; i < w->heap->nranges; i++) {
		const struct glibc_range *g = &w->heap->ranges[i];
		u64 all = rss_resident(v, g->map_start, g->end);

		if (all > w->given[i])
			rss_give_part(v, g->map_start, all - w->given[i], RSS_MALLOC_OTHER);
	}
}

static int walk_glibc(struct rss_view *v, struct glibc_heap *h)
{
	struct rss *out = v->out;
	struct glibc_walk w = {.v = v, .heap = h};
	struct glibc_walk_stats stats = {0};
	AUTO_FREE u64 *given = NULL;
	int err;

	out->arena = calloc(h->narenas, sizeof(*out->arena));
	if (!out->arena)
		return -ENOMEM;
	out->narena = h->narenas;
	for (size_t i = 0; i < h->narenas; i++) {
		out->arena[i].addr = h->arenas[i].addr;
		out->arena[i].main = h->arenas[i].main;
		out->arena[i].cached = h->arenas[i].fastbin_bytes;
		v->moved_to_cache += h->arenas[i].fastbin_bytes;
	}
	err = claim_ranges(v, h);
	if (err)
		return err;
	given = calloc(h->nranges + 1, sizeof(*given));
	if (!given)
		return -ENOMEM;
	w.given = given;
	w.arena = out->arena;
	err = glibc_heap_walk(h, &v->reader, on_chunk, &w, &stats);
	if (err)
		return err;
	give_rest(v, &w);
	v->moved_to_cache += stats.tcache_bytes;
	out->torn_chunks += stats.torn;
	out->unwalked += stats.unwalked;
	for (size_t i = 0; i < out->narena; i++)
		out->trimmable += out->arena[i].trimmable;
	return 0;
}

int rss_take_glibc(struct rss_view *v)
{
	struct glibc_heap h;
	int err = glibc_heap_find(&v->reader, &v->maps, &h);

	if (err)
		return fatal(err) ? err : 0;
	v->out->glibc_known = true;
	err = walk_glibc(v, &h);
	glibc_heap_free(&h);
	return err;
}
