// SPDX-License-Identifier: BSD-2-Clause
/* How large objects are, with the memory that they keep elsewhere. */
#include "census_object.h"

#define LIST_ITEMS	24
#define LIST_ALLOCATED	32
#define SET_USED	24
#define SET_MASK	32
#define SET_TABLE	40
#define SET_SMALL	8 /* entries in the set itself */
#define SET_ENTRY	16
#define DICT_USED	16
#define DICT_KEYS	32
#define DICT_VALUES	40
#define BYTEARRAY_ALLOC 24
#define BYTEARRAY_BYTES 32
#define BYTES_HEAD	33 /* of a bytes object, with its last NUL */
#define DEQUE_LEFT	24
#define DEQUE_LEFTINDEX 40
#define DEQUE_BLOCK	64ull
#define DEQUE_BYTES	((DEQUE_BLOCK + 2) * 8)
#define LONG_HEAD	24
#define STR_POINTER	8 /* to characters that are elsewhere */

static u64 clip(u64 n)
{
	return n < ITEMS_MAX ? n : 0;
}

static void measure_list(const u8 *p, struct census_size *s)
{
	u64 allocated = clip(word(p + LIST_ALLOCATED));

	s->length = clip(word(p + OB_SIZE));
	s->data[0] = allocated * 8;
	s->data_addr[0] = word(p + LIST_ITEMS);
	s->bytes += s->data[0];
	if (allocated > s->length)
		s->spare = (allocated - s->length) * 8;
}

static void measure_set(const u8 *p, struct census_size *s)
{
	u64 slots = clip(word(p + SET_MASK)) + 1, enough = SET_SMALL;

	s->length = clip(word(p + SET_USED));
	if (slots <= SET_SMALL)
		return;
	s->data[0] = slots * SET_ENTRY;
	s->data_addr[0] = word(p + SET_TABLE);
	s->bytes += s->data[0];
	/* A table is at most three fifths full. */
	while (enough < slots && s->length * 5 >= (enough - 1) * 3)
		enough <<= 1;
	s->spare = enough == SET_SMALL ? s->data[0] : (slots - enough) * SET_ENTRY;
	if (enough > slots)
		s->spare = 0;
}

static void measure_bytearray(const struct census_typer *t, const u8 *p, struct census_size *s)
{
	u64 alloc = clip(word(p + BYTEARRAY_ALLOC));

	s->length = clip(word(p + OB_SIZE));
	s->data_addr[0] = word(p + BYTEARRAY_BYTES);
	if (alloc > s->length + 1)
		s->spare = alloc - s->length - 1;
	/* Since 3.15 the buffer is a bytes object. */
	s->data[0] = t->l->bytearray_bytes && alloc ? alloc + BYTES_HEAD : alloc;
	s->bytes += s->data[0];
}

static void measure_deque(const u8 *p, struct census_size *s)
{
	u64 left = word(p + DEQUE_LEFTINDEX), blocks;

	s->length = clip(word(p + OB_SIZE));
	if (left >= DEQUE_BLOCK)
		left = 0;
	blocks = (left + s->length + DEQUE_BLOCK - 1) / DEQUE_BLOCK;
	s->data[0] = (blocks ? blocks : 1) * DEQUE_BYTES;
	s->data_addr[0] = word(p + DEQUE_LEFT);
	s->bytes += s->data[0];
}

