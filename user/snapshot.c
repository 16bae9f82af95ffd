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

int snapshot_copy(const struct snapshot *from, struct snapshot *out)
{
	struct snapshot s = *from;

	/* One more, so that nothing is not NULL. */
	s.rows = malloc((s.nrows + 1) * sizeof(*s.rows));
	s.sizes = malloc((s.nsizes + 1) * sizeof(*s.sizes));
	s.ages = malloc((s.nages + 1) * sizeof(*s.ages));
	if (!s.rows || !s.sizes || !s.ages) {
		snapshot_free(&s);
		return -ENOMEM;
	}
	if (s.nrows)
		memcpy(s.rows, from->rows, s.nrows * sizeof(*s.rows));
	if (s.nsizes)
		memcpy(s.sizes, from->sizes, s.nsizes * sizeof(*s.sizes));
	if (s.nages)
		memcpy(s.ages, from->ages, s.nages * sizeof(*s.ages));
	*out = s;
	return 0;
}

void snapshot_free(struct snapshot *s)
{
	free(s->rows);
	free(s->sizes);
	free(s->ages);
	s->rows = NULL;
	s->sizes = s->ages = NULL;
	s->nrows = s->nsizes = s->nages = 0;
}

static bool same_live(const struct estimator *a, const struct estimator *b)
{
	return a->bytes == b->bytes && a->blocks == b->blocks && a->var == b->var &&
	       a->seen == b->seen && a->skew == b->skew && a->covar == b->covar &&
	       a->samples == b->samples;
}

bool snap_row_same(const struct snap_row *a, const struct snap_row *b)
{
	return same_live(&a->live, &b->live) && a->samples == b->samples &&
	       a->allocated_bytes == b->allocated_bytes &&
	       a->allocated_blocks == b->allocated_blocks && a->freed_bytes == b->freed_bytes &&
	       a->freed_blocks == b->freed_blocks && a->freed_samples == b->freed_samples;
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
