/* SPDX-License-Identifier: BSD-2-Clause */
/* A small heap whose numbers are easily added up.  Include behind cmocka.h. */
#ifndef SNAPSHOT_HEAP_H
#define SNAPSHOT_HEAP_H

#include "capture_sim.h"
#include "snapshot_group.h"

#define R 65536

static inline u32 stack(struct stacks *s, const struct frame *frames, u32 n, bool truncated)
{
	u32 out;

	assert_int_equal(stacks_add(s, frames, n, truncated, &out), 0);
	return out;
}

static const struct frame leaf = {"leaf", "/app/a.py", 10, FRAME_PYTHON};
static const struct frame other_leaf = {"other", "/app/a.py", 10, FRAME_PYTHON};
static const struct frame helper = {"helper", "/app/a.py", 20, FRAME_PYTHON};
static const struct frame lib = {"decode", "/usr/lib/json.py", 5, FRAME_PYTHON};
static const struct frame main_frame = {"<module>", "/app/main.py", 1, FRAME_PYTHON};

struct heap {
	struct stacks *stacks;
	struct snap_row rows[8];
	struct snapshot s;
};

static inline void add_blocks(struct heap *h, u32 at, u32 domain, u64 size, int count)
{
	struct snap_row *row = &h->rows[h->s.nrows++];

	*row = (struct snap_row){.stack = at, .domain = domain};
	for (int i = 0; i < count; i++)
		estimate_add(&row->live, size, 1);
	row->allocated_bytes = 2.0 * size * count;
	row->samples = 2ull * count;
}

static inline void heap_open(struct heap *h)
{
	*h = (struct heap){.stacks = stacks_new(), .s.sample_interval = 1};
	h->s.rows = h->rows;
	add_blocks(h, stack(h->stacks, (const struct frame[]){leaf, helper, main_frame}, 3, false),
		   PHT_DOM_LIBC, 1000, 10);
	add_blocks(h,
		   stack(h->stacks, (const struct frame[]){other_leaf, helper, main_frame}, 3, 0),
		   PHT_DOM_PYMALLOC, 100, 7);
	add_blocks(h, stack(h->stacks, (const struct frame[]){lib, helper, main_frame}, 3, false),
		   PHT_DOM_LIBC, 5000, 1);
	/* Recursion: helper calls itself. */
	add_blocks(h,
		   stack(h->stacks, (const struct frame[]){leaf, helper, helper, main_frame}, 4, 0),
		   PHT_DOM_LIBC, 1000, 2);
	qsort(h->rows, h->s.nrows, sizeof(h->rows[0]), sim_order);
}

#endif
