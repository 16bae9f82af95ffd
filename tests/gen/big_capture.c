// SPDX-License-Identifier: BSD-2-Clause
/*
 * Writes a large capture, the same one for the same numbers: what reporters
 * have to cope with.
 *
 *	big_capture FILE [SITES [SAMPLES [SNAPSHOTS]]]
 *
 * The stacks are walks through a made-up call graph, so that they share their
 * outer frames as those of a real program do.
 */
#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "capture.h"
#include "capture_codec.h"
#include "estimate.h"

#define FILES	  1500u
#define FUNCTIONS 8u  /* of a file */
#define CALLEES	  4u  /* of a function */
#define DEPTH_MIN 6u  /* of a stack */
#define DEPTH	  26u /* at most this much more */
#define INTERVAL  4096u

struct gen {
	struct stacks *stacks;
	u64 random;
	struct snapshot now;
	u32 sites, samples;
	u32 *seen; /* owned; stacks in use, by number */
	u32 seen_cap;
};

static u64 mix(u64 v)
{
	v = (v ^ v >> 31) * 0x7fb5d329728ea185ull;
	v = (v ^ v >> 27) * 0x81dadef4bc2dd44dull;
	return v ^ v >> 33;
}

static u64 next(struct gen *g)
{
	return mix(g->random += 0x9e3779b97f4a7c15ull);
}

/* A call on some line of a function; every ninth is native. */
static u32 frame_of(struct gen *g, u32 function, u32 line)
{
	u32 file = function / FUNCTIONS, out;
	char name[64], path[96];
	struct frame f = {name, path, 0, FRAME_PYTHON};

	if (function % 9 == 8) {
		f.kind = FRAME_NATIVE;
		snprintf(name, sizeof(name), "native_function_%u", function);
		snprintf(path, sizeof(path), "/usr/lib/python3/dist-packages/ext/_m%u.so",
			 file % 40);
	} else {
		f.line = (s32)(10 + function % FUNCTIONS * 50 + line);
		snprintf(name, sizeof(name), "Handler%u.method_%u", file % 300, function);
		snprintf(path, sizeof(path), "/srv/application/package%u/subpackage%u/module%u.py",
			 file % 12, file % 130, file);
	}
	if (stacks_add_frame(g->stacks, &f, &out))
		abort();
	return out;
}

/* One new stack; a longer walk where the walk ends on one that is in use. */
static u32 make_stack(struct gen *g)
{
	for (;;) {
		u32 depth = DEPTH_MIN + next(g) % DEPTH, function = 0, at = STACK_ROOT;

		for (u32 i = 0; i < depth; i++) {
			/* The outer calls are few, the inner ones many. */
			u32 ways = i < 8 ? 1 + i % 2 : i % 3 ? 1 + function % 2 : CALLEES;
			u32 way = next(g) % ways;

			if (stacks_push(g->stacks, at, frame_of(g, function, way * 7), &at))
				abort();
			function = mix(function * 16 + way + 1) % (FILES * FUNCTIONS);
		}
		if (at >= g->seen_cap) {
			u32 cap = at * 2 + 1024;

			g->seen = reallocarray(g->seen, cap, sizeof(*g->seen));
			if (!g->seen)
				abort();
			memset(g->seen + g->seen_cap, 0, (cap - g->seen_cap) * sizeof(*g->seen));
			g->seen_cap = cap;
		}
		if (!g->seen[at]++)
			return at;
	}
}

/* n more samples of a row, some of them live. */
static void add_samples(struct gen *g, struct snap_row *row, u32 n)
{
	u64 size = 32ull << mix(row->stack) % 15;

	for (u32 i = 0; i < n; i++) {
		double p = estimate_probability(size, INTERVAL);

		row->samples++;
		row->allocated_bytes += (double)size / p;
		row->allocated_blocks += 1 / p;
		if (next(g) % 5 < 2) {
			estimate_add(&row->live, size, INTERVAL);
		} else {
			row->freed_samples++;
			row->freed_bytes += (double)size / p;
			row->freed_blocks += 1 / p;
		}
		if (snapshot_add_bin(&g->now, row->domain, size, next(g) % 100000, size / p, 1 / p))
			abort();
	}
	row->live.bytes = real_kept(floor(row->live.bytes));
	row->live.blocks = real_kept(row->live.blocks);
	row->live.var = coarse_kept(row->live.var);
	row->live.skew = coarse_kept(row->live.skew);
	row->live.covar = coarse_kept(row->live.covar);
	row->allocated_bytes = real_kept(floor(row->allocated_bytes));
	row->allocated_blocks = real_kept(row->allocated_blocks);
	row->freed_bytes = real_kept(floor(row->freed_bytes));
	row->freed_blocks = real_kept(row->freed_blocks);
}

