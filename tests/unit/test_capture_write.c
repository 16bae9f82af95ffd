// SPDX-License-Identifier: BSD-2-Clause
/* Writing captures: bounded, and readable whatever becomes of the writer and its disk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "capture_files.h"
#include "capture_write.h"

/* ---- bounds */

static void even_spacing(void **state)
{
	struct writer_moment times[100] = {0};
	u8 keep[100];
	size_t kept = 0, widest = 0, last = 0;

	(void)state;
	for (int i = 0; i < 100; i++)
		times[i] = (struct writer_moment){i, i == 33 ? 9 : 1};
	thin_choose(times, 100, 50, keep);
	for (size_t i = 0; i < 100; i++) {
		if (!keep[i])
			continue;
		kept++;
		if (i - last > widest)
			widest = i - last;
		last = i;
	}
	assert_true(keep[0] && keep[99] && keep[33]);
	assert_in_range(kept, 49, 52);
	assert_in_range(widest, 2, 3);
	/* Standing time and a single moment are no trouble. */
	memset(times, 0, sizeof(times));
	times[5].live_bytes = 1;
	thin_choose(times, 100, 50, keep);
	assert_true(keep[0] && keep[99] && keep[5]);
	thin_choose(times, 1, 2, keep);
	assert_true(keep[0]);
	thin_choose(times, 0, 2, keep);
}

static void a_long_run_stays_bounded(void **state)
{
	const struct capture_limits limits = {16, 1 << 20};
	struct capture_point *points;
	char thin[80];
	struct sim s;
	double peak = 0, best = 0, widest = 0;
	struct capture_writer *w;
	size_t n;

	(void)state;
	sim_init(&s, 5);
	assert_int_equal(capture_create(path, s.stacks, &limits, &w), 0);
	for (int i = 0; i < 400; i++) {
		struct snap_total total;

		sim_step(&s, i < 10 ? 50 : 0, 20, 1);
		snapshot_total(&s.now, SNAP_DOMAINS, &total);
		if (total.live.bytes > peak)
			peak = total.live.bytes;
		assert_int_equal(capture_append(w, &s.now), 0);
		assert_true(capture_snapshots(w) <= 16);
		assert_true(capture_written(w) <= limits.max_bytes);
	}
	capture_writer_free(w);
	assert_int_equal(capture_series(path, &points, &n), 0);
	assert_in_range(n, 8, 16);
	assert_true(points[0].duration == 1);
	assert_true(points[n - 1].duration == 400);
	for (size_t i = 0; i < n; i++) {
		if (points[i].live_bytes.value > best)
			best = points[i].live_bytes.value;
		if (i && points[i].duration - points[i - 1].duration > widest)
			widest = points[i].duration - points[i - 1].duration;
	}
	assert_true(best == peak); /* the high-water mark is not thinned away */
	assert_true(widest < 120);
	snprintf(thin, sizeof(thin), "%s.thin", path);
	assert_int_equal(access(thin, F_OK), -1);
	free(points);
	sim_free(&s);
}

/* ---- writers that come to harm */

static void a_full_disk(void **state)
{
	struct rlimit old, small;
	struct capture_writer *w;
	struct stacks *stacks = stacks_new();
	struct snapshot last = {0};
	struct sim s;
	bool trouble;
	size_t len;
	u8 *data;
	int good = 0, err = 0;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	small = (struct rlimit){20000, old.rlim_max};
	sim_init(&s, 6);
	assert_int_equal(capture_create(path, s.stacks, NULL, &w), 0);
	setrlimit(RLIMIT_FSIZE, &small);
	for (int i = 0; i < 100 && !err; i++) {
		sim_step(&s, 30, 50, 1);
		err = capture_append(w, &s.now);
		good += !err;
	}
	assert_int_equal(err, -EFBIG);
	assert_int_equal(capture_append(w, &s.now), -EFBIG);
	data = read_file(&len);
	assert_true(good > 2);
	assert_int_equal(len, capture_written(w)); /* no half block is left */
	assert_int_equal(count_snapshots(data, len, &trouble), good);
	free(data);
	/* Room again: it goes on, and nothing of what was new in between is missing. */
	setrlimit(RLIMIT_FSIZE, &old);
	sim_step(&s, 30, 50, 1);
	assert_int_equal(capture_append(w, &s.now), 0);
	assert_int_equal(capture_finish(w), 0);
	assert_int_equal(capture_load(path, stacks, CAPTURE_LAST, &last), 0);
	assert_int_equal(last.nrows, s.now.nrows);
	assert_true(last.duration == s.now.duration);
	for (size_t i = 0; i < last.nrows; i++)
		assert_true(last.rows[i].live.bytes >= 0);
	capture_writer_free(w);
	snapshot_free(&last);
	stacks_free(stacks);
	sim_free(&s);
}

