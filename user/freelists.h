/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects that CPython keeps for reuse: the free lists that sys._debugmallocstats() prints. */
#ifndef PHT_FREELISTS_H
#define PHT_FREELISTS_H

#include "obmalloc.h"

#define FREELISTS_MAX	  32
#define FREELISTS_KINDS	  8
#define FREELISTS_TUPLES  20 /* lists by size at most */
#define FREELISTS_UNKNOWN UINT32_MAX

struct freelist {
	const char *type; /* "PyDictObject" */
	u32 items;	  /* for tuples: the size that this list is for; else 0 */
	u32 size;	  /* bytes of one object */
	u32 count;	  /* FREELISTS_UNKNOWN: not found, or what was found made no sense */
};

struct freelists {
	struct freelist v[FREELISTS_MAX]; /* in the order in which CPython prints them */
	size_t n;
	size_t unknown; /* of these, lists whose count is */
};

/* Where the counts are. */
struct freelists_where {
	u32 minor;
	bool per_interpreter;	 /* 3.10+: offsets in the interpreter; before: addresses */
	u64 at[FREELISTS_KINDS]; /* 0 = not found */
};

/*
 * ob may be NULL when pymalloc's state was not found; from 3.12 on that leaves
 * the lists unknown as well.  0, -ENOTSUP (version), -ESRCH, -EPERM.
 */
int freelists_find(const struct pyinfo *info, const struct obmalloc *ob,
		   struct freelists_where *out);
/* The lists of one interpreter (ignored up to 3.9).  0, -ESRCH, -EPERM, -ETIMEDOUT. */
int freelists_read(const struct freelists_where *where, const struct reader *r, u64 interp,
		   struct freelists *out);
/* The list of the same type and size in another look, or NULL. */
const struct freelist *freelists_same(const struct freelists *lists, const struct freelist *l);
/* The name above that equals text (which may be anything), or NULL. */
const char *freelists_type(const char *text);
/* Add the counts of another interpreter of the same process. */
void freelists_add(struct freelists *sum, const struct freelists *other);

#endif
