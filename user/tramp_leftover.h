/* SPDX-License-Identifier: BSD-2-Clause */
/* What a tracer that was killed while it made a page left behind, besides whole pages. */
#ifndef PHT_TRAMP_LEFTOVER_H
#define PHT_TRAMP_LEFTOVER_H

#include <sys/types.h>

#include "inject.h"
#include "proc.h"
#include "tramp_region.h"

#define TRAMP_LEFTOVERS_MAX 16

/* A descriptor of the target's, or a mapping of code without its data. */
struct tramp_leftover {
	int number; /* of the descriptor; -1: a mapping */
	u64 base;
	ino_t ino;
	int fd; /* owned; its lock keeps others off; -1: the file is locked already */
};

struct tramp_leftovers {
	struct tramp_leftover v[TRAMP_LEFTOVERS_MAX];
	int n;
};

/*
 * Found after the region was locked; if it was made, the thread that a dead
 * tracer had borrowed may have done what it was told only now.  One that another
 * tracer holds is that tracer's business.  What is not found now waits for the
 * next attach.
 */
void tramp_leftovers_find(pid_t pid, const struct tramp_region *region,
			  struct tramp_leftovers *out);
/* Have the stopped thread close and unmap them, as far as it can. */
void tramp_leftovers_clear(const struct tramp_leftovers *left, struct inject *in);
void tramp_leftovers_free(struct tramp_leftovers *left);

#endif
