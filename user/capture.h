/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Capture files: snapshots of one traced process, symbolized and
 * self-contained.  The format is docs/capture-format.md.
 *
 * Writing appends one checksummed block per snapshot; when the series grows
 * past its bound it is thinned to even spacing into a new file that replaces
 * the old one, so a file is bounded however long the run is, and whole up to
 * its last block whenever the writer dies.
 *
 * Reading is sequential and applies one block after another to one snapshot:
 *
 *	struct stacks *stacks = stacks_new();
 *	struct capture *c;
 *	int err = capture_open(path, stacks, &c);
 *	while (!err && (err = capture_next(c)) > 0) {
 *		const struct snapshot *s = capture_snapshot(c);   // until the next call
 *		...
 *		err = 0;
 *	}
 */
#ifndef PHT_CAPTURE_H
#define PHT_CAPTURE_H

#include "snapshot.h"

#define CAPTURE_VERSION 1

/* ---- writing */

struct capture_limits {
	size_t max_snapshots; /* at least 8; thinned to half when exceeded */
	u64 max_bytes;	      /* of the file; at least two snapshots are kept whatever their size */
};
#define CAPTURE_MAX_SNAPSHOTS 240
#define CAPTURE_MAX_BYTES     (16ull << 20)

struct capture_writer; /* opaque */

/*
 * path "-" is standard output.  What is not a regular file cannot be thinned:
 * there every snapshot stays.  limits NULL: the defaults above.  The store
 * must outlive the writer; snapshots appended have their stacks in it.
 * 0 or -errno after one line.
 */
int capture_create(const char *path, struct stacks *stacks, const struct capture_limits *limits,
		   struct capture_writer **out);
/*
 * Append a snapshot: it is in the file when this returns 0.  On an error
 * (-errno, nothing is logged) the file ends with the snapshot before, and
 * another append may be tried.
 */
int capture_append(struct capture_writer *w, const struct snapshot *s);
/* Say that the recording ended as it should.  0 or -errno. */
int capture_finish(struct capture_writer *w);
void capture_writer_free(struct capture_writer *w);
u64 capture_written(const struct capture_writer *w);	  /* bytes in the file */
size_t capture_snapshots(const struct capture_writer *w); /* snapshots in the file */

/* ---- reading */

struct capture; /* opaque */

/* path "-" is standard input.  0 or -errno after one line that says what is wrong. */
int capture_open(const char *path, struct stacks *stacks, struct capture **out);
/* The same of an open file, which is taken over whatever comes of it. */
int capture_open_fd(int fd, const char *name, struct stacks *stacks, struct capture **out);
void capture_close(struct capture *c);

/*
 * Go to the next snapshot.  1: there is one; 0: no more (see capture_trouble);
 * -ENOMEM.
 */
int capture_next(struct capture *c);
const struct snapshot *capture_snapshot(const struct capture *c);
size_t capture_index(const struct capture *c); /* of it, from 0 */
/* After capture_next() was 0: NULL, or why the file ends before the recording did. */
const char *capture_trouble(const struct capture *c);

/* ---- reading in one go; each 0 or -errno after one line, damage is warned about */

/* A point of the time series. */
struct capture_point {
	double duration; /* seconds since attach */
	u64 wall_ns, rss;
	struct estimate live_bytes;
	double live_blocks, allocated_bytes;
	size_t nrows;
};

void capture_point_of(const struct snapshot *s, struct capture_point *out);
int capture_series(const char *path, struct capture_point **out, size_t *n);

#define CAPTURE_LAST (-1)
/* The high-water mark: as recorded, else the snapshot with the most live bytes. */
#define CAPTURE_PEAK (-2)
/* One snapshot by number, from 0, or one of the above.  -ENOENT where it is not there. */
int capture_load(const char *path, struct stacks *stacks, long which, struct snapshot *out);

/*
 * Several in one pass, out[i] being which[i]; needed for standard input.  All
 * or none are filled.
 */
int capture_load_many(const char *path, struct stacks *stacks, const long *which, size_t n,
		      struct snapshot *out);
/* The same, and the time series; points may be NULL. */
int capture_load_all(const char *path, struct stacks *stacks, const long *which, size_t n,
		     struct snapshot *out, struct capture_point **points, size_t *npoints);

#endif
