/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pymalloc of a live process, read from outside: where its state is, its
 * arenas, its pools and which of their blocks are free.  All that is read is
 * hostile, and may be torn while the process runs: every function bounds and
 * checks what it reads, and says what did not make sense.
 *
 *	obmalloc_find()          once: the state of each interpreter
 *	obmalloc_arenas_read()   the arenas in use, sorted by address, no two overlapping
 *	obmalloc_pool_parse()    48 bytes at a pool's address -> a checked pool
 *	obmalloc_pool_free_map() a pool's bytes -> which blocks are free
 *	obmalloc_walk()          all of that for every pool, headers only
 */
#ifndef PHT_OBMALLOC_H
#define PHT_OBMALLOC_H

#include "pyinfo.h"
#include "reader.h"

#define OBMALLOC_CLASSES     32
#define OBMALLOC_ALIGN	     16
#define OBMALLOC_SMALL_MAX   (OBMALLOC_CLASSES * OBMALLOC_ALIGN)
#define OBMALLOC_HEADER	     48 /* of a pool; its blocks follow */
#define OBMALLOC_POOL_MAX    16384
#define OBMALLOC_BLOCKS_MAX  ((OBMALLOC_POOL_MAX - OBMALLOC_HEADER) / OBMALLOC_ALIGN)
#define OBMALLOC_MAP_WORDS   ((OBMALLOC_BLOCKS_MAX + 63) / 64)
#define OBMALLOC_STATES_MAX  64
#define OBMALLOC_ARENAS_MAX  (1u << 20) /* what a process may claim to have */
#define OBMALLOC_ARENA_POOLS 128	/* most pools that an arena of any version has */

/* Constants of the version. */
struct obmalloc_layout {
	u32 pool_size, arena_size;
	u32 map_root, map_mid, map_bot; /* bytes of the arena map's nodes; 0 = has none (<= 3.9) */
};

/*
 * Where one set of pymalloc's variables is: run-time addresses.  Up to 3.11
 * there is one; from 3.12 on each interpreter with its own GIL has its own.
 * interp may be 0 (<= 3.11).
 */
struct obmalloc_state {
	u64 interp;
	s64 interp_id;
	u64 arenas;	      /* struct arena_object * */
	u64 maxarenas;	      /* u32 */
	u64 ntimes;	      /* size_t: arenas ever allocated */
	u64 highwater;	      /* size_t */
	u64 map_mid, map_bot; /* int: nodes of the arena map; 0 where there is no map */
};

struct obmalloc {
	struct obmalloc_layout layout;
	struct obmalloc_state state[OBMALLOC_STATES_MAX]; /* the main interpreter's first */
	size_t n;
	bool more;	  /* interpreters beyond these were left out */
	u64 interp_field; /* offset of the state (or its pointer) in the interpreter; 0 = <= 3.11 */
	u64 main_interp;  /* PyInterpreterState of the main interpreter */
};

/*
 * Find pymalloc's state.  0; -ENOTSUP (free-threaded: mimalloc; or a version
 * without pymalloc's constants), -ENOENT (not found: not initialised yet, or a build
 * whose structures differ), -ESRCH, -EPERM, -ETIMEDOUT.  Logs nothing.
 * It is found whether or not pymalloc serves requests now (info->alloc_mode tells).
 */
int obmalloc_find(const struct pyinfo *info, const struct reader *r, struct obmalloc *out);

/* Blocks of class szidx: their size, and how many fit into a pool. */
static inline u32 obmalloc_class_size(u32 szidx)
{
	return (szidx + 1) * OBMALLOC_ALIGN;
}

static inline u32 obmalloc_class_blocks(const struct obmalloc_layout *l, u32 szidx)
{
	return (l->pool_size - OBMALLOC_HEADER) / obmalloc_class_size(szidx);
}

struct obmalloc_arena {
	u64 address;	/* of the mapping: layout.arena_size bytes from here */
	u64 first_pool; /* address rounded up to the pool size */
	u32 carved;	/* pools from first_pool on that have been handed out at least once */
	u32 nfree;	/* pools without a block in use, whether carved or not */
	u32 ntotal;	/* pools that fit */
	u32 index;	/* in the table of arenas; its pools carry it */
};

struct obmalloc_arenas {
	struct obmalloc_arena *v; /* owned; sorted by address */
	size_t n;
	u64 ntimes, highwater; /* counters, as read */
	u32 map_mid, map_bot;
	u64 torn; /* records that made no sense: left out */
};

/*
 * The arenas of one state, read in one go.  0; -EINVAL (an absurd claim),
 * -EFAULT (the table is not where it is said to be: it is being moved, or
 * garbage; try again), -ENOMEM, -ESRCH, -EPERM, -ETIMEDOUT.
 */
int obmalloc_arenas_read(const struct obmalloc *ob, const struct obmalloc_state *state,
			 const struct reader *r, struct obmalloc_arenas *out);
void obmalloc_arenas_free(struct obmalloc_arenas *arenas);
/* The arena whose pools hold addr, or NULL; O(log n). */
const struct obmalloc_arena *obmalloc_arena_at(const struct obmalloc *ob,
					       const struct obmalloc_arenas *arenas, u64 addr);

struct obmalloc_pool {
	u64 address;
	u32 szidx, block_size;
	u32 nblocks, used; /* blocks in all, in use */
	u32 next_offset;   /* blocks from this offset in the pool on were never used */
	u64 freeblock;	   /* head of the list of the others that are free */
};

enum obmalloc_pool_state {
	OBMALLOC_POOL_OK,
	OBMALLOC_POOL_EMPTY, /* no block in use */
	OBMALLOC_POOL_TORN,  /* makes no sense: changed while it was read, or corrupted */
};

/* Make sense of the OBMALLOC_HEADER bytes at addr, the address of a carved pool of arena. */
enum obmalloc_pool_state obmalloc_pool_parse(const struct obmalloc *ob,
					     const struct obmalloc_arena *arena, u64 addr,
					     const u8 *header, struct obmalloc_pool *out);

/*
 * Bit i of map is set when block i (address + OBMALLOC_HEADER + i * block_size)
 * is free.  bytes are all pool_size bytes of the pool.  How many are free;
 * -EAGAIN when the free list leads astray or its length contradicts the header
 * (torn: read the pool again).
 */
int obmalloc_pool_free_map(const struct obmalloc *ob, const struct obmalloc_pool *pool,
			   const u8 *bytes, u64 map[OBMALLOC_MAP_WORDS]);

/* What a walk over all pools of one state comes to. */
struct obmalloc_walk_stats {
	u64 torn;     /* pools that made no sense */
	u64 vanished; /* pools that could not be read: their arena was given back meanwhile */
};

/*
 * Visit each carved pool (state EMPTY with only its address set).  fn's
 * non-zero result ends the walk and is returned.  0, fn's result, -ENOMEM, -ESRCH, -EPERM,
 * -ETIMEDOUT.
 */
typedef int (*obmalloc_pool_fn)(void *ctx, const struct obmalloc_arena *arena,
				enum obmalloc_pool_state state, const struct obmalloc_pool *pool);
int obmalloc_walk(const struct obmalloc *ob, const struct obmalloc_arenas *arenas,
		  const struct reader *r, obmalloc_pool_fn fn, void *ctx,
		  struct obmalloc_walk_stats *stats);

#endif
