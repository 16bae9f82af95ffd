// SPDX-License-Identifier: BSD-2-Clause
/* A live report -> a snapshot. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "capture_codec.h"
#include "estimate.h"
#include "hashmap.h"
#include "snapshot.h"

/* Where a row's frames lie -> its stack.  A session's frames stay where they are. */
struct snap_cache {
	struct hashmap stacks; /* (address, count and truncation) -> stack number + 1 */
};

struct snap_cache *snap_cache_new(void)
{
	return calloc(1, sizeof(struct snap_cache));
}

void snap_cache_free(struct snap_cache *cache)
{
	if (cache)
		hashmap_clear(&cache->stacks, NULL);
	free(cache);
}

static int stack_of_row(const struct row *row, struct stacks *stacks, struct snap_cache *cache,
			u32 *out)
{
	const struct frame *outer = row->nframes ? &row->frames[row->nframes - 1] : NULL;
	u64 a = (uintptr_t)row->frames, b = (u64)row->nframes << 1 | row->truncated;
	uintptr_t known;
	int err;

	/* A thread may be given another name. */
	if (outer && outer->kind == FRAME_THREAD)
		b = hashmap_mix(b, (uintptr_t)outer->function);
	known = (uintptr_t)hashmap_get(&cache->stacks, a, b);
	if (known) {
		*out = known - 1;
		return 0;
	}
	err = stacks_add(stacks, row->frames, row->nframes, row->truncated, out);
	return err ? err : hashmap_put(&cache->stacks, a, b, (void *)((uintptr_t)*out + 1));
}

/* Bytes are whole. */
static double bytes_kept(double v)
{
	return real_kept(isfinite(v) ? nearbyint(v) : 0);
}

static struct snap_sums sums_kept(const struct estimator *e)
{
	return (struct snap_sums){bytes_kept(e->bytes), real_kept(e->blocks), coarse_kept(e->var),
				  e->samples};
}

static void fill_row(const struct row *row, u32 domain, struct snap_row *out)
{
	out->domain = domain;
	out->live = (struct estimator){
		.bytes = bytes_kept(row->live.bytes),
		.blocks = real_kept(row->live.blocks),
		.var = coarse_kept(row->live.var),
		.seen = bytes_kept(row->live.seen),
		.skew = coarse_kept(row->live.skew),
		.covar = coarse_kept(row->live.covar),
		.blocks_var = coarse_kept(row->live.blocks_var),
		.blocks_covar = coarse_kept(row->live.blocks_covar),
		.samples = row->live.samples,
	};
	out->allocated_bytes = bytes_kept(row->allocated_bytes);
	out->allocated_blocks = real_kept(row->allocated_blocks);
	out->freed_bytes = bytes_kept(row->freed_bytes);
	out->freed_blocks = real_kept(row->freed_blocks);
	out->samples = row->samples;
	out->freed_samples = row->freed_samples;
	out->temporary = sums_kept(&row->temporary);
	/* None was born since, none has died: the same but for rounding. */
	if (row->peak_samples == row->samples && row->peak.samples == row->live.samples) {
		snap_row_peak_is_now(out);
		return;
	}
	out->peak = sums_kept(&row->peak);
	out->peak_allocated_bytes = bytes_kept(row->peak_allocated_bytes);
	out->peak_allocated_blocks = real_kept(row->peak_allocated_blocks);
	out->peak_samples = row->peak_samples;
}

static void merge_sums(struct snap_sums *to, const struct snap_sums *from)
{
	to->bytes += from->bytes;
	to->blocks += from->blocks;
	to->var += from->var;
	to->samples += from->samples;
}

static void merge_row(struct snap_row *to, const struct snap_row *from)
{
	estimate_merge(&to->live, &from->live);
	to->allocated_bytes += from->allocated_bytes;
	to->allocated_blocks += from->allocated_blocks;
	to->freed_bytes += from->freed_bytes;
	to->freed_blocks += from->freed_blocks;
	to->samples += from->samples;
	to->freed_samples += from->freed_samples;
	merge_sums(&to->peak, &from->peak);
	to->peak_allocated_bytes += from->peak_allocated_bytes;
	to->peak_allocated_blocks += from->peak_allocated_blocks;
	to->peak_samples += from->peak_samples;
	merge_sums(&to->temporary, &from->temporary);
}

static int compare_rows(const void *pa, const void *pb)
{
	const struct snap_row *a = pa, *b = pb;

	if (a->stack != b->stack)
		return a->stack < b->stack ? -1 : 1;
	return (a->domain > b->domain) - (a->domain < b->domain);
}

/* Rows by stack and domain; the rare two that came out as one are made one. */
static void order_rows(struct snapshot *s)
{
	size_t n = 0;

	qsort(s->rows, s->nrows, sizeof(*s->rows), compare_rows);
	for (size_t i = 0; i < s->nrows; i++) {
		struct snap_row *last = n ? &s->rows[n - 1] : NULL;

		if (!last || compare_rows(last, &s->rows[i]))
			s->rows[n++] = s->rows[i];
		else
			merge_row(last, &s->rows[i]);
	}
	s->nrows = n;
}

static int add_rows(const struct report *r, struct stacks *stacks, struct snap_cache *cache,
		    struct snapshot *s)
{
	s->rows = calloc(r->nrows + 1, sizeof(*s->rows));
	if (!s->rows)
		return -ENOMEM;
	if (r->nrows > SNAP_MAX_ROWS)
		return -E2BIG;
	for (size_t i = 0; i < r->nrows; i++) {
		struct snap_row *out = &s->rows[s->nrows++];
		int err = stack_of_row(&r->rows[i], stacks, cache, &out->stack);

		if (err)
			return err;
		fill_row(&r->rows[i], r->by_domain ? r->rows[i].domain : SNAP_DOMAIN_UNKNOWN, out);
	}
	order_rows(s);
	return 0;
}

static void copy_text(char *dst, size_t size, const char *src)
{
	snprintf(dst, size, "%s", src ? src : "");
}

static void fill_head(const struct report *r, struct snapshot *s)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	*s = (struct snapshot){
		.pid = r->pid,
		.coverage_share = r->coverage_share,
		.coverage_complete = r->coverage_complete,
		.final = r->final,
		.duration = r->duration,
		.wall_ns = now.tv_sec * 1000000000ull + now.tv_nsec,
		.rss = r->rss,
		.overhead = r->overhead,
		.sample_interval = r->sample_interval,
		.calls = r->calls,
		.frees = r->frees,
		.metric = r->metric,
		.peak_seconds = r->peak_seconds,
		.temporary_ns = (u64)(r->temporary_seconds * 1e9 + 0.5),
	};
	memcpy(s->comm, r->comm, sizeof(s->comm));
	memcpy(s->python_version, r->python_version, sizeof(s->python_version));
	memcpy(s->losses, r->losses, sizeof(s->losses));
	copy_text(s->collector, sizeof(s->collector), r->collector);
	copy_text(s->coverage, sizeof(s->coverage), r->coverage);
	copy_text(s->wrote, sizeof(s->wrote), r->wrote);
	copy_text(s->end_reason, sizeof(s->end_reason), r->end_reason);
}

int snapshot_from_report(const struct report *r, struct stacks *stacks, struct snap_cache *cache,
			 struct snapshot *out)
{
	struct snapshot s;
	int err;

	if (r->group_by != GROUP_TRACEBACK)
		return -EINVAL;
	fill_head(r, &s);
	err = add_rows(r, stacks, cache, &s);
	if (err) {
		snapshot_free(&s);
		return err;
	}
	*out = s;
	return 0;
}
