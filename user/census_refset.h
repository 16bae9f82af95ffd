/* SPDX-License-Identifier: BSD-2-Clause */
/* A set of addresses of bounded size, with a count for each if wanted.  For census_refs.c. */
#ifndef PHT_CENSUS_REFSET_H
#define PHT_CENSUS_REFSET_H

#include <errno.h>
#include <stdbool.h>

#include "util.h"

/* Addresses, open addressing; a table that is never too full. */
struct refset {
	u64 *slots;  /* owned; 0 = free */
	u64 *counts; /* owned; NULL where nothing is counted */
	size_t cap, n, max;
};

static inline u64 refset_mix(u64 v)
{
	v *= 0x9e3779b97f4a7c15ull;
	return v ^ v >> 29;
}

static inline int refset_new(struct refset *s, size_t max, bool counted)
{
	size_t cap = 64;

	*s = (struct refset){.max = max};
	while (cap < max * 2)
		cap *= 2;
	s->slots = calloc(cap, sizeof(*s->slots));
	s->counts = counted ? calloc(cap, sizeof(*s->counts)) : NULL;
	s->cap = cap;
	return s->slots && (s->counts || !counted) ? 0 : -ENOMEM;
}

static inline void refset_free(struct refset *s)
{
	free(s->slots);
	free(s->counts);
}

static inline size_t refset_slot(const struct refset *s, u64 v)
{
	size_t i = refset_mix(v) & (s->cap - 1);

	while (s->slots[i] && s->slots[i] != v)
		i = (i + 1) & (s->cap - 1);
	return i;
}

/* False: full. */
static inline bool refset_add(struct refset *s, u64 v, u64 count)
{
	size_t i = refset_slot(s, v);

	if (!s->slots[i]) {
		if (s->n >= s->max)
			return false;
		s->slots[i] = v;
		s->n++;
	}
	if (s->counts)
		s->counts[i] += count;
	return true;
}

#endif
