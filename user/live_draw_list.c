// SPDX-License-Identifier: BSD-2-Clause
/* The table of the live view, or the callers of one of its rows. */
#include <string.h>

#include "live_ui.h"
#include "report_place.h"
#include "report_units.h"

/* From this width on numbers come with full units. */
#define FULL_UNITS_WIDTH 108
#define MIN_PLACE	 26
#define GAP		 2
#define INDENT		 2
#define MAX_INDENT	 24
#define MIN_FUNCTION	 8
#define TEXT_ROOM	 2048

enum field { F_LIVE, F_ERROR, F_SHARE, F_GROWTH, F_SINCE, F_BLOCKS, F_RATE, FIELDS };

static const struct {
	const char *title;
	int brief, full;
	int column; /* enum live_column, or -1 */
} fields[FIELDS] = {
	[F_LIVE] = {"LIVE", 5, 8, LIVE_LIVE},	 [F_ERROR] = {"95%", 6, 9, -1},
	[F_SHARE] = {"SHARE", 6, 6, -1},	 [F_GROWTH] = {"GROWTH", 7, 9, LIVE_GROWTH},
	[F_SINCE] = {"SINCE", 6, 9, LIVE_SINCE}, [F_BLOCKS] = {"BLOCKS", 7, 7, LIVE_BLOCKS},
	[F_RATE] = {"RATE", 7, 10, LIVE_RATE},
};

/* One drawing of the list. */
struct drawing {
	const struct live_ui *ui;
	struct live_model *m;
	struct canvas *c;
	struct paint paint; /* for place_file() only */
	bool brief, shown[FIELDS];
	unsigned int parts;
	int place; /* its first column */
	int file;  /* columns of a place's first half */
};

static int width_of(const struct drawing *d, enum field f)
{
	return d->brief ? fields[f].brief : fields[f].full;
}

static int numbers_width(const struct drawing *d)
{
	int width = 0;

	for (int f = 0; f < FIELDS; f++)
		width += d->shown[f] ? width_of(d, f) + GAP : 0;
	return width;
}

/* Leave out numbers, the least telling first, until places have room; never what sorts. */
static void plan_fields(struct drawing *d)
{
	static const enum field order[] = {F_SHARE, F_BLOCKS, F_ERROR, F_RATE, F_GROWTH, F_SINCE};

	d->brief = d->c->width < FULL_UNITS_WIDTH;
	for (int f = 0; f < FIELDS; f++)
		d->shown[f] = f != F_SINCE || d->m->has_base;
	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		if (d->c->width - numbers_width(d) < MIN_PLACE &&
		    fields[order[i]].column != (int)d->m->set.sort)
			d->shown[order[i]] = false;
	d->place = numbers_width(d);
}

static const struct frame no_frame = {.function = "<outer callers missing>", .kind = FRAME_OTHER};

static const struct frame *frame_of(const struct drawing *d, size_t i, int *indent)
{
	const struct live_model *m = d->m;
	const struct live_line *line;
	u32 frame;

	*indent = 0;
	if (!m->callers.open)
		return stacks_frame(m->stacks, stacks_top(m->stacks, m->rows[i].stack));
	line = &m->callers.lines[i];
	*indent = line->indent * INDENT < MAX_INDENT ? line->indent * INDENT : MAX_INDENT;
	*indent += INDENT;
	frame = m->callers.nodes[line->node].frame;
	return frame == LIVE_NO_FRAME ? &no_frame : stacks_frame(m->stacks, frame);
}

static const struct live_numbers *numbers_of(const struct drawing *d, size_t i)
{
	return d->m->callers.open ? &d->m->callers.nodes[d->m->callers.lines[i].node].numbers
				  : &d->m->rows[i].numbers;
}

