// SPDX-License-Identifier: BSD-2-Clause
/*
 * Captures of any content through the reader and everything behind it.  The
 * first byte chooses: the rest as it is behind a sound head (lengths and
 * checksums are then the fuzzer's), or cut into payloads of sound blocks.
 * With PHT_SEED_DIR set, sound inputs are written there first.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "capture_encode.h"
#include "capture.h"
#include "estimate.h"
#include "export.h"
#include "snapshot_diff.h"

#define SEED_STEPS 3

static const struct frame seed_frames[] = {
	{"leaf", "/a/b.py", 3, FRAME_PYTHON},
	{"<module>", "/a/c.py", 77, FRAME_PYTHON},
	{"malloc", "libc.so.6", 0, FRAME_NATIVE},
};

static void seed_snapshot(struct stacks *stacks, struct snapshot *s, u32 step)
{
	struct snap_row *row = calloc(step + 2, sizeof(*row));

	snapshot_free(s);
	*s = (struct snapshot){.pid = 1,
			       .comm = "x",
			       .sample_interval = 4096,
			       .duration = step,
			       .rows = row,
			       .nrows = step + 1};
	s->losses[PHT_LOSS_ring_full] = step;
	for (u32 i = 0; i <= step; i++) {
		if (stacks_add(stacks, seed_frames + i, 3 - i % 3 > 2 ? 2 : 1, i & 1,
			       &row[i].stack))
			abort();
		row[i].domain = i;
		row[i].samples = 9;
		estimate_add(&row[i].live, 100 + step, 4096);
	}
	s->peak_seconds = step ? 0.5 : -1;
	s->temporary_ns = 10000000;
	for (u32 i = 0; step && i <= step; i++) {
		row[i].peak = (struct snap_sums){4096, 41, 4096 * 4000.0, 1};
		row[i].temporary = (struct snap_sums){8192, 80, 4096 * 8000.0, 2};
		row[i].peak_samples = 3;
	}
	snapshot_add_life(s, 1, step, 4096, 2, 1);
	snapshot_add_bin(s, 0, 100, 5, 100, 1);
}

/* Input of the second kind: two bytes of length, payload, ... */
static void write_seed(const char *dir)
{
	struct stacks *stacks = stacks_new();
	struct snapshot s = {0};
	struct encoder e;
	struct outbuf payload = {0}, input = {0};
	char path[512];
	FILE *f;

	encoder_init(&e, stacks);
	put_bytes(&input, "\1", 1);
	for (u32 step = 0; step < SEED_STEPS; step++) {
		u8 len[2];

		seed_snapshot(stacks, &s, step);
		if (encode_snapshot(&e, &s, &payload))
			abort();
		encoder_commit(&e);
		len[0] = payload.len & 0xff;
		len[1] = payload.len >> 8;
		put_bytes(&input, len, 2);
		put_bytes(&input, payload.data, payload.len);
	}
	snprintf(path, sizeof(path), "%s/seed", dir);
	f = fopen(path, "wb");
	if (!f || fwrite(input.data, 1, input.len, f) != input.len || fclose(f))
		abort();
	outbuf_free(&payload);
	outbuf_free(&input);
	snapshot_free(&s);
	encoder_free(&e);
	stacks_free(stacks);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	if (getenv("PHT_SEED_DIR"))
		write_seed(getenv("PHT_SEED_DIR"));
	return 0;
}

static void look_at(const struct stacks *stacks, const struct snapshot *first,
		    const struct snapshot *now)
{
	static const char *const glob[] = {"/a/*"};

	for (int by = GROUP_TRACEBACK; by <= GROUP_FILE; by++) {
		struct snap_view view = {.group_by = (enum group_by)by,
					 .cumulative = by ? SNAP_CUMULATIVE : SNAP_SELF,
					 .filter = {.exclude = glob,
						    .nexclude = by == GROUP_FILE,
						    .all_frames = true}};
		struct snap_diff d;
		struct snap_groups g;
		struct report r;
		struct frame *frames;

		if (snapshot_diff(first, now, stacks, &view, true, &d))
			abort();
		snap_diff_sort(&d, stacks, &view, SNAP_DIFF_SURE);
		snap_diff_free(&d);
		if (snapshot_group(now, stacks, &view, &g))
			abort();
		snap_groups_sort(&g, stacks, &view, SNAP_SORT_SIZE);
		if (snapshot_to_report(now, stacks, &view, &g, &g, 1, 5, &r, &frames))
			abort();
		free(r.rows);
		free(frames);
		snap_groups_free(&g);
	}
}

static void export_all(const struct stacks *stacks, const struct snapshot *s)
{
	static const struct snap_view view = {.group_by = GROUP_TRACEBACK};
	struct export_input in = {s, stacks, s->rows, s->nrows, &view};
	static FILE *nowhere;

	if (!nowhere)
		nowhere = fopen("/dev/null", "w");
	for (size_t i = 0; nowhere && exporters[i]; i++)
		exporters[i]->write(nowhere, &in);
}

/* As the peak, and as what was temporary. */
static void look_at_metrics(const struct stacks *stacks, const struct snapshot *first,
			    const struct snapshot *now)
{
	for (int metric = METRIC_PEAK; metric <= METRIC_TEMPORARY; metric++) {
		struct snapshot s;

		if (snapshot_copy(now, &s))
			abort();
		if (!snapshot_select(&s, (enum report_metric)metric)) {
			look_at(stacks, first, &s);
			export_all(stacks, &s);
		}
		snapshot_free(&s);
	}
}

/* Read like any command does; what is given out must be in order. */
static void read_all(int fd)
{
	struct stacks *stacks = stacks_new();
	struct snapshot first = {0};
	struct capture *c;

	if (!stacks || capture_open_fd(fd, "input", stacks, &c))
		abort();
	while (capture_next(c) > 0) {
		const struct snapshot *s = capture_snapshot(c);

		for (size_t i = 0; i < s->nrows; i++)
			if (s->rows[i].stack >= stacks_count(stacks) ||
			    s->rows[i].domain >= SNAP_DOMAINS ||
			    (i && s->rows[i].stack < s->rows[i - 1].stack))
				abort();
		if (!capture_index(c) && snapshot_copy(s, &first))
			abort();
		if (capture_index(c) < 4) {
			look_at(stacks, &first, s);
			export_all(stacks, s);
			look_at_metrics(stacks, &first, s);
		}
	}
	snapshot_free(&first);
	capture_close(c);
	stacks_free(stacks);
}

static void add_blocks(struct outbuf *file, const uint8_t *data, size_t size)
{
	while (size >= 2) {
		size_t len = data[0] | data[1] << 8;
		struct outbuf payload = {0};

		data += 2;
		size -= 2;
		if (len > size)
			len = size;
		put_bytes(&payload, data, len);
		put_block(file, BLOCK_SNAPSHOT, &payload);
		outbuf_free(&payload);
		data += len;
		size -= len;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct outbuf file = {0};
	int fd = memfd_create("capture", 0);

	if (fd < 0 || !size)
		return close(fd), 0;
	put_head(&file, CAPTURE_VERSION);
	if (data[0] & 1)
		add_blocks(&file, data + 1, size - 1);
	else
		put_bytes(&file, data + 1, size - 1);
	if (write(fd, file.data, file.len) != (ssize_t)file.len || lseek(fd, 0, SEEK_SET))
		abort();
	outbuf_free(&file);
	read_all(fd);
	return 0;
}
