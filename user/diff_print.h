/* SPDX-License-Identifier: BSD-2-Clause */
/* A sorted difference as text or JSON. */
#ifndef PHT_DIFF_PRINT_H
#define PHT_DIFF_PRINT_H

#include "capture_view.h"
#include "snapshot_diff.h"

struct diff_print {
	const struct view_args *args;
	const struct stacks *stacks;
	const struct snapshot *before, *after;
	const struct snap_diff *diff;
	bool same_run;
};

/* 0 or -errno of the stream or memory. */
int diff_print_text(FILE *out, const struct diff_print *p);
int diff_print_json(FILE *out, const struct diff_print *p);

#endif
