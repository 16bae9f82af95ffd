// SPDX-License-Identifier: BSD-2-Clause
/* The table of arenas, copied out of a process and made sense of. */
#include "obmalloc.h"

#include <errno.h>
#include <string.h>

/* struct arena_object: the same in every version. */
struct record {
	u64 address;
	u64 pool_address;
	u32 nfreepools, ntotalpools;
	u64 freepools, nextarena, prevarena;
};

_Static_assert(sizeof(struct record) == 48, "arena_object");

#define CHUNK	  512
#define PAGE	  4096
#define USER_END  (1ull << 47)
#define MIN_TABLE 16 /* slots of the first table that pymalloc makes; it then doubles */

/* What says whether the table stayed the same while it was copied. */
struct head {
	u64 table, ntimes, highwater;
	u32 maxarenas, map_mid, map_bot;
};

static int read_head(const struct obmalloc_state *s, const struct reader *r, struct head *out)
{
	struct head h = {0};
	const struct {
		u64 addr;
		void *to;
		size_t len;
	} fields[] = {
		{s->arenas, &h.table, sizeof(h.table)},
		{s->maxarenas, &h.maxarenas, sizeof(h.maxarenas)},
		{s->ntimes, &h.ntimes, sizeof(h.ntimes)},
		{s->highwater, &h.highwater, sizeof(h.highwater)},
		{s->map_mid, &h.map_mid, sizeof(h.map_mid)},
		{s->map_bot, &h.map_bot, sizeof(h.map_bot)},
	};

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		int err = fields[i].addr
				  ? reader_read(r, fields[i].addr, fields[i].to, fields[i].len)
				  : 0;

		if (err)
			return err;
	}
	if (h.maxarenas > OBMALLOC_ARENAS_MAX || (h.maxarenas && h.maxarenas < MIN_TABLE))
		return -EINVAL;
	if (h.maxarenas && !h.table)
		return -EINVAL;
	*out = h;
	return 0;
}

static bool parse_record(const struct obmalloc_layout *l, const struct record *rec, u32 index,
			 struct obmalloc_arena *out)
{
	u64 first = (rec->address + l->pool_size - 1) & ~(u64)(l->pool_size - 1);
	u32 total = (u32)((rec->address + l->arena_size - first) / l->pool_size);

	if (rec->address % PAGE || rec->address >= USER_END - l->arena_size)
		return false;
	if (rec->pool_address < first || (rec->pool_address - first) % l->pool_size ||
	    (rec->pool_address - first) / l->pool_size > total)
		return false;
	if (rec->ntotalpools != total || rec->nfreepools > total)
		return false;
	*out = (struct obmalloc_arena){
		.address = rec->address,
		.first_pool = first,
		.carved = (u32)((rec->pool_address - first) / l->pool_size),
		.nfree = rec->nfreepools,
		.ntotal = total,
		.index = index,
	};
	return true;
}

static int grow(struct obmalloc_arenas *a, size_t *cap)
{
	size_t want = *cap ? *cap * 2 : 64;
	struct obmalloc_arena *v;

	if (a->n < *cap)
		return 0;
	v = reallocarray(a->v, want, sizeof(*v));
	if (!v)
		return -ENOMEM;
	a->v = v;
	*cap = want;
	return 0;
}

static int copy_table(const struct obmalloc *ob, const struct reader *r, const struct head *h,
		      struct obmalloc_arenas *a)
{
	struct record rec[CHUNK];
	size_t cap = 0;

	for (u32 at = 0; at < h->maxarenas; at += CHUNK) {
		u32 n = h->maxarenas - at < CHUNK ? h->maxarenas - at : CHUNK;
		u64 addr = h->table + (u64)at * sizeof(rec[0]);
		int err = addr < h->table ? -EFAULT : reader_read(r, addr, rec, n * sizeof(rec[0]));

		for (u32 i = 0; !err && i < n; i++) {
			if (!rec[i].address)
				continue;
			err = grow(a, &cap);
			if (err)
				break;
			if (parse_record(&ob->layout, &rec[i], at + i, &a->v[a->n]))
				a->n++;
			else
				a->torn++;
		}
		if (err)
			return err;
	}
	return 0;
}

static int by_address(const void *a, const void *b)
{
	const struct obmalloc_arena *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

/* Memory must not be counted twice, however often a table names it. */
static void drop_overlaps(struct obmalloc_arenas *a, u32 arena_size)
{
	size_t kept = 0;

	for (size_t i = 0; i < a->n; i++) {
		if (kept && a->v[i].address - a->v[kept - 1].address < arena_size)
			a->torn++;
		else
			a->v[kept++] = a->v[i];
	}
	a->n = kept;
}

int obmalloc_arenas_read(const struct obmalloc *ob, const struct obmalloc_state *state,
			 const struct reader *r, struct obmalloc_arenas *out)
{
	struct obmalloc_arenas a = {0};
	struct head before, after;
	int err = read_head(state, r, &before);

	if (err)
		return err;
	err = copy_table(ob, r, &before, &a);
	if (!err)
		err = read_head(state, r, &after);
	/* A table that moved: what was copied may be what realloc() left behind. */
	if (!err && (after.table != before.table || after.maxarenas != before.maxarenas))
		err = -EFAULT;
	if (err) {
		obmalloc_arenas_free(&a);
		return err;
	}
	if (a.n)
		qsort(a.v, a.n, sizeof(*a.v), by_address);
	drop_overlaps(&a, ob->layout.arena_size);
	a.ntimes = after.ntimes;
	a.highwater = after.highwater;
	a.map_mid = after.map_mid;
	a.map_bot = after.map_bot;
	*out = a;
	return 0;
}

void obmalloc_arenas_free(struct obmalloc_arenas *arenas)
{
	free(arenas->v);
	*arenas = (struct obmalloc_arenas){0};
}

const struct obmalloc_arena *obmalloc_arena_at(const struct obmalloc *ob,
					       const struct obmalloc_arenas *arenas, u64 addr)
{
	const struct obmalloc_arena *a;
	size_t lo = 0, hi = arenas->n;

	while (lo < hi) { /* the first whose address is above addr */
		size_t mid = lo + (hi - lo) / 2;

		if (arenas->v[mid].address <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo)
		return NULL;
	a = &arenas->v[lo - 1];
	return addr >= a->first_pool && addr - a->first_pool < (u64)a->carved * ob->layout.pool_size
		       ? a
		       : NULL;
}
