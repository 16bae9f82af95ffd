// SPDX-License-Identifier: BSD-2-Clause
/* Distributions of what is live: by domain, by size, by age. */
#include <errno.h>
#include <math.h>

#include "capture_report.h"
#include "report_style.h"
#include "report_units.h"

#define TOP 5
#define BAR 30

static const char *const metric_names[] = {[METRIC_LIVE] = "live",
					   [METRIC_PEAK] = "live at the peak",
					   [METRIC_TEMPORARY] = "temporary"};

/* The peak and what was temporary, beside what is live. */
static void print_others(struct paint *p, const struct capture_report *r,
			 const struct snap_total *t)
{
	struct estimate peak = snap_interval(&t->peak, r->now.sample_interval);
	struct estimate temporary = snap_interval(&t->temporary, r->now.sample_interval);
	char a[UNITS_MAX], b[UNITS_MAX], c[UNITS_MAX], text[256];

	if (r->now.metric == METRIC_LIVE && r->now.peak_seconds >= 0) {
		snprintf(text, sizeof(text), "%s %s %s were live %s after attach",
			 units_bytes(a, peak.value, false), p->glyphs->plus_minus,
			 units_bytes(b, peak.high - peak.value, false),
			 units_seconds(c, r->now.peak_seconds));
		report_line(p, "peak", INK_PLAIN, text);
	}
	if (r->now.metric != METRIC_LIVE || !r->now.temporary_ns)
		return;
	snprintf(text, sizeof(text), "%s in %s blocks were freed within %s",
		 units_bytes(a, temporary.value, false), units_count(b, t->temporary.blocks),
		 units_moment(c, r->now.temporary_ns / 1e9));
	report_line(p, "temporary", INK_PLAIN, text);
}

static void print_totals(struct paint *p, const struct capture_report *r,
			 const struct snap_total *t)
{
	struct estimate live = snap_interval(&t->live, r->now.sample_interval);
	char a[UNITS_MAX], b[UNITS_MAX], c[UNITS_MAX], d[UNITS_MAX], text[256];

	snprintf(text, sizeof(text), "%s %s %s in %s blocks, %s each on average",
		 units_bytes(a, live.value, false), p->glyphs->plus_minus,
		 units_bytes(b, live.high - live.value, false), units_count(c, t->live.blocks),
		 units_bytes(d, t->live.blocks > 0 ? live.value / t->live.blocks : 0, false));
	report_line(p, r->now.metric == METRIC_TEMPORARY ? "temporary" : "live", INK_BOLD, text);
	snprintf(text, sizeof(text), "%s in %s blocks since attach",
		 units_bytes(a, t->allocated_bytes, false), units_count(b, t->allocated_blocks));
	report_line(p, "allocated", INK_PLAIN, text);
	snprintf(text, sizeof(text), "%s in %s blocks, %s of what was allocated",
		 units_bytes(a, t->freed_bytes, false), units_count(b, t->freed_blocks),
		 units_share(c, t->allocated_bytes > 0 ? t->freed_bytes / t->allocated_bytes : 0,
			     false));
	report_line(p, "freed", INK_PLAIN, text);
	snprintf(text, sizeof(text), "%s taken, %s live; one per %s; %s calls, %s frees",
		 units_count(a, (double)t->samples), units_count(b, (double)t->live.samples),
		 units_bytes(c, (double)r->now.sample_interval, false),
		 units_count(d, (double)r->now.calls),
		 units_count((char[UNITS_MAX]){0}, (double)r->now.frees));
	report_line(p, "samples", INK_PLAIN, text);
}

static void print_bar(struct paint *p, double share)
{
	int n = (int)lround(fmin(fmax(share, 0), 1) * BAR);

	paint_spaces(p, 2);
	for (int i = 0; i < n; i++)
		paint_text(p, INK_CYAN, p->ascii ? "#" : "\u2588");
	paint_end_line(p);
}

/* label, bytes, share of all, blocks, and a bar. */
static void print_share(struct paint *p, const char *label, double bytes, double all, double blocks)
{
	double share = all > 0 ? bytes / all : 0;
	char buf[UNITS_MAX];

	paint_cell(p, INK_DIM, label, REPORT_LABEL + 6, false);
	paint_cell(p, INK_BOLD, units_bytes(buf, bytes, false), 10, true);
	paint_cell(p, INK_PLAIN, units_share(buf, share, false), 8, true);
	paint_cell(p, INK_PLAIN, units_count(buf, blocks), 8, true);
	print_bar(p, share);
}

