// SPDX-License-Identifier: BSD-2-Clause
#include "gcwalk.h"

#include <errno.h>

#include "census_object.h"
#include "census_refset.h"

#define STARTS_MAX GCWALK_MAX
#define LOOK	   1024 /* of an object, to tell its type and size */
#define LEAD_MAX   32
#define NEXT_MASK  (~7ull)
#define HEADS_MAX  64
#define HEADS_SPAN 128 /* the generations' heads lie that close to each other */

struct gcwalk {
	struct census_typer *t;
	struct refset seen; /* GC headers */
	u64 *starts;	    /* owned */
	size_t n, cap;
	u64 heads[HEADS_MAX]; /* of lists, as they were met */
	size_t nheads;
	struct gcwalk_stats stats;
};

int gcwalk_new(struct census_typer *t, struct gcwalk **out)
{
	struct gcwalk *g = calloc(1, sizeof(*g));

	if (!g)
		return -ENOMEM;
	g->t = t;
	if (refset_new(&g->seen, GCWALK_MAX, false)) {
		gcwalk_free(g);
		return -ENOMEM;
	}
	*out = g;
	return 0;
}

void gcwalk_free(struct gcwalk *g)
{
	if (!g)
		return;
	refset_free(&g->seen);
	free(g->starts);
	free(g);
}

/* Heads of lists are static, or inside the interpreter's state, which is no object. */
static bool may_be_large(const struct gcwalk *g, u64 head)
{
	return head >= 4096 && head < 1ull << 47 && !(head & 7) &&
	       !census_in_arena(g->t->h, head) && census_place(g->t->h, head) == PYTYPES_OTHER;
}

static int add_start(struct gcwalk *g, u64 head)
{
	if (!may_be_large(g, head))
		return 0;
	if (g->n >= STARTS_MAX) {
		g->stats.left_out++;
		return 0;
	}
	if (g->n == g->cap) {
		size_t want = g->cap ? g->cap * 2 : 256;
		u64 *v = reallocarray(g->starts, want, sizeof(*v));

		if (!v)
			return -ENOMEM;
		g->starts = v;
		g->cap = want;
	}
	g->starts[g->n++] = head;
	return 0;
}

/*
 * Something in a list that is no object is the list's head.  The heads of the
 * other generations are near, and theirs may be lists of large objects only.
 */
static int add_head(struct gcwalk *g, u64 head)
{
	u64 w[2 * HEADS_SPAN / 8], prev;

	for (size_t i = 0; i < g->nheads; i++)
		if (g->heads[i] == head)
			return 0;
	if (g->nheads == HEADS_MAX || head < HEADS_SPAN || head & 7)
		return 0;
	g->heads[g->nheads++] = head;
	if (reader_read(&g->t->h->r, head - HEADS_SPAN, w, sizeof(w)))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(w); i++) {
		u64 at = head - HEADS_SPAN + i * 8, first = w[i] & NEXT_MASK;
		int err;

		if (first == at || !may_be_large(g, first) ||
		    reader_read(&g->t->h->r, first + 8, &prev, sizeof(prev)) ||
		    (prev & NEXT_MASK) != at)
			continue;
		err = add_start(g, first);
		if (err)
			return err;
	}
	return 0;
}

static int note_neighbour(struct gcwalk *g, u64 head)
{
	if (!head || census_in_arena(g->t->h, head))
		return 0;
	return may_be_large(g, head) ? add_start(g, head) : add_head(g, head);
}

int gcwalk_note(struct gcwalk *g, const struct census_object *o)
{
	const struct pytype *type = pytypes_get(g->t->types, o->type);
	int err;

	if (type->lead < GC_HEAD)
		return 0;
	err = note_neighbour(g, word(o->p - GC_HEAD) & NEXT_MASK);
	return err ? err : note_neighbour(g, word(o->p - GC_HEAD + 8) & NEXT_MASK);
}

/* The block of the object whose GC header is at head, `front` bytes before which it begins. */
static bool make_block(struct gcwalk *g, u64 head, u32 front, u8 *buf, struct census_block *b)
{
	struct census_object o;
	size_t len = LOOK;
	u64 need;

	*b = (struct census_block){
		.addr = head - front, .size = 1ull << 40, .where = CENSUS_MAPPED};
	while (len >= 64 && reader_read(&g->t->h->r, b->addr, buf, len))
		len /= 2;
	if (len < 64)
		return false;
	b->bytes = buf;
	b->avail = len;
	if (census_classify(g->t, b, &o) != CENSUS_OBJECT || o.addr != head + GC_HEAD)
		return false;
	need = census_need(g->t, pytypes_get(g->t->types, o.type), o.p);
	b->size = o.addr + need - b->addr;
	if (b->avail > b->size)
		b->avail = b->size;
	return need != 0;
}

static int follow(struct gcwalk *g, u64 head, census_block_fn fn, void *ctx)
{
	while (may_be_large(g, head)) {
		struct census_block b;
		u8 buf[LOOK];
		u64 next;
		int err;

		if (g->seen.slots[refset_slot(&g->seen, head)])
			return 0;
		if (!refset_add(&g->seen, head, 0)) {
			g->stats.left_out++;
			return 0;
		}
		err = reader_read(&g->t->h->r, head, &next, sizeof(next));
		if (err)
			return err == -EFAULT ? 0 : err;
		if (make_block(g, head, g->t->large.front, buf, &b) ||
		    make_block(g, head, g->t->large.front + 16, buf, &b)) {
			g->stats.objects++;
			err = fn(ctx, &b);
			if (err)
				return err;
		} else {
			g->stats.nonsense++;
			err = add_head(g, head);
			if (err)
				return err;
		}
		head = next & NEXT_MASK;
	}
	return 0;
}

int gcwalk_run(struct gcwalk *g, census_block_fn fn, void *ctx, struct gcwalk_stats *stats)
{
	int err = 0;

	for (size_t i = 0; i < g->n && !err; i++)
		err = follow(g, g->starts[i], fn, ctx);
	*stats = g->stats;
	return err;
}