/* Tells when the first snapshot is in the file. */
static void append_for_ever(int begun)
{
	const struct capture_limits limits = {12, 1 << 20};
	struct capture_writer *w;
	struct sim s;

	sim_init(&s, 7);
	if (capture_create(path, s.stacks, &limits, &w))
		_exit(1);
	for (;;) {
		sim_step(&s, 1, 50, 1);
		capture_append(w, &s.now);
		if (capture_snapshots(w) == 1 && write(begun, "", 1) != 1)
			_exit(1);
	}
}

static void killed_at_any_moment(void **state)
{
	int opened = 0, begun[2];
	char thin[80], byte;

	(void)state;
	for (int i = 0; i < 50; i++) {
		struct stacks *stacks = stacks_new();
		struct snapshot last;
		pid_t pid;

		assert_int_equal(pipe(begun), 0);
		pid = fork();
		if (!pid)
			append_for_ever(begun[1]);
		close(begun[1]);
		/* Most of the time at some moment after the first snapshot, sometimes at any. */
		if (i % 10)
			assert_int_equal(read(begun[0], &byte, 1), 1);
		usleep(10000 + i * 1300);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		close(begun[0]);
		if (!capture_load(path, stacks, CAPTURE_LAST, &last)) {
			opened++;
			assert_true(last.nrows > 0);
			snapshot_free(&last);
		}
		stacks_free(stacks);
	}
	/* Only one that was killed before its first snapshot may have none. */
	assert_true(opened >= 45);
	snprintf(thin, sizeof(thin), "%s.thin", path);
	unlink(thin);
}

static void through_a_pipe(void **state)
{
	const struct capture_limits limits = {8, 4096};
	struct capture_writer *w;
	struct stacks *stacks = stacks_new();
	struct capture *c;
	struct sim s;
	int fds[2], n = 0;

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe(fds), 0);
	sim_init(&s, 8);
	assert_int_equal(writer_open_fd(fds[1], s.stacks, &limits, &w), 0);
	for (int i = 0; i < 20; i++) {
		sim_step(&s, 2, 10, 1);
		assert_int_equal(capture_append(w, &s.now), 0);
	}
	assert_int_equal(capture_finish(w), 0);
	capture_writer_free(w);
	assert_int_equal(capture_open_fd(fds[0], "pipe", stacks, &c), 0);
	while (capture_next(c) > 0)
		n++;
	/* Nothing can be thinned there: all of them. */
	assert_int_equal(n, 20);
	assert_null(capture_trouble(c));
	capture_close(c);
	stacks_free(stacks);
	/* Nobody reads: an error, and no more after it. */
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(writer_open_fd(fds[1], s.stacks, NULL, &w), 0);
	close(fds[0]);
	assert_int_equal(capture_append(w, &s.now), -EPIPE);
	assert_int_equal(capture_append(w, &s.now), -EPIPE);
	capture_writer_free(w);
	sim_free(&s);
}

static void loading_by_number(void **state)
{
	struct stacks *stacks = stacks_new();
	struct snapshot s[4];
	struct sim sim;
	const long which[4] = {0, 3, CAPTURE_LAST, CAPTURE_PEAK};
	const long beyond[2] = {0, 10};

	(void)state;
	sim_init(&sim, 9);
	write_steps(&sim, 10, NULL);
	assert_int_equal(capture_load_many(path, stacks, which, 4, s), 0);
	assert_true(s[0].duration == 1 && s[1].duration == 4 && s[2].duration == 10);
	for (int i = 0; i < 3; i++) {
		struct snap_total peak, other;

		snapshot_total(&s[3], SNAP_DOMAINS, &peak);
		snapshot_total(&s[i], SNAP_DOMAINS, &other);
		assert_true(peak.live.bytes >= other.live.bytes);
	}
	for (int i = 0; i < 4; i++)
		snapshot_free(&s[i]);
	assert_int_equal(capture_load_many(path, stacks, beyond, 2, s), -ENOENT);
	stacks_free(stacks);
	sim_free(&sim);
}

