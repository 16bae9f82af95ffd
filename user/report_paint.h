/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines on a terminal: colour, glyphs, padding, wrapping, and how many lines there were. */
#ifndef PHT_REPORT_PAINT_H
#define PHT_REPORT_PAINT_H

#include "escape.h"
#include "report.h"

enum ink { INK_PLAIN, INK_BOLD, INK_DIM, INK_RED, INK_GREEN, INK_YELLOW, INK_CYAN, INK_NR };

struct glyphs {
	const char *plus_minus, *ellipsis, *from;
};

struct paint {
	FILE *out;
	const struct glyphs *glyphs;
	int width;
	int lines; /* finished so far */
	bool color, clear, ascii;
};

void paint_init(struct paint *p, FILE *out, const struct report_style *style);

/* text, already escaped, in a colour. */
void paint_text(struct paint *p, enum ink ink, const char *text);
/* The same padded to columns, on the left or (right) on the right. */
void paint_cell(struct paint *p, enum ink ink, const char *text, int columns, bool right);
void paint_spaces(struct paint *p, int columns);
void paint_end_line(struct paint *p);

/*
 * label, then text wrapped at words beside it in indent columns less than the
 * width.  text is escaped here.
 */
void paint_wrapped(struct paint *p, const char *label, int indent, enum ink ink, const char *text);

#endif
