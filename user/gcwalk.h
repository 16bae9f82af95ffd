/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Large objects through the garbage collector's lists, for heaps whose malloc
 * cannot be walked.  The lists run through small and large objects alike, so
 * each stretch of large ones is entered from a small neighbour in a pool; no
 * offset of the collector's state is needed.
 */
#ifndef PHT_GCWALK_H
#define PHT_GCWALK_H

#include "census_type.h"

#define GCWALK_MAX (1u << 20) /* objects that are remembered, so that no list is walked twice */

struct gcwalk; /* opaque */

int gcwalk_new(struct census_typer *t, struct gcwalk **out);
void gcwalk_free(struct gcwalk *g);
/* A collected object in a pool: its neighbours in the list may be large ones. 0 or -ENOMEM. */
int gcwalk_note(struct gcwalk *g, const struct census_object *o);

struct gcwalk_stats {
	u64 objects, nonsense, left_out;
};

/* Visit the large objects that the noted ones lead to, each once, as blocks. */
int gcwalk_run(struct gcwalk *g, census_block_fn fn, void *ctx, struct gcwalk_stats *stats);

#endif
