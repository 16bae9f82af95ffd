/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside of the capture writer, for capture_write.c and capture_thin.c. */
#ifndef PHT_CAPTURE_WRITE_H
#define PHT_CAPTURE_WRITE_H

#include "capture.h"
#include "capture_encode.h"

/* What thinning has to know of a snapshot in the file. */
struct writer_moment {
	double duration, live_bytes;
};

struct capture_writer {
	int fd;
	char *path;   /* owned; NULL: cannot be replaced, so is not thinned */
	bool regular; /* a file: can be cut back to its last whole block */
	bool lazy;    /* it is synced by who replaces a file by it */
	bool warned;  /* that thinning fails */
	int broken;   /* 0, or why nothing can be appended any more */
	u64 size;
	size_t snapshots;
	struct writer_moment *moments; /* owned; of each */
	struct stacks *stacks;
	struct capture_limits limits;
	struct encoder encoder;
	struct outbuf payload, block;
};

/* Begin a capture in an open file, which is taken over whatever comes of it. */
int writer_open_fd(int fd, struct stacks *stacks, const struct capture_limits *limits,
		   struct capture_writer **out);
/* capture_append() without a look at the limits. */
int writer_append(struct capture_writer *w, const struct snapshot *s);
/* Replace the file by one with about half the snapshots.  0 or -errno; then the old one stays. */
int writer_thin(struct capture_writer *w);

/*
 * Mark about n of count moments to be kept: the first, the last, the one with
 * the most live bytes, and those nearest to even spacing.  Pure.
 */
void thin_choose(const struct writer_moment *moments, size_t count, size_t n, u8 *keep);

#endif
