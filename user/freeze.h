/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stop a process for a moment.  A thread of ours seizes and interrupts all of
 * its threads with ptrace, and lets them go when told to or when the time is
 * up.  Whatever becomes of us, the kernel lets them go as well.  A process
 * that was stopped before (SIGSTOP) stays so.
 */
#ifndef PHT_FREEZE_H
#define PHT_FREEZE_H

#include <stdbool.h>
#include <sys/types.h>

#include "util.h"

struct freeze; /* opaque */

/*
 * Stop all threads of pid, for at most limit_ms from now.  0; -ETIMEDOUT (some
 * thread did not stop in that time, asleep in the kernel: nothing stays
 * stopped), -ESRCH, -EPERM (not permitted, or another tracer has it), -E2BIG
 * (too many threads), -ENOMEM.
 */
int freeze_start(pid_t pid, unsigned limit_ms, struct freeze **out);
/* False once the time was up and it goes on: what is read from then on may be torn. */
bool freeze_holds(struct freeze *f);
/* Let it go on, and free f.  Nanoseconds for which at least one thread stood still. */
u64 freeze_end(struct freeze *f);

#endif
