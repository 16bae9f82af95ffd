// SPDX-License-Identifier: BSD-2-Clause
/* Reports of several processes as one: rows by content, sums, intervals, losses. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "estimate.h"
#include "merge.h"

#define R 65536

/* A row of n sampled blocks of size bytes; its texts are copies of its own. */
static struct row make_row(const char *file, const char *function, int line, unsigned n, u64 size)
{
	struct frame *frame = calloc(1, sizeof(*frame));
	struct row row = {.frames = frame, .nframes = 1, .samples = n, .live_samples = n};

	*frame = (struct frame){.function = strdup(function), .file = strdup(file), .line = line};
	for (unsigned i = 0; i < n; i++)
		estimate_add(&row.live, size, R);
	row.live_bytes = estimate_interval(&row.live);
	row.live_blocks = row.live.blocks;
	row.growth_bytes = 10;
	return row;
}

static struct report make_report(pid_t pid, struct row *rows, size_t n)
{
	struct report r = {
		.pid = pid,
		.comm = "worker",
		.collector = "trampoline",
		.coverage = "everything",
		.coverage_complete = true,
		.coverage_share = 1,
		.sample_interval = R,
		.overhead = 0.01 * pid,
		.duration = pid,
		.rss = 1000 * (u64)pid,
		.group_by = GROUP_LINE,
		.rows = rows,
		.nrows = n,
		.top = 20,
	};

	for (size_t i = 0; i < n; i++) {
		r.live_bytes.value += rows[i].live.bytes;
		r.live_blocks += rows[i].live_blocks;
		r.samples += rows[i].samples;
	}
	return r;
}

static void free_rows(struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free((char *)rows[i].frames->file);
		free((char *)rows[i].frames->function);
		free((void *)rows[i].frames);
	}
}

static void test_rows_by_content(void **state)
{
	struct row a[] = {make_row("/a.py", "f", 3, 5, 1000), make_row("/a.py", "g", 9, 1, 1000)};
	struct row b[] = {make_row("/a.py", "f", 3, 7, 2000), make_row("/a.py", "f", 4, 2, 1000)};
	struct report list[] = {make_report(1, a, 2), make_report(2, b, 2)}, out;
	struct estimator both = a[0].live;

	(void)state;
	assert_int_equal(merge_reports(list, 2, &out), 0);
	assert_int_equal(out.nrows, 3);
	estimate_merge(&both, &b[0].live);
	assert_int_equal(out.rows[0].frames[0].line, 3);
	assert_true(out.rows[0].live_bytes.value == both.bytes);
	assert_true(out.rows[0].live_bytes.high == estimate_interval(&both).high);
	assert_int_equal(out.rows[0].samples, 12);
	assert_true(out.rows[0].growth_bytes == 20);
	assert_int_equal(out.rows[1].frames[0].line, 4);
	assert_int_equal(out.rows[2].frames[0].line, 9);
	/* Errors of different processes partly cancel: narrower than their sum. */
	assert_true(out.live_bytes.high - out.live_bytes.value <
		    a[0].live_bytes.high - a[0].live_bytes.value + b[0].live_bytes.high -
			    b[0].live_bytes.value + b[1].live_bytes.high - b[1].live_bytes.value +
			    a[1].live_bytes.high - a[1].live_bytes.value);
	assert_true(fabs(out.live_bytes.value - list[0].live_bytes.value -
			 list[1].live_bytes.value) < 1);
	merge_free(&out);
	free_rows(a, 2);
	free_rows(b, 2);
}

static void test_grouping(void **state)
{
	static const struct {
		enum group_by by;
		size_t rows;
	} cases[] = {{GROUP_FILE, 1}, {GROUP_FUNCTION, 2}, {GROUP_LINE, 3}, {GROUP_TRACEBACK, 3}};
	struct row a[] = {make_row("/a.py", "f", 3, 5, 1000)};
	struct row b[] = {make_row("/a.py", "f", 4, 7, 2000), make_row("/a.py", "g", 4, 2, 1000)};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct report list[] = {make_report(1, a, 1), make_report(2, b, 2)}, out;

		list[0].group_by = list[1].group_by = cases[i].by;
		assert_int_equal(merge_reports(list, 2, &out), 0);
		assert_int_equal(out.nrows, cases[i].rows);
		merge_free(&out);
	}
	free_rows(a, 1);
	free_rows(b, 2);
}

/* 40 kB in one of 4 s are 10 kB a second, however short the life they came in. */
static void test_rates(void **state)
{
	struct row a[] = {make_row("/a.py", "f", 3, 5, 1000)};
	struct row b[] = {make_row("/a.py", "f", 3, 7, 2000)};
	struct report list[] = {make_report(1, a, 1), make_report(4, b, 1)}, out;

	(void)state;
	a[0].allocated_bytes = 40000;
	a[0].alloc_rate = 40000;
	b[0].allocated_bytes = 8000;
	b[0].alloc_rate = 500;
	assert_int_equal(merge_reports(list, 2, &out), 0);
	assert_true(out.rows[0].alloc_rate == 40500);
	merge_free(&out);
	list[0].end_reason = "the process exited";
	assert_int_equal(merge_reports(list, 2, &out), 0);
	assert_true(out.rows[0].alloc_rate == 10500);
	merge_free(&out);
	free_rows(a, 1);
	free_rows(b, 1);
}

static void test_head(void **state)
{
	struct report list[] = {make_report(1, NULL, 0), make_report(2, NULL, 0),
				make_report(3, NULL, 0)};
	struct report out;

	(void)state;
	list[1].end_reason = "the process exited";
	list[2].collector = "probe";
	list[2].coverage_complete = false;
	list[2].sample_interval = 2 * R;
	assert_int_equal(merge_reports(list, 3, &out), 0);
	assert_int_equal(out.pid, 0);
	assert_int_equal(out.nprocesses, 3);
	assert_int_equal(out.processes[1].pid, 2);
	assert_string_equal(out.processes[1].end_reason, "the process exited");
	assert_string_equal(out.collector, "several");
	assert_string_equal(out.coverage, "everything");
	assert_false(out.coverage_complete);
	assert_int_equal(out.sample_interval, 2 * R);
	assert_true(out.overhead == 0.03);
	assert_true(out.duration == 3);
	/* That of the one that has ended is gone. */
	assert_int_equal(out.rss, 4000);
	/* No sample is no proof of nothing. */
	assert_true(out.live_bytes.high == 3.0 * 2 * R);
	merge_free(&out);
}

static void test_losses(void **state)
{
	struct report list[] = {make_report(1, NULL, 0), make_report(2, NULL, 0)}, out;

	(void)state;
	/* 5 of all together when the first ended, 9 now; 1 and 2 of their own. */
	list[0].own_losses[PHT_LOSS_code_gone] = 1;
	list[0].losses[PHT_LOSS_code_gone] = 6;
	list[1].own_losses[PHT_LOSS_code_gone] = 2;
	list[1].losses[PHT_LOSS_code_gone] = 11;
	assert_int_equal(merge_reports(list, 2, &out), 0);
	assert_int_equal(out.losses[PHT_LOSS_code_gone], 12);
	merge_free(&out);
}

static void test_none(void **state)
{
	struct report out;

	(void)state;
	assert_int_equal(merge_reports(NULL, 0, &out), 0);
	assert_int_equal(out.nprocesses, 0);
	assert_int_equal(out.nrows, 0);
	merge_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows_by_content),
		cmocka_unit_test(test_grouping),
		cmocka_unit_test(test_head),
		cmocka_unit_test(test_rates),
		cmocka_unit_test(test_losses),
		cmocka_unit_test(test_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
