/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All blocks in use in a Python process's heaps, one after the other: those in
 * pymalloc's pools, malloc's chunks, and the large blocks malloc maps by itself.
 * Memory is read in large pieces; what does not hold together is read again.
 */
#ifndef PHT_CENSUS_HEAP_H
#define PHT_CENSUS_HEAP_H

#include "glibc_heap.h"
#include "obmalloc.h"
#include "pytypes.h"

enum census_where {
	CENSUS_POOL,
	CENSUS_CHUNK,
	CENSUS_MAPPED,
};

struct census_block {
	u64 addr; /* what the allocator returned */
	u64 size; /* that can be used */
	enum census_where where;
	u32 szidx;	 /* CENSUS_POOL */
	const u8 *bytes; /* of the block */
	size_t avail;	 /* how many of them; at least 32 or all */
};

struct census_heap_stats {
	u64 pools, torn_pools, vanished; /* vanished: could not be read any more */
	u64 retried;			 /* pools that made sense when read again */
	u64 arenas, arena_bytes;
	u64 free_blocks[OBMALLOC_CLASSES], used_blocks[OBMALLOC_CLASSES];
	u64 chunks, chunk_bytes, mapped, mapped_bytes; /* in use */
	u64 malloc_free_bytes;
	u64 torn_chunks, unwalked;
};

struct census_heap {
	const struct pyinfo *info;
	struct reader r;
	struct proc_maps maps;
	struct obmalloc *ob;		/* owned; NULL: no pymalloc */
	struct obmalloc_arenas *arenas; /* owned; one per state */
	struct glibc_heap glibc;
	bool have_glibc;
	/* Which memory is pymalloc's: the arena that begins in each slot of its size. */
	u64 *slots; /* owned */
	u64 slots_base, nslots;
	u64 arena_size;
	u32 arena_shift;
};

/*
 * Find the heaps.  r is copied; its context must outlive the heap.  maps: those of the
 * process; taken over.  0 or -errno.
 */
int census_heap_open(const struct pyinfo *info, const struct reader *r, struct proc_maps *maps,
		     struct census_heap *out);
void census_heap_close(struct census_heap *h);

/* The address of the arena that addr lies in, or 0. */
static inline u64 census_arena(const struct census_heap *h, u64 addr)
{
	u64 s = (addr - h->slots_base) >> h->arena_shift;

	/* slots[0] is before the first arena: s - 1 is always there. */
	if (s - 1 >= h->nslots - 1)
		return 0;
	if (h->slots[s] && addr >= h->slots[s])
		return h->slots[s];
	return h->slots[s - 1] && addr - h->slots[s - 1] < h->arena_size ? h->slots[s - 1] : 0;
}

static inline bool census_in_arena(const struct census_heap *h, u64 addr)
{
	return census_arena(h, addr) != 0;
}

/* For pytypes_new(). */
enum pytypes_place census_place(void *heap, u64 addr);

/* fn's non-zero result ends the walk and is returned; else 0 or -errno. */
typedef int (*census_block_fn)(void *ctx, const struct census_block *block);
int census_walk_pools(struct census_heap *h, census_block_fn fn, void *ctx,
		      struct census_heap_stats *stats);
int census_walk_malloc(struct census_heap *h, census_block_fn fn, void *ctx,
		       struct census_heap_stats *stats);

#endif
