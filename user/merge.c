// SPDX-License-Identifier: BSD-2-Clause
#include "merge.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "estimate.h"
#include "hashmap.h"

struct merge {
	struct report *out;
	struct hashmap index; /* key -> struct row of out->rows */
	struct estimator total, temporary;
	double duration; /* of the one that was traced longest */
	u64 rss_all;	 /* of those that have ended, too: what was seen last */
	double share_of,
		share; /* live bytes whose coverage is known, and what is covered of them */
};

/* By content: each process has strings of its own. */
static u64 hash_text(u64 h, const char *text)
{
	for (const unsigned char *p = (const unsigned char *)(text ? text : ""); *p; p++)
		h = hashmap_mix(h, *p);
	return hashmap_mix(h, 256);
}

static u64 hash_frame(u64 h, enum group_by by, const struct frame *f)
{
	h = hash_text(h, f->file);
	if (by != GROUP_FILE)
		h = hash_text(h, f->function);
	if (by == GROUP_LINE || by == GROUP_TRACEBACK)
		h = hashmap_mix(h, (u64)f->line);
	return h;
}

static u64 hash_row(u64 h, const struct report *r, const struct row *row)
{
	u32 n = r->group_by == GROUP_TRACEBACK ? row->nframes : 1;

	h = hashmap_mix(h, r->by_domain ? row->domain + 1 : 0);
	for (u32 i = 0; i < n && i < row->nframes; i++)
		h = hash_frame(h, r->group_by, &row->frames[i]);
	return h;
}

/* The frames shown are those of the heaviest. */
static void add_into(struct row *into, const struct row *row)
{
	if (row->live.bytes > into->live.bytes) {
		into->frames = row->frames;
		into->nframes = row->nframes;
		into->truncated = row->truncated;
	}
	estimate_merge(&into->live, &row->live);
	estimate_merge(&into->temporary, &row->temporary);
	into->live_blocks += row->live_blocks;
	into->allocated_bytes += row->allocated_bytes;
	into->allocated_blocks += row->allocated_blocks;
	into->growth_bytes += row->growth_bytes;
	into->alloc_rate += row->alloc_rate;
	into->samples += row->samples;
	into->live_samples += row->live_samples;
	into->freed_bytes += row->freed_bytes;
	into->freed_blocks += row->freed_blocks;
	into->freed_samples += row->freed_samples;
}

/*
 * A worker that lived for a moment allocated in it at a rate that no second of
 * the whole has seen: those that have ended count with their average over all of it.
 */
static double rate_in_all(const struct report *r, const struct row *row, double duration)
{
	return r->end_reason && duration > 0 ? row->allocated_bytes / duration : row->alloc_rate;
}

static int add_row(struct merge *m, const struct report *r, const struct row *given)
{
	u64 a = hash_row(1, r, given), b = hash_row(2, r, given);
	struct row *into = hashmap_get(&m->index, a, b), copy = *given, *row = &copy;

	row->alloc_rate = rate_in_all(r, given, m->duration);
	estimate_merge(&m->total, &row->live);
	estimate_merge(&m->temporary, &row->temporary);
	if (into) {
		add_into(into, row);
		return 0;
	}
	into = &m->out->rows[m->out->nrows];
	if (hashmap_put(&m->index, a, b, into))
		return -ENOMEM;
	m->out->nrows++;
	*into = *row;
	into->lives = NULL;
	return 0;
}

static const char *same_or(const char *a, const char *b, const char *otherwise)
{
	if (!a || !b)
		return a ? a : b;
	return strcmp(a, b) ? otherwise : a;
}

static void add_head(struct merge *m, const struct report *r, bool first)
{
	struct report *out = m->out;

	if (first)
		out->collector = r->collector;
	out->collector = same_or(out->collector, r->collector, "several");
	out->coverage = same_or(out->coverage, r->coverage, "not the same for all processes");
	out->wrote = same_or(out->wrote, r->wrote && *r->wrote ? r->wrote : NULL,
			     "mappings and pointers, not the same number everywhere,");
	out->coverage_complete = (first || out->coverage_complete) && r->coverage_complete;
	if (r->coverage_share >= 0) {
		m->share_of += r->live_bytes.value;
		m->share += r->live_bytes.value * r->coverage_share;
	}
	if (r->sample_interval > out->sample_interval)
		out->sample_interval = r->sample_interval;
	if (r->interval_asked > out->interval_asked)
		out->interval_asked = r->interval_asked;
	if (first || r->overhead > out->overhead)
		out->overhead = r->overhead;
	out->duration = m->duration;
	out->rss += r->end_reason ? 0 : r->rss;
	m->rss_all += r->rss;
}

