/* SPDX-License-Identifier: BSD-2-Clause */
/* The rows of a snapshot block: decoded, checked, and applied to a snapshot. */
#ifndef PHT_CAPTURE_ROWS_H
#define PHT_CAPTURE_ROWS_H

#include "capture_decode.h"

/* What bytes or blocks can be, so that sums of them stay numbers. */
static inline bool sum_in_range(double v)
{
	return v >= 0 && v <= 1152921504606846976.0; /* 2^60 */
}

/* The changed rows, in order, into change.  0, -EBADMSG or -ENOMEM, as decode_snapshot(). */
int decode_rows(const struct decoder *d, struct inbuf *in, struct snapshot *change);
/* Change now's rows.  Errors as above; then they are as they were. */
int apply_rows(struct snapshot *now, const struct snapshot *change);

#endif
