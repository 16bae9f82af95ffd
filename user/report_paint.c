// SPDX-License-Identifier: BSD-2-Clause
#include "report_paint.h"

#include <string.h>

#define MIN_WIDTH     40
#define MAX_WIDTH     500
#define DEFAULT_WIDTH 80

static const struct glyphs utf8_glyphs = {"\u00b1", "\u2026", "\u2190 "};
static const struct glyphs ascii_glyphs = {"+/-", "..", "<- "};

void paint_init(struct paint *p, FILE *out, const struct report_style *style)
{
	int width = style->width > 0 ? style->width : DEFAULT_WIDTH;

	*p = (struct paint){
		.out = out,
		.glyphs = style->ascii ? &ascii_glyphs : &utf8_glyphs,
		.width = width < MIN_WIDTH   ? MIN_WIDTH
			 : width > MAX_WIDTH ? MAX_WIDTH
					     : width,
		.color = style->color,
		.clear = style->clear,
		.ascii = style->ascii,
	};
}

void paint_text(struct paint *p, enum ink ink, const char *text)
{
	static const char *const codes[INK_NR] = {
		[INK_BOLD] = "1",   [INK_DIM] = "2",	 [INK_RED] = "31",
		[INK_GREEN] = "32", [INK_YELLOW] = "33", [INK_CYAN] = "36",
	};

	if (p->color && codes[ink] && *text)
		fprintf(p->out, "\033[%sm%s\033[0m", codes[ink], text);
	else
		fputs(text, p->out);
}

void paint_spaces(struct paint *p, int columns)
{
	if (columns > 0)
		fprintf(p->out, "%*s", columns, "");
}

void paint_cell(struct paint *p, enum ink ink, const char *text, int columns, bool right)
{
	int pad = columns - escape_width(text);

	if (right)
		paint_spaces(p, pad);
	paint_text(p, ink, text);
	if (!right)
		paint_spaces(p, pad);
}

void paint_end_line(struct paint *p)
{
	/* Refreshing in place: wipe what the last report had there. */
	fputs(p->clear ? "\033[K\n" : "\n", p->out);
	p->lines++;
}

/* Bytes of text for a line of that many columns, and in *next where the next one begins. */
static size_t line_length(char *text, int columns, const char **next)
{
	char *cut = NULL, *p = text;
	char saved;

	for (;;) {
		char *space = p + strcspn(p, " ");
		int width;

		saved = *space;
		*space = '\0';
		width = escape_width(text);
		*space = saved;
		/* A word longer than a line is let run over; the terminal breaks it. */
		if (width > columns && cut)
			break;
		cut = space;
		if (!*space || width > columns)
			break;
		p = space + strspn(space, " ");
	}
	*next = cut + strspn(cut, " ");
	return (size_t)(cut - text);
}

void paint_wrapped(struct paint *p, const char *label, int indent, enum ink ink, const char *text)
{
	char buf[2048];
	char *rest = buf;

	escape_text(buf, sizeof(buf), text, p->ascii);
	paint_cell(p, INK_DIM, label, indent, false);
	do {
		const char *next;
		size_t len = line_length(rest, p->width - indent, &next);
		char saved = rest[len];

		rest[len] = '\0';
		paint_text(p, ink, rest);
		rest[len] = saved;
		paint_end_line(p);
		rest = buf + (next - buf);
		if (*rest)
			paint_spaces(p, indent);
	} while (*rest);
}
