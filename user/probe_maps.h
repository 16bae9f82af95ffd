/* SPDX-License-Identifier: BSD-2-Clause */
/* How large the BPF maps are, and when they take their memory. */
#ifndef PHT_PROBE_MAPS_H
#define PHT_PROBE_MAPS_H

#include <stdbool.h>

#include "util.h"

struct pyheaptrace_bpf;

/*
 * Call between open and load.  threads: stacks are kept apart by thread; growth:
 * this kernel lets maps take memory as they fill.
 */
void probe_maps_size(struct pyheaptrace_bpf *skel, u64 interval, bool threads, bool growth);

#endif
