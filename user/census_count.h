/* SPDX-License-Identifier: BSD-2-Clause */
/* Adding up a census block by block.  For census*.c only. */
#ifndef PHT_CENSUS_COUNT_H
#define PHT_CENSUS_COUNT_H

#include "census.h"

struct census_counter; /* opaque */

int census_counter_new(struct census_typer *t, size_t top, struct census *c,
		       struct census_counter **out);
void census_counter_free(struct census_counter *k);
/* A census_block_fn; ctx is the counter. */
int census_count_block(void *counter, const struct census_block *b);
/* Everything has been seen: names, rows, sums.  0 or -errno. */
int census_counter_finish(struct census_counter *k);

/* Keep it if it is one of the largest. */
void census_top_add(struct census_top *top, const struct census_large *large);
/* Sort them, largest first, and name their types. 0 or -errno. */
int census_top_finish(struct census_top *top, struct pytypes *types);

/* Join rows of one name (types that were made anew), largest first. How many are left. */
size_t census_rows_merge(struct census_row *row, size_t n);
void census_rows_free(struct census_row *row, size_t n);

#endif
