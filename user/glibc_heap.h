/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * glibc's malloc of another process, read from outside: its arenas, the heaps
 * they own, and the chunks in these.  Works on stripped libraries: the main
 * arena is known by the shape of its bins.  Everything read is hostile and may
 * be torn; all loops are bounded by the sizes of the mappings.
 */
#ifndef PHT_GLIBC_HEAP_H
#define PHT_GLIBC_HEAP_H

#include "proc.h"
#include "reader.h"

#define GLIBC_ARENAS_MAX 4096
#define GLIBC_HEAPS_MAX	 65536
#define GLIBC_CHUNK_HEAD 16 /* from a chunk's address to the pointer that malloc returned */
#define GLIBC_CHUNK_TAIL 8  /* of the next chunk that belong to the user of this one */

struct glibc_arena {
	u64 addr; /* struct malloc_state */
	bool main;
	u64 top;	/* its topmost chunk */
	u64 system_mem; /* as the arena counts it */
	/* Chunks that free() set aside; the heap's own marks show them as in use. */
	u64 fastbin_bytes, fastbin_chunks;
};

/* One stretch of memory that holds chunks end to end. */
struct glibc_range {
	u64 map_start;	/* of the heap, its descriptor included */
	u64 start, end; /* of the chunks */
	u32 arena;	/* index */
};

struct glibc_heap {
	struct glibc_arena *arenas; /* owned; the main one first */
	size_t narenas;
	struct glibc_range *ranges; /* owned; sorted by start */
	size_t nranges;
	bool truncated; /* the list of arenas or of heaps did not close */
};

/*
 * Find the arenas.  0; -ENOENT (no glibc malloc in use there), -ENOMEM, -ESRCH,
 * -EPERM, -ETIMEDOUT.
 */
int glibc_heap_find(const struct reader *r, const struct proc_maps *maps, struct glibc_heap *out);
void glibc_heap_free(struct glibc_heap *heap);

enum glibc_chunk_kind {
	GLIBC_USED,
	GLIBC_FREE,
	GLIBC_TOP,
};

struct glibc_chunk {
	u64 addr; /* of the chunk; the user's pointer is GLIBC_CHUNK_HEAD further */
	u64 size;
	enum glibc_chunk_kind kind;
	u32 arena;
	const u8 *bytes; /* the first avail bytes from addr on */
	size_t avail;	 /* at least 16 */
};

struct glibc_walk_stats {
	u64 chunks;
	u64 torn;	  /* places where the chain made no sense even when read again */
	u64 unwalked;	  /* bytes behind such places */
	u64 tcache_bytes; /* chunks in the threads' caches (counted as in use by fn) */
	u64 tcache_chunks;
};

/*
 * Visit the chunks of all ranges in order of address.  fn's non-zero result
 * ends the walk and is returned.  0, fn's result, -ENOMEM, -ESRCH, -EPERM, -ETIMEDOUT.
 */
typedef int (*glibc_chunk_fn)(void *ctx, const struct glibc_chunk *chunk);
int glibc_heap_walk(const struct glibc_heap *heap, const struct reader *r, glibc_chunk_fn fn,
		    void *ctx, struct glibc_walk_stats *stats);

/* How much of a page tells whether a block of its own begins there. */
#define GLIBC_MMAPPED_HEAD 128

/*
 * Bytes of the mapping that malloc made for one block and that begins at addr,
 * or 0: it does not look like one.  It must end within limit.  *user: the block.
 */
u64 glibc_mmapped_chunk(const u8 head[GLIBC_MMAPPED_HEAD], u64 addr, u64 limit, u64 *user);

#endif
