// SPDX-License-Identifier: BSD-2-Clause
#include "snapshot.h"

#include <errno.h>
#include <string.h>

#include "estimate.h"

static const char *const domain_names[SNAP_DOMAINS] = {
	[PHT_DOM_LIBC] = "libc", [PHT_DOM_PYMALLOC] = "pymalloc", [PHT_DOM_POOL] = "pool",
	[PHT_DOM_MMAP] = "mmap", [PHT_DOM_FAULT] = "fault",	  [SNAP_DOMAIN_UNKNOWN] = "unknown",
};

const char *snap_domain_name(u32 domain)
{
	return domain_names[domain < SNAP_DOMAINS ? domain : SNAP_DOMAIN_UNKNOWN];
}

int snap_domain_find(const char *name, u32 *out)
{
	for (u32 i = 0; i < SNAP_DOMAINS; i++) {
		if (strcmp(domain_names[i], name))
			continue;
		*out = i;
		return 0;
	}
	return -ENOENT;
}

/* One more, so that nothing is not NULL. */
static void *copy_array(const void *from, size_t n, size_t size)
{
	void *to = malloc((n + 1) * size);

	if (to && n)
		memcpy(to, from, n * size);
	return to;
}

int snapshot_copy(const struct snapshot *from, struct snapshot *out)
{
	struct snapshot s = *from;

	s.rows = copy_array(from->rows, s.nrows, sizeof(*s.rows));
	s.sizes = copy_array(from->sizes, s.nsizes, sizeof(*s.sizes));
	s.ages = copy_array(from->ages, s.nages, sizeof(*s.ages));
	s.lives = copy_array(from->lives, s.nlives, sizeof(*s.lives));
	if (!s.rows || !s.sizes || !s.ages || !s.lives) {
		snapshot_free(&s);
		return -ENOMEM;
	}
	*out = s;
	return 0;
}

void snapshot_free(struct snapshot *s)
{
	free(s->rows);
	free(s->sizes);
	free(s->ages);
	free(s->lives);
	s->rows = NULL;
	s->sizes = s->ages = s->lives = NULL;
	s->nrows = s->nsizes = s->nages = s->nlives = 0;
}

static bool same_sums(const struct snap_sums *a, const struct snap_sums *b)
{
	return a->bytes == b->bytes && a->blocks == b->blocks && a->var == b->var &&
	       a->samples == b->samples;
}

static bool same_live(const struct estimator *a, const struct estimator *b)
{
	return a->bytes == b->bytes && a->blocks == b->blocks && a->var == b->var &&
	       a->seen == b->seen && a->skew == b->skew && a->covar == b->covar &&
	       a->blocks_var == b->blocks_var && a->blocks_covar == b->blocks_covar &&
	       a->samples == b->samples;
}

bool snap_row_same(const struct snap_row *a, const struct snap_row *b)
{
	return same_live(&a->live, &b->live) && a->samples == b->samples &&
	       a->allocated_bytes == b->allocated_bytes &&
	       a->allocated_blocks == b->allocated_blocks && a->freed_bytes == b->freed_bytes &&
	       a->freed_blocks == b->freed_blocks && a->freed_samples == b->freed_samples &&
	       same_sums(&a->peak, &b->peak) && same_sums(&a->temporary, &b->temporary) &&
	       a->peak_allocated_bytes == b->peak_allocated_bytes &&
	       a->peak_allocated_blocks == b->peak_allocated_blocks &&
	       a->peak_samples == b->peak_samples;
}

void snap_row_peak_is_now(struct snap_row *row)
{
	row->peak = (struct snap_sums){row->live.bytes, row->live.blocks, row->live.var,
				       row->live.samples};
	row->peak_allocated_bytes = row->allocated_bytes;
	row->peak_allocated_blocks = row->allocated_blocks;
	row->peak_samples = row->samples;
}

static void add_sums(struct estimator *to, const struct snap_sums *s)
{
	struct estimator e = estimate_of_sums(s->bytes, s->blocks, s->var, s->samples);

	estimate_merge(to, &e);
}

void snap_total_add(struct snap_total *t, const struct snap_row *row)
{
	estimate_merge(&t->live, &row->live);
	t->allocated_bytes += row->allocated_bytes;
	t->allocated_blocks += row->allocated_blocks;
	t->freed_bytes += row->freed_bytes;
	t->freed_blocks += row->freed_blocks;
	t->samples += row->samples;
	t->freed_samples += row->freed_samples;
	add_sums(&t->peak, &row->peak);
	add_sums(&t->temporary, &row->temporary);
}

void snapshot_total(const struct snapshot *s, u32 domain, struct snap_total *out)
{
	*out = (struct snap_total){0};
	for (size_t i = 0; i < s->nrows; i++)
		if (domain >= SNAP_DOMAINS || s->rows[i].domain == domain)
			snap_total_add(out, &s->rows[i]);
}

