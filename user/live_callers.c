// SPDX-License-Identifier: BSD-2-Clause
/* Who called a row of the live view: a tree from the row outwards. */
#include <errno.h>
#include <string.h>

#include "live_model.h"

/* Far above any tree that a person reads; what does not fit counts for its caller only. */
#define MAX_NODES (1u << 20)

/* Work of one build. */
struct building {
	struct live_model *m;
	struct live_callers *c;
	struct hashmap index; /* node, frame -> number of the child + 1 */
	const u8 *pass;
};

static int add_node(struct live_callers *c, u32 parent, u32 frame, u32 *out)
{
	u64 path = parent == LIVE_NO_NODE ? 0 : c->nodes[parent].path;

	if (c->nnodes == c->cap) {
		size_t cap = c->cap ? c->cap * 2 : 64;
		void *nodes = reallocarray(c->nodes, cap, sizeof(*c->nodes));

		if (!nodes)
			return -ENOMEM;
		c->nodes = nodes;
		c->cap = cap;
	}
	*out = c->nnodes++;
	c->nodes[*out] = (struct live_node){.frame = frame,
					    .parent = parent,
					    .child = LIVE_NO_NODE,
					    .sibling = LIVE_NO_NODE,
					    .path = hashmap_mix(hashmap_mix(1, path), frame)};
	if (parent != LIVE_NO_NODE) {
		c->nodes[*out].sibling = c->nodes[parent].child;
		c->nodes[parent].child = *out;
	}
	return 0;
}

/* The caller of a node; itself when there are too many. */
static int step(struct building *b, u32 *node, u32 frame)
{
	uintptr_t known = (uintptr_t)hashmap_get(&b->index, *node, frame);
	u32 child;
	int err;

	if (known) {
		*node = known - 1;
		return 0;
	}
	if (b->c->nnodes >= MAX_NODES)
		return -E2BIG;
	err = add_node(b->c, *node, frame, &child);
	if (!err)
		err = hashmap_put(&b->index, *node, frame, (void *)(uintptr_t)(child + 1));
	if (!err)
		*node = child;
	return err;
}

/* A thread is the same when it has been given another name. */
static bool same_thread(const struct stacks *stacks, u32 a, u32 b)
{
	const struct frame *f =
		stacks_frame(stacks, stacks_top(stacks, stacks_outermost(stacks, a)));
	const struct frame *g =
		stacks_frame(stacks, stacks_top(stacks, stacks_outermost(stacks, b)));

	return f->kind == FRAME_THREAD ? f->kind == g->kind && f->file == g->file : f == g;
}

static bool same_group(const struct live_model *m, u32 stack)
{
	const struct live_callers *c = &m->callers;
	const struct frame *f, *g;

	if (m->set.group_by == GROUP_TRACEBACK)
		return stack == c->stack;
	if (m->set.group_by == GROUP_THREAD)
		return same_thread(m->stacks, stack, c->stack);
	f = stacks_frame(m->stacks, stacks_top(m->stacks, stack));
	g = stacks_frame(m->stacks, stacks_top(m->stacks, c->stack));
	if (f->file != g->file)
		return false;
	if (m->set.group_by == GROUP_FILE)
		return true;
	return m->set.group_by == GROUP_LINE ? f->line == g->line : f->function == g->function;
}

enum moment { NOW, BEFORE, BASE };

static void count(struct live_node *n, enum moment when, const struct snap_row *row)
{
	snap_total_add(when == NOW ? &n->now : when == BEFORE ? &n->before : &n->base, row);
}

/* Count a row for all its callers. */
static int add_row(struct building *b, enum moment when, const struct snap_row *row)
{
	const struct stacks *stacks = b->m->stacks;
	enum group_by by = b->m->set.group_by;
	u32 at = row->stack, node = 0;
	int err = 0;

	count(&b->c->nodes[0], when, row);
	/* The row names the innermost frame; of a function or file the lines tell more. */
	if (by == GROUP_LINE || by == GROUP_TRACEBACK)
		at = at < STACK_FIRST ? STACK_ROOT : stacks_parent(stacks, at);
	while (at != STACK_ROOT && !err) {
		err = step(b, &node, at == STACK_CUT ? LIVE_NO_FRAME : stacks_top(stacks, at));
		if (!err)
			count(&b->c->nodes[node], when, row);
		at = at < STACK_FIRST ? STACK_ROOT : stacks_parent(stacks, at);
	}
	return err == -E2BIG ? 0 : err;
}

static int add_rows(struct building *b, enum moment when, const struct snapshot *s)
{
	int err = 0;

	for (size_t i = 0; i < s->nrows && !err; i++)
		if (b->pass[s->rows[i].stack] && same_group(b->m, s->rows[i].stack))
			err = add_row(b, when, &s->rows[i]);
	return err;
}

