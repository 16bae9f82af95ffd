/* SPDX-License-Identifier: BSD-2-Clause */
/* The tree that a flame graph shows: which stacks are in it, in which order, with which sums. */
#ifndef PHT_FLAME_TREE_H
#define PHT_FLAME_TREE_H

#include "flame.h"

enum flame_moment { FLAME_NOW, FLAME_FIRST, FLAME_PEAK, FLAME_MOMENTS };

/* A stack with sums of its own. */
struct flame_site {
	u32 node; /* in flame_tree.nodes */
	struct snap_total sum[FLAME_MOMENTS];
};

struct flame_tree {
	/* Stacks (numbers), callers before what they call, each directly before its callees. */
	u32 *nodes; /* owned; [0] is STACK_ROOT */
	u32 nnodes;
	struct flame_site *sites; /* owned; by node */
	u32 nsites;
	/* What was too small: how many stacks, each below this share of every total. */
	u32 pruned;
	double pruned_share;
};

/* 0 or -ENOMEM. */
int flame_tree_make(const struct flame_input *in, struct flame_tree *out);
void flame_tree_free(struct flame_tree *t);

#endif
