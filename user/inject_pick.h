/* SPDX-License-Identifier: BSD-2-Clause */
/* Which thread of a process is interrupted with the least harm. */
#ifndef PHT_INJECT_PICK_H
#define PHT_INJECT_PICK_H

#include <stdbool.h>
#include <sys/types.h>

#include "util.h"

/* The best candidates first; returns how many (at most max), or -errno. */
int inject_pick(pid_t pid, pid_t *tids, int max);

/*
 * A system call that fails with EINTR because of our stop, and that can be
 * told to wait again without a difference to the program (but for a timeout
 * that starts anew).
 */
bool inject_eintr_restartable(long nr);

#endif
