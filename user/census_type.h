/* SPDX-License-Identifier: BSD-2-Clause */
/* Which object a block holds, and how large that object says it is. */
#ifndef PHT_CENSUS_TYPE_H
#define PHT_CENSUS_TYPE_H

#include "census_heap.h"

struct census_typer {
	struct census_heap *h;
	struct pytypes *types;
	const struct pylayout *l;
	u64 bytes_type; /* address; 0 = unknown */
	/* Bytes that debug hooks put before what was asked for, and around it. */
	struct census_hooks {
		u32 front, extra;
	} small, large; /* in pools, from malloc */
	struct pytypes_cache cache;
};

static inline const struct census_hooks *census_hooks(const struct census_typer *t,
						      const struct census_block *b)
{
	return b->where == CENSUS_POOL ? &t->small : &t->large;
}

enum census_what {
	CENSUS_DATA, /* no object, or none that is known */
	CENSUS_OBJECT,
	CENSUS_FREELIST, /* an object that died, kept for the next of its type */
};

struct census_object {
	u32 type;     /* index */
	u64 addr;     /* of the object; the GC header and the like come before */
	const u8 *p;  /* its bytes */
	size_t avail; /* how many of them can be seen */
	u64 room;     /* bytes from addr to the block's end */
};

enum census_what census_classify(struct census_typer *t, const struct census_block *b,
				 struct census_object *o);

/* What an object says of itself. */
struct census_size {
	u64 bytes;  /* as sys.getsizeof() counts, but for a dict's table */
	u64 length; /* items, characters, bytes */
	u64 spare;  /* allocated for more items than there are */
	/* Blocks of its own, other than the one it is in: bytes asked for; 0 = none. */
	u64 data[3];
	u64 data_addr[3];
	u64 keys;   /* address of a dict's table, to be looked at; 0 = none */
	u64 values; /* address of a dict's values, if its table is shared; 0 = none */
};

enum census_data {
	CENSUS_LIST_ITEMS,
	CENSUS_DICT_KEYS,
	CENSUS_DICT_VALUES,
	CENSUS_SET_TABLE,
	CENSUS_BYTEARRAY,
	CENSUS_STR_DATA,
	CENSUS_DEQUE_BLOCKS,
	CENSUS_DATA_KINDS,
};

/* data[i] belongs to kinds[i]. */
void census_measure(const struct census_typer *t, const struct census_object *o,
		    struct census_size *s, enum census_data kinds[3]);

#endif