/* Files and functions share the room by what is on the page. */
static void plan_places(struct drawing *d, const struct live_list *l, size_t lines)
{
	int room = d->c->width - d->place, file = 0, function = 0;
	char text[TEXT_ROOM];

	for (size_t i = l->first; i < l->n && i < l->first + lines; i++) {
		int indent, width;
		const struct frame *f = frame_of(d, i, &indent);

		width = place_file(&d->paint, f, d->parts, room, text, sizeof(text)) + indent;
		file = width > file ? width : file;
		escape_text(text, sizeof(text), f->function ? f->function : "?", d->ui->ascii);
		width = escape_width(text);
		function = width > function ? width : function;
	}
	if (!(d->parts & PLACE_FUNCTION))
		function = 0;
	if (function > room * 9 / 20)
		function = room * 9 / 20;
	d->file = file < room - function - GAP ? file : room - function - GAP;
}

static enum ink ink_of(enum field f, const struct live_numbers *n)
{
	double value = fields[f].column < 0 ? 0 : n->value[fields[f].column];

	if (f == F_LIVE)
		return INK_BOLD;
	if (f == F_ERROR || (f == F_SINCE && n->noise))
		return INK_DIM;
	if (f == F_GROWTH || f == F_SINCE)
		return value >= 0.5 ? INK_RED : value <= -0.5 ? INK_GREEN : INK_PLAIN;
	return INK_PLAIN;
}

/* all: what SHARE is of. */
static void number_text(const struct drawing *d, enum field f, const struct live_numbers *n,
			double all, char out[UNITS_MAX + 8])
{
	double half = n->live.high - n->live.value;
	char buf[UNITS_MAX];

	*out = '\0';
	if (f == F_LIVE)
		units_bytes(out, n->value[LIVE_LIVE], d->brief);
	else if (f == F_ERROR && half >= 0.5)
		snprintf(out, UNITS_MAX + 8, "%s%s", d->paint.glyphs->plus_minus,
			 units_bytes(buf, half, d->brief));
	else if (f == F_SHARE)
		units_share(out, all > 0 ? n->value[LIVE_LIVE] / all : 0, d->brief);
	else if (f == F_GROWTH || f == F_SINCE)
		units_growth(out, n->value[fields[f].column], d->brief);
	else if (f == F_BLOCKS)
		units_count(out, n->value[LIVE_BLOCKS]);
	else if (f == F_RATE)
		snprintf(out, UNITS_MAX + 8, "%s/s",
			 units_bytes(buf, n->value[LIVE_RATE], d->brief));
}

static void draw_numbers(const struct drawing *d, int y, const struct live_numbers *n, double all)
{
	int x = 0;

	for (int f = 0; f < FIELDS; f++) {
		char text[UNITS_MAX + 8];

		if (!d->shown[f])
			continue;
		number_text(d, f, n, all, text);
		x = canvas_put_right(d->c, y, x, width_of(d, f), ink_of(f, n), text) + GAP;
	}
}

static void draw_place(const struct drawing *d, int y, const struct frame *f, int indent,
		       unsigned int parts, bool outer)
{
	char text[TEXT_ROOM], cut[TEXT_ROOM];
	int x = d->place + indent;

	if (f->kind == FRAME_OTHER && (!f->file || !*f->file)) {
		escape_text(text, sizeof(text), f->function, d->ui->ascii);
		canvas_put(d->c, y, x, d->c->width - x, INK_DIM, text);
		return;
	}
	if (!(parts & PLACE_FUNCTION)) {
		place_file(&d->paint, f, parts, d->c->width - x, text, sizeof(text));
		canvas_put(d->c, y, x, d->c->width - x, INK_PLAIN, text);
		return;
	}
	place_file(&d->paint, f, parts, d->file - indent, text, sizeof(text));
	canvas_put(d->c, y, x, d->c->width - x, outer ? INK_DIM : INK_PLAIN, text);
	x = d->place + d->file + GAP;
	escape_text(text, sizeof(text), f->function ? f->function : "?", d->ui->ascii);
	escape_clip(cut, sizeof(cut), text, d->c->width - x, CLIP_RIGHT, d->paint.glyphs->ellipsis);
	canvas_put(d->c, y, x, d->c->width - x, INK_CYAN, cut);
}

