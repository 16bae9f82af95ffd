/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of rss*.c share while they look at one process.  For rss*.c only. */
#ifndef PHT_RSS_COLLECT_H
#define PHT_RSS_COLLECT_H

#include "pyinfo.h"
#include "reader.h"
#include "rss.h"
#include "rss_smaps.h"

/* One mapping, and to what its resident pages have been given so far. */
struct rss_map {
	const struct smap *s;
	struct residency res;
	u64 kind[RSS_KINDS];
};

/* Memory that belongs to an allocator or a thread: nobody else may have it. */
struct rss_claim {
	u64 start, end;
};

struct rss_view {
	pid_t pid;
	const struct pyinfo *info;
	struct reader reader;
	struct smaps smaps;
	struct proc_maps maps;
	struct rss_map *map;	 /* owned; one per mapping */
	size_t last;		 /* where the last look-up ended */
	struct rss_claim *claim; /* owned; sorted when rss_claims_sort() has run */
	size_t nclaim, claim_cap;
	u64 moved_to_cache; /* bytes to take from RSS_MALLOC_USED */
	struct rss *out;
};

/* Give the resident bytes of [from, to) to a kind; returns how many there are. */
u64 rss_give(struct rss_view *v, u64 from, u64 to, enum rss_kind kind);
/* How many there are. */
u64 rss_resident(struct rss_view *v, u64 from, u64 to);
/* Those of whole pages. */
u64 rss_resident_pages(struct rss_view *v, u64 from, u64 to);
/* Split the resident bytes of [from, to): first `first` of them to a, the rest to b. */
u64 rss_give_split(struct rss_view *v, u64 from, u64 to, u64 first, enum rss_kind a,
		   enum rss_kind b);

/* So many resident bytes, somewhere in the mapping at addr. */
void rss_give_part(struct rss_view *v, u64 addr, u64 bytes, enum rss_kind kind);

/* -EEXIST when some of it is taken. */
int rss_claim(struct rss_view *v, u64 start, u64 end);
bool rss_claimed(const struct rss_view *v, u64 start, u64 end);

/* Each gives its memory to kinds.  0 or -errno of the process. */
int rss_take_pymalloc(struct rss_view *v);
int rss_take_glibc(struct rss_view *v);
int rss_take_stacks(struct rss_view *v);
int rss_take_mmapped_chunks(struct rss_view *v);

#endif
