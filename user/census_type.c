// SPDX-License-Identifier: BSD-2-Clause
#include "census_object.h"

#define LEADS	    3 /* an object begins 0, 16 or 32 bytes into its block */
#define REFCNT_MAX  (1ull << 40)
#define FLAGS_MAX   0x100
#define ADDRESS_LOW 65536
#define ADDRESS_END (1ull << 47)
/* A chunk of malloc's may be larger than was asked for. */
#define CHUNK_SLACK 48
#define VAR_SLACK   64

static u32 type_at(struct census_typer *t, u64 addr)
{
	if (addr < ADDRESS_LOW || census_in_arena(t->h, addr))
		return PYTYPES_NONE;
	return pytypes_lookup(t->types, &t->cache, addr);
}

enum refcnt {
	REFCNT_NONSENSE,
	REFCNT_LIVE,
	REFCNT_DEAD, /* 0, or the link of a free list */
};

static enum refcnt refcnt_of(struct census_typer *t, u64 v)
{
	if (!v)
		return REFCNT_DEAD;
	if (t->l->refcnt32) {
		if (v < ADDRESS_END && v >> 32 && !(v & 15))
			return census_in_arena(t->h, v) ? REFCNT_DEAD : REFCNT_NONSENSE;
		return (v >> 32 & 0xffff) == 0 && v >> 48 < FLAGS_MAX && (u32)v ? REFCNT_LIVE
										: REFCNT_NONSENSE;
	}
	if (v >= REFCNT_MAX)
		return REFCNT_NONSENSE;
	/*
	 * An array of types begins with two pointers to types; and where a program
	 * is not position-independent, its addresses and those of the heap right
	 * behind it are small numbers.
	 */
	if (v >= ADDRESS_LOW &&
	    (type_at(t, v) != PYTYPES_NONE || (!(v & 15) && proc_maps_find(&t->h->maps, v))))
		return REFCNT_NONSENSE;
	return REFCNT_LIVE;
}

static bool pointer_or_null(u64 v)
{
	return !v || (v >= ADDRESS_LOW && v < ADDRESS_END);
}

/* The two links of a collector's list, with flags in their low bits. */
static bool gc_head_ok(const u8 *p)
{
	return pointer_or_null(word(p) & ~7ull) && pointer_or_null(word(p + 8) & ~7ull);
}

u64 census_digits(const struct census_typer *t, const u8 *p)
{
	s64 n = (s64)word(p + OB_SIZE);

	if (t->l->long_tagged)
		return (u64)n >> 3;
	return n < 0 ? 0 - (u64)n : (u64)n;
}

/*
 * Room for attributes behind an object: a head with their number, their order,
 * and themselves.  The first instances of a class get more than later ones.
 */
static u64 values_need(const struct pytype *type, const u8 *p)
{
	u64 n;

	if (!type->inline_values)
		return 0;
	n = p[type->basicsize];
	return 8 + (n + 7) / 8 * 8 + n * 8;
}

/* Bytes of a str with its characters behind it; of the bare object when they are elsewhere. */
static u64 str_need(const struct census_typer *t, const struct pytype *type, const u8 *p)
{
	u32 state = half(p + STR_STATE), kind = state >> 2 & 7;
	u64 length = word(p + STR_LENGTH);

	if (length >= ITEMS_MAX || kind == 3 || kind > 4)
		return 0;
	if (!(state & STR_COMPACT))
		return type->basicsize + values_need(type, p);
	if (!kind)
		return 0;
	return (state & STR_ASCII ? t->l->str_ascii : t->l->str_compact) + (length + 1) * kind;
}

u64 census_need(const struct census_typer *t, const struct pytype *type, const u8 *p)
{
	u64 n;

	switch (type->shape) {
	case PYSHAPE_STR:
		return str_need(t, type, p);
	case PYSHAPE_LONG:
		n = census_digits(t, p);
		return n >= ITEMS_MAX ? 0 : type->basicsize + (n ? n : 1) * type->itemsize;
	case PYSHAPE_VAR:
	case PYSHAPE_TYPE:
		n = word(p + OB_SIZE);
		return n >= ITEMS_MAX ? 0 : type->basicsize + n * type->itemsize;
	default:
		return type->basicsize + values_need(type, p);
	}
}

/* Would the allocator have given this block for so many bytes? */
static bool fits(const struct census_typer *t, const struct census_block *b,
		 const struct pytype *type, u64 need)
{
	u64 all;

	if (!need)
		return false;
	all = need + type->lead + census_hooks(t, b)->extra;
	if (all > b->size)
		return false;
	if (type->shape == PYSHAPE_OPEN || b->where == CENSUS_MAPPED)
		return true;
	/* Sizes of these may have been reduced in place, or include room for more. */
	if (type->itemsize || type->shape == PYSHAPE_STR)
		return b->size <= 2 * all + VAR_SLACK;
	/* Room for one attribute more is asked for than is noted. */
	if (type->inline_values)
		all += 2 * sizeof(u64);
	return b->size < all + (b->where == CENSUS_POOL ? OBMALLOC_ALIGN : CHUNK_SLACK);
}

/* Bytes of an object that are looked at without asking how many there are. */
#define LOOK_AT 64

/* The least that an instance has in its block. */
static u64 least(const struct census_typer *t, const struct pytype *type)
{
	if (type->inline_values)
		return type->basicsize + 8;
	return type->shape == PYSHAPE_STR ? t->l->str_ascii : type->basicsize;
}

static enum census_what try_at(struct census_typer *t, const struct census_block *b, u32 lead,
			       struct census_object *o)
{
	u64 offset = census_hooks(t, b)->front + lead;
	const u8 *p = b->bytes + offset;
	const struct pytype *type;
	enum refcnt refcnt;
	u32 index;
	u64 min;

	if (offset + 16 > b->avail)
		return CENSUS_DATA;
	index = type_at(t, word(p + OB_TYPE));
	if (index == PYTYPES_NONE)
		return CENSUS_DATA;
	type = pytypes_get(t->types, index);
	min = least(t, type);
	if (type->lead != lead || min > b->size - offset ||
	    offset + (min < LOOK_AT || type->inline_values ? min : LOOK_AT) > b->avail)
		return CENSUS_DATA;
	refcnt = refcnt_of(t, word(p));
	if (refcnt == REFCNT_NONSENSE || (lead >= GC_HEAD && !gc_head_ok(p - GC_HEAD)) ||
	    (refcnt == REFCNT_LIVE && !fits(t, b, type, census_need(t, type, p))))
		return CENSUS_DATA;
	*o = (struct census_object){
		.type = index,
		.addr = b->addr + offset,
		.p = p,
		.avail = b->avail - offset,
		.room = b->size - offset,
	};
	return refcnt == REFCNT_LIVE ? CENSUS_OBJECT : CENSUS_FREELIST;
}

enum census_what census_classify(struct census_typer *t, const struct census_block *b,
				 struct census_object *o)
{
	for (u32 i = 0; i < LEADS; i++) {
		enum census_what what = try_at(t, b, i * 16, o);

		if (what != CENSUS_DATA)
			return what;
	}
	return CENSUS_DATA;
}