static void draw_line(const struct drawing *d, int y, size_t i)
{
	int indent;
	const struct frame *f = frame_of(d, i, &indent);

	draw_numbers(d, y, numbers_of(d, i),
		     d->m->callers.open ? d->m->callers.nodes[0].now.live.bytes
					: d->m->total.live.bytes);
	if (d->m->callers.open) {
		const struct live_line *line = &d->m->callers.lines[i];
		const char *from = d->ui->ascii ? "<" : "\u2190";

		canvas_put(d->c, y, d->place + indent - INDENT, 1, INK_DIM,
			   line->folded ? "+" : from);
	}
	draw_place(d, y, f, indent, d->parts, false);
	if (i == live_model_list(d->m)->at)
		canvas_mark(d->c, y);
}

static void draw_titles(const struct drawing *d, int y)
{
	static const char *const places[] = {
		[GROUP_LINE] = "ALLOCATED AT",
		[GROUP_FUNCTION] = "ALLOCATED IN",
		[GROUP_FILE] = "ALLOCATED IN FILE",
		[GROUP_THREAD] = "ALLOCATED BY THREAD",
		[GROUP_TRACEBACK] = "ALLOCATED AT (Enter: callers)",
	};
	const char *arrow = d->m->set.reverse ? (d->ui->ascii ? "^" : "\u25b2")
					      : (d->ui->ascii ? "v" : "\u25bc");
	int x = 0;

	for (int f = 0; f < FIELDS; f++) {
		bool sorts = fields[f].column == (int)d->m->set.sort;
		char text[32];

		if (!d->shown[f])
			continue;
		snprintf(text, sizeof(text), "%s%s%s",
			 f == F_ERROR ? d->paint.glyphs->plus_minus : "", fields[f].title,
			 sorts ? arrow : "");
		x = canvas_put_right(d->c, y, x, width_of(d, f), sorts ? INK_CYAN : INK_BOLD, text);
		x += GAP;
	}
	canvas_put(d->c, y, x, d->c->width - x, INK_BOLD,
		   d->m->callers.open ? "CALLED FROM" : places[d->m->set.group_by]);
}

/* An empty table has to say why. */
static void draw_nothing(const struct drawing *d, int y)
{
	const char *why = d->m->callers.open  ? "No callers: this is where the program begins."
			  : *d->m->set.filter ? "Nothing has such a name. Esc: all rows again."
			  : d->m->total.samples
				  ? "Nothing is live: what was sampled has been freed."
				  : "No samples yet. Wait, or start with a smaller -R.";

	canvas_put(d->c, y, 0, d->c->width, INK_DIM, why);
}

/* Above its callers, the row that they are of. */
static void draw_subject(struct drawing *d, int y)
{
	const struct live_node *n = &d->m->callers.nodes[0];

	draw_numbers(d, y, &n->numbers, d->m->total.live.bytes);
	draw_place(d, y, stacks_frame(d->m->stacks, n->frame), 0, d->parts, false);
}

static unsigned int parts_of(const struct live_model *m)
{
	if (m->callers.open)
		return PLACE_LINE | PLACE_FUNCTION;
	return m->set.group_by == GROUP_FILE	   ? 0
	       : m->set.group_by == GROUP_FUNCTION ? PLACE_FUNCTION
						   : PLACE_LINE | PLACE_FUNCTION;
}

void live_draw_list(struct live_ui *ui, struct canvas *c, int top, int lines)
{
	struct drawing d = {.ui = ui, .m = live_ui_shown(ui), .c = c};
	const struct report_style style = {.width = c->width, .ascii = ui->ascii};
	struct live_list *l = live_model_list(d.m);
	int y = top + 1, page = lines - 1;

	paint_init(&d.paint, NULL, &style);
	d.parts = parts_of(d.m);
	plan_fields(&d);
	if (d.m->callers.open)
		page--;
	if (page < 1)
		page = 1;
	ui->page = page;
	live_list_scroll(l, (size_t)page);
	plan_places(&d, l, (size_t)page);
	draw_titles(&d, top);
	if (d.m->callers.open)
		draw_subject(&d, y++);
	for (size_t i = l->first; i < l->n && i < l->first + page && y < top + lines; i++)
		draw_line(&d, y++, i);
	if (!l->n)
		draw_nothing(&d, y);
}
