/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Snapshots -> payloads of snapshot blocks, in memory.  Each payload holds
 * what the ones before did not: names, frames and stacks that are new, rows
 * that changed.
 */
#ifndef PHT_CAPTURE_ENCODE_H
#define PHT_CAPTURE_ENCODE_H

#include "capture_codec.h"
#include "hashmap.h"
#include "snapshot.h"

struct encoder {
	const struct stacks *stacks;
	/* What a file calls the store's frames and stacks; 0 = nothing yet, else number + 1. */
	u32 *frame_ids, *stack_ids;
	size_t frames_cap, stacks_cap;
	struct hashmap string_ids; /* address -> number + 1 */
	u32 nstrings, nframes, nstacks;
	/* Table entries that are in no payload known to be written. */
	struct outbuf strings, frames, tree;
	struct snapshot last, next; /* rows only: what was written, and what comes after that */
	struct outbuf part, columns;
};

void encoder_init(struct encoder *e, const struct stacks *stacks);
void encoder_free(struct encoder *e);

/* 0 or -ENOMEM.  Repeat it as often as the payload cannot be written.*/
int encode_snapshot(struct encoder *e, const struct snapshot *s, struct outbuf *payload);
/* The last payload is in the file: the next one builds on it. */
void encoder_commit(struct encoder *e);

#endif
