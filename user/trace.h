/* SPDX-License-Identifier: BSD-2-Clause */
/* The trace command: attach, refresh, report until told to stop. */
#ifndef PHT_TRACE_H
#define PHT_TRACE_H

#include "opts.h"

/* Returns the exit code: 0, or 1 after one line on stderr. */
int trace_main(const struct opts *opts);

#endif