static void add_sums(struct report *out, const struct report *r)
{
	out->live_blocks += r->live_blocks;
	out->allocated_bytes += r->allocated_bytes;
	out->allocated_blocks += r->allocated_blocks;
	out->samples += r->samples;
	out->live_samples += r->live_samples;
	for (u32 i = 0; i < PHT_LIFE_BUCKETS; i++) {
		out->lives.bytes[i] += r->lives.bytes[i];
		out->lives.blocks[i] += r->lives.blocks[i];
		out->lives.samples[i] += r->lives.samples[i];
	}
	/* These are counted over all processes, up to when the report was made. */
	if (r->calls > out->calls)
		out->calls = r->calls;
	if (r->frees > out->frees)
		out->frees = r->frees;
	for (int i = 0; i < PHT_LOSS_NR; i++)
		out->own_losses[i] += r->own_losses[i];
}

static void add_common_losses(struct report *out, const struct report *list, size_t n)
{
	for (int i = 0; i < PHT_LOSS_NR; i++) {
		u64 common = 0;

		for (size_t k = 0; k < n; k++)
			if (list[k].losses[i] - list[k].own_losses[i] > common)
				common = list[k].losses[i] - list[k].own_losses[i];
		out->losses[i] = common + out->own_losses[i];
	}
}

static struct report_process process_of(const struct report *r)
{
	struct report_process p = {
		.pid = r->pid,
		.duration = r->duration,
		.rss = r->rss,
		.live_bytes = r->live_bytes,
		.end_reason = r->end_reason,
	};

	memcpy(p.comm, r->comm, sizeof(p.comm));
	memcpy(p.python_version, r->python_version, sizeof(p.python_version));
	return p;
}

static void finish(struct merge *m, const struct report *list, size_t n)
{
	struct report *out = m->out;

	for (size_t i = 0; i < out->nrows; i++) {
		struct row *row = &out->rows[i];

		row->live_bytes = estimate_or_none(&row->live, out->sample_interval);
		row->temporary_bytes = estimate_or_none(&row->temporary, out->sample_interval);
	}
	qsort(out->rows, out->nrows, sizeof(*out->rows), report_compare_rows);
	out->live_bytes = estimate_or_none(&m->total, out->sample_interval);
	out->temporary_bytes = estimate_or_none(&m->temporary, out->sample_interval);
	out->temporary_blocks = m->temporary.blocks;
	if (out->coverage_complete)
		out->coverage_share = 1;
	else
		out->coverage_share = m->share_of > 0 ? m->share / m->share_of : -1;
	if (!out->rss)
		out->rss = m->rss_all;
	add_common_losses(out, list, n);
}

static int add_all(struct merge *m, const struct report *list, size_t n,
		   struct report_process *processes)
{
	for (size_t i = 0; i < n; i++) {
		processes[i] = process_of(&list[i]);
		add_head(m, &list[i], i == 0);
		add_sums(m->out, &list[i]);
		for (size_t k = 0; k < list[i].nrows; k++)
			if (add_row(m, &list[i], &list[i].rows[k]))
				return -ENOMEM;
	}
	return 0;
}

int merge_reports(const struct report *list, size_t n, struct report *out)
{
	struct report r = {
		.overhead = -1, .coverage_share = -1, .peak_seconds = -1, .nprocesses = n};
	struct report_process *processes = calloc(n + 1, sizeof(*processes));
	struct merge m = {.out = &r};
	size_t rows = 0;
	int err;

	for (size_t i = 0; i < n; i++) {
		rows += list[i].nrows;
		m.duration = fmax(m.duration, list[i].duration);
	}
	if (n) {
		r.metric = list[0].metric;
		r.temporary_seconds = list[0].temporary_seconds;
		r.group_by = list[0].group_by;
		r.by_domain = list[0].by_domain;
		r.top = list[0].top;
		r.final = list[0].final;
	}
	r.processes = processes;
	r.rows = calloc(rows + 1, sizeof(*r.rows));
	err = processes && r.rows ? add_all(&m, list, n, processes) : -ENOMEM;
	hashmap_clear(&m.index, NULL);
	if (err) {
		merge_free(&r);
		return err;
	}
	finish(&m, list, n);
	*out = r;
	return 0;
}

void merge_free(struct report *r)
{
	free(r->rows);
	free((void *)r->processes);
	r->rows = NULL;
	r->processes = NULL;
}
