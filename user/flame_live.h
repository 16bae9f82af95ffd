/* SPDX-License-Identifier: BSD-2-Clause */
/* pyheaptrace -p PID -f flamegraph: trace a process, then write its flame graph. */
#ifndef PHT_FLAME_LIVE_H
#define PHT_FLAME_LIVE_H

#include "capture.h"
#include "opts.h"

/* What is kept of a trace: its first and last moment, its peak, and the course in between. */
struct flame_course {
	struct snapshot first, peak, now; /* owned */
	double peak_bytes;
	bool any;		      /* there was a snapshot */
	struct capture_point *points; /* owned */
	size_t npoints, max_points;   /* every other point goes when there are so many */
	size_t seen, step;	      /* one moment in step is kept, beside the last */
	bool passing;		      /* the last point is there only until the next comes */
};
#define FLAME_MAX_POINTS 1024

/* Take in the next moment; s is taken over whatever comes of it.  0 or -ENOMEM. */
int flame_course_add(struct flame_course *c, struct snapshot *s);
int flame_course_write(FILE *out, const struct flame_course *c, const struct stacks *stacks);
void flame_course_free(struct flame_course *c);

/* The exit code: 0, 1 after one line, 2 for wrong usage. */
int flame_live_main(const struct opts *opts);

#endif
