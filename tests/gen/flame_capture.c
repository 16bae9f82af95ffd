// SPDX-License-Identifier: BSD-2-Clause
/*
 * Writes a small capture for test_flame.py: what grows, shrinks, peaks and is
 * native in it is known to the byte, and some of its names are hostile.
 *
 *	flame_capture FILE
 */
#include <stdio.h>
#include <string.h>

#include "capture.h"
#include "estimate.h"

#define MIB (1u << 20)
#define MAX 8u

static const struct frame main_frame = {"<module>", "/srv/main.py", 1, FRAME_PYTHON};
static const struct frame serve = {"serve", "/srv/main.py", 20, FRAME_PYTHON};
static const struct frame serve_late = {"serve", "/srv/main.py", 25, FRAME_PYTHON};
static const struct frame put = {"Cache.put", "/srv/cache.py", 7, FRAME_PYTHON};
static const struct frame native = {"parse_blob", "/usr/lib/blob.so", 0, FRAME_NATIVE};
static const struct frame hook = {"on_blob", "/srv/blob.py", 3, FRAME_PYTHON};
static const struct frame load = {"load", "/srv/load.py", 9, FRAME_PYTHON};

/* Each would be noticed: by a script that ran, or by a page that does not parse. */
static const struct frame hostile[] = {
	{"</script><script>window.hacked=1</script>", "/srv/<img src=x onerror=hacked=2>.py", 1,
	 FRAME_PYTHON},
	{"\"};window.hacked=3;//", "\\\"+window.hacked+\\u0022", 2, FRAME_PYTHON},
	{"<!--<script>\xe2\x80\xa8line\xe2\x80\xa9", "a\x1b[31m\nb\x01", 3, FRAME_PYTHON},
	{"\xff\xfe not utf-8 \xc3",
	 "\xe2\x80\xae"
	 "evil",
	 4, FRAME_PYTHON},
	{"${window.hacked=4}`", "javascript:window.hacked=5", 5, FRAME_OTHER},
};

static const struct {
	const struct frame *frames[5]; /* innermost first */
	/* MiB live in each of the three snapshots, and all ever allocated in the last. */
	u32 live[3], allocated;
} sites[MAX] = {
	{{&put, &serve, &main_frame}, {1, 5, 10}, 40},
	{{&put, &serve_late, &main_frame}, {0, 1, 2}, 2},
	{{&hook, &native, &serve, &main_frame}, {4, 4, 4}, 4},
	{{&native, &serve, &main_frame}, {0, 2, 2}, 6},
	{{&load, &main_frame}, {3, 20, 1}, 100},
	{{&hostile[0], &hostile[1], &main_frame}, {1, 1, 1}, 1},
	{{&hostile[2], &hostile[3], &hostile[4], &main_frame}, {0, 1, 1}, 1},
};

static int row_of(struct stacks *stacks, u32 site, u32 at, struct snap_row *row)
{
	struct frame frames[5];
	u32 n = 0;

	while (n < 5 && sites[site].frames[n]) {
		frames[n] = *sites[site].frames[n];
		n++;
	}
	*row = (struct snap_row){.domain = PHT_DOM_LIBC};
	for (u32 i = 0; i < sites[site].live[at]; i++)
		estimate_add(&row->live, MIB, 1);
	row->samples = sites[site].allocated;
	row->allocated_blocks = row->samples;
	row->allocated_bytes = (double)row->samples * MIB;
	row->freed_samples = row->samples - row->live.samples;
	row->freed_blocks = row->freed_samples;
	row->freed_bytes = row->allocated_bytes - row->live.bytes;
	return stacks_add(stacks, frames, n, site == 6, &row->stack);
}

static int order(const void *pa, const void *pb)
{
	const struct snap_row *a = pa, *b = pb;

	return (a->stack > b->stack) - (a->stack < b->stack);
}

int main(int argc, char **argv)
{
	struct stacks *stacks = stacks_new();
	struct snap_row rows[MAX];
	struct snapshot s = {.pid = 77,
			     .comm = "<b>app</b>",
			     .python_version = "3.12.1",
			     .collector = "trampoline",
			     .coverage = "every allocation </script>",
			     .coverage_share = 1,
			     .coverage_complete = true,
			     .overhead = -1,
			     .peak_seconds = -1,
			     .sample_interval = 1,
			     .rows = rows};
	struct capture_writer *w;
	int err;

	if (argc != 2 || !stacks)
		return 2;
	err = capture_create(argv[1], stacks, NULL, &w);
	for (u32 at = 0; at < 3 && !err; at++) {
		s.nrows = 0;
		for (u32 i = 0; i < 7 && !err; i++)
			err = row_of(stacks, i, at, &rows[s.nrows++]);
		qsort(rows, s.nrows, sizeof(rows[0]), order);
		s.duration = 10 * (at + 1);
		s.wall_ns = 1700000000000000000ull + (u64)(s.duration * 1e9);
		s.rss = (60ull + 20 * at) * MIB;
		s.losses[PHT_LOSS_ring_full] = 5 * at;
		s.final = at == 2;
		err = err ?: capture_append(w, &s);
	}
	err = err ?: capture_finish(w);
	capture_writer_free(w);
	stacks_free(stacks);
	return err ? 1 : 0;
}
