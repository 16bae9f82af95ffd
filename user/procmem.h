/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process's memory through one file descriptor.  It stays bound to that
 * address space: a recycled pid or an exec cannot redirect a write.
 */
#ifndef PHT_PROCMEM_H
#define PHT_PROCMEM_H

#include <sys/types.h>

#include "util.h"

/* An fd for reading and writing, or -errno. */
int procmem_open(pid_t pid);
/* All of len bytes: 0, -EFAULT, or -ESRCH when the address space is gone. */
int procmem_read(int fd, u64 addr, void *buf, size_t len);
int procmem_write(int fd, u64 addr, const void *buf, size_t len);

#endif
