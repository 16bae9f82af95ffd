/* SPDX-License-Identifier: BSD-2-Clause */
/* "file:line function" in a given number of columns; a path gives way from the left. */
#ifndef PHT_REPORT_PLACE_H
#define PHT_REPORT_PLACE_H

#include "report_paint.h"

enum place_parts {
	PLACE_LINE = 1,	    /* with its line number */
	PLACE_FUNCTION = 2, /* with its function */
};

/* Columns for the two halves, found by looking at everything that will be shown. */
struct place_layout {
	int total;		    /* columns there are */
	int file_max, function_max; /* widest of each */
	int file;		    /* columns of file:line */
};

void place_measure(struct place_layout *l, const struct paint *p, const struct frame *f,
		   unsigned int parts, int indent, const char *mark);
/* Divide the columns once everything is measured. */
void place_divide(struct place_layout *l);

/* Print a place; mark (or NULL) follows the function. */
void place_print(const struct place_layout *l, struct paint *p, const struct frame *f,
		 unsigned int parts, int indent, const char *mark);

/*
 * The first half alone, cut to columns, into dst; nothing for what has no file.  Returns its
 * columns.
 */
int place_file(const struct paint *p, const struct frame *f, unsigned int parts, int columns,
	       char *dst, size_t size);

#endif
