// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <math.h>
#include <string.h>

#include "diff_print.h"
#include "report_place.h"
#include "report_style.h"
#include "report_units.h"

#define GAP	2
#define CALLERS 8
#define WIDE	120 /* columns */

enum column { COL_DIFF, COL_RANGE, COL_SIZE, COL_COUNT_DIFF, COL_COUNT_RANGE, COL_COUNT, COL_NR };

static const struct {
	const char *title;
	int width;
} columns[COL_NR] = {
	[COL_DIFF] = {"CHANGE", 7},	  [COL_RANGE] = {"95%", 17},	   [COL_SIZE] = {"SIZE", 6},
	[COL_COUNT_DIFF] = {"BLOCKS", 7}, [COL_COUNT_RANGE] = {"95%", 15}, [COL_COUNT] = {"NOW", 6},
};

struct printer {
	const struct diff_print *p;
	struct paint paint;
	struct place_layout place;
	unsigned int parts;
	bool wide; /* there is room for the interval of the blocks */
};

static void print_moment(struct printer *pr, const char *label, const struct snapshot *s,
			 double bytes)
{
	char live[UNITS_MAX], rss[UNITS_MAX], seconds[UNITS_MAX], text[256];

	snprintf(text, sizeof(text), "%.31s (pid %d), %s after attach: live %s%s%s", s->comm,
		 s->pid, units_seconds(seconds, s->duration), units_bytes(live, bytes, false),
		 s->rss ? ", RSS " : "", s->rss ? units_bytes(rss, (double)s->rss, false) : "");
	paint_wrapped(&pr->paint, label, 6, INK_PLAIN, text);
}

static void range_text(char buf[2 * UNITS_MAX + 8], const struct snap_change *c)
{
	char low[UNITS_MAX], high[UNITS_MAX];

	if (c->diff.high - c->diff.low < 0.5)
		snprintf(buf, 2 * UNITS_MAX + 8, "exact");
	else
		snprintf(buf, 2 * UNITS_MAX + 8, "%s..%s", units_growth(low, c->diff.low, true),
			 units_growth(high, c->diff.high, true));
}

static void count_text(char buf[UNITS_MAX + 2], double diff)
{
	char number[UNITS_MAX];

	if (fabs(diff) < 0.5)
		snprintf(buf, UNITS_MAX + 2, "0");
	else
		snprintf(buf, UNITS_MAX + 2, "%c%s", diff < 0 ? '-' : '+',
			 units_count(number, fabs(diff)));
}

static void count_range_text(char buf[2 * UNITS_MAX + 8], const struct snap_change *c)
{
	char low[UNITS_MAX + 2], high[UNITS_MAX + 2];

	count_text(low, c->counts.low);
	count_text(high, c->counts.high);
	if (c->counts.high - c->counts.low < 0.5)
		snprintf(buf, 2 * UNITS_MAX + 8, "exact");
	else
		snprintf(buf, 2 * UNITS_MAX + 8, "%s..%s", low, high);
}

static void print_cell(struct printer *pr, enum column c, enum ink ink, const char *text)
{
	paint_cell(&pr->paint, ink, text, columns[c].width, true);
	paint_spaces(&pr->paint, GAP);
}

static enum ink change_ink(bool noise, double diff)
{
	return noise ? INK_DIM : diff > 0.5 ? INK_RED : diff < -0.5 ? INK_GREEN : INK_PLAIN;
}

static void print_count(struct printer *pr, const struct snap_change *c)
{
	char number[UNITS_MAX + 2], text[2 * UNITS_MAX + 8];

	count_text(number, c->count_diff);
	snprintf(text, sizeof(text), "%s%s", c->count_noise ? "~" : "", number);
	print_cell(pr, COL_COUNT_DIFF, change_ink(c->count_noise, c->count_diff), text);
	if (!pr->wide)
		return;
	count_range_text(text, c);
	print_cell(pr, COL_COUNT_RANGE, INK_DIM, text);
}

static void print_numbers(struct printer *pr, const struct snap_change *c)
{
	char text[2 * UNITS_MAX + 8], mark[UNITS_MAX + 2];
	enum ink ink = change_ink(c->noise, c->size_diff);

	snprintf(mark, sizeof(mark), "%s%s", c->noise ? "~" : "",
		 units_growth(text, c->size_diff, true));
	print_cell(pr, COL_DIFF, ink, mark);
	range_text(text, c);
	print_cell(pr, COL_RANGE, INK_DIM, text);
	print_cell(pr, COL_SIZE, INK_PLAIN, units_bytes(text, c->size, true));
	print_count(pr, c);
	print_cell(pr, COL_COUNT, INK_PLAIN, units_count(text, c->count));
}

