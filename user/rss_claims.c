// SPDX-License-Identifier: BSD-2-Clause
/* Who has which memory, and giving resident pages to kinds of use. */
#include <errno.h>
#include <string.h>

#include "rss_collect.h"

/* Index of the first mapping that ends above addr. */
static size_t map_at(struct rss_view *v, u64 addr)
{
	size_t lo = 0, hi = v->smaps.n;

	/* Chunks come in order: mostly it is the same mapping again. */
	if (v->last < hi && v->smaps.v[v->last].map.start <= addr &&
	    addr < v->smaps.v[v->last].map.end)
		return v->last;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (v->smaps.v[mid].map.end <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	v->last = lo;
	return lo;
}

typedef u64 (*count_fn)(const struct residency *r, u64 from, u64 to);

static u64 count(struct rss_view *v, u64 from, u64 to, count_fn fn, int kind)
{
	u64 sum = 0;

	for (size_t i = map_at(v, from); i < v->smaps.n && v->smaps.v[i].map.start < to; i++) {
		u64 n = fn(&v->map[i].res, from, to);

		if (kind >= 0)
			v->map[i].kind[kind] += n;
		sum += n;
	}
	return sum;
}

u64 rss_give(struct rss_view *v, u64 from, u64 to, enum rss_kind kind)
{
	return count(v, from, to, residency_bytes, (int)kind);
}

u64 rss_resident(struct rss_view *v, u64 from, u64 to)
{
	return count(v, from, to, residency_bytes, -1);
}

u64 rss_resident_pages(struct rss_view *v, u64 from, u64 to)
{
	return count(v, from, to, residency_whole_pages, -1);
}

u64 rss_give_split(struct rss_view *v, u64 from, u64 to, u64 first, enum rss_kind a,
		   enum rss_kind b)
{
	u64 sum = 0;

	for (size_t i = map_at(v, from); i < v->smaps.n && v->smaps.v[i].map.start < to; i++) {
		u64 n = residency_bytes(&v->map[i].res, from, to);
		u64 part = n < first ? n : first;

		v->map[i].kind[a] += part;
		v->map[i].kind[b] += n - part;
		first -= part;
		sum += n;
	}
	return sum;
}

void rss_give_part(struct rss_view *v, u64 at, u64 bytes, enum rss_kind kind)
{
	size_t i = map_at(v, at);

	if (i < v->smaps.n)
		v->map[i].kind[kind] += bytes;
}

/* Index of the first claim that ends above addr. */
static size_t claim_at(const struct rss_view *v, u64 addr)
{
	size_t lo = 0, hi = v->nclaim;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (v->claim[mid].end <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

bool rss_claimed(const struct rss_view *v, u64 start, u64 end)
{
	size_t i = claim_at(v, start);

	return i < v->nclaim && v->claim[i].start < end;
}

int rss_claim(struct rss_view *v, u64 start, u64 end)
{
	size_t i = claim_at(v, start);

	if (start >= end || (i < v->nclaim && v->claim[i].start < end))
		return -EEXIST;
	if (v->nclaim == v->claim_cap) {
		size_t want = v->claim_cap ? v->claim_cap * 2 : 64;
		struct rss_claim *c = reallocarray(v->claim, want, sizeof(*c));

		if (!c)
			return -ENOMEM;
		v->claim = c;
		v->claim_cap = want;
	}
	memmove(v->claim + i + 1, v->claim + i, (v->nclaim - i) * sizeof(*v->claim));
	v->claim[i] = (struct rss_claim){start, end};
	v->nclaim++;
	return 0;
}
