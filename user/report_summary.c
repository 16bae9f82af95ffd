// SPDX-License-Identifier: BSD-2-Clause
/* One page about a recording. */
#include <errno.h>
#include <time.h>

#include "capture_report.h"
#include "report_place.h"
#include "report_style.h"
#include "report_units.h"
#include "snapshot_diff.h"

#define TOP 5

static void print_process(struct paint *p, const struct capture_report *r)
{
	const struct snapshot *s = &r->now;
	time_t began = s->wall_ns / 1000000000 - (time_t)s->duration;
	char text[512], when[64] = "?", seconds[UNITS_MAX];
	struct tm tm;

	snprintf(text, sizeof(text), "%.31s (pid %d), Python %.15s", s->comm, s->pid,
		 s->python_version);
	report_line(p, "process", INK_BOLD, text);
	if (gmtime_r(&began, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", &tm);
	snprintf(text, sizeof(text), "%s, %s, %zu snapshots%s%s", when,
		 units_seconds(seconds, r->points[r->npoints - 1].duration), r->npoints,
		 *s->end_reason ? "; ended: " : "", s->end_reason);
	report_line(p, "recorded", INK_PLAIN, text);
	snprintf(text, sizeof(text), "%.15s, %s: %.255s", s->collector,
		 s->coverage_complete ? "complete" : "partial", s->coverage);
	report_line(p, "coverage", s->coverage_complete ? INK_GREEN : INK_YELLOW, text);
}

static void print_moment(struct paint *p, const char *label, const struct capture_point *at)
{
	char live[UNITS_MAX], half[UNITS_MAX], rss[UNITS_MAX], seconds[UNITS_MAX], text[256];

	snprintf(text, sizeof(text), "live %s %s %s in a resident set of %s, after %s",
		 units_bytes(live, at->live_bytes.value, false), p->glyphs->plus_minus,
		 units_bytes(half, at->live_bytes.high - at->live_bytes.value, false),
		 units_bytes(rss, (double)at->rss, false), units_seconds(seconds, at->duration));
	report_line(p, label, INK_PLAIN, text);
}

/* As recorded; false where it was not. */
static bool print_peak(struct paint *p, const struct capture_report *r)
{
	char live[UNITS_MAX], half[UNITS_MAX], seconds[UNITS_MAX], text[256];
	struct snap_total total;
	struct estimate e;

	if (r->now.metric != METRIC_LIVE || r->now.peak_seconds < 0)
		return false;
	snapshot_total(&r->now, SNAP_DOMAINS, &total);
	e = snap_interval(&total.peak, r->now.sample_interval);
	snprintf(text, sizeof(text), "live %s %s %s, after %s", units_bytes(live, e.value, false),
		 p->glyphs->plus_minus, units_bytes(half, e.high - e.value, false),
		 units_seconds(seconds, r->now.peak_seconds));
	report_line(p, "peak", INK_PLAIN, text);
	return true;
}

static void print_series(struct paint *p, const struct capture_report *r)
{
	const struct capture_point *peak = r->points;

	for (size_t i = 0; i < r->npoints; i++)
		if (r->points[i].live_bytes.value > peak->live_bytes.value)
			peak = &r->points[i];
	print_moment(p, "first", &r->points[0]);
	if (!print_peak(p, r))
		print_moment(p, "peak", peak);
	print_moment(p, "last", &r->points[r->npoints - 1]);
}

static void print_change(struct paint *p, const struct capture_report *r,
			 const struct snap_change *c, const struct place_layout *place)
{
	char diff[UNITS_MAX], low[UNITS_MAX], text[64];

	paint_cell(p, c->size_diff > 0 ? INK_RED : INK_GREEN,
		   units_growth(diff, c->size_diff, false), 10, true);
	snprintf(text, sizeof(text), "at least %s",
		 units_growth(low, c->size_diff > 0 ? c->diff.low : c->diff.high, true));
	paint_cell(p, INK_DIM, text, 17, true);
	paint_spaces(p, 2);
	place_print(place, p, stacks_frame(r->stacks, stacks_top(r->stacks, c->stack)),
		    PLACE_LINE | PLACE_FUNCTION, 0, NULL);
	paint_end_line(p);
}

/* Only what is beyond noise. */
static void print_changes(struct paint *p, const struct capture_report *r,
			  const struct snap_diff *d)
{
	struct place_layout place = {.total = p->width - 29};
	size_t n = 0;

	while (n < d->n && n < TOP && d->changes[n].size_diff != 0 && !d->changes[n].noise) {
		u32 stack = d->changes[n++].stack;

		place_measure(&place, p, stacks_frame(r->stacks, stacks_top(r->stacks, stack)),
			      PLACE_LINE | PLACE_FUNCTION, 0, NULL);
	}
	place_divide(&place);
	for (size_t i = 0; i < n; i++)
		print_change(p, r, &d->changes[i], &place);
	if (!n)
		report_line(p, "", INK_DIM, "nothing beyond sampling noise");
}

static int print_growth(struct paint *p, const struct capture_report *r)
{
	struct snap_diff d;
	int err = snapshot_diff(&r->first, &r->now, r->stacks, &r->args->view, true, &d);

	if (err)
		return err;
	snap_diff_sort(&d, r->stacks, &r->args->view, SNAP_DIFF_SURE);
	report_heading(p, "Changed most since the first snapshot, for certain");
	print_changes(p, r, &d);
	snap_diff_free(&d);
	return 0;
}

static void print_losses(struct paint *p, const struct snapshot *s)
{
	bool head = false;

	for (int i = 0; i < PHT_LOSS_NR; i++) {
		char count[32];

		if (!s->losses[i])
			continue;
		if (!head)
			report_heading(p, "Lost, and so missing above");
		head = true;
		snprintf(count, sizeof(count), "%llu", (unsigned long long)s->losses[i]);
		report_line(p, count, INK_YELLOW, loss_text(i));
	}
}

int report_capture_summary(FILE *out, const struct capture_report *r)
{
	struct report_style style;
	struct paint p;
	int err;

	report_style_for(out, &style);
	paint_init(&p, out, &style);
	print_process(&p, r);
	print_series(&p, r);
	report_heading(&p, "Holding most");
	err = report_top_lines(&p, r, SNAP_SORT_SIZE, TOP) ?: print_growth(&p, r);
	if (err)
		return err;
	report_heading(&p, "Allocated most, freed again or not");
	err = report_top_lines(&p, r, SNAP_SORT_ALLOCATED, TOP);
	if (err)
		return err;
	print_losses(&p, &r->now);
	return ferror(out) ? -EIO : 0;
}
