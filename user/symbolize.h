/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stacks of code addresses -> frames with names and lines.  Each code object's
 * names come once, at first sight, from the unwinder, which sees it alive; what
 * it could not send is read from the target, if it is still there.  Each stack
 * is resolved once.  Memory: bounded by the kernel's stack table (16,384 stacks
 * of at most 128 frames) and the interning bound.
 */
#ifndef PHT_SYMBOLIZE_H
#define PHT_SYMBOLIZE_H

#include "pyinfo.h"
#include "report.h"

struct symbolizer; /* opaque */

struct sym_stack {
	u32 nframes; /* at least 1 */
	bool truncated;
	const struct frame *thread; /* what the last frame repeats, or NULL: see threads.h */
	struct frame frames[];
};

struct symbolizer *symbolizer_new(void);
void symbolizer_free(struct symbolizer *sym);

/* Keep the names that the unwinder sent; those it did not send are read from the target. */
void symbolize_code(struct symbolizer *sym, const struct pyinfo *info,
		    const struct pht_code_head *rec);
/* Resolve a stack of process info unless it is known already; NULL on no memory. */
const struct sym_stack *symbolize_stack(struct symbolizer *sym, const struct pyinfo *info,
					u64 stack_id, const struct pht_stack *stack);
/* Where stacks are kept apart by thread: look whether threads are called something else now. */
void symbolizer_refresh(struct symbolizer *sym, const struct pyinfo *info);
/* A resolved stack, or NULL. */
const struct sym_stack *symbolizer_get(const struct symbolizer *sym, u64 stack_id);
/* What stands for a stack that was lost. */
const struct sym_stack *symbolizer_lost(const struct symbolizer *sym);
/* Adds to the counters code_gone and name_unreadable. */
void symbolizer_losses(const struct symbolizer *sym, u64 losses[PHT_LOSS_NR]);

#endif
