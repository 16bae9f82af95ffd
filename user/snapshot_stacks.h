/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stacks by number.  All stacks of a capture (or of several that are to be
 * compared) share one store: a tree from the outermost frame inwards, so two
 * stacks are the same if and only if their numbers are, a caller is one step
 * up, and a hundred thousand stacks that share their outer frames take little
 * room.  Numbers are dense, a parent's is below its children's.
 *
 * Bounded, as names and stacks may come out of a crafted file: STACKS_MAX_*
 * here and the bounds of intern.h.
 */
#ifndef PHT_SNAPSHOT_STACKS_H
#define PHT_SNAPSHOT_STACKS_H

#include "report.h"

#define STACKS_MAX_NODES  (1u << 22)
#define STACKS_MAX_FRAMES (1u << 20)
#define STACKS_MAX_DEPTH  512u

#define STACK_ROOT  0u /* the empty stack: parent of every outermost frame */
#define STACK_CUT   1u /* parent of the outermost known frame where outer ones are missing */
#define STACK_FIRST 2u /* the first number that has a frame */

struct stacks; /* opaque */

struct stacks *stacks_new(void); /* NULL: no memory */
void stacks_free(struct stacks *s);

/* The number of a frame; equal frames have one.  0, -ENOMEM or -E2BIG (bounds). */
int stacks_add_frame(struct stacks *s, const struct frame *f, u32 *out);
/* The number of the stack that has frame (a number) on top of parent.  Errors as above. */
int stacks_push(struct stacks *s, u32 parent, u32 frame, u32 *out);
/* The number of a whole stack, innermost frame first; truncated: outer frames are missing. */
int stacks_add(struct stacks *s, const struct frame *frames, u32 n, bool truncated, u32 *out);

/* Stacks there are, STACK_ROOT and STACK_CUT included; frames there are. */
u32 stacks_count(const struct stacks *s);
u32 stacks_frame_count(const struct stacks *s);

/* For numbers below these counts only. */
u32 stacks_parent(const struct stacks *s, u32 stack); /* of the first two: STACK_ROOT */
u32 stacks_top(const struct stacks *s,
	       u32 stack); /* frame number; of the first two: frame 0, "<no frames>" */
u32 stacks_depth(const struct stacks *s, u32 stack); /* frames in it */
bool stacks_truncated(const struct stacks *s, u32 stack);
/* Strings live as long as the store; equal strings have one address. */
const struct frame *stacks_frame(const struct stacks *s, u32 frame);

/* The stack of its outermost frame alone. */
u32 stacks_outermost(const struct stacks *s, u32 stack);
/* Were stacks kept apart by thread? */
bool stacks_have_threads(const struct stacks *s);

/* The frames, innermost first, as many as fit; returns how many. */
u32 stacks_expand(const struct stacks *s, u32 stack, struct frame *out, u32 max);

#endif
