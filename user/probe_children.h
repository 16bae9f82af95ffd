/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A forked child has a copy of the memory that probes were placed in, traps
 * included.  Where each probe is a perf event, the kernel takes a trap out
 * when the child first runs into it; those of a link of many probes it leaves
 * in, and the child pays for each call until it executes another program.  But
 * whenever a probe is removed the kernel looks at all processes that map the
 * file, and takes the trap out of those that nobody wants it in.
 */
#ifndef PHT_PROBE_CHILDREN_H
#define PHT_PROBE_CHILDREN_H

#include "plan.h"

/*
 * Place a probe of this process wherever the plan has one and remove it again,
 * with a program that may be attached that way.  Takes as long as removing probes does.
 */
void probe_children_sweep(const struct plan *plan, int prog_fd, u32 attach_type);

#endif
