/* SPDX-License-Identifier: BSD-2-Clause */
/* Fields of objects that are the same in all versions.  For census_*.c only. */
#ifndef PHT_CENSUS_OBJECT_H
#define PHT_CENSUS_OBJECT_H

#include <string.h>

#include "census_type.h"

#define OB_TYPE	  8
#define OB_SIZE	  16
#define GC_HEAD	  16
#define ITEMS_MAX (1ull << 40) /* no object has as many items */

#define STR_LENGTH  16
#define STR_STATE   32
#define STR_COMPACT (1u << 5)
#define STR_ASCII   (1u << 6)

static inline u64 word(const u8 *p)
{
	u64 v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline u32 half(const u8 *p)
{
	u32 v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* Digits of an int. */
u64 census_digits(const struct census_typer *t, const u8 *p);
/* Bytes that the object at p needs from its address on; 0: it makes no sense. */
u64 census_need(const struct census_typer *t, const struct pytype *type, const u8 *p);

#endif