/* The peak is the recorded one, whichever snapshots there are, with all that belongs to it. */
static void loading_the_peak(void **state)
{
	struct stacks *stacks = stacks_new();
	struct snap_total now, peak;
	struct snapshot s[2];
	struct sim sim;
	const long which[2] = {CAPTURE_PEAK, CAPTURE_LAST};
	double allocated = 0;
	u64 samples = 0;

	(void)state;
	sim_init(&sim, 9);
	sim.now.peak_seconds = 0.25;
	sim.now.temporary_ns = 1000000;
	assert_int_equal(snapshot_add_bin(&sim.now, 0, 100, 7, 10, 1), 0);
	assert_int_equal(snapshot_add_life(&sim.now, 0, 3, 100, 1, 1), 0);
	write_steps(&sim, 10, NULL);
	assert_int_equal(capture_load_many(path, stacks, which, 2, s), 0);
	snapshot_total(&s[0], SNAP_DOMAINS, &peak);
	snapshot_total(&s[1], SNAP_DOMAINS, &now);
	assert_true(peak.live.bytes > 0 && peak.live.bytes == now.peak.bytes);
	assert_true(peak.live.blocks == now.peak.blocks && peak.live.var == now.peak.var);
	assert_int_equal(peak.live.samples, now.peak.samples);
	for (size_t i = 0; i < s[1].nrows; i++) {
		allocated += s[1].rows[i].peak_allocated_bytes;
		samples += s[1].rows[i].peak_samples;
	}
	assert_true(peak.allocated_bytes == allocated && allocated > peak.live.bytes);
	assert_true(peak.freed_bytes == allocated - peak.live.bytes);
	assert_int_equal(peak.samples, samples);
	assert_true(samples > peak.live.samples);
	assert_true(s[0].duration == 0.25 && s[1].duration == 10);
	assert_int_equal(s[1].wall_ns - s[0].wall_ns, 9750000000ull);
	assert_true(s[0].metric == METRIC_PEAK && !s[0].final && !s[0].rss);
	assert_int_equal(s[0].nsizes + s[0].nages + s[0].nlives, 0);
	/* What was temporary is known since attach only. */
	assert_int_equal(snapshot_select(&s[0], METRIC_TEMPORARY), -ENOENT);
	assert_int_equal(snapshot_select(&s[1], METRIC_TEMPORARY), 0);
	snapshot_total(&s[1], SNAP_DOMAINS, &peak);
	assert_true(peak.live.bytes == now.temporary.bytes && peak.live.bytes > 0);
	assert_true(peak.allocated_bytes == now.allocated_bytes);
	assert_int_equal(s[1].nlives, 1);
	snapshot_free(&s[0]);
	snapshot_free(&s[1]);
	stacks_free(stacks);
	sim_free(&sim);
}

/* Times that cannot be are no peak. */
static void impossible_peaks_are_none(void **state)
{
	struct stacks *stacks = stacks_new();
	struct snapshot s;
	struct sim sim;

	(void)state;
	sim_init(&sim, 9);
	sim.now.peak_seconds = 1e11;
	write_steps(&sim, 3, NULL);
	assert_int_equal(capture_load(path, stacks, CAPTURE_PEAK, &s), 0);
	assert_int_equal(s.metric, METRIC_LIVE);
	assert_true(s.duration <= 3);
	snapshot_free(&s);
	stacks_free(stacks);
	sim_free(&sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(even_spacing), WITH_FILE(a_long_run_stays_bounded),
		WITH_FILE(a_full_disk),		WITH_FILE(killed_at_any_moment),
		WITH_FILE(through_a_pipe),	WITH_FILE(loading_by_number),
		WITH_FILE(loading_the_peak),	WITH_FILE(impossible_peaks_are_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
