/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lead the libc calls of extension modules, and everybody's mappings, through
 * the trampoline: GOT slots are made to point at its entries while we trace,
 * and put back after.
 */
#ifndef PHT_GOTSWAP_H
#define PHT_GOTSWAP_H

#include "pyinfo.h"
#include "tramp.h"

struct gotswap; /* opaque */

/* Find the slots.  0, or -errno: then those calls are not to be seen. */
int gotswap_open(const struct pyinfo *info, struct gotswap **out);
void gotswap_free(struct gotswap *g);

/* The functions that the trampoline's entries must end in: for tramp_params.libc. */
void gotswap_originals(const struct gotswap *g, u64 libc[PHT_TFN_NR - PHT_TFN_TABLES]);

/* Point all slots that may be at the page of t.  Again every second: objects come and go. */
void gotswap_apply(struct gotswap *g, struct tramp *t);
/* Put back what is still ours. */
void gotswap_restore(struct gotswap *g, struct tramp *t);

/*
 * Words that point at us now, those that lead past us, and of these the ones
 * that somebody changed since the last look.
 */
struct gotswap_view {
	u32 ours, missed, taken;
	bool own_new; /* the allocator serves operator new itself: such calls are not led here */
};
struct gotswap_view gotswap_view(const struct gotswap *g);

#endif
