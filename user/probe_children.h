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

struct probe_places; /* opaque: where the probes of one process are */

/* NULL: no memory, or no descriptors. */
struct probe_places *probe_places_new(const struct plan *plan);
struct probe_places *probe_places_copy(const struct probe_places *p);
void probe_places_free(struct probe_places *p);

/*
 * Place a probe of this process at each and remove it again, with a program
 * that may be attached that way.  Takes as long as removing probes does.
 */
void probe_places_sweep(const struct probe_places *p, int prog_fd, u32 attach_type);

#endif
