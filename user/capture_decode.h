/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Payloads of snapshot blocks -> one snapshot, kept up to date.  Input is
 * hostile: every number is checked, memory is bounded by intern.h,
 * snapshot_stacks.h, SNAP_MAX_ROWS and the size of a block.
 */
#ifndef PHT_CAPTURE_DECODE_H
#define PHT_CAPTURE_DECODE_H

#include "capture_codec.h"
#include "intern.h"
#include "snapshot.h"

/* The store's number for each of the file's. */
struct id_map {
	u32 *ids; /* owned */
	u32 n, cap;
};

struct decoder {
	struct stacks *stacks;
	struct intern *names;
	const char **strings; /* owned; the file's, into names */
	u32 nstrings, strings_cap;
	struct id_map frames, tree;
	struct snapshot now;
};

int decoder_init(struct decoder *d, struct stacks *stacks); /* 0 or -ENOMEM */
void decoder_free(struct decoder *d);

/*
 * Bring d->now up to date.  -EBADMSG: the content makes no sense, or is beyond
 * the bounds; d->now is as it was, but nothing can be decoded any more.  -ENOMEM.
 */
int decode_snapshot(struct decoder *d, const u8 *payload, size_t len);

#endif
