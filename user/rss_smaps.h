/* SPDX-License-Identifier: BSD-2-Clause */
/* /proc/PID/smaps and pagemap: what the kernel says is resident, per mapping and per page. */
#ifndef PHT_RSS_SMAPS_H
#define PHT_RSS_SMAPS_H

#include "proc.h"

struct smap {
	struct proc_map map;
	u64 rss, pss, private, anon, thp, swap, hugetlb; /* bytes */
};

struct smaps {
	struct smap *v; /* owned; sorted by address */
	size_t n;
};

/* 0 or -errno (-ESRCH: gone, -EPERM). */
int smaps_read(pid_t pid, struct smaps *out);
/* The same from a stream, for tests. */
int smaps_parse(FILE *f, struct smaps *out);
void smaps_free(struct smaps *smaps);

/* Which pages of one stretch of memory are resident. */
struct residency {
	u64 start, end;
	u64 *bits; /* owned; NULL: everything counts in proportion `share` */
	double share;
};

/*
 * Pages of [start, end), which must be page aligned.  rss: what smaps says of
 * it; if pagemap cannot be read, or contradicts smaps, the share of it is
 * taken for each part.  0 or -ENOMEM.
 */
int residency_read(pid_t pid, u64 start, u64 end, u64 rss, struct residency *out);
void residency_free(struct residency *r);
/* Resident bytes of [from, to), which is clipped to the stretch. */
u64 residency_bytes(const struct residency *r, u64 from, u64 to);
/* The first page of [from, end) that is known to be resident, or end. */
u64 residency_next(const struct residency *r, u64 from, u64 end);
/* Only of pages that lie wholly in it. */
u64 residency_whole_pages(const struct residency *r, u64 from, u64 to);

#endif
