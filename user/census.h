/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A census of a Python process's heap, taken from outside: live objects by
 * type, and what the memory that holds no object belongs to.
 */
#ifndef PHT_CENSUS_H
#define PHT_CENSUS_H

#include <stdbool.h>
#include <sys/types.h>

#include "census_heap.h"
#include "census_type.h"

#define CENSUS_TOP_MAX 1000

struct census_row {
	char *module, *name; /* owned; name is NULL for a whole module */
	u64 count;
	u64 bytes; /* as sys.getsizeof(), summed: with tables, item arrays, GC header */
	u64 held;  /* of the allocator's blocks that hold that */
	u64 spare; /* allocated for more items than there are */
};

struct census_large {
	u32 type;	     /* index; for the census itself */
	char *module, *name; /* owned; of its type; NULL until the end */
	u64 addr, bytes, length;
};

/* The largest ones seen so far. */
struct census_top {
	struct census_large *v; /* owned; a heap with the smallest first, later sorted */
	size_t n, max;
};

struct census_data_row {
	u64 blocks, bytes; /* asked for */
	u64 held;
};

struct census_class {
	u64 used, free;
	u64 objects, freelist;
	u64 data;  /* blocks that belong to objects: tables, item arrays */
	u64 other; /* blocks of no known owner */
};

struct census {
	pid_t pid;
	char comm[64], python[16];
	const char *alloc_mode;
	u64 rss;
	struct census_row *row; /* owned; by type, largest first */
	size_t nrow;
	struct census_row *module; /* owned */
	size_t nmodule;
	struct census_class class[OBMALLOC_CLASSES];
	struct census_data_row data[CENSUS_DATA_KINDS];
	u64 objects, object_bytes; /* all rows */
	u64 object_held;	   /* of the blocks that objects are in */
	u64 freelist_blocks, freelist_bytes;
	u64 other_pool_bytes;	/* in pools: blocks in use of no known owner */
	u64 other_malloc_bytes; /* the same for malloc: also what C code holds */
	struct census_top containers, strings;
	struct census_heap_stats heap;
	bool pymalloc, malloc; /* walked */
	u64 linked;	       /* large objects found through the collector's lists */
	u64 linked_left_out;   /* links that led to nothing known */
	u64 unread_tables;     /* dicts whose table could not be read */
	u64 types_refused;
	u64 types;
	u64 took_ns, frozen_ns;
};

const char *census_data_key(enum census_data kind);
const char *census_data_name(enum census_data kind);

struct census_opts {
	bool freeze;
	size_t top; /* largest objects to keep */
	/* Called with everything found, before it is let go; may be NULL. */
	int (*then)(void *ctx, struct census_heap *h, struct census_typer *t,
		    const struct census *c);
	void *ctx;
};

/* 0, or -errno after one clear line (log_error). */
int census_take(pid_t pid, const struct census_opts *opts, struct census *out);
void census_free(struct census *c);

/*
 * The same for any memory that can be read, such as an image of a process.
 * maps are taken over.  -errno without a word.
 */
int census_take_reader(const struct pyinfo *info, const struct reader *r, struct proc_maps *maps,
		       const struct pytypes_known *known, const struct census_opts *opts,
		       struct census *out);

/* The types that others are known by, in a live process. 0 or -errno. */
int census_find_known(const struct pyinfo *info, const struct proc_maps *maps,
		      struct pytypes_known *known);

int census_print_text(const struct census *c, size_t top, bool all, FILE *out);
int census_print_json(const struct census *c, FILE *out);

#endif
