/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What has become of tracked blocks whose end no probe sees: pymalloc pools
 * (given back inside the interpreter) and mappings (cut or replaced from
 * elsewhere).  Looked up in the target when a report is made.
 */
#ifndef PHT_POOLS_H
#define PHT_POOLS_H

#include "aggregate.h"

/*
 * Fill uses[i] for each record of the process: size and one block, or a
 * pool's blocks in use.  Blocks that are gone get zero and are dropped from
 * the kernel's table.  Without a live process all count in full.
 */
void pools_examine(const struct probes *probes, const struct pyinfo *info, bool alive,
		   const struct drained *d, struct live_use *uses);

#endif
