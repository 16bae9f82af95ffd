// SPDX-License-Identifier: BSD-2-Clause
#include "tramp_tables.h"

#include <errno.h>
#include <string.h>

#include "procmem.h"

/* The largest request that pymalloc serves itself (SMALL_REQUEST_THRESHOLD, 3.8 to 3.15). */
#define PYMALLOC_MAX 512

int tramp_tables_read(int mem, struct tramp_tables *t)
{
	for (int d = 0; d < 3; d++) {
		int err = t->addr[d] ? procmem_read(mem, t->addr[d], &t->v[d], sizeof(t->v[d])) : 0;

		if (err)
			return err;
	}
	return 0;
}

u64 tramp_slot_addr(const struct tramp_tables *t, int fn)
{
	return t->addr[fn / 4] ? t->addr[fn / 4] + 8 + 8 * (u64)(fn % 4) : 0;
}

u64 tramp_entry_addr(const struct tramp_region *region, int fn)
{
	return region->base + (u64)PHT_ENTRY(fn);
}

bool tramp_slot_is_small_free(int fn)
{
	return fn == PHT_TFN_MEM + 3 || fn == PHT_TFN_OBJ + 3;
}

bool tramp_spec_may_pad(const struct tramp_image_spec *spec)
{
	return spec->big_mode == PHT_TRAMP_BIG_RAW && spec->small_max == PYMALLOC_MAX;
}

static bool is_ours(const u64 *words, const struct tramp_region *region, int domain)
{
	for (int i = 0; i < 4; i++) {
		int fn = domain * 4 + i;

		if (words[i] != tramp_entry_addr(region, fn) &&
		    !(tramp_slot_is_small_free(fn) && words[i] == region->spec.orig[fn]))
			return false;
	}
	return true;
}

/*
 * tracemalloc, the debug hooks and most others keep the table that they
 * replaced in what ctx points to: do our four entries stand there in a row?
 */
static bool passes_on(int mem, u64 ctx, const struct tramp_region *region, int domain)
{
	u64 words[8];

	if (!ctx || procmem_read(mem, ctx, words, sizeof(words)))
		return false;
	for (size_t i = 0; i + 4 <= ARRAY_SIZE(words); i++)
		if (is_ours(words + i, region, domain))
			return true;
	return false;
}

enum tramp_slot tramp_slot_state(int mem, const struct tramp_tables *t,
				 const struct tramp_region *region, int fn)
{
	const struct tramp_table *table = &t->v[fn / 4];
	u64 word = table->fn[fn % 4];

	if (!t->addr[fn / 4])
		return SLOT_ABSENT;
	if (word == tramp_entry_addr(region, fn))
		return SLOT_OURS;
	if (word == region->spec.orig[fn])
		return SLOT_ORIG;
	return passes_on(mem, table->ctx, region, fn / 4) ? SLOT_CHAINED : SLOT_FOREIGN;
}

static bool fits(int mem, const struct tramp_tables *t, const struct tramp_region *region,
		 const u64 *libc)
{
	const u64 *orig = region->spec.orig;

	if (memcmp(orig + PHT_TFN_TABLES, libc, sizeof(*libc) * (PHT_TFN_NR - PHT_TFN_TABLES)))
		return false;
	for (int fn = 0; fn < PHT_TFN_TABLES; fn++) {
		u64 home = region->spec.home[fn];

		/* It puts pointers back by itself: there, or not at all. */
		if (home && home != tramp_slot_addr(t, fn))
			return false;
		if (tramp_slot_state(mem, t, region, fn) == SLOT_FOREIGN)
			return false;
	}
	return true;
}

static bool is_chained(int mem, const struct tramp_tables *t, const struct tramp_region *region)
{
	for (int fn = 0; fn < PHT_TFN_TABLES; fn++)
		if (tramp_slot_state(mem, t, region, fn) == SLOT_CHAINED)
			return true;
	return false;
}