static void measure_str(const struct census_typer *t, const struct pytype *type,
			const struct census_object *o, struct census_size *s)
{
	u32 state = half(o->p + STR_STATE), kind = state >> 2 & 7;
	bool compact = state & STR_COMPACT, ascii = state & STR_ASCII;
	u64 utf8;

	s->length = clip(word(o->p + STR_LENGTH));
	/* What a subclass adds is not counted by getsizeof(). */
	s->bytes = type->lead +
		   (compact ? census_need(t, type, o->p) : t->l->str_compact + STR_POINTER);
	if (!compact && kind && o->avail >= t->l->str_compact + STR_POINTER) {
		s->data[0] = (s->length + 1) * kind;
		s->data_addr[0] = word(o->p + t->l->str_compact);
		s->bytes += s->data[0];
	}
	if ((compact && ascii) || o->avail < t->l->str_compact)
		return;
	/* A copy as UTF-8, made when C asked for one. */
	utf8 = word(o->p + t->l->str_utf8);
	if (utf8 && utf8 != s->data_addr[0]) {
		s->data[1] = clip(word(o->p + t->l->str_utf8_length)) + 1;
		s->data_addr[1] = utf8;
		s->bytes += s->data[1];
	}
}

static void measure_long(const struct census_typer *t, const struct pytype *type, const u8 *p,
			 struct census_size *s)
{
	s->length = clip(census_digits(t, p));
	if (!t->l->long_tagged)
		s->bytes = LONG_HEAD + type->lead;
	else if (!s->length)
		s->length = 1;
	s->bytes += s->length * type->itemsize;
}

/* Attributes of an instance that has no dict of its own yet. */
static void measure_values(const struct census_typer *t, const struct pytype *type,
			   const struct census_object *o, struct census_size *s)
{
	const u8 *lead = o->p - type->lead;
	u64 values;

	if (!type->values_bytes || type->lead < 32)
		return;
	if (t->l->values == PYVALUES_PTR) {
		values = word(lead);
	} else {
		values = word(lead + 8);
		values = values & 1 ? values + 1 : 0;
	}
	if (!values)
		return;
	s->data[2] = type->values_bytes;
	s->data_addr[2] = values;
}

static void measure_dict(const struct census_typer *t, const struct census_object *o,
			 struct census_size *s)
{
	s->length = clip(word(o->p + DICT_USED));
	s->keys = word(o->p + DICT_KEYS);
	/* From 3.13 on they mostly lie in the instance they belong to. */
	if (t->l->values != PYVALUES_INLINE && o->avail >= DICT_VALUES + 8)
		s->values = word(o->p + DICT_VALUES);
}

void census_measure(const struct census_typer *t, const struct census_object *o,
		    struct census_size *s, enum census_data kinds[3])
{
	const struct pytype *type = pytypes_get(t->types, o->type);

	*s = (struct census_size){.bytes = (u64)type->basicsize + type->lead};
	kinds[0] = CENSUS_LIST_ITEMS;
	kinds[1] = CENSUS_STR_DATA;
	kinds[2] = CENSUS_DICT_VALUES;
	measure_values(t, type, o, s);
	switch (type->shape) {
	case PYSHAPE_STR:
		kinds[0] = CENSUS_STR_DATA;
		measure_str(t, type, o, s);
		break;
	case PYSHAPE_LONG:
		measure_long(t, type, o->p, s);
		break;
	case PYSHAPE_VAR:
		s->length = clip(word(o->p + OB_SIZE));
		s->bytes += s->length * type->itemsize;
		break;
	case PYSHAPE_OPEN:
		s->bytes = o->room + type->lead;
		break;
	case PYSHAPE_LIST:
		measure_list(o->p, s);
		break;
	case PYSHAPE_SET:
		kinds[0] = CENSUS_SET_TABLE;
		measure_set(o->p, s);
		break;
	case PYSHAPE_BYTEARRAY:
		kinds[0] = CENSUS_BYTEARRAY;
		measure_bytearray(t, o->p, s);
		break;
	case PYSHAPE_DEQUE:
		kinds[0] = CENSUS_DEQUE_BLOCKS;
		measure_deque(o->p, s);
		break;
	case PYSHAPE_DICT:
		measure_dict(t, o, s);
		break;
	case PYSHAPE_TYPE:
		if (o->avail >= t->l->ht_cached_keys + 8)
			s->keys = word(o->p + t->l->ht_cached_keys);
		break;
	case PYSHAPE_FIXED:
		break;
	}
}