static int order(const void *pa, const void *pb)
{
	const struct snap_row *a = pa, *b = pb;

	return (a->stack > b->stack) - (a->stack < b->stack);
}

static double live_bytes(const struct snapshot *s)
{
	struct snap_total total;

	snapshot_total(s, SNAP_DOMAINS, &total);
	return total.live.bytes;
}

/* The next of count moments: new sites, and more samples for one in twenty of the old ones. */
static void step(struct gen *g, u32 at, u32 count)
{
	u32 sites = (u32)((u64)g->sites * (at + 1) / count);
	u64 samples = (u64)g->samples * (at + 1) / count, taken = 0;
	struct snapshot *now = &g->now;

	while (now->nrows < sites) {
		struct snap_row row = {.stack = make_stack(g), .domain = next(g) % 2};

		add_samples(g, &row, 1 + next(g) % 3);
		now->rows[now->nrows++] = row;
	}
	for (size_t i = 0; i < now->nrows; i++)
		taken += now->rows[i].samples;
	while (taken < samples) {
		u64 n = 1 + next(g) % 400;

		if (n > samples - taken)
			n = samples - taken;
		add_samples(g, &now->rows[next(g) % now->nrows], (u32)n);
		taken += n;
	}
	qsort(now->rows, now->nrows, sizeof(*now->rows), order);
	/* Some of it is freed again after the peak. */
	if (at + 1 == count)
		for (size_t i = 0; i < now->nrows; i += 7)
			now->rows[i].live = (struct estimator){0};
	now->duration = 10.0 * (at + 1);
	now->wall_ns = 1700000000000000000ull + (u64)(now->duration * 1e9);
	now->rss = (64ull << 20) + (u64)(live_bytes(now) * 1.25);
	now->calls += 3000000;
	now->frees += 2900000;
	now->losses[PHT_LOSS_ring_full] = at;
	now->final = at + 1 == count;
}

static int generate(const char *path, struct gen *g, u32 snapshots)
{
	struct capture_writer *w;
	int err = capture_create(path, g->stacks, NULL, &w);

	for (u32 i = 0; i < snapshots && !err; i++) {
		step(g, i, snapshots);
		err = capture_append(w, &g->now);
	}
	if (!err)
		err = capture_finish(w);
	if (!err)
		printf("%zu sites, %u stacks, %u frames, %zu snapshots, %llu bytes\n", g->now.nrows,
		       stacks_count(g->stacks), stacks_frame_count(g->stacks), capture_snapshots(w),
		       (unsigned long long)capture_written(w));
	capture_writer_free(w);
	return err;
}

static u32 number(int argc, char **argv, int at, u32 otherwise)
{
	return at < argc ? (u32)strtoul(argv[at], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
	struct gen g = {.stacks = stacks_new(),
			.sites = number(argc, argv, 2, 100000),
			.samples = number(argc, argv, 3, 1000000)};
	u32 snapshots = number(argc, argv, 4, 30);
	int err;

#ifdef M_MMAP_THRESHOLD
	mallopt(M_MMAP_THRESHOLD, 1 << 20); /* as main() does */
#endif
	if (argc < 2 || !g.stacks || !g.sites || g.sites > SNAP_MAX_ROWS || !snapshots) {
		fprintf(stderr, "usage: big_capture FILE [SITES [SAMPLES [SNAPSHOTS]]]\n");
		return 2;
	}
	g.now = (struct snapshot){.pid = 4242,
				  .comm = "big-service",
				  .python_version = "3.11.2",
				  .collector = "trampoline",
				  .coverage = "complete: every allocation",
				  .coverage_share = 1,
				  .coverage_complete = true,
				  .overhead = 0.01,
				  .peak_seconds = -1,
				  .sample_interval = INTERVAL};
	g.now.rows = calloc(g.sites, sizeof(*g.now.rows));
	if (!g.now.rows)
		abort();
	err = generate(argv[1], &g, snapshots);
	if (err)
		fprintf(stderr, "big_capture: %s\n", strerror(-err));
	snapshot_free(&g.now);
	stacks_free(g.stacks);
	free(g.seen);
	return err ? 1 : 0;
}
