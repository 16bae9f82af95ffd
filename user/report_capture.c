// SPDX-License-Identifier: BSD-2-Clause
/* The table of a capture, and what other reports show of it. */
#include <errno.h>
#include <string.h>

#include "capture_report.h"
#include "report_place.h"
#include "report_style.h"
#include "report_units.h"

/* A snapshot and the one that it has grown from, grouped alike. */
struct grouped {
	struct snap_groups now, then;
};

static void grouped_free(struct grouped *g)
{
	snap_groups_free(&g->now);
	snap_groups_free(&g->then);
}

static int group_both(const struct capture_report *r, struct grouped *g)
{
	int err = snapshot_group(&r->now, r->stacks, &r->args->view, &g->now)
			  ?: snapshot_group(&r->first, r->stacks, &r->args->view, &g->then);

	if (!err)
		snap_groups_sort(&g->now, r->stacks, &r->args->view, (enum snap_sort)r->args->sort);
	return err;
}

static int print_grouped(FILE *out, const struct capture_report *r, const struct grouped *g)
{
	AUTO_FREE struct frame *frames = NULL;
	struct report_style style;
	struct report report;
	double between = r->now.duration - r->first.duration;
	bool earlier = between > 0;
	int err = snapshot_to_report(&r->now, r->stacks, &r->args->view, &g->now,
				     earlier ? &g->then : NULL, earlier ? between : r->now.duration,
				     r->args->json ? SIZE_MAX : r->args->top, &report, &frames);

	if (err)
		return err;
	report.top = r->args->top;
	report_style_for(out, &style);
	style.height = 0;
	if (r->args->json)
		err = report_json(out, &report);
	else
		err = report_text(out, &report, &style);
	free(report.rows);
	return err;
}

int report_capture_table(FILE *out, const struct capture_report *r)
{
	struct grouped g = {0};
	int err = group_both(r, &g) ?: print_grouped(out, r, &g);

	grouped_free(&g);
	return err;
}

void report_heading(struct paint *p, const char *text)
{
	paint_end_line(p);
	paint_text(p, INK_BOLD, text);
	paint_end_line(p);
}

void report_line(struct paint *p, const char *label, enum ink ink, const char *text)
{
	paint_wrapped(p, label, REPORT_LABEL, ink, text);
}

#define BYTES_WIDTH  10
#define SHARE_WIDTH  6
#define BLOCKS_WIDTH 7

static double key_of(const struct snap_total *t, enum snap_sort by)
{
	return by == SNAP_SORT_COUNT	   ? t->live.blocks
	       : by == SNAP_SORT_ALLOCATED ? t->allocated_bytes
					   : t->live.bytes;
}

static void print_line(struct paint *p, const struct snap_group *g, const struct snap_total *all,
		       enum snap_sort by, const struct place_layout *place, const struct frame *f)
{
	double key = key_of(&g->sum, by), total = key_of(all, by);
	double bytes = by == SNAP_SORT_ALLOCATED ? g->sum.allocated_bytes : g->sum.live.bytes;
	double blocks = by == SNAP_SORT_ALLOCATED ? g->sum.allocated_blocks : g->sum.live.blocks;
	char buf[UNITS_MAX];

	paint_cell(p, INK_BOLD, units_bytes(buf, bytes, false), BYTES_WIDTH, true);
	paint_cell(p, INK_PLAIN, units_share(buf, total > 0 ? key / total : 0, false),
		   SHARE_WIDTH + 1, true);
	paint_cell(p, INK_PLAIN, units_count(buf, blocks), BLOCKS_WIDTH + 1, true);
	paint_spaces(p, 2);
	place_print(place, p, f, PLACE_LINE | PLACE_FUNCTION, 0, NULL);
	paint_end_line(p);
}

static const struct frame *top_frame(const struct stacks *stacks, const struct snap_group *g)
{
	return stacks_frame(stacks, stacks_top(stacks, g->stack));
}

int report_top_lines(struct paint *p, const struct capture_report *r, enum snap_sort by, size_t n)
{
	struct place_layout place = {.total = p->width - BYTES_WIDTH - SHARE_WIDTH - BLOCKS_WIDTH -
					      4};
	struct snap_groups g;
	int err = snapshot_group(&r->now, r->stacks, &r->args->view, &g);

	if (err)
		return err;
	snap_groups_sort(&g, r->stacks, &r->args->view, by);
	if (n > g.n)
		n = g.n;
	/* A line that has none of it says nothing. */
	while (n && key_of(&g.groups[n - 1].sum, by) < 0.5)
		n--;
	for (size_t i = 0; i < n; i++)
		place_measure(&place, p, top_frame(r->stacks, &g.groups[i]),
			      PLACE_LINE | PLACE_FUNCTION, 0, NULL);
	place_divide(&place);
	for (size_t i = 0; i < n; i++)
		print_line(p, &g.groups[i], &g.total, by, &place,
			   top_frame(r->stacks, &g.groups[i]));
	if (!n)
		report_line(p, "", INK_DIM, "nothing");
	snap_groups_free(&g);
	return 0;
}
