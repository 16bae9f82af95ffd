/* SPDX-License-Identifier: BSD-2-Clause */
/* A screen in memory: cells of one character each, with a colour. */
#ifndef PHT_LIVE_CANVAS_H
#define PHT_LIVE_CANVAS_H

#include "report_paint.h"

#define CANVAS_MAX_WIDTH  1000
#define CANVAS_MAX_HEIGHT 500

struct canvas_cell {
	char text[14]; /* a character and what combines with it; "" = the right half of a wide one
			*/
	u8 ink;	       /* enum ink */
	bool marked;   /* in reverse */
};

struct canvas {
	int width, height;
	struct canvas_cell *cells; /* owned; line by line */
};

/* All blank, of that size, bounded by the maxima; 0 or -ENOMEM. */
int canvas_reset(struct canvas *c, int width, int height);
void canvas_free(struct canvas *c);

/*
 * Text that is escaped already, from column x in at most columns of them;
 * what would leave the canvas is cut.  Returns the column behind it.
 */
int canvas_put(struct canvas *c, int y, int x, int columns, enum ink ink, const char *text);
/* The same, set to the right of its columns; returns x + columns. */
int canvas_put_right(struct canvas *c, int y, int x, int columns, enum ink ink, const char *text);
/* A whole line in reverse. */
void canvas_mark(struct canvas *c, int y);

/* The cell, or NULL outside. */
const struct canvas_cell *canvas_at(const struct canvas *c, int y, int x);
/* A line as text without its trailing blanks; returns its length. */
size_t canvas_line(const struct canvas *c, int y, char *buf, size_t size);

#endif