static void life_label(char *buf, size_t size, u32 log2)
{
	u32 bucket = log2 - (PHT_LIFE_SHIFT - 1);
	char text[UNITS_MAX];

	if (bucket + 1 < PHT_LIFE_BUCKETS)
		snprintf(buf, size, "under %s", units_moment(text, life_to(bucket)));
	else
		snprintf(buf, size, "longer");
}

static void print_domains(struct paint *p, const struct capture_report *r, double all)
{
	report_heading(p, r->now.metric == METRIC_TEMPORARY ? "Temporary bytes by domain"
							    : "Live bytes by domain");
	for (u32 d = 0; d < SNAP_DOMAINS; d++) {
		struct snap_total t;

		snapshot_total(&r->now, d, &t);
		if (t.live.samples || t.samples)
			print_share(p, snap_domain_name(d), t.live.bytes, all, t.live.blocks);
	}
}

/* All domains' bins of one power of two. */
static bool sum_bins(const struct snap_bin *bins, size_t n, u32 log2, struct snap_bin *out)
{
	*out = (struct snap_bin){.log2 = log2};
	for (size_t i = 0; i < n; i++) {
		if (bins[i].log2 != log2)
			continue;
		out->bytes += bins[i].bytes;
		out->blocks += bins[i].blocks;
		out->samples += bins[i].samples;
	}
	return out->samples > 0;
}

static void size_label(char *buf, size_t size, u32 log2)
{
	char low[UNITS_MAX], high[UNITS_MAX];

	snprintf(buf, size, "%s to %s", units_bytes(low, log2 ? ldexp(1, (int)log2) : 0, true),
		 units_bytes(high, ldexp(1, (int)log2 + 1), true));
}

static void age_label(char *buf, size_t size, u32 log2)
{
	double seconds = ldexp(1, (int)log2 + 1) / 1000;
	char text[UNITS_MAX];

	if (seconds < 1)
		snprintf(buf, size, "under %.0f ms", seconds * 1000);
	else
		snprintf(buf, size, "under %s", units_seconds(text, seconds));
}

static void print_bins(struct paint *p, const char *heading, const struct snap_bin *bins, size_t n,
		       void (*label)(char *buf, size_t size, u32 log2))
{
	struct snap_bin bin;
	double all = 0;

	if (!n)
		return;
	for (size_t i = 0; i < n; i++)
		all += bins[i].bytes;
	report_heading(p, heading);
	for (u32 log2 = 0; log2 < 64; log2++) {
		char text[2 * UNITS_MAX + 8];

		if (!sum_bins(bins, n, log2, &bin))
			continue;
		label(text, sizeof(text), log2);
		print_share(p, text, bin.bytes, all, bin.blocks);
	}
}

int report_capture_stats(FILE *out, const struct capture_report *r)
{
	struct report_style style;
	char heading[64];
	struct snap_total all;
	struct paint p;
	int err;

	report_style_for(out, &style);
	paint_init(&p, out, &style);
	snapshot_total(&r->now, SNAP_DOMAINS, &all);
	print_totals(&p, r, &all);
	print_others(&p, r, &all);
	print_domains(&p, r, all.live.bytes);
	print_bins(&p, "Live bytes by size of block (pools and mappings count whole)", r->now.sizes,
		   r->now.nsizes, size_label);
	print_bins(&p, "Live bytes by age", r->now.ages, r->now.nages, age_label);
	print_bins(&p, "Freed bytes by lifetime", r->now.lives, r->now.nlives, life_label);
	snprintf(heading, sizeof(heading), "Most bytes %s", metric_names[r->now.metric]);
	report_heading(&p, heading);
	err = report_top_lines(&p, r, SNAP_SORT_SIZE, TOP);
	if (err)
		return err;
	snprintf(heading, sizeof(heading), "Most blocks %s", metric_names[r->now.metric]);
	report_heading(&p, heading);
	err = report_top_lines(&p, r, SNAP_SORT_COUNT, TOP);
	if (err)
		return err;
	report_heading(&p, "Most allocated");
	err = report_top_lines(&p, r, SNAP_SORT_ALLOCATED, TOP);
	return err ? err : ferror(out) ? -EIO : 0;
}
