/* SPDX-License-Identifier: BSD-2-Clause */
/* How a text report is to look where it goes to. */
#ifndef PHT_REPORT_STYLE_H
#define PHT_REPORT_STYLE_H

#include "report.h"

/* For this stream: its terminal's size and colours, or COLUMNS and none; callers, no clear. */
void report_style_for(FILE *out, struct report_style *style);

#endif
