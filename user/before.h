/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What was there before: a census of the objects that the process held when
 * we attached, taken in a thread of its own while tracing goes on.  Nothing
 * stops for it; it says nothing where it cannot tell.
 */
#ifndef PHT_BEFORE_H
#define PHT_BEFORE_H

#include "pyinfo.h"
#include "report.h"

struct before; /* opaque */

/* Begin; NULL when that is not possible, which is no error. */
struct before *before_start(const struct pyinfo *info);
/* The result, valid until before_end(); NULL while it is not there. */
const struct report_before *before_get(struct before *b);
/*
 * Let go of it.  A census that is still going on is left to end by itself:
 * it holds nothing of ours and has a deadline.
 */
void before_end(struct before *b);

#endif
