// SPDX-License-Identifier: BSD-2-Clause
/* The live heap as a tree of calls, from the outermost frame inwards. */
#include <errno.h>
#include <string.h>

#include "capture_report.h"
#include "report_place.h"
#include "report_style.h"
#include "report_units.h"

#define NONE	    UINT32_MAX
#define BYTES_WIDTH 10
#define SHARE_WIDTH 6
#define NUMBERS	    (BYTES_WIDTH + SHARE_WIDTH + 3)
#define MAX_INDENT  24

struct tree {
	const struct capture_report *r;
	double *total;	      /* live bytes of a stack and all that it calls */
	u32 *child, *sibling; /* of the nodes shown, largest first */
	u32 *shown;
	size_t nshown;
	struct place_layout place;
};

/* Callers take what their callees have; a parent's number is below its children's. */
static int sum_up(struct tree *t)
{
	const struct snap_filter *filter = &t->r->args->view.filter;
	const struct snapshot *s = &t->r->now;
	AUTO_FREE u8 *pass = snap_filter_stacks(t->r->stacks, filter);

	if (!pass)
		return -ENOMEM;
	for (size_t i = 0; i < s->nrows; i++) {
		const struct snap_row *row = &s->rows[i];

		if (pass[row->stack] && (!filter->domains || filter->domains >> row->domain & 1))
			t->total[row->stack] += row->live.bytes;
	}
	for (u32 i = stacks_count(t->r->stacks); i-- > STACK_FIRST;)
		t->total[stacks_parent(t->r->stacks, i)] += t->total[i];
	t->total[STACK_ROOT] += t->total[STACK_CUT];
	return 0;
}

static int compare_nodes(const void *pa, const void *pb, void *ctx)
{
	const struct tree *t = ctx;
	u32 a = *(const u32 *)pa, b = *(const u32 *)pb;

	if (t->total[a] != t->total[b])
		return t->total[a] < t->total[b] ? 1 : -1;
	/* Callers before what they call; alike ones in an order that no number decides. */
	if (stacks_depth(t->r->stacks, a) != stacks_depth(t->r->stacks, b))
		return stacks_depth(t->r->stacks, a) < stacks_depth(t->r->stacks, b) ? -1 : 1;
	return snap_compare_places(t->r->stacks, GROUP_LINE, a, b) ?: (a > b) - (a < b);
}

/* The largest nodes, as many as there are lines: with each, all its callers. */
static int choose(struct tree *t)
{
	u32 n = stacks_count(t->r->stacks);

	t->shown = calloc(n, sizeof(*t->shown));
	if (!t->shown)
		return -ENOMEM;
	for (u32 i = STACK_FIRST; i < n; i++)
		if (t->total[i] >= 0.5)
			t->shown[t->nshown++] = i;
	if (t->nshown)
		qsort_r(t->shown, t->nshown, sizeof(*t->shown), compare_nodes, t);
	if (t->nshown > t->r->args->top)
		t->nshown = t->r->args->top;
	return 0;
}

static int link_nodes(struct tree *t)
{
	u32 n = stacks_count(t->r->stacks);

	t->child = malloc(n * sizeof(*t->child));
	t->sibling = malloc(n * sizeof(*t->sibling));
	if (!t->child || !t->sibling)
		return -ENOMEM;
	memset(t->child, 0xff, n * sizeof(*t->child));
	memset(t->sibling, 0xff, n * sizeof(*t->sibling));
	/* Smallest first, each in front: the largest ends up first. */
	for (size_t i = t->nshown; i-- > 0;) {
		u32 at = t->shown[i], parent = stacks_parent(t->r->stacks, at);

		if (parent == STACK_CUT)
			parent = STACK_ROOT;
		t->sibling[at] = t->child[parent];
		t->child[parent] = at;
	}
	return 0;
}

static void print_node(const struct tree *t, struct paint *p, u32 at, int indent)
{
	double all = t->total[STACK_ROOT];
	char buf[UNITS_MAX];

	paint_cell(p, INK_BOLD, units_bytes(buf, t->total[at], false), BYTES_WIDTH, true);
	paint_cell(p, INK_PLAIN, units_share(buf, all > 0 ? t->total[at] / all : 0, false),
		   SHARE_WIDTH + 1, true);
	paint_spaces(p, 2 + indent);
	place_print(&t->place, p, stacks_frame(t->r->stacks, stacks_top(t->r->stacks, at)),
		    PLACE_LINE | PLACE_FUNCTION, indent, NULL);
	paint_end_line(p);
}

/* Only where calls part does the indent grow: chains stay legible. */
static void print_nodes(const struct tree *t, struct paint *p)
{
	u32 path[STACKS_MAX_DEPTH + 1];
	int indent[STACKS_MAX_DEPTH + 1];
	u32 depth = 0;

	path[0] = t->child[STACK_ROOT];
	indent[0] = 0;
	for (;;) {
		u32 at = path[depth], child;
		int step;

		if (at == NONE) {
			if (!depth)
				return;
			depth--;
			path[depth] = t->sibling[path[depth]];
			continue;
		}
		print_node(t, p, at, indent[depth]);
		child = t->child[at];
		step = child != NONE && t->sibling[child] != NONE ? 2 : 0;
		indent[depth + 1] =
			indent[depth] + step > MAX_INDENT ? MAX_INDENT : indent[depth] + step;
		path[++depth] = child;
	}
}

static void plan_places(struct tree *t, struct paint *p)
{
	t->place.total = p->width - NUMBERS;
	for (size_t i = 0; i < t->nshown; i++)
		place_measure(&t->place, p,
			      stacks_frame(t->r->stacks, stacks_top(t->r->stacks, t->shown[i])),
			      PLACE_LINE | PLACE_FUNCTION, 0, NULL);
	place_divide(&t->place);
}

static void print_tree(struct tree *t, FILE *out)
{
	static const char *const titles[] = {
		[METRIC_LIVE] = "LIVE", [METRIC_PEAK] = "PEAK", [METRIC_TEMPORARY] = "TEMPORARY"};
	struct report_style style;
	struct paint p;

	report_style_for(out, &style);
	paint_init(&p, out, &style);
	plan_places(t, &p);
	paint_cell(&p, INK_BOLD, titles[t->r->now.metric], BYTES_WIDTH, true);
	paint_cell(&p, INK_BOLD, "SHARE", SHARE_WIDTH + 1, true);
	paint_text(&p, INK_BOLD, "  CALLS, FROM THE OUTERMOST");
	paint_end_line(&p);
	print_nodes(t, &p);
	if (!t->nshown)
		paint_wrapped(&p, "", 0, INK_DIM, "Nothing live.");
}

int report_capture_tree(FILE *out, const struct capture_report *r)
{
	struct tree t = {.r = r};
	int err;

	t.total = calloc(stacks_count(r->stacks), sizeof(*t.total));
	err = !t.total ? -ENOMEM : sum_up(&t) ?: choose(&t) ?: link_nodes(&t);
	if (!err)
		print_tree(&t, out);
	free(t.total);
	free(t.child);
	free(t.sibling);
	free(t.shown);
	return err ? err : ferror(out) ? -EIO : 0;
}
