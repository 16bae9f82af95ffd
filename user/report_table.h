/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of a text report. */
#ifndef PHT_REPORT_TABLE_H
#define PHT_REPORT_TABLE_H

#include "report_paint.h"

/* In at most max_lines lines (0 = any number); 0 or -ENOMEM. */
int report_table(struct paint *p, const struct report *r, const struct report_style *style,
		 int max_lines);

#endif
