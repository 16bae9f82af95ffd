/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Type objects of another process: is a pointer one, what do its instances
 * look like, what is it called.  Everything that is remembered is bounded.
 */
#ifndef PHT_PYTYPES_H
#define PHT_PYTYPES_H

#include <stdbool.h>

#include "pyinfo.h"
#include "reader.h"

#define PYTYPES_MAX	 (1u << 18)
#define PYTYPES_NAME_MAX 256
#define PYTYPES_NONE	 UINT32_MAX

/* How the values of an instance without a dict of its own are kept. */
enum pyvalues {
	PYVALUES_NONE,	 /* <= 3.10: always a dict */
	PYVALUES_PTR,	 /* 3.11: a pointer 4 words before the object */
	PYVALUES_TAGGED, /* 3.12: a pointer 3 words before it, bit 0 set */
	PYVALUES_INLINE, /* 3.13+: behind the object, in the same block */
};

/* What differs between versions of the objects that are measured.  GIL builds, 64 bit. */
struct pylayout {
	u32 minor; /* 3.minor */
	/* PyHeapTypeObject */
	u32 ht_qualname, ht_cached_keys;
	/* PyDictKeysObject */
	u32 keys_head, keys_usable, keys_nentries;
	/* str */
	u32 str_ascii, str_compact, str_utf8_length, str_utf8;
	bool keys_log2;	      /* sizes as logarithms, entries without hash for str keys */
	bool long_tagged;     /* number of digits in the upper bits of a tag */
	bool refcnt32;	      /* flags in the reference count's upper half */
	bool bytearray_bytes; /* a bytearray's buffer is a bytes object */
	u32 prefix_flags;     /* tp_flags that put two more words before the GC header */
	enum pyvalues values;
};

/* NULL: not supported. */
const struct pylayout *pylayout_find(u32 version);

enum pyshape {
	PYSHAPE_FIXED, /* tp_basicsize */
	PYSHAPE_VAR,   /* and ob_size items */
	PYSHAPE_OPEN,  /* and more that ob_size does not tell */
	PYSHAPE_LONG,
	PYSHAPE_STR,
	PYSHAPE_LIST,
	PYSHAPE_DICT,
	PYSHAPE_SET,
	PYSHAPE_BYTEARRAY,
	PYSHAPE_DEQUE,
	PYSHAPE_TYPE,
};

#define PYTYPE_HEAP  (1u << 9)
#define PYTYPE_READY (1u << 12)
#define PYTYPE_GC    (1u << 14)
#define PYTYPE_LONG  (1u << 24)
#define PYTYPE_LIST  (1u << 25)
#define PYTYPE_TUPLE (1u << 26)
#define PYTYPE_BYTES (1u << 27)
#define PYTYPE_STR   (1u << 28)
#define PYTYPE_DICT  (1u << 29)
#define PYTYPE_TYPE  (1u << 31)

struct pytype {
	u64 addr;
	u32 flags; /* tp_flags */
	u32 basicsize, itemsize;
	u32 lead;	    /* bytes before the object: GC header, managed dict */
	bool inline_values; /* behind the object (3.13+) */
	u32 values_bytes;   /* the block of an instance's values (3.11, 3.12) */
	enum pyshape shape;
	/* Filled by pytypes_name(). */
	char *module, *name; /* owned */
};

struct pytypes; /* opaque */

/* Where heap types cannot be: told by the caller, in the order of the calls. */
enum pytypes_place {
	PYTYPES_STATIC, /* mapped files' data: examine what is pointed to */
	PYTYPES_SMALL,	/* pymalloc's arenas: a type does not fit there */
	PYTYPES_HEAP,	/* malloc's heaps: only what pytypes_add_heap() was told of */
	PYTYPES_OTHER,	/* examine, but not for ever */
};
typedef enum pytypes_place (*pytypes_place_fn)(void *ctx, u64 addr);

/* Addresses of PyType_Type and others; all but the first may be 0. */
struct pytypes_known {
	u64 type_type, set_type, frozenset_type, bytearray_type, bytes_type;
};

int pytypes_new(const struct pylayout *layout, const struct reader *r,
		const struct pytypes_known *known, pytypes_place_fn place, void *ctx,
		struct pytypes **out);
void pytypes_free(struct pytypes *t);

/* The index of the type object at addr, or PYTYPES_NONE. */
u32 pytypes_lookup_slow(struct pytypes *t, u64 addr);
/* A heap type may be at addr; its own type is said to be at type_addr. */
int pytypes_add_heap(struct pytypes *t, u64 addr, u64 type_addr);
/* All of them have been added. */
void pytypes_heap_done(struct pytypes *t);

const struct pytype *pytypes_get(const struct pytypes *t, u32 index);
u32 pytypes_count(const struct pytypes *t);
/* Resolve module and name of a type; both are never NULL afterwards. 0 or -ENOMEM. */
int pytypes_name(struct pytypes *t, u32 index);
/* Addresses that were refused because enough had been examined. */
u64 pytypes_refused(const struct pytypes *t);

/* A small cache in front of the look-up: nearly every block asks for the same few. */
#define PYTYPES_CACHE 4096
struct pytypes_cache {
	struct {
		u64 addr;
		u32 index;
	} v[PYTYPES_CACHE];
};

static inline u32 pytypes_lookup(struct pytypes *t, struct pytypes_cache *cache, u64 addr)
{
	size_t i = (addr >> 4 ^ addr >> 16) % PYTYPES_CACHE;

	if (addr & 7 || addr < 4096 || addr >= 1ull << 47)
		return PYTYPES_NONE;
	if (cache->v[i].addr != addr) {
		cache->v[i].addr = addr;
		cache->v[i].index = pytypes_lookup_slow(t, addr);
	}
	return cache->v[i].index;
}

/*
 * The number of keys a dict's table has room for, its bytes, and the bytes of
 * a table that would hold n; from the first PYKEYS_HEAD bytes of the table.
 * -EINVAL: they make no sense.
 */
#define PYKEYS_HEAD 40
struct pykeys {
	u64 refcnt, bytes, usable, nentries;
	u64 size;	 /* of the index */
	u32 entry_bytes; /* of one key with its value */
	u32 entries_at;	 /* offset of the first */
};
int pykeys_parse(const struct pylayout *l, const u8 head[PYKEYS_HEAD], struct pykeys *out);
/* How many values an array that goes with a shared table has room for; and bytes before them. */
u64 pykeys_values(const struct pylayout *l, const struct pykeys *keys);
u64 pykeys_values_head(const struct pylayout *l, u64 n);
u64 pykeys_bytes_for(const struct pylayout *l, const struct pykeys *keys, u64 n);

/* A str as UTF-8, cut to max bytes; "" when it is none. 0 or -errno. */
int pytypes_str(const struct pylayout *l, const struct reader *r, u64 addr, char *buf, size_t max);

#endif
