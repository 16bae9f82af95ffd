/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A memory that can be read: a live process, or an image of one in a test.
 * Everything that walks a target's heap reads through this, so that a
 * corrupted heap can be tried without a process, and so that no walk outlives
 * its deadline.
 */
#ifndef PHT_READER_H
#define PHT_READER_H

#include <stdbool.h>
#include <sys/types.h>

#include "util.h"

struct reader {
	/* Exactly len bytes at addr: 0, -EFAULT (not there), -ESRCH, -EPERM. */
	int (*read)(void *ctx, u64 addr, void *buf, size_t len);
	/* Optional: see reader_gather(). */
	int (*gather)(void *ctx, const u64 *addrs, size_t n, u8 *buf, size_t len, bool *ok);
	void *ctx;
	u64 deadline; /* reader_now() at which every read fails; 0 = never */
};

/* Nanoseconds of CLOCK_MONOTONIC. */
u64 reader_now(void);

/* A process; *pid must outlive the reader. */
struct reader reader_proc(pid_t *pid);

/* 0, -EFAULT, -ESRCH, -EPERM, -ETIMEDOUT (the deadline has passed). */
int reader_read(const struct reader *r, u64 addr, void *buf, size_t len);

/*
 * n pieces of len bytes: the one at addrs[i] to buf + i * len, with ok[i] set
 * to whether it could be read.  One system call reads many pieces of a
 * process.  0, -ESRCH, -EPERM, -ETIMEDOUT.
 */
int reader_gather(const struct reader *r, const u64 *addrs, size_t n, void *buf, size_t len,
		  bool *ok);

#endif