static int compare_nodes(const void *pa, const void *pb, void *ctx)
{
	const struct building *b = ctx;
	const struct live_node *x = &b->c->nodes[*(const u32 *)pa];
	const struct live_node *y = &b->c->nodes[*(const u32 *)pb];

	return live_numbers_compare(&b->m->set, &x->numbers, &y->numbers)
		       ?: (x->frame > y->frame) - (x->frame < y->frame);
}

/* The children of a node in the order of the table. */
static void sort_children(struct building *b, u32 node, u32 *room)
{
	struct live_node *nodes = b->c->nodes;
	size_t n = 0;

	for (u32 i = nodes[node].child; i != LIVE_NO_NODE; i = nodes[i].sibling)
		room[n++] = i;
	if (n < 2)
		return;
	qsort_r(room, n, sizeof(*room), compare_nodes, b);
	nodes[node].child = room[0];
	for (size_t i = 0; i < n; i++)
		nodes[room[i]].sibling = i + 1 < n ? room[i + 1] : LIVE_NO_NODE;
}

static int finish_nodes(struct building *b)
{
	struct live_callers *c = b->c;
	AUTO_FREE u32 *room = malloc((c->nnodes + 1) * sizeof(*room));

	if (!room)
		return -ENOMEM;
	for (size_t i = 0; i < c->nnodes; i++)
		live_numbers_fill(b->m, &c->nodes[i].now, &c->nodes[i].before, &c->nodes[i].base,
				  &c->nodes[i].numbers);
	for (size_t i = 0; i < c->nnodes; i++)
		sort_children(b, i, room);
	return 0;
}

/* Where to go on after a node and all below it. */
static u32 next_of(const struct live_callers *c, u32 node)
{
	while (node != 0 && c->nodes[node].sibling == LIVE_NO_NODE)
		node = c->nodes[node].parent;
	return node == 0 ? LIVE_NO_NODE : c->nodes[node].sibling;
}

/* Only where callers part does the indent grow: chains stay legible. */
static u16 indent_of(const struct live_callers *c, const u16 *indents, u32 node)
{
	u32 parent = c->nodes[node].parent;
	bool alone = c->nodes[c->nodes[parent].child].sibling == LIVE_NO_NODE;

	return indents[parent] + (alone ? 0 : 1);
}

static int flatten(struct live_callers *c)
{
	struct live_line *lines = malloc((c->nnodes + 1) * sizeof(*lines));
	AUTO_FREE u16 *indents = calloc(c->nnodes + 1, sizeof(*indents));
	u32 at = c->nodes[0].child;
	size_t n = 0;

	if (!lines || !indents) {
		free(lines);
		return -ENOMEM;
	}
	while (at != LIVE_NO_NODE) {
		bool more = c->nodes[at].child != LIVE_NO_NODE;
		bool folded = more && live_callers_folded(c, c->nodes[at].path);

		indents[at] = indent_of(c, indents, at);
		lines[n++] = (struct live_line){at, indents[at], folded, more};
		at = more && !folded ? c->nodes[at].child : next_of(c, at);
	}
	free(c->lines);
	c->lines = lines;
	c->list.n = n;
	return 0;
}

static void follow(struct live_callers *c)
{
	if (!c->list.moved)
		c->list.at = 0;
	for (size_t i = 0; c->list.moved && i < c->list.n; i++) {
		if (c->nodes[c->lines[i].node].path != c->path)
			continue;
		c->list.at = i;
		return;
	}
	if (c->list.at >= c->list.n)
		c->list.at = c->list.n ? c->list.n - 1 : 0;
}

int live_callers_build(struct live_model *m)
{
	struct live_callers *c = &m->callers;
	AUTO_FREE u8 *pass = live_filter_stacks(m);
	struct building b = {.m = m, .c = c, .pass = pass};
	u32 root;
	int err;

	if (!pass)
		return -ENOMEM;
	c->nnodes = 0;
	err = add_node(c, LIVE_NO_NODE, stacks_top(m->stacks, c->stack), &root);
	if (!err)
		err = add_rows(&b, NOW, &m->now);
	if (!err && m->has_before)
		err = add_rows(&b, BEFORE, &m->before);
	if (!err && m->has_base)
		err = add_rows(&b, BASE, &m->base);
	if (!err)
		err = finish_nodes(&b) ?: flatten(c);
	hashmap_clear(&b.index, NULL);
	if (!err)
		follow(c);
	return err;
}

void live_callers_free(struct live_callers *c)
{
	free(c->nodes);
	free(c->lines);
	hashmap_clear(&c->folded, NULL);
	*c = (struct live_callers){0};
}
