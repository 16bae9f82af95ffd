/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes that are followed are stopped for moments.  A helper process makes
 * sure that none stays so: when the tracer is gone, in whatever way, it lets
 * those go on that the kernel's table says are stopped by us.
 */
#ifndef PHT_STOPGUARD_H
#define PHT_STOPGUARD_H

#include <sys/types.h>

struct stopguard {
	pid_t pid;
	int pipe; /* open as long as we live */
};

/* follow_fd: the map of struct pht_follow.  0 or -errno. */
int stopguard_start(int follow_fd, struct stopguard *g);
void stopguard_end(struct stopguard *g);

#endif
