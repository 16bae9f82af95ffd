/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A flame graph of a capture or of a live process: one HTML file that needs
 * nothing else.  What is in it: docs/flamegraph.md.
 */
#ifndef PHT_FLAME_H
#define PHT_FLAME_H

#include "capture.h"
#include "snapshot_group.h"

struct flame_input {
	const struct stacks *stacks;
	const struct snapshot *now;
	const struct snapshot *first; /* to compare with; NULL = nothing */
	const struct snapshot *peak;  /* NULL: the same as now */
	bool diff;     /* a comparison that was asked for, not a recording's course */
	bool same_run; /* first is an earlier moment of now's run */
	const struct snap_filter *filter;
	const struct capture_point *points; /* the time series; may be empty */
	size_t npoints;
	size_t max_bytes; /* of the data, about; 0 = FLAME_MAX_BYTES */
};

/* Frames too small to matter are left out, and said so, when there would be more. */
#define FLAME_MAX_BYTES (12u << 20)
/* Longer names are cut in the page, and counted there. */
#define FLAME_NAME_MAX 600u

/* 0 or -errno.  The same input gives the same bytes. */
int flame_write(FILE *out, const struct flame_input *in);

#endif
