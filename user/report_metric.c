// SPDX-License-Identifier: BSD-2-Clause
/* What the live columns of a report show, and what lifetimes mean. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "report.h"

static void select_row(struct row *row, enum report_metric metric)
{
	bool peak = metric == METRIC_PEAK;

	row->live = peak ? row->peak : row->temporary;
	row->live_bytes = peak ? row->peak_bytes : row->temporary_bytes;
	row->live_blocks = row->live.blocks;
	row->live_samples = row->live.samples;
	row->growth_bytes = 0;
	if (!peak)
		return;
	row->allocated_bytes = row->peak_allocated_bytes;
	row->allocated_blocks = row->peak_allocated_blocks;
	row->samples = row->peak_samples;
}

int report_compare_rows(const void *pa, const void *pb)
{
	const struct row *a = pa, *b = pb;

	if (a->live_bytes.value != b->live_bytes.value)
		return a->live_bytes.value < b->live_bytes.value ? 1 : -1;
	if (a->allocated_bytes != b->allocated_bytes)
		return a->allocated_bytes < b->allocated_bytes ? 1 : -1;
	/* Equal rows in the same order in every report. */
	return strcmp(a->frames[0].file, b->frames[0].file) ?:
	       strcmp(a->frames[0].function, b->frames[0].function) ?:
	       (a->frames[0].line > b->frames[0].line) - (a->frames[0].line < b->frames[0].line);
}

int report_select(struct report *r, enum report_metric metric)
{
	bool peak = metric == METRIC_PEAK;

	if (metric == r->metric)
		return 0;
	if (peak ? r->peak_seconds < 0 : r->temporary_seconds <= 0)
		return -ENOENT;
	r->metric = metric;
	r->live_bytes = peak ? r->peak_bytes : r->temporary_bytes;
	r->live_blocks = peak ? r->peak_blocks : r->temporary_blocks;
	r->live_samples = 0;
	if (peak)
		r->allocated_bytes = r->allocated_blocks = r->samples = 0;
	for (size_t i = 0; i < r->nrows; i++) {
		select_row(&r->rows[i], metric);
		r->live_samples += r->rows[i].live_samples;
		if (!peak)
			continue;
		r->allocated_bytes += r->rows[i].allocated_bytes;
		r->allocated_blocks += r->rows[i].allocated_blocks;
		r->samples += r->rows[i].samples;
	}
	if (r->nrows)
		qsort(r->rows, r->nrows, sizeof(*r->rows), report_compare_rows);
	return 0;
}

double life_from(u32 bucket)
{
	return bucket ? ldexp(1e-9, PHT_LIFE_SHIFT - 1 + (int)bucket) : 0;
}

double life_to(u32 bucket)
{
	return bucket + 1 < PHT_LIFE_BUCKETS ? life_from(bucket + 1) : INFINITY;
}

double life_quantile(const struct life_hist *h, double share)
{
	double all = 0, sum = 0;

	for (u32 i = 0; i < PHT_LIFE_BUCKETS; i++)
		all += h->blocks[i];
	if (!(all > 0))
		return -1;
	for (u32 i = 0; i < PHT_LIFE_BUCKETS; i++) {
		sum += h->blocks[i];
		if (sum >= share * all)
			return life_to(i);
	}
	return life_to(PHT_LIFE_BUCKETS - 1);
}
