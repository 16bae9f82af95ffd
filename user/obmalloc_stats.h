/* SPDX-License-Identifier: BSD-2-Clause */
/* What pymalloc holds and for what: the numbers of sys._debugmallocstats(), and fragmentation. */
#ifndef PHT_OBMALLOC_STATS_H
#define PHT_OBMALLOC_STATS_H

#include "obmalloc.h"

/* Arenas by how full of blocks in use they are; each bucket is below its limit, in percent. */
#define OBMALLOC_BUCKETS 6
#define OBMALLOC_BUCKET_PCTS                                                                       \
	{                                                                                          \
		5, 10, 25, 50, 75, 101                                                             \
	}
/* Pools and arenas less full than this are called nearly empty. */
#define OBMALLOC_SPARSE_PCT 10

struct obmalloc_class_stats {
	u64 pools;	 /* with a block in use */
	u64 used, avail; /* blocks in them */
	u64 sparse;	 /* pools that are nearly empty */
	u64 sparse_used; /* blocks in use in these */
};

struct obmalloc_bucket {
	u64 arenas, used_bytes;
};

struct obmalloc_stats {
	s64 interp_id;
	struct obmalloc_class_stats class[OBMALLOC_CLASSES];
	u64 arenas, ntimes, highwater;
	u64 map_mid, map_bot;
	u64 unused_pools;  /* without a block in use */
	u64 aligned_pools; /* pools that arenas lose because they do not start at a pool's border */
	u64 total_pools;   /* that fit into the arenas */
	struct obmalloc_bucket bucket[OBMALLOC_BUCKETS];
	/* How trustworthy this is. */
	u64 torn, vanished; /* records and pools that made no sense or could not be read */
	u64 tries;
	u64 walk_ns; /* the last try took */
};

/* Where each byte of the arenas goes; total is the sum of the others. */
struct obmalloc_bytes {
	u64 used, avail, unused_pools, headers, quantization, alignment, total;
};

struct obmalloc_fragmentation {
	u64 sparse_arenas, sparse_arena_bytes, sparse_arena_used;
	u64 sparse_pools, sparse_pool_bytes, sparse_pool_used;
	u64 needed_arenas; /* would hold all blocks in use, were they packed */
	u64 excess_bytes;  /* of the arenas beyond that */
};

/*
 * Walk one state.  A walk that met torn structures is repeated a few times,
 * and the best one taken.  0, -EFAULT (never a table that stood still),
 * -EINVAL, -ENOMEM, -ESRCH, -EPERM, -ETIMEDOUT.
 */
int obmalloc_stats_read(const struct obmalloc *ob, const struct obmalloc_state *state,
			const struct reader *r, struct obmalloc_stats *out);
/* Add the numbers of another state (interp_id stays). */
void obmalloc_stats_add(struct obmalloc_stats *sum, const struct obmalloc_stats *other);

struct obmalloc_bytes obmalloc_stats_bytes(const struct obmalloc_layout *l,
					   const struct obmalloc_stats *s);
struct obmalloc_fragmentation obmalloc_stats_fragmentation(const struct obmalloc_layout *l,
							   const struct obmalloc_stats *s);

#endif
