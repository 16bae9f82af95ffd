/* SPDX-License-Identifier: BSD-2-Clause */
/* CPython's three allocator tables in a target, seen from a trampoline region. */
#ifndef PHT_TRAMP_TABLES_H
#define PHT_TRAMP_TABLES_H

#include "proc.h"
#include "pyinfo.h"
#include "tramp_region.h"

struct tramp_tables {
	u64 addr[3]; /* raw, mem, obj; 0 = not known */
	struct tramp_table {
		u64 ctx;
		u64 fn[4];
	} v[3];
};

/* Fetch v[] for every address. 0 or -errno. */
int tramp_tables_read(int mem, struct tramp_tables *t);

enum tramp_slot {
	SLOT_ABSENT,
	SLOT_OURS,
	SLOT_ORIG,    /* the function that our entry passes on to */
	SLOT_CHAINED, /* somebody else's, who passes on to our entry */
	SLOT_FOREIGN,
};

/* State of one of the 12 pointers, 0..PHT_TFN_TABLES-1. */
enum tramp_slot tramp_slot_state(int mem, const struct tramp_tables *t,
				 const struct tramp_region *region, int fn);
/* Where that pointer is. */
u64 tramp_slot_addr(const struct tramp_tables *t, int fn);
/*
 * mem's and obj's free, which need not be ours where sampled blocks come from
 * the raw domain (PHT_CTL_F_PAD).
 */
bool tramp_slot_is_small_free(int fn);
/* May PHT_CTL_F_PAD be used: does pymalloc pass on to the raw domain what is above small_max? */
bool tramp_spec_may_pad(const struct tramp_image_spec *spec);
u64 tramp_entry_addr(const struct tramp_region *region, int fn);

/*
 * The region that an attach can use as it is, or -1: its originals are those
 * that the tables hold, or hold behind it.
 */
int tramp_tables_match(int mem, const struct tramp_tables *t, const struct tramp_regions *regions,
		       const u64 *libc);

/*
 * What a new region must hold.  Functions of an earlier region are passed
 * over, never chained.  -ENOEXEC: a pointer does not lead to code.
 */
int tramp_tables_spec(const struct tramp_tables *t, const struct tramp_regions *regions,
		      const struct proc_maps *maps, enum py_alloc_mode mode, const u64 *libc,
		      struct tramp_image_spec *out);

#endif
