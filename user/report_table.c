// SPDX-License-Identifier: BSD-2-Clause
#include "report_table.h"

#include <errno.h>
#include <limits.h>

#include "report_place.h"
#include "report_units.h"

/* From this width on numbers come with full units. */
#define FULL_UNITS_WIDTH 108
#define MIN_PLACE	 26
#define GAP		 2

/* In traceback mode the callers are the point; elsewhere they explain the top. */
#define CALLER_ROWS	  5
#define CALLERS		  3
#define TRACEBACK_CALLERS 8

enum column { COL_LIVE, COL_ERROR, COL_SHARE, COL_BLOCKS, COL_GROWTH, COL_RATE, COL_NR };

static const struct {
	const char *title;
	int brief, full; /* widths */
} columns[COL_NR] = {
	[COL_LIVE] = {"LIVE", 5, 8},	 [COL_ERROR] = {"95%", 5, 8},
	[COL_SHARE] = {"SHARE", 5, 6},	 [COL_BLOCKS] = {"BLOCKS", 6, 6},
	[COL_GROWTH] = {"GROWTH", 6, 9}, [COL_RATE] = {"RATE", 7, 10},
};

enum entry_kind { ENTRY_ROW, ENTRY_CALLER, ENTRY_MORE };

/* One line of the table. */
struct entry {
	enum entry_kind kind;
	const struct row *row;
	const struct frame *frame;
	u32 more; /* callers not shown */
};

struct table {
	const struct report *report;
	struct entry *entries;
	size_t nentries;
	size_t nrows; /* rows among them */
	bool brief;
	bool shown[COL_NR];
	int width[COL_NR];
	unsigned int parts; /* enum place_parts of a row */
	bool any_truncated;
	struct place_layout place;
};

static const struct frame no_frame = {.function = "<no stack>", .kind = FRAME_OTHER};

static u32 callers_of(const struct report *r, const struct report_style *style, size_t i)
{
	if (!style->callers || r->group_by == GROUP_FILE)
		return 0;
	if (r->group_by == GROUP_TRACEBACK)
		return TRACEBACK_CALLERS;
	return i < CALLER_ROWS ? CALLERS : 0;
}

/* One row and, as far as *spare lines go, its callers. */
static void add_row(struct table *t, const struct row *row, u32 callers, size_t *spare)
{
	u32 known = row->nframes ? row->nframes - 1 : 0;
	u32 n = callers < known ? callers : known;

	t->entries[t->nentries++] =
		(struct entry){ENTRY_ROW, row, row->nframes ? row->frames : &no_frame, 0};
	t->nrows++;
	t->any_truncated |= row->truncated;
	/* "1 more" would take the line of the one. */
	if (callers && known == callers + 1)
		n = known;
	for (u32 i = 1; i <= n && *spare; i++, --*spare)
		t->entries[t->nentries++] = (struct entry){ENTRY_CALLER, row, row->frames + i, 0};
	if (callers && n < known && *spare) {
		t->entries[t->nentries++] = (struct entry){ENTRY_MORE, row, NULL, known - n};
		--*spare;
	}
}

/* Decide which lines there will be. */
static int plan_entries(struct table *t, const struct report_style *style, int max_lines)
{
	const struct report *r = t->report;
	size_t rows = r->nrows < r->top ? r->nrows : r->top;
	size_t spare = SIZE_MAX;

	if (max_lines > 0) {
		/* Without the head, the line of the other rows and the footnote. */
		size_t max = max_lines > 4 ? (size_t)max_lines - 3 : 1;
		size_t most = r->group_by == GROUP_TRACEBACK ? (max + 2) / 3 : (2 * max + 2) / 3;

		/* Rows come first, but some lines are kept for callers. */
		if (callers_of(r, style, 0) && rows > most)
			rows = most;
		else if (rows > max)
			rows = max;
		spare = max - rows;
	}
	t->entries = calloc(rows * (TRACEBACK_CALLERS + 2), sizeof(*t->entries));
	if (!t->entries)
		return -ENOMEM;
	for (size_t i = 0; i < rows; i++)
		add_row(t, r->rows + i, callers_of(r, style, i), &spare);
	return 0;
}

