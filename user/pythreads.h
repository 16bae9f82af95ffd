/* SPDX-License-Identifier: BSD-2-Clause */
/* The Python threads of a live process, read from outside. */
#ifndef PHT_PYTHREADS_H
#define PHT_PYTHREADS_H

#include "pyinfo.h"

#define PYTHREADS_MAX 1024

struct pythread {
	u64 tstate;
	u64 interp;
	u64 thread_id; /* pthread_self() */
	u64 frame;     /* innermost frame, 0 = none */
};

/*
 * All thread states of all interpreters, as one torn look at running memory
 * gives them; at most max.  Number found (0: not initialised yet), -EFAULT
 * (the structures make no sense, or changed underfoot), -ESRCH, -EPERM.
 */
int pythreads_read(const struct pyinfo *info, struct pythread *v, size_t max);

/*
 * Check info->off against the process by walking its threads' frames: the
 * code objects must be code objects with readable names.  0 (fits, or no
 * thread runs Python code yet), -ENOTSUP (never made sense), -ESRCH, -EPERM.
 */
int pythreads_check(const struct pyinfo *info);

#endif
