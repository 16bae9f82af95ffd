/* SPDX-License-Identifier: BSD-2-Clause */
/* Targets by what they are rather than by pid: found in /proc, again and again. */
#ifndef PHT_CHOOSE_H
#define PHT_CHOOSE_H

#include <stdbool.h>
#include <sys/types.h>

#include "util.h"

/* Of several conditions, all must hold. */
struct choose_rule {
	const char *comm;   /* pattern of the name in /proc/PID/comm, or NULL */
	const char *cgroup; /* this control group (v2) and those below it, or NULL */
	bool all;	    /* every Python process */
};

static inline bool choose_any(const struct choose_rule *rule)
{
	return rule->comm || rule->cgroup || rule->all;
}

/*
 * A process that fits.  0: seen to, do not ask again unless it executes
 * another program; -EAGAIN: ask again.
 */
typedef int (*choose_fn)(void *ctx, pid_t pid);

struct choose; /* opaque */

struct choose *choose_new(const struct choose_rule *rule); /* NULL: no memory */
void choose_free(struct choose *c);
/* Call fn for each process that fits and is new.  0 or -errno after one line. */
int choose_scan(struct choose *c, choose_fn fn, void *ctx);

/* Does the text of a /proc/PID/cgroup name this group or one below it? */
bool choose_in_cgroup(const char *text, const char *wanted);

#endif