static int numbers_width(const struct table *t)
{
	int width = 0;

	for (int c = 0; c < COL_NR; c++)
		if (t->shown[c])
			width += t->width[c] + GAP;
	return width;
}

/* Leave out numbers, the least telling first, until places have room. */
static void plan_columns(struct table *t, const struct paint *p)
{
	static const enum column order[] = {COL_RATE, COL_BLOCKS, COL_SHARE, COL_GROWTH, COL_ERROR};

	t->brief = p->width < FULL_UNITS_WIDTH;
	for (int c = 0; c < COL_NR; c++) {
		t->shown[c] = true;
		t->width[c] = t->brief ? columns[c].brief : columns[c].full;
	}
	/* Since when should another metric have grown? */
	if (t->report->metric != METRIC_LIVE)
		t->shown[COL_GROWTH] = false;
	t->width[COL_ERROR] += escape_width(p->glyphs->plus_minus);
	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		if (p->width - numbers_width(t) < MIN_PLACE)
			t->shown[order[i]] = false;
	t->place.total = p->width - numbers_width(t);
}

static unsigned int row_parts(enum group_by group)
{
	switch (group) {
	case GROUP_FUNCTION:
		return PLACE_FUNCTION; /* it has many lines */
	case GROUP_FILE:
		return 0;
	default:
		return PLACE_LINE | PLACE_FUNCTION;
	}
}

static const char *mark_of(const struct row *row)
{
	return row->truncated ? "*" : NULL;
}

static void plan_places(struct table *t, const struct paint *p)
{
	int indent = escape_width(p->glyphs->from);

	for (size_t i = 0; i < t->nentries; i++) {
		const struct entry *e = t->entries + i;

		if (e->kind == ENTRY_ROW)
			place_measure(&t->place, p, e->frame, t->parts, 0, mark_of(e->row));
		else if (e->kind == ENTRY_CALLER)
			place_measure(&t->place, p, e->frame, PLACE_LINE | PLACE_FUNCTION, indent,
				      NULL);
	}
	place_divide(&t->place);
}

static void print_number(const struct table *t, struct paint *p, enum column c, enum ink ink,
			 const char *text)
{
	if (!t->shown[c])
		return;
	paint_cell(p, ink, text, t->width[c], true);
	paint_spaces(p, GAP);
}

static void print_head(const struct table *t, struct paint *p)
{
	static const char *const places[] = {
		[GROUP_TRACEBACK] = "ALLOCATED AT, CALLED FROM",
		[GROUP_LINE] = "ALLOCATED AT",
		[GROUP_FUNCTION] = "ALLOCATED IN",
		[GROUP_FILE] = "ALLOCATED IN",
		[GROUP_THREAD] = "ALLOCATED BY THREAD",
	};
	static const char *const metrics[] = {
		[METRIC_LIVE] = "LIVE", [METRIC_PEAK] = "PEAK", [METRIC_TEMPORARY] = "TEMP"};
	char title[UNITS_MAX];

	for (int c = 0; c < COL_NR; c++) {
		snprintf(title, sizeof(title), "%s%s", c == COL_ERROR ? p->glyphs->plus_minus : "",
			 c == COL_LIVE ? metrics[t->report->metric] : columns[c].title);
		print_number(t, p, c, INK_BOLD, title);
	}
	paint_text(p, INK_BOLD, places[t->report->group_by]);
	paint_end_line(p);
}

static double share_of(const struct table *t, double bytes)
{
	double all = t->report->live_bytes.value;

	return all > 0 ? bytes / all : 0;
}

static enum ink growth_ink(double bytes)
{
	return bytes >= 0.5 ? INK_RED : bytes <= -0.5 ? INK_GREEN : INK_PLAIN;
}

