/* SPDX-License-Identifier: BSD-2-Clause */
/* What pytypes.c remembers.  For pytypes*.c only. */
#ifndef PHT_PYTYPES_TABLE_H
#define PHT_PYTYPES_TABLE_H

#include "pytypes.h"

/* PyTypeObject: the same from 3.8 to 3.15. */
#define TP_TYPE	     8
#define TP_NAME	     24
#define TP_BASICSIZE 32
#define TP_ITEMSIZE  40
#define TP_FLAGS     168
#define TP_BASE	     256
#define TP_DICT	     264
#define TP_READ	     272

struct slot {
	u64 addr; /* 0 = free */
	u32 index;
};

struct pytypes {
	const struct pylayout *l;
	const struct reader *r;
	struct pytypes_known known;
	pytypes_place_fn place;
	void *ctx;
	struct pytype *v; /* owned */
	u32 n, cap;
	struct slot *slots; /* owned; a power of two of them */
	size_t nslots, used;
	u64 examined, refused;
	u64 module_key; /* the interned "__module__", once it has been seen */
	bool complete;
};

#endif
