/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stop a process for a moment.  All threads are seized and interrupted with
 * ptrace: whatever becomes of us, the kernel lets them go, and a process that was
 * stopped before (SIGSTOP) stays so.  Freeze and thaw must be called from the same thread.
 */
#ifndef PHT_FREEZE_H
#define PHT_FREEZE_H

#include <sys/types.h>

#include "util.h"

struct freeze; /* opaque */

/*
 * Stop all threads of pid within limit_ms.  0; -ETIMEDOUT (some thread did
 * not stop in time, sleeping in the kernel: nothing stays stopped), -ESRCH, -EPERM
 * (or another tracer holds it), -ENOMEM.
 */
int freeze_start(pid_t pid, unsigned limit_ms, struct freeze **out);
/* Let it go on.  Nanoseconds that it stood still: from the first thread's stop to here. */
u64 freeze_end(struct freeze *f);

#endif
