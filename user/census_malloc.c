// SPDX-License-Identifier: BSD-2-Clause
/* Blocks from malloc: chunks in its heaps, and those it maps one by one. */
#include <errno.h>
#include <string.h>

#include "census_heap.h"
#include "progress.h"

#define PAGE	  4096ull
#define HEAD	  512  /* of a block with a mapping of its own */
#define STEP	  4096 /* chunks between two looks at the clock */
#define SKIPS_MAX 4096 /* pages that are no block, per mapping, before it is left alone */

struct malloc_walk {
	struct census_heap *h;
	census_block_fn fn;
	void *ctx;
	struct census_heap_stats *stats;
};

static int on_chunk(void *ctx, const struct glibc_chunk *c)
{
	struct malloc_walk *w = ctx;
	struct census_block b = {.addr = c->addr + GLIBC_CHUNK_HEAD, .where = CENSUS_CHUNK};

	if (c->kind != GLIBC_USED) {
		w->stats->malloc_free_bytes += c->size;
		return 0;
	}
	if (!(w->stats->chunks++ % STEP))
		progress_at("reading blocks from malloc", w->stats->chunks, 0);
	w->stats->chunk_bytes += c->size;
	/* The block reaches into the next chunk's first field. */
	b.size = c->size - 8;
	b.bytes = c->bytes + GLIBC_CHUNK_HEAD;
	b.avail = c->avail - GLIBC_CHUNK_HEAD;
	return w->fn(w->ctx, &b);
}

static int one_mapped(struct malloc_walk *w, u64 addr, u64 size, u64 user)
{
	struct census_block b = {.addr = user, .size = addr + size - user, .where = CENSUS_MAPPED};
	u8 head[HEAD];
	int err;

	b.avail = b.size < sizeof(head) ? b.size : sizeof(head);
	err = reader_read(&w->h->r, user, head, b.avail);
	if (err)
		return err == -EFAULT ? 0 : err;
	b.bytes = head;
	w->stats->mapped++;
	w->stats->mapped_bytes += size;
	return w->fn(w->ctx, &b);
}

static bool is_anon(const struct proc_map *m)
{
	return !m->inode && m->r && m->w && !m->shared && (!m->path[0] || m->path[1] == 'a');
}

/* The first address from addr on that no other heap has. */
static u64 skip_known(const struct census_heap *h, u64 addr)
{
	u64 arena = census_arena(h, addr);

	if (arena)
		return arena + h->arena_size;
	for (size_t lo = 0, hi = h->glibc.nranges; lo < hi;) {
		size_t mid = lo + (hi - lo) / 2;
		const struct glibc_range *g = &h->glibc.ranges[mid];

		if (g->end <= addr)
			lo = mid + 1;
		else if (g->map_start > addr)
			hi = mid;
		else
			return g->end;
	}
	return addr;
}

static int walk_mapped(struct malloc_walk *w)
{
	const struct proc_maps *maps = &w->h->maps;
	u64 at = 0;

	for (size_t i = 0; i < maps->n; i++) {
		const struct proc_map *m = &maps->v[i];
		u64 limit = m->end;
		u32 skips = 0;

		if (!is_anon(m))
			continue;
		/* A block may reach over several mappings: flags of its pages may differ. */
		for (size_t k = i + 1;
		     k < maps->n && maps->v[k].start == limit && is_anon(&maps->v[k]); k++)
			limit = maps->v[k].end;
		if (at < m->start)
			at = m->start;
		while (at < m->end && skips < SKIPS_MAX) {
			u8 head[GLIBC_MMAPPED_HEAD];
			u64 next = skip_known(w->h, at), size, user;
			int err;

			if (next != at) {
				at = next;
				continue;
			}
			err = reader_read(&w->h->r, at, head, sizeof(head));
			if (err && err != -EFAULT)
				return err;
			size = err ? 0 : glibc_mmapped_chunk(head, at, limit, &user);
			err = size ? one_mapped(w, at, size, user) : 0;
			if (err)
				return err;
			skips += !size;
			at += size ? size : PAGE;
		}
	}
	return 0;
}

int census_walk_malloc(struct census_heap *h, census_block_fn fn, void *ctx,
		       struct census_heap_stats *stats)
{
	struct malloc_walk w = {.h = h, .fn = fn, .ctx = ctx, .stats = stats};
	struct glibc_walk_stats walked = {0};
	int err;

	if (!h->have_glibc)
		return 0;
	err = glibc_heap_walk(&h->glibc, &h->r, on_chunk, &w, &walked);
	stats->torn_chunks += walked.torn;
	stats->unwalked += walked.unwalked;
	return err ? err : walk_mapped(&w);
}