static int numbers_width(const struct printer *pr)
{
	int width = 0;

	for (int c = 0; c < COL_NR; c++)
		if (c != COL_COUNT_RANGE || pr->wide)
			width += columns[c].width + GAP;
	return width;
}

static u32 frames_of(const struct printer *pr, u32 stack, struct frame *out)
{
	u32 n = stacks_expand(pr->p->stacks, stack, out,
			      pr->p->args->view.group_by == GROUP_TRACEBACK ? CALLERS + 1 : 1);

	if (n)
		return n;
	out[0] = *stacks_frame(pr->p->stacks, stacks_top(pr->p->stacks, stack));
	return 1;
}

static size_t shown(const struct printer *pr)
{
	return pr->p->diff->n < pr->p->args->top ? pr->p->diff->n : pr->p->args->top;
}

static void plan_places(struct printer *pr)
{
	static const unsigned int parts[] = {
		[GROUP_TRACEBACK] = PLACE_LINE | PLACE_FUNCTION,
		[GROUP_LINE] = PLACE_LINE | PLACE_FUNCTION,
		[GROUP_FUNCTION] = PLACE_FUNCTION,
		[GROUP_FILE] = 0,
		[GROUP_THREAD] = PLACE_FUNCTION,
	};
	int indent = escape_width(pr->paint.glyphs->from);

	pr->parts = parts[pr->p->args->view.group_by];
	pr->wide = pr->paint.width >= WIDE;
	pr->place.total = pr->paint.width - numbers_width(pr);
	if (pr->place.total < 26)
		pr->place.total = 26;
	for (size_t i = 0; i < shown(pr); i++) {
		struct frame frames[CALLERS + 1];
		u32 n = frames_of(pr, pr->p->diff->changes[i].stack, frames);

		for (u32 k = 0; k < n; k++)
			place_measure(&pr->place, &pr->paint, &frames[k], pr->parts, k ? indent : 0,
				      NULL);
	}
	place_divide(&pr->place);
}

static void print_row(struct printer *pr, const struct snap_change *c)
{
	struct frame frames[CALLERS + 1];
	u32 n = frames_of(pr, c->stack, frames);
	int indent = escape_width(pr->paint.glyphs->from);

	print_numbers(pr, c);
	place_print(&pr->place, &pr->paint, &frames[0], pr->parts, 0, NULL);
	paint_end_line(&pr->paint);
	for (u32 i = 1; i < n; i++) {
		paint_spaces(&pr->paint, numbers_width(pr));
		paint_text(&pr->paint, INK_DIM, pr->paint.glyphs->from);
		place_print(&pr->place, &pr->paint, &frames[i], pr->parts, indent, NULL);
		paint_end_line(&pr->paint);
	}
}

static void print_head(struct printer *pr)
{
	for (int c = 0; c < COL_NR; c++)
		if (c != COL_COUNT_RANGE || pr->wide)
			print_cell(pr, c, INK_BOLD, columns[c].title);
	paint_text(&pr->paint, INK_BOLD, "ALLOCATED AT");
	paint_end_line(&pr->paint);
}

static void print_total(struct printer *pr)
{
	char text[96];

	print_numbers(pr, &pr->p->diff->total);
	snprintf(text, sizeof(text), "all %zu rows", pr->p->diff->n);
	paint_text(&pr->paint, INK_PLAIN, text);
	paint_end_line(&pr->paint);
}

static bool any_noise(const struct printer *pr)
{
	for (size_t i = 0; i < shown(pr); i++)
		if (pr->p->diff->changes[i].noise || pr->p->diff->changes[i].count_noise)
			return true;
	return pr->p->diff->total.noise || pr->p->diff->total.count_noise;
}

int diff_print_text(FILE *out, const struct diff_print *p)
{
	struct printer pr = {.p = p};
	struct report_style style;

	report_style_for(out, &style);
	paint_init(&pr.paint, out, &style);
	print_moment(&pr, "from", p->before, p->diff->total.before.sum.live.bytes);
	print_moment(&pr, "to", p->after, p->diff->total.after.sum.live.bytes);
	paint_end_line(&pr.paint);
	plan_places(&pr);
	print_head(&pr);
	for (size_t i = 0; i < shown(&pr); i++)
		print_row(&pr, &p->diff->changes[i]);
	print_total(&pr);
	if (any_noise(&pr))
		paint_wrapped(&pr.paint, "~", GAP, INK_DIM,
			      "within noise: the 95 % interval of the change includes 0");
	return ferror(out) ? -EIO : 0;
}
