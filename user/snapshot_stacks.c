// SPDX-License-Identifier: BSD-2-Clause
#include "snapshot_stacks.h"

#include <errno.h>
#include <sys/random.h>

#include "hashmap.h"
#include "intern.h"

struct node {
	u32 parent, frame;
	u16 depth;
	bool truncated;
};

/* Numbers by what they stand for; 0 = unused, else the number + 1. */
struct index {
	u32 *slots;
	u32 cap, n; /* cap: 0 or a power of two */
};

struct stacks {
	struct intern *names;
	struct frame *frames;
	struct node *nodes;
	u32 nframes, frames_cap, nnodes, nodes_cap;
	struct index frame_index, node_index;
	u64 seed; /* a crafted file must not know which keys collide */
};

static u64 hash_frame(const struct stacks *s, const struct frame *f)
{
	u64 h = hashmap_mix(s->seed, (uintptr_t)f->function);

	return hashmap_mix(hashmap_mix(h, (uintptr_t)f->file), (u64)(u32)f->line << 2 | f->kind);
}

static u64 hash_node(const struct stacks *s, u32 parent, u32 frame)
{
	u64 h = hashmap_mix(s->seed, parent);

	return hashmap_mix(h ^ s->seed << 7, frame);
}

static int index_grow(const struct stacks *s, struct index *ix, bool frames)
{
	struct index bigger = {.cap = ix->cap ? ix->cap * 2 : 256, .n = ix->n};

	if (ix->n * 4ull < ix->cap * 3ull)
		return 0;
	bigger.slots = calloc(bigger.cap, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (u32 i = 0; i < ix->cap; i++) {
		u32 id = ix->slots[i] - 1;
		u64 h;

		if (!ix->slots[i])
			continue;
		h = frames ? hash_frame(s, &s->frames[id])
			   : hash_node(s, s->nodes[id].parent, s->nodes[id].frame);
		while (bigger.slots[h & (bigger.cap - 1)])
			h++;
		bigger.slots[h & (bigger.cap - 1)] = id + 1;
	}
	free(ix->slots);
	*ix = bigger;
	return 0;
}

/* Room for one more; arrays double. */
static int reserve(void **array, u32 *cap, u32 n, u32 max, size_t size)
{
	u32 want = *cap ? *cap * 2 : 256;
	void *bigger;

	if (n >= max)
		return -E2BIG;
	if (n < *cap)
		return 0;
	bigger = reallocarray(*array, want, size);
	if (!bigger)
		return -ENOMEM;
	*array = bigger;
	*cap = want;
	return 0;
}

static int add_node(struct stacks *s, const struct node *n)
{
	void *nodes = s->nodes;
	int err = reserve(&nodes, &s->nodes_cap, s->nnodes, STACKS_MAX_NODES, sizeof(*n));

	s->nodes = nodes;
	if (!err)
		s->nodes[s->nnodes++] = *n;
	return err;
}

struct stacks *stacks_new(void)
{
	static const struct frame nothing = {"<no frames>", "", 0, FRAME_OTHER};
	struct stacks *s = calloc(1, sizeof(*s));
	u32 first;

	if (!s)
		return NULL;
	if (getrandom(&s->seed, sizeof(s->seed), GRND_NONBLOCK) < 0)
		s->seed = (uintptr_t)s;
	s->names = intern_new();
	if (!s->names || stacks_add_frame(s, &nothing, &first) || add_node(s, &(struct node){0}) ||
	    add_node(s, &(struct node){.truncated = true})) {
		stacks_free(s);
		return NULL;
	}
	return s;
}

void stacks_free(struct stacks *s)
{
	if (!s)
		return;
	intern_free(s->names);
	free(s->frames);
	free(s->nodes);
	free(s->frame_index.slots);
	free(s->node_index.slots);
	free(s);
}

static bool same_frame(const struct frame *a, const struct frame *b)
{
	return a->function == b->function && a->file == b->file && a->line == b->line &&
	       a->kind == b->kind;
}

int stacks_add_frame(struct stacks *s, const struct frame *f, u32 *out)
{
	struct frame own = {
		.function = intern(s->names, f->function ? f->function : ""),
		.file = intern(s->names, f->file ? f->file : ""),
		.line = f->line,
		.kind = f->kind,
	};
	void *frames = s->frames;
	u32 slot;
	int err = index_grow(s, &s->frame_index, true);

	if (err)
		return err;
	for (u64 h = hash_frame(s, &own);; h++) {
		slot = h & (s->frame_index.cap - 1);
		if (!s->frame_index.slots[slot])
			break;
		if (same_frame(&s->frames[s->frame_index.slots[slot] - 1], &own)) {
			*out = s->frame_index.slots[slot] - 1;
			return 0;
		}
	}
	err = reserve(&frames, &s->frames_cap, s->nframes, STACKS_MAX_FRAMES, sizeof(own));
	s->frames = frames;
	if (err)
		return err;
	s->frames[s->nframes] = own;
	s->frame_index.slots[slot] = ++s->nframes;
	s->frame_index.n++;
	*out = s->nframes - 1;
	return 0;
}

int stacks_push(struct stacks *s, u32 parent, u32 frame, u32 *out)
{
	struct node n = {.parent = parent, .frame = frame};
	u32 slot;
	int err = index_grow(s, &s->node_index, false);

	if (err)
		return err;
	for (u64 h = hash_node(s, parent, frame);; h++) {
		const struct node *at;

		slot = h & (s->node_index.cap - 1);
		if (!s->node_index.slots[slot])
			break;
		at = &s->nodes[s->node_index.slots[slot] - 1];
		if (at->parent == parent && at->frame == frame) {
			*out = s->node_index.slots[slot] - 1;
			return 0;
		}
	}
	n.depth = s->nodes[parent].depth + 1;
	n.truncated = s->nodes[parent].truncated;
	if (n.depth > STACKS_MAX_DEPTH)
		return -E2BIG;
	err = add_node(s, &n);
	if (err)
		return err;
	s->node_index.slots[slot] = s->nnodes;
	s->node_index.n++;
	*out = s->nnodes - 1;
	return 0;
}

int stacks_add(struct stacks *s, const struct frame *frames, u32 n, bool truncated, u32 *out)
{
	u32 stack, keep = n > STACKS_MAX_DEPTH ? STACKS_MAX_DEPTH : n;
	int err = 0;

	stack = truncated || keep < n ? STACK_CUT : STACK_ROOT;
	for (u32 i = keep; i-- > 0 && !err;) {
		u32 frame;

		err = stacks_add_frame(s, &frames[i], &frame)
			      ?: stacks_push(s, stack, frame, &stack);
	}
	if (!err)
		*out = stack;
	return err;
}

u32 stacks_count(const struct stacks *s)
{
	return s->nnodes;
}

u32 stacks_frame_count(const struct stacks *s)
{
	return s->nframes;
}

u32 stacks_parent(const struct stacks *s, u32 stack)
{
	return s->nodes[stack].parent;
}

u32 stacks_top(const struct stacks *s, u32 stack)
{
	return s->nodes[stack].frame;
}

u32 stacks_depth(const struct stacks *s, u32 stack)
{
	return s->nodes[stack].depth;
}

bool stacks_truncated(const struct stacks *s, u32 stack)
{
	return s->nodes[stack].truncated;
}

const struct frame *stacks_frame(const struct stacks *s, u32 frame)
{
	return &s->frames[frame];
}

u32 stacks_outermost(const struct stacks *s, u32 stack)
{
	while (stack >= STACK_FIRST && s->nodes[stack].parent >= STACK_FIRST)
		stack = s->nodes[stack].parent;
	return stack;
}

bool stacks_have_threads(const struct stacks *s)
{
	for (u32 i = 0; i < s->nframes; i++)
		if (s->frames[i].kind == FRAME_THREAD)
			return true;
	return false;
}

u32 stacks_expand(const struct stacks *s, u32 stack, struct frame *out, u32 max)
{
	u32 n = 0;

	for (; stack >= STACK_FIRST && n < max; stack = s->nodes[stack].parent)
		out[n++] = s->frames[s->nodes[stack].frame];
	return n;
}