/* No sample among the live blocks says little about less than 3 R bytes: exp(-3) is 5 %. */
struct estimate snap_interval(const struct estimator *e, u64 sample_interval)
{
	struct estimate out = estimate_interval(e);

	if (!e->samples && sample_interval > 1)
		out.high = out.value + 3.0 * sample_interval;
	return out;
}

static u32 log2_of(u64 x)
{
	return x ? 63 - __builtin_clzll(x) : 0;
}

static int add_bin(struct snap_bin **bins, size_t *n, const struct snap_bin *add)
{
	struct snap_bin *grown;
	size_t at = 0;

	while (at < *n && ((*bins)[at].domain < add->domain ||
			   ((*bins)[at].domain == add->domain && (*bins)[at].log2 < add->log2)))
		at++;
	if (at < *n && (*bins)[at].domain == add->domain && (*bins)[at].log2 == add->log2) {
		(*bins)[at].bytes += add->bytes;
		(*bins)[at].blocks += add->blocks;
		(*bins)[at].samples += add->samples;
		return 0;
	}
	grown = reallocarray(*bins, *n + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	memmove(grown + at + 1, grown + at, (*n - at) * sizeof(*grown));
	grown[at] = *add;
	*bins = grown;
	(*n)++;
	return 0;
}

int snapshot_add_bin(struct snapshot *s, u32 domain, u64 size, u64 age_ms, double bytes,
		     double blocks)
{
	struct snap_bin bin = {.domain = domain < SNAP_DOMAINS ? domain : SNAP_DOMAIN_UNKNOWN,
			       .log2 = log2_of(size),
			       .bytes = bytes,
			       .blocks = blocks,
			       .samples = 1};
	int err = add_bin(&s->sizes, &s->nsizes, &bin);

	bin.log2 = log2_of(age_ms);
	return err ? err : add_bin(&s->ages, &s->nages, &bin);
}

int snapshot_add_life(struct snapshot *s, u32 domain, u32 bucket, double bytes, double blocks,
		      u64 samples)
{
	struct snap_bin bin = {.domain = domain < SNAP_DOMAINS ? domain : SNAP_DOMAIN_UNKNOWN,
			       .log2 = PHT_LIFE_SHIFT - 1 + bucket,
			       .bytes = bytes,
			       .blocks = blocks,
			       .samples = samples};

	return samples ? add_bin(&s->lives, &s->nlives, &bin) : 0;
}

static void row_at_peak(struct snap_row *row)
{
	const struct snap_sums *p = &row->peak;

	row->live = estimate_of_sums(p->bytes, p->blocks, p->var, p->samples);
	row->allocated_bytes = row->peak_allocated_bytes;
	row->allocated_blocks = row->peak_allocated_blocks;
	row->samples = row->peak_samples;
	row->freed_bytes = row->allocated_bytes > p->bytes ? row->allocated_bytes - p->bytes : 0;
	row->freed_blocks =
		row->allocated_blocks > p->blocks ? row->allocated_blocks - p->blocks : 0;
	row->freed_samples = row->samples > p->samples ? row->samples - p->samples : 0;
	/* What of it was to be temporary nobody knew then. */
	row->temporary = (struct snap_sums){0};
}

static void go_to_peak(struct snapshot *s)
{
	double since = (s->duration - s->peak_seconds) * 1e9;
	size_t n = 0;

	for (size_t i = 0; i < s->nrows; i++) {
		if (!s->rows[i].peak_samples)
			continue;
		s->rows[n] = s->rows[i];
		row_at_peak(&s->rows[n++]);
	}
	s->nrows = n;
	s->wall_ns = since < (double)s->wall_ns ? s->wall_ns - (u64)since : 0;
	s->duration = s->peak_seconds;
	s->rss = 0;
	s->final = false;
	s->temporary_ns = 0;
	s->nsizes = s->nages = s->nlives = 0;
}

int snapshot_select(struct snapshot *s, enum report_metric metric)
{
	if (metric == s->metric)
		return 0;
	if (metric == METRIC_PEAK ? s->peak_seconds < 0 || s->peak_seconds > s->duration
				  : !s->temporary_ns)
		return -ENOENT;
	s->metric = metric;
	if (metric == METRIC_PEAK) {
		go_to_peak(s);
		return 0;
	}
	for (size_t i = 0; i < s->nrows; i++) {
		const struct snap_sums *t = &s->rows[i].temporary;

		s->rows[i].live = estimate_of_sums(t->bytes, t->blocks, t->var, t->samples);
	}
	/* Those are of what is live. */
	s->nsizes = s->nages = 0;
	return 0;
}
