/* SPDX-License-Identifier: BSD-2-Clause */
/* A made-up process whose heap changes from snapshot to snapshot, the same for the same seed. */
#ifndef CAPTURE_SIM_H
#define CAPTURE_SIM_H

#include <string.h>

#include "capture.h"
#include "capture_codec.h"
#include "estimate.h"

struct sim {
	struct stacks *stacks;
	u64 random;
	u32 sites;
	struct snapshot now;
};

static inline u64 sim_random(struct sim *s)
{
	s->random = s->random * 6364136223846793005ull + 1442695040888963407ull;
	return s->random >> 33;
}

static inline u32 sim_stack(struct sim *s, u32 site)
{
	char names[4][32], file[48];
	struct frame frames[6];
	u32 n = 3 + site % 4, out = 0;

	snprintf(file, sizeof(file), "/srv/app/part%u.py", site % 37);
	for (u32 i = 0; i < n; i++) {
		snprintf(names[i % 4], sizeof(names[0]), "f%u_%u", i,
			 i + 1 < n ? site % (5 * (n - i)) : site % 3);
		frames[i] = (struct frame){names[i % 4], file,
					   (s32)(i ? i * 10 + site % 7 : site + 1), FRAME_PYTHON};
		if (stacks_add_frame(s->stacks, &frames[i], &out))
			abort();
		frames[i] = *stacks_frame(s->stacks, out);
	}
	if (stacks_add(s->stacks, frames, n, site % 11 == 0, &out))
		abort();
	return out;
}

static inline void sim_fill(struct sim *s, struct snap_row *row)
{
	u32 n = sim_random(s) % 20;

	row->live = (struct estimator){0};
	for (u32 i = 0; i < n; i++)
		estimate_add(&row->live, 64 + sim_random(s) % 4096, 65536);
	row->live.bytes = real_kept((double)(u64)row->live.bytes);
	row->live.blocks = real_kept(row->live.blocks);
	row->live.var = coarse_kept(row->live.var);
	row->live.skew = coarse_kept(row->live.skew);
	row->live.covar = coarse_kept(row->live.covar);
	row->live.blocks_var = coarse_kept(row->live.blocks_var);
	row->live.blocks_covar = coarse_kept(row->live.blocks_covar);
	row->samples += n + 1;
	row->allocated_bytes += 65536.0 * (n + 1);
	row->allocated_blocks = real_kept(row->allocated_blocks + 1.25 * n);
	row->freed_samples += n / 2;
	row->freed_bytes += 3000.0 * n;
	row->freed_blocks = real_kept(row->freed_blocks + 0.3 * n);
}

/* What else a row has, where the process's peak is known. */
static inline void sim_fill_more(struct sim *s, struct snap_row *row)
{
	struct snap_sums *both[] = {&row->peak, &row->temporary};

	for (int i = 0; i < 2; i++) {
		u64 n = sim_random(s) % 9;

		*both[i] = (struct snap_sums){65536.0 * n, real_kept(31.7 * n),
					      coarse_kept(65536.0 * 65000.0 * n), n};
	}
	if (sim_random(s) % 3 == 0) {
		snap_row_peak_is_now(row);
		return;
	}
	row->peak_allocated_bytes = row->peak.bytes + 65536.0;
	row->peak_allocated_blocks = real_kept(row->peak.blocks + 2);
	row->peak_samples = row->peak.samples + 1;
}

static inline int sim_order(const void *pa, const void *pb)
{
	const struct snap_row *a = pa, *b = pb;

	if (a->stack != b->stack)
		return a->stack < b->stack ? -1 : 1;
	return (a->domain > b->domain) - (a->domain < b->domain);
}

static inline void sim_init(struct sim *s, u64 seed)
{
	*s = (struct sim){.stacks = stacks_new(), .random = seed};
	if (!s->stacks)
		abort();
	s->now = (struct snapshot){.pid = 4242,
				   .comm = "service",
				   .python_version = "3.11.2",
				   .collector = "trampoline",
				   .coverage = "everything",
				   .coverage_share = 1,
				   .coverage_complete = true,
				   .overhead = 0.01,
				   .sample_interval = 65536,
				   .peak_seconds = -1};
}

/* The next moment: new sites come, a share of the old ones changes, some go. */
static inline void sim_step(struct sim *s, u32 new_sites, u32 change_percent, double seconds)
{
	struct snapshot *now = &s->now;

	now->rows = reallocarray(now->rows, now->nrows + new_sites + 1, sizeof(*now->rows));
	if (!now->rows)
		abort();
	for (u32 i = 0; i < new_sites; i++, s->sites++) {
		struct snap_row row = {.stack = sim_stack(s, s->sites / 2), .domain = s->sites % 2};

		sim_fill(s, &row);
		now->rows[now->nrows++] = row;
	}
	qsort(now->rows, now->nrows, sizeof(*now->rows), sim_order);
	for (size_t i = 0; i < now->nrows; i++)
		if (sim_random(s) % 100 < change_percent)
			sim_fill(s, &now->rows[i]);
	if (now->nrows > 10 && sim_random(s) % 3 == 0) {
		size_t gone = sim_random(s) % now->nrows;

		now->nrows--;
		memmove(&now->rows[gone], &now->rows[gone + 1],
			(now->nrows - gone) * sizeof(*now->rows));
	}
	now->duration += seconds;
	if (now->peak_seconds >= 0)
		for (size_t i = 0; i < now->nrows; i++)
			sim_fill_more(s, &now->rows[i]);
	now->wall_ns = 1700000000000000000ull + (u64)(now->duration * 1e9);
	now->rss = 50000000 + now->nrows * 1000;
	now->calls += 1000;
	now->losses[PHT_LOSS_ring_full] += sim_random(s) % 2;
}

static inline void sim_free(struct sim *s)
{
	snapshot_free(&s->now);
	stacks_free(s->stacks);
}

#endif
