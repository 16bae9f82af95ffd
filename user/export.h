/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One snapshot of a capture in other programs' formats.  The same capture and
 * options give the same bytes.  What each format holds: docs/exports.md.
 */
#ifndef PHT_EXPORT_H
#define PHT_EXPORT_H

#include "capture_codec.h"
#include "snapshot_group.h"

struct export_input {
	const struct snapshot *s;
	const struct stacks *stacks;
	/* Those of s->rows that passed the filters. */
	const struct snap_row *rows;
	size_t nrows;
	const struct snap_view *view;
};

struct exporter {
	const char *name, *what;
	int (*write)(FILE *out, const struct export_input *in); /* 0 or -errno */
	bool binary;						/* not for a terminal */
};

extern const struct exporter *const exporters[]; /* ends with NULL */

extern const struct exporter export_pprof, export_speedscope, export_folded,
	export_folded_allocated, export_csv, export_json, export_tracemalloc;

/*
 * Numbers for the frames that are exported, in the order in which they are
 * met: what the rows do not use does not come in.
 */
struct export_frames {
	u32 *number; /* of the store's frame, from 1; 0 = not used.  Owned */
	u32 *frame;  /* the other way round: [number - 1].  Owned */
	u32 n;
};
int export_frames_open(const struct export_input *in, struct export_frames *f); /* 0 or -ENOMEM */
void export_frames_free(struct export_frames *f);

/* A whole, finite number from 0 to 2^62. */
u64 export_whole(double v);

#endif
