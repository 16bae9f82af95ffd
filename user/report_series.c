// SPDX-License-Identifier: BSD-2-Clause
/* The time series of a recording: which snapshots there are, and when. */
#include <errno.h>
#include <time.h>

#include "capture_report.h"
#include "export_text.h"
#include "report_style.h"
#include "report_units.h"

static void print_json(FILE *out, const struct capture_report *r)
{
	fputs("{\"snapshots\":[", out);
	for (size_t i = 0; i < r->npoints; i++) {
		const struct capture_point *at = &r->points[i];

		fprintf(out,
			"%s{\"number\":%zu,\"duration_seconds\":%.3f,\"time_ns\":%llu,"
			"\"rss_bytes\":%llu,\"live_bytes\":",
			i ? "," : "", i, at->duration, (unsigned long long)at->wall_ns,
			(unsigned long long)at->rss);
		json_whole(out, at->live_bytes.value);
		fputs(",\"live_bytes_low\":", out);
		json_whole(out, at->live_bytes.low);
		fputs(",\"live_bytes_high\":", out);
		json_whole(out, at->live_bytes.high);
		fputs(",\"live_blocks\":", out);
		json_whole(out, at->live_blocks);
		fputs(",\"allocated_bytes\":", out);
		json_whole(out, at->allocated_bytes);
		fputc('}', out);
	}
	fputs("]}\n", out);
}

static void print_cell(struct paint *p, enum ink ink, const char *text, int width)
{
	paint_cell(p, ink, text, width, true);
	paint_spaces(p, 2);
}

static void print_point(struct paint *p, size_t number, const struct capture_point *at)
{
	char text[UNITS_MAX + 8], buf[UNITS_MAX];

	snprintf(text, sizeof(text), "%zu", number);
	print_cell(p, INK_PLAIN, text, 6);
	print_cell(p, INK_PLAIN, units_seconds(buf, at->duration), 12);
	print_cell(p, INK_BOLD, units_bytes(buf, at->live_bytes.value, false), 10);
	snprintf(text, sizeof(text), "%s%s", p->glyphs->plus_minus,
		 units_bytes(buf, at->live_bytes.high - at->live_bytes.value, false));
	print_cell(p, INK_DIM, text, 12);
	print_cell(p, INK_PLAIN, units_count(buf, at->live_blocks), 6);
	print_cell(p, INK_PLAIN, units_bytes(buf, (double)at->rss, false), 10);
	paint_end_line(p);
}

static void print_text(FILE *out, const struct capture_report *r)
{
	static const struct {
		const char *title;
		int width;
	} columns[] = {{"NUMBER", 6}, {"AFTER", 12}, {"LIVE", 10},
		       {"95%", 12},   {"BLOCKS", 6}, {"RSS", 10}};
	struct report_style style;
	struct paint p;

	report_style_for(out, &style);
	paint_init(&p, out, &style);
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
		print_cell(&p, INK_BOLD, columns[i].title, columns[i].width);
	paint_end_line(&p);
	for (size_t i = 0; i < r->npoints; i++)
		print_point(&p, i, &r->points[i]);
}

int report_capture_series(FILE *out, const struct capture_report *r)
{
	if (r->args->json)
		print_json(out, r);
	else
		print_text(out, r);
	return ferror(out) ? -EIO : 0;
}
