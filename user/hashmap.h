/* SPDX-License-Identifier: BSD-2-Clause */
/* A growing hash map from two 64-bit numbers to a pointer; open addressing. */
#ifndef PHT_HASHMAP_H
#define PHT_HASHMAP_H

#include "util.h"

struct hashmap_entry {
	u64 a, b;
	void *value; /* NULL = slot unused */
};

struct hashmap {
	struct hashmap_entry *slots; /* owned; values are the user's */
	size_t cap, n;
};

static inline u64 hashmap_mix(u64 h, u64 v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ull;
	return h ^ (h >> 32);
}

/* The value, or NULL. */
void *hashmap_get(const struct hashmap *map, u64 a, u64 b);
/* Insert or replace; value must not be NULL.  0 or -ENOMEM. */
int hashmap_put(struct hashmap *map, u64 a, u64 b, void *value);
/* Frees the table, and each value through free_value unless that is NULL. */
void hashmap_clear(struct hashmap *map, void (*free_value)(void *));

#endif
