/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reporters over a capture: `pyheaptrace report NAME FILE`.  To add one, write
 * a function of this shape and put it into the table of cmd_report.c.
 */
#ifndef PHT_CAPTURE_REPORT_H
#define PHT_CAPTURE_REPORT_H

#include "capture_view.h"
#include "report_paint.h"

struct capture_report {
	const struct view_args *args;
	const char *path;
	const struct stacks *stacks;
	struct snapshot now;   /* --at */
	struct snapshot first; /* of the recording; the same as now where that is the first */
	struct snapshot peak;  /* of the recording; only where the reporter wants it */
	struct capture_point *points; /* the time series; only where the reporter wants it */
	size_t npoints;
};

struct capture_reporter {
	const char *name;
	int (*print)(FILE *out, const struct capture_report *r); /* 0 or -errno */
	bool has_json;
	bool wants_series, wants_peak;
};

int report_capture_table(FILE *out, const struct capture_report *r);
int report_capture_tree(FILE *out, const struct capture_report *r);
int report_capture_summary(FILE *out, const struct capture_report *r);
int report_capture_stats(FILE *out, const struct capture_report *r);
int report_capture_series(FILE *out, const struct capture_report *r);
int report_capture_flamegraph(FILE *out, const struct capture_report *r);

/* A heading, and a line "label  value" below it; shared by summary and stats. */
void report_heading(struct paint *p, const char *text);
void report_line(struct paint *p, const char *label, enum ink ink, const char *text);
#define REPORT_LABEL 14

/* The first rows of a sorted grouping, one line each: bytes, share, blocks, place. */
int report_top_lines(struct paint *p, const struct capture_report *r, enum snap_sort by, size_t n);

#endif