static void print_rate(const struct table *t, struct paint *p, double rate)
{
	char buf[UNITS_MAX], text[UNITS_MAX + 2];

	if (rate < 0.5)
		snprintf(text, sizeof(text), "0");
	else
		snprintf(text, sizeof(text), "%s/s", units_bytes(buf, rate, t->brief));
	print_number(t, p, COL_RATE, INK_PLAIN, text);
}

/* The numbers of a row, or of several taken together (then without an interval). */
static void print_numbers(const struct table *t, struct paint *p, const struct row *row, bool one,
			  enum ink ink)
{
	char buf[UNITS_MAX], text[UNITS_MAX + 4] = "";
	double error = row->live_bytes.high - row->live_bytes.value;

	print_number(t, p, COL_LIVE, ink, units_bytes(buf, row->live_bytes.value, t->brief));
	if (one && error < 0.5)
		snprintf(text, sizeof(text), "exact");
	else if (one)
		snprintf(text, sizeof(text), "%s%s", p->glyphs->plus_minus,
			 units_bytes(buf, error, t->brief));
	print_number(t, p, COL_ERROR, INK_DIM, text);
	print_number(t, p, COL_SHARE, INK_PLAIN,
		     units_share(buf, share_of(t, row->live_bytes.value), t->brief));
	print_number(t, p, COL_BLOCKS, INK_PLAIN, units_count(buf, row->live_blocks));
	print_number(t, p, COL_GROWTH, growth_ink(row->growth_bytes),
		     units_growth(buf, row->growth_bytes, t->brief));
	print_rate(t, p, row->alloc_rate);
}

static void print_entry(const struct table *t, struct paint *p, const struct entry *e)
{
	int indent = escape_width(p->glyphs->from);
	char text[64];

	if (e->kind == ENTRY_ROW) {
		print_numbers(t, p, e->row, true, INK_BOLD);
		place_print(&t->place, p, e->frame, t->parts, 0, mark_of(e->row));
		paint_end_line(p);
		return;
	}
	paint_spaces(p, numbers_width(t));
	if (e->kind == ENTRY_CALLER) {
		paint_text(p, INK_DIM, p->glyphs->from);
		place_print(&t->place, p, e->frame, PLACE_LINE | PLACE_FUNCTION, indent, NULL);
	} else {
		paint_spaces(p, indent);
		snprintf(text, sizeof(text), "%s %u more", p->glyphs->ellipsis, e->more);
		paint_text(p, INK_DIM, text);
	}
	paint_end_line(p);
}

/* What the rows that are not shown come to. */
static void print_rest(const struct table *t, struct paint *p)
{
	const struct report *r = t->report;
	size_t left = r->nrows - t->nrows;
	struct row sum = {0};
	char text[64];

	if (!left)
		return;
	for (size_t i = t->nrows; i < r->nrows; i++) {
		sum.live_bytes.value += r->rows[i].live_bytes.value;
		sum.live_blocks += r->rows[i].live_blocks;
		sum.growth_bytes += r->rows[i].growth_bytes;
		sum.alloc_rate += r->rows[i].alloc_rate;
	}
	print_numbers(t, p, &sum, false, INK_PLAIN);
	snprintf(text, sizeof(text), "%s %zu more row%s", p->glyphs->ellipsis, left,
		 left == 1 ? "" : "s");
	paint_text(p, INK_DIM, text);
	paint_end_line(p);
}

int report_table(struct paint *p, const struct report *r, const struct report_style *style,
		 int max_lines)
{
	struct table t = {.report = r, .parts = row_parts(r->group_by)};
	int err;

	err = plan_entries(&t, style, max_lines);
	if (err)
		return err;
	plan_columns(&t, p);
	plan_places(&t, p);
	print_head(&t, p);
	for (size_t i = 0; i < t.nentries; i++)
		print_entry(&t, p, t.entries + i);
	print_rest(&t, p);
	if (t.any_truncated && t.parts & PLACE_FUNCTION)
		paint_wrapped(p, "*", GAP, INK_DIM, "stack cut off, outer callers missing");
	free(t.entries);
	return 0;
}
