// SPDX-License-Identifier: BSD-2-Clause
#include "pytypes_table.h"

#include <errno.h>
#include <string.h>

#define GC_HEAD	     16
#define OBJECT_HEAD  16
#define BASIC_MAX    (1u << 20)
#define ITEM_MAX     (1u << 16)
#define META_DEPTH   8
#define BASE_DEPTH   16
#define EXAMINE_MAX  (1u << 17) /* places in other memory that may be looked at */
#define INLINE_FLAG  (1u << 2)
#define MANAGED_DICT (1u << 4)
#define REJECTED     (PYTYPES_NONE - 1)

static u64 word(const u8 *p)
{
	u64 v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static struct slot *slot_of(const struct pytypes *t, u64 addr)
{
	size_t i = (addr * 0x9e3779b97f4a7c15ull >> 20) & (t->nslots - 1);

	while (t->slots[i].addr && t->slots[i].addr != addr)
		i = (i + 1) & (t->nslots - 1);
	return &t->slots[i];
}

static int remember(struct pytypes *t, u64 addr, u32 index)
{
	if (t->used * 4 >= t->nslots * 3) {
		struct pytypes bigger = *t;

		bigger.nslots *= 2;
		bigger.slots = calloc(bigger.nslots, sizeof(*bigger.slots));
		if (!bigger.slots)
			return -ENOMEM;
		for (size_t i = 0; i < t->nslots; i++)
			if (t->slots[i].addr)
				*slot_of(&bigger, t->slots[i].addr) = t->slots[i];
		free(t->slots);
		*t = bigger;
	}
	struct slot *s = slot_of(t, addr);

	if (!s->addr)
		t->used++;
	*s = (struct slot){addr, index};
	return 0;
}

int pytypes_new(const struct pylayout *layout, const struct reader *r,
		const struct pytypes_known *known, pytypes_place_fn place, void *ctx,
		struct pytypes **out)
{
	struct pytypes *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	*t = (struct pytypes){
		.l = layout, .r = r, .known = *known, .place = place, .ctx = ctx, .nslots = 4096};
	t->slots = calloc(t->nslots, sizeof(*t->slots));
	if (!t->slots) {
		free(t);
		return -ENOMEM;
	}
	*out = t;
	return 0;
}

void pytypes_free(struct pytypes *t)
{
	if (!t)
		return;
	for (u32 i = 0; i < t->n; i++) {
		free(t->v[i].module);
		free(t->v[i].name);
	}
	free(t->v);
	free(t->slots);
	free(t);
}

const struct pytype *pytypes_get(const struct pytypes *t, u32 index)
{
	return index < t->n ? &t->v[index] : NULL;
}

u32 pytypes_count(const struct pytypes *t)
{
	return t->n;
}

u64 pytypes_refused(const struct pytypes *t)
{
	return t->refused;
}

/* Is the type object at addr a subclass (or the thing itself) of one at base? */
static bool derives(const struct pytypes *t, u64 addr, u64 base)
{
	for (int depth = 0; base && addr && depth < BASE_DEPTH; depth++) {
		if (addr == base)
			return true;
		if (reader_read(t->r, addr + TP_BASE, &addr, sizeof(addr)))
			return false;
	}
	return false;
}

static bool name_is(const struct pytypes *t, u64 addr, const char *wanted)
{
	char buf[32];
	size_t n = strlen(wanted) + 1;

	return n <= sizeof(buf) && !reader_read(t->r, addr, buf, n) && !memcmp(buf, wanted, n);
}

/* Types whose instances do not say how large they are. */
static bool is_open(const struct pytypes *t, u64 name)
{
	return name_is(t, name, "generator") || name_is(t, name, "coroutine") ||
	       name_is(t, name, "async_generator");
}

static enum pyshape shape_of(const struct pytypes *t, const struct pytype *type, u64 name)
{
	static const struct {
		u32 flag;
		enum pyshape shape;
	} by_flag[] = {
		{PYTYPE_TYPE, PYSHAPE_TYPE}, {PYTYPE_LONG, PYSHAPE_LONG},
		{PYTYPE_LIST, PYSHAPE_LIST}, {PYTYPE_STR, PYSHAPE_STR},
		{PYTYPE_DICT, PYSHAPE_DICT},
	};

	for (size_t i = 0; i < ARRAY_SIZE(by_flag); i++)
		if (type->flags & by_flag[i].flag)
			return by_flag[i].shape;
	if (type->itemsize)
		return is_open(t, name) ? PYSHAPE_OPEN : PYSHAPE_VAR;
	if (derives(t, type->addr, t->known.set_type) ||
	    derives(t, type->addr, t->known.frozenset_type))
		return PYSHAPE_SET;
	if (derives(t, type->addr, t->known.bytearray_type))
		return PYSHAPE_BYTEARRAY;
	return name_is(t, name, "collections.deque") ? PYSHAPE_DEQUE : PYSHAPE_FIXED;
}

/* Fields of an instance that are read without further checks end there at most. */
static u32 least_size(enum pyshape shape)
{
	switch (shape) {
	case PYSHAPE_TYPE:
		return 400;
	case PYSHAPE_SET:
	case PYSHAPE_STR:
		return 64;
	case PYSHAPE_LIST:
	case PYSHAPE_DICT:
	case PYSHAPE_BYTEARRAY:
	case PYSHAPE_DEQUE:
		return 40;
	case PYSHAPE_VAR:
	case PYSHAPE_LONG:
		return 24;
	default:
		return OBJECT_HEAD;
	}
}

/* Bytes of the values that instances keep without a dict. */
static void fill_values(const struct pytypes *t, struct pytype *type)
{
	u8 head[PYKEYS_HEAD];
	struct pykeys keys;
	u64 addr, n;

	if (t->l->values == PYVALUES_INLINE) {
		type->inline_values = type->flags & INLINE_FLAG && type->flags & PYTYPE_HEAP;
		return;
	}
	if (t->l->values == PYVALUES_NONE || !(type->flags & MANAGED_DICT) ||
	    !(type->flags & PYTYPE_HEAP) ||
	    reader_read(t->r, type->addr + t->l->ht_cached_keys, &addr, sizeof(addr)) || !addr ||
	    reader_read(t->r, addr, head, sizeof(head)) || pykeys_parse(t->l, head, &keys))
		return;
	n = pykeys_values(t->l, &keys);
	if (n > 254)
		return;
	type->values_bytes = (u32)(pykeys_values_head(t->l, n) + n * 8);
}

/* Does what stands at addr look like a type object, apart from its own type? */
static bool parse(const struct pytypes *t, u64 addr, const u8 *p, struct pytype *out)
{
	struct pytype type = {.addr = addr};
	u64 basic = word(p + TP_BASICSIZE), item = word(p + TP_ITEMSIZE);
	u64 flags = word(p + TP_FLAGS), name = word(p + TP_NAME);
	char first[2];

	if (basic < OBJECT_HEAD || basic > BASIC_MAX || item > ITEM_MAX || flags >> 32 ||
	    !(flags & PYTYPE_READY) || !name || reader_read(t->r, name, first, 2) || !first[0])
		return false;
	type.flags = (u32)flags;
	type.basicsize = (u32)basic;
	type.itemsize = (u32)item;
	type.lead = flags & PYTYPE_GC ? GC_HEAD : 0;
	if (flags & t->l->prefix_flags)
		type.lead += 16;
	type.shape = shape_of(t, &type, name);
	if (type.basicsize < least_size(type.shape))
		return false;
	fill_values(t, &type);
	*out = type;
	return true;
}

static u32 append(struct pytypes *t, const struct pytype *type)
{
	if (t->n == PYTYPES_MAX)
		return PYTYPES_NONE;
	if (t->n == t->cap) {
		u32 want = t->cap ? t->cap * 2 : 256;
		struct pytype *v = reallocarray(t->v, want, sizeof(*v));

		if (!v)
			return PYTYPES_NONE;
		t->v = v;
		t->cap = want;
	}
	t->v[t->n] = *type;
	return t->n++;
}

/* A type's own type is `type`, or itself a type that makes types. */
static bool is_metatype(struct pytypes *t, u64 addr, int depth)
{
	u8 p[TP_READ];
	struct pytype type;

	if (addr == t->known.type_type)
		return true;
	return depth < META_DEPTH && addr && !(addr & 7) &&
	       !reader_read(t->r, addr, p, sizeof(p)) && parse(t, addr, p, &type) &&
	       type.flags & PYTYPE_TYPE && is_metatype(t, word(p + TP_TYPE), depth + 1);
}

static u32 examine(struct pytypes *t, u64 addr)
{
	u8 p[TP_READ];
	struct pytype type;

	if (reader_read(t->r, addr, p, sizeof(p)) || !is_metatype(t, word(p + TP_TYPE), 0) ||
	    !parse(t, addr, p, &type))
		return PYTYPES_NONE;
	return append(t, &type);
}

u32 pytypes_lookup_slow(struct pytypes *t, u64 addr)
{
	enum pytypes_place place = t->place(t->ctx, addr);
	struct slot *s;
	u32 index;

	if (place == PYTYPES_SMALL)
		return PYTYPES_NONE;
	s = slot_of(t, addr);
	if (s->addr)
		return s->index == REJECTED ? PYTYPES_NONE : s->index;
	if (place == PYTYPES_HEAP && t->complete)
		return PYTYPES_NONE;
	if (place != PYTYPES_STATIC && t->examined++ >= EXAMINE_MAX) {
		t->refused++;
		return PYTYPES_NONE;
	}
	/* Data of files is bounded by their size; remember at most as much of it. */
	if (t->used / 4 >= EXAMINE_MAX) {
		t->refused++;
		return PYTYPES_NONE;
	}
	index = examine(t, addr);
	remember(t, addr, index == PYTYPES_NONE ? REJECTED : index);
	return index;
}

int pytypes_add_heap(struct pytypes *t, u64 addr, u64 type_addr)
{
	u32 meta = 0, index;

	if (type_addr & 7 || type_addr < 4096 || type_addr >= 1ull << 47 || slot_of(t, addr)->addr)
		return 0;
	/* Nearly all large objects are no types: their own type tells, and is known mostly. */
	if (type_addr != t->known.type_type) {
		meta = pytypes_lookup_slow(t, type_addr);
		if (meta == PYTYPES_NONE || !(t->v[meta].flags & PYTYPE_TYPE))
			return 0;
	}
	index = examine(t, addr);
	return index == PYTYPES_NONE ? 0 : remember(t, addr, index);
}

void pytypes_heap_done(struct pytypes *t)
{
	t->complete = true;
}
