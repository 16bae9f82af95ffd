/* SPDX-License-Identifier: BSD-2-Clause */
/* The full-screen view of traced processes. */
#ifndef PHT_LIVE_H
#define PHT_LIVE_H

#include "opts.h"

/* The options and the terminal allow for it. */
bool live_possible(const struct opts *opts);
/* Like trace_main(). */
int live_main(const struct opts *opts);

#endif