int tramp_tables_match(int mem, const struct tramp_tables *t, const struct tramp_regions *regions,
		       const u64 *libc)
{
	int match = -1;

	/* One that is called already must be the one, or calls would count twice. */
	for (int i = 0; i < regions->n; i++)
		if (fits(mem, t, &regions->v[i], libc) &&
		    (match < 0 || is_chained(mem, t, &regions->v[i])))
			match = i;
	return match;
}

static const struct tramp_region *owner(const struct tramp_regions *regions, u64 word, int fn)
{
	for (int i = 0; i < regions->n; i++)
		if (word == tramp_entry_addr(&regions->v[i], fn))
			return &regions->v[i];
	return NULL;
}

/*
 * Who serves what decides where a byte is counted.  Where the raw domain gets
 * what pymalloc does not serve, it counts that.  Hooks may change sizes (the
 * debug hooks add 24 or 32 bytes) or call whom they like: there the call into
 * the table counts, except that small sizes need no guard, being pymalloc's
 * in any case.  malloc and mimalloc never go down to the raw domain.
 */
struct counting {
	u64 small_max;
	u32 big_mode;
};

static const struct counting counting_of[] = {
	[PY_ALLOC_UNKNOWN] = {0, PHT_TRAMP_BIG_COUNT},
	[PY_ALLOC_PYMALLOC] = {PYMALLOC_MAX, PHT_TRAMP_BIG_RAW},
	[PY_ALLOC_MALLOC] = {INT64_MAX, PHT_TRAMP_BIG_COUNT},
	[PY_ALLOC_DEBUG] = {480, PHT_TRAMP_BIG_COUNT},
	[PY_ALLOC_MALLOC_DEBUG] = {INT64_MAX, PHT_TRAMP_BIG_COUNT},
	[PY_ALLOC_TRACEMALLOC] = {480, PHT_TRAMP_BIG_COUNT},
	[PY_ALLOC_MIMALLOC] = {INT64_MAX, PHT_TRAMP_BIG_COUNT},
	[PY_ALLOC_HOOKED] = {0, PHT_TRAMP_BIG_COUNT},
};

static bool is_code(const struct proc_maps *maps, u64 addr)
{
	const struct proc_map *m = proc_maps_find(maps, addr);

	return m && m->x;
}

int tramp_tables_spec(const struct tramp_tables *t, const struct tramp_regions *regions,
		      const struct proc_maps *maps, enum py_alloc_mode mode, const u64 *libc,
		      struct tramp_image_spec *out)
{
	struct tramp_image_spec spec = {0};
	const struct tramp_region *was = NULL;

	if (mode >= ARRAY_SIZE(counting_of))
		mode = PY_ALLOC_HOOKED;
	for (int fn = 0; fn < PHT_TFN_TABLES; fn++) {
		u64 word = t->v[fn / 4].fn[fn % 4];
		const struct tramp_region *r = owner(regions, word, fn);

		if (!t->addr[fn / 4])
			continue;
		if (r) {
			word = r->spec.orig[fn];
			was = r;
		}
		if (!is_code(maps, word))
			return -ENOEXEC;
		spec.orig[fn] = word;
		spec.home[fn] = tramp_slot_addr(t, fn);
	}
	spec.small_max = counting_of[mode].small_max;
	spec.big_mode = counting_of[mode].big_mode;
	/* The mode was read off our own entries: what they knew is better. */
	if (was && mode == PY_ALLOC_HOOKED) {
		spec.small_max = was->spec.small_max;
		spec.big_mode = was->spec.big_mode;
	}
	for (int i = PHT_TFN_TABLES; i < PHT_TFN_NR; i++) {
		u64 fn = libc[i - PHT_TFN_TABLES];

		if (fn && !is_code(maps, fn))
			return -ENOEXEC;
		spec.orig[i] = fn;
	}
	*out = spec;
	return 0;
}
