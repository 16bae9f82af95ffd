// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <string.h>

#include "aggregate.h"
#include "estimate.h"

#define PID 42

/* Stands for symbolize.c: stacks by id; strings are interned, so names are static. */
#define NSTACKS 8

struct symbolizer {
	struct sym_stack *stacks[NSTACKS];
	struct sym_stack *lost;
};

static const char main_py[] = "main.py", lib_py[] = "lib.py";
static const char fn_f[] = "f", fn_g[] = "g", fn_main[] = "main";

const struct sym_stack *symbolizer_get(const struct symbolizer *sym, u64 stack_id)
{
	return stack_id < NSTACKS ? sym->stacks[stack_id] : NULL;
}

const struct sym_stack *symbolizer_lost(const struct symbolizer *sym)
{
	return sym->lost;
}

static struct {
	struct symbolizer sym;
	struct live_rec live[64];
	struct live_use uses[64];
	struct site_rec sites[64];
	struct drained d;
	struct aggregate_history history;
	struct report r;
} w;

static struct sym_stack *stack2(const char *fn, const char *file, s32 line, const char *fn2,
				s32 line2)
{
	struct sym_stack *s = calloc(1, sizeof(*s) + 2 * sizeof(s->frames[0]));

	assert_non_null(s);
	s->nframes = fn2 ? 2 : 1;
	s->frames[0] = (struct frame){fn, file, line, FRAME_PYTHON};
	if (fn2)
		s->frames[1] = (struct frame){fn2, main_py, line2, FRAME_PYTHON};
	return s;
}

static int setup(void **state)
{
	(void)state;
	memset(&w, 0, sizeof(w));
	w.sym.stacks[1] = stack2(fn_f, lib_py, 10, fn_main, 1);
	w.sym.stacks[2] = stack2(fn_f, lib_py, 10, fn_main, 2);	 /* another caller's line */
	w.sym.stacks[3] = stack2(fn_f, lib_py, 11, fn_main, 1);	 /* another line */
	w.sym.stacks[4] = stack2(fn_g, lib_py, 10, fn_main, 1);	 /* another function */
	w.sym.stacks[5] = stack2(fn_f, main_py, 10, fn_main, 1); /* another file */
	w.sym.stacks[6] = stack2(fn_f, lib_py, 10, NULL, 0);	 /* no caller */
	w.sym.stacks[6]->truncated = true;
	w.sym.lost = stack2("<stack lost>", "", 0, NULL, 0);
	w.d.live = w.live;
	w.d.sites = w.sites;
	w.r.group_by = GROUP_TRACEBACK;
	w.r.sample_interval = 1;
	w.r.duration = 10;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < NSTACKS; i++)
		free(w.sym.stacks[i]);
	free(w.sym.lost);
	free(w.r.rows);
	aggregate_history_free(&w.history);
	return 0;
}

static void add_live(u64 stack_id, u64 size, u64 interval, u32 domain, u64 bytes, u64 blocks)
{
	size_t i = w.d.nlive++;

	w.live[i].key = (struct pht_live_key){.addr = 0x1000 + 16 * i, .tgid = PID};
	w.live[i].v = (struct pht_live){.size = size,
					.drawn_size = size,
					.stack_id = stack_id,
					.interval = interval,
					.domain = domain};
	w.uses[i] = (struct live_use){bytes, blocks};
}

static void add_block(u64 stack_id, u64 size)
{
	add_live(stack_id, size, 1, PHT_DOM_LIBC, size, 1);
}

static void add_site(u64 stack_id, u64 bytes, u64 blocks)
{
	struct site_rec *s = &w.sites[w.d.nsites++];

	s->key = (struct pht_site_key){.stack_id = stack_id, .tgid = PID, .domain = PHT_DOM_LIBC};
	s->v = (struct pht_site){
		.alloc_bytes = bytes, .alloc_blocks16 = blocks << 16, .samples = blocks};
}

static void run(enum group_by by)
{
	free(w.r.rows);
	w.r = (struct report){.group_by = by,
			      .sample_interval = w.r.sample_interval,
			      .duration = w.r.duration,
			      .coverage_complete = w.r.coverage_complete};
	assert_int_equal(aggregate(&w.d, w.uses, PID, NULL, &w.sym, &w.history, &w.r), 0);
}

static void assert_close(double got, double want)
{
	if (!(fabs(got - want) <= 1e-9 * fmax(fabs(want), 1)))
		fail_msg("%.12g is not %.12g", got, want);
}

/* Rows are threads: the outermost frames, each alone; a new name leaves the row the same. */
static void test_threads(void **state)
{
	static const char name[] = "worker", id1[] = "tid 1", id2[] = "tid 2";
	struct frame *thread;

	(void)state;
	for (int i = 1; i <= 3; i++)
		w.sym.stacks[i]->frames[1] =
			(struct frame){name, i == 3 ? id2 : id1, 0, FRAME_THREAD};
	add_block(1, 100);
	add_block(2, 200);
	add_block(3, 1000);
	run(GROUP_THREAD);
	assert_int_equal(w.r.nrows, 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(w.r.rows[i].nframes, 1);
		assert_ptr_equal(w.r.rows[i].frames[0].file, i ? id1 : id2);
		assert_close(w.r.rows[i].live_bytes.value, i ? 300 : 1000);
		assert_close(w.r.rows[i].growth_bytes, i ? 300 : 1000);
	}
	thread = &w.sym.stacks[3]->frames[1];
	thread->function = fn_g;
	add_block(3, 50);
	run(GROUP_THREAD);
	assert_int_equal(w.r.nrows, 2);
	assert_ptr_equal(w.r.rows[0].frames[0].function, fn_g);
	assert_close(w.r.rows[0].live_bytes.value, 1050);
	assert_close(w.r.rows[0].growth_bytes, 50);
}

static void test_nothing(void **state)
{
	(void)state;
	run(GROUP_LINE);
	assert_int_equal(w.r.nrows, 0);
	assert_non_null(w.r.rows);
	assert_close(w.r.live_bytes.value, 0);
	assert_true(w.r.coverage_share < 0);
}

static void test_grouping(void **state)
{
	static const struct {
		enum group_by by;
		size_t rows;
	} cases[] = {
		{GROUP_TRACEBACK, 6},
		{GROUP_LINE, 4},
		{GROUP_FUNCTION, 3},
		{GROUP_FILE, 2},
	};

	(void)state;
	for (int i = 1; i <= 6; i++)
		add_block(i, 100 * i);
	for (size_t c = 0; c < ARRAY_SIZE(cases); c++) {
		double sum = 0;

		run(cases[c].by);
		assert_int_equal(w.r.nrows, cases[c].rows);
		for (size_t i = 0; i < w.r.nrows; i++)
			sum += w.r.rows[i].live_bytes.value;
		assert_close(sum, 2100);
		assert_close(w.r.live_bytes.value, 2100);
		assert_close(w.r.live_blocks, 6);
		assert_int_equal(w.r.live_samples, 6);
	}
	run(GROUP_LINE);
	/* lib.py:10 f is stacks 1, 2 and 6; the heaviest of them is shown. */
	assert_close(w.r.rows[0].live_bytes.value, 900);
	assert_int_equal(w.r.rows[0].nframes, 1);
	assert_true(w.r.rows[0].truncated);
	assert_ptr_equal(w.r.rows[0].frames[0].file, lib_py);
	run(GROUP_FILE);
	assert_close(w.r.rows[0].live_bytes.value, 1600);
	assert_ptr_equal(w.r.rows[0].frames, w.sym.stacks[6]->frames);
	assert_ptr_equal(w.r.rows[1].frames, w.sym.stacks[5]->frames);
}

/* Names are allocated side by side; no sum or difference of them is a key. */
static void test_near_names(void **state)
{
	static const char names[4][64] __attribute__((aligned(256))) = {"a.py", "b.py", "f", "g"};
	s32 lines[] = {1, 1 + 64, 1 + 128, 65536 + 1};
	size_t n = 0;

	(void)state;
	for (int i = 0; i < NSTACKS; i++)
		free(w.sym.stacks[i]);
	for (int file = 0; file < 2; file++)
		for (int line = 0; line < 4; line++)
			w.sym.stacks[n++] = stack2(names[2], names[file], lines[line], fn_main, 1);
	for (u64 i = 0; i < n; i++)
		add_block(i, 100);
	run(GROUP_LINE);
	assert_int_equal(w.r.nrows, 8);
	run(GROUP_TRACEBACK);
	assert_int_equal(w.r.nrows, 8);
	for (int i = 0; i < 4; i++)
		w.sym.stacks[i]->frames[0].function = names[3];
	for (int i = 4; i < 8; i++)
		w.sym.stacks[i]->frames[0].file = names[0];
	run(GROUP_LINE);
	assert_int_equal(w.r.nrows, 8);
	run(GROUP_TRACEBACK);
	assert_int_equal(w.r.nrows, 8);
	run(GROUP_FUNCTION);
	assert_int_equal(w.r.nrows, 2);
}

static void test_sorting(void **state)
{
	(void)state;
	/* Live bytes first, then what was allocated, then names and lines. */
	add_block(4, 500);
	add_block(1, 1000);
	add_site(3, 70, 1);
	add_site(5, 80, 1);
	add_site(2, 70, 1);
	run(GROUP_TRACEBACK);
	assert_int_equal(w.r.nrows, 5);
	assert_ptr_equal(w.r.rows[0].frames, w.sym.stacks[1]->frames);
	assert_ptr_equal(w.r.rows[1].frames, w.sym.stacks[4]->frames);
	assert_ptr_equal(w.r.rows[2].frames, w.sym.stacks[5]->frames);
	assert_ptr_equal(w.r.rows[3].frames, w.sym.stacks[2]->frames);
	assert_ptr_equal(w.r.rows[4].frames, w.sym.stacks[3]->frames);
	assert_close(w.r.allocated_bytes, 220);
	assert_close(w.r.allocated_blocks, 3);
	assert_int_equal(w.r.samples, 3);
	assert_close(w.r.rows[2].live_bytes.value, 0);
	assert_close(w.r.rows[2].allocated_bytes, 80);
	w.d.nlive = w.d.nsites = 0;
	add_block(5, 10); /* f in main.py */
	add_block(4, 10); /* g in lib.py */
	run(GROUP_TRACEBACK);
	assert_ptr_equal(w.r.rows[0].frames, w.sym.stacks[4]->frames);
}

static void test_other_processes(void **state)
{
	(void)state;
	add_block(1, 100);
	add_block(1, 1000);
	w.live[1].key.tgid = PID + 1;
	add_site(1, 100, 1);
	add_site(1, 1000, 1);
	w.sites[1].key.tgid = PID + 1;
	run(GROUP_LINE);
	assert_int_equal(w.r.nrows, 1);
	assert_close(w.r.live_bytes.value, 100);
	assert_close(w.r.allocated_bytes, 100);
}

static void test_lost_stacks(void **state)
{
	(void)state;
	add_block(0, 100); /* never stored */
	add_block(7, 50);  /* never resolved */
	add_site(0, 100, 1);
	run(GROUP_TRACEBACK);
	assert_int_equal(w.r.nrows, 1);
	assert_ptr_equal(w.r.rows[0].frames, w.sym.lost->frames);
	assert_close(w.r.rows[0].live_bytes.value, 150);
}

static void test_growth(void **state)
{
	(void)state;
	add_block(1, 1000);
	add_site(1, 4000, 4);
	run(GROUP_LINE);
	assert_close(w.r.rows[0].growth_bytes, 1000);
	assert_close(w.r.rows[0].alloc_rate, 400); /* since attach, 10 s ago */
	w.r.duration = 12;
	add_block(1, 500);
	add_block(4, 7);
	add_site(4, 7, 1);
	w.sites[0].v.alloc_bytes = 5000;
	run(GROUP_LINE);
	assert_int_equal(w.r.nrows, 2);
	assert_close(w.r.rows[0].growth_bytes, 500);
	assert_close(w.r.rows[0].alloc_rate, 500);
	assert_close(w.r.rows[1].growth_bytes, 7);
	assert_close(w.r.rows[1].alloc_rate, 3.5);
	/* It shrinks; and no time has passed. */
	w.d.nlive = 1;
	run(GROUP_LINE);
	assert_close(w.r.rows[0].growth_bytes, -500);
	assert_close(w.r.rows[0].alloc_rate, 0);
}

static void test_estimates(void **state)
{
	struct estimator one = {0}, all = {0};

	(void)state;
	w.r.sample_interval = 4096;
	for (int i = 0; i < 10; i++) {
		add_live(1, 100, 4096, PHT_DOM_LIBC, 100, 1);
		estimate_add(&one, 100, 4096);
	}
	estimate_merge(&all, &one);
	add_live(4, 5000, 4096, PHT_DOM_MMAP, 3000, 1); /* a part is still mapped */
	w.live[10].v.size = 3000;
	estimate_add_part(&all, 3000, 1, 5000, 4096);
	run(GROUP_LINE);
	assert_close(w.r.rows[0].live_bytes.value, one.bytes);
	assert_close(w.r.rows[0].live_bytes.low, estimate_interval(&one).low);
	assert_close(w.r.rows[0].live_bytes.high, estimate_interval(&one).high);
	assert_close(w.r.rows[0].live_blocks, one.blocks);
	assert_close(w.r.rows[1].live_bytes.value, 3000 / estimate_probability(5000, 4096));
	assert_close(w.r.live_bytes.value, all.bytes);
	assert_close(w.r.live_bytes.low, estimate_interval(&all).low);
	assert_close(w.r.live_bytes.high, estimate_interval(&all).high);
	assert_int_equal(w.r.live_samples, 11);
}

/* Nothing live was sampled: that is no proof that nothing is live. */
static void test_no_live_sample(void **state)
{
	(void)state;
	w.r.sample_interval = 1000;
	add_site(1, 4000, 4);
	run(GROUP_LINE);
	assert_close(w.r.rows[0].live_bytes.value, 0);
	assert_close(w.r.rows[0].live_bytes.low, 0);
	assert_close(w.r.rows[0].live_bytes.high, 3000);
	assert_close(w.r.live_bytes.high, 3000);
	w.r.sample_interval = 1;
	run(GROUP_LINE);
	assert_close(w.r.rows[0].live_bytes.high, 0);
}

/* Small samples stand for more than large ones. */
static void test_heaviest_stack(void **state)
{
	(void)state;
	w.r.sample_interval = 1 << 20;
	for (int i = 0; i < 20; i++)
		add_live(1, 100, 1 << 20, PHT_DOM_LIBC, 100, 1); /* 20 MiB */
	add_live(2, 1 << 20, 1 << 20, PHT_DOM_LIBC, 1 << 20, 1); /* 1.6 MiB */
	/* What came and went counts for nothing beside what is there. */
	add_site(6, 1ull << 40, 1 << 20);
	run(GROUP_LINE);
	assert_int_equal(w.r.nrows, 1);
	assert_ptr_equal(w.r.rows[0].frames, w.sym.stacks[1]->frames);
}

static void test_coverage_share(void **state)
{
	double exact, pools;

	(void)state;
	w.r.sample_interval = 1 << 20;
	add_live(1, 100, 1 << 20, PHT_DOM_LIBC, 100, 1);
	add_live(1, 1 << 20, 1 << 20, PHT_DOM_MMAP, 1 << 20, 1);
	add_live(2, 16384, 1 << 20, PHT_DOM_POOL, 8000, 80);
	exact = 100 / estimate_probability(100, 1 << 20) +
		(1 << 20) / estimate_probability(1 << 20, 1 << 20);
	pools = 8000 / estimate_probability(16384, 1 << 20);
	run(GROUP_LINE);
	assert_close(w.r.coverage_share, exact / (exact + pools));
	w.r.coverage_complete = true;
	run(GROUP_LINE);
	assert_close(w.r.coverage_share, 1);
}

/* Sites that have changed since the peak put it aside; the others still hold it. */
static void test_peak(void **state)
{
	const struct pht_sums was = {.bytes = 500, .blocks16 = 5 << 16, .samples = 5};
	const struct pht_sums is = {.bytes = 70, .blocks16 = 7 << 16, .samples = 7};
	const struct pht_sums torn = {.bytes = -9, .blocks16 = -1, .samples = -1, .var = -1};
	struct pht_peak peak = {.epoch = 3};

	(void)state;
	add_site(1, 1000, 10);
	add_site(3, 1000, 10);
	add_site(4, 30, 1);
	for (int i = 0; i < 3; i++) {
		w.sites[i].v.live = i == 2 ? torn : is;
		w.sites[i].v.peak = was;
		w.sites[i].v.peak_alloc_bytes = 600;
		w.sites[i].v.peak_samples = 6;
	}
	w.sites[0].v.peak_epoch = 3; /* changed since: what it put aside counts */
	w.sites[1].v.peak_epoch = 2; /* not changed since: what it holds */
	w.sites[1].v.temporary = is;
	run(GROUP_LINE);
	assert_close(w.r.peak_bytes.value, 0);
	free(w.r.rows);
	w.r = (struct report){.group_by = GROUP_LINE, .sample_interval = 1, .temporary_seconds = 1};
	assert_int_equal(aggregate(&w.d, w.uses, PID, &peak, &w.sym, &w.history, &w.r), 0);
	assert_close(w.r.peak_bytes.value, 570);
	assert_close(w.r.peak_blocks, 12);
	assert_close(w.r.temporary_bytes.value, 70);
	w.r.peak_seconds = -1;
	assert_int_equal(report_select(&w.r, METRIC_PEAK), -ENOENT);
	w.r.peak_seconds = 4;
	assert_int_equal(report_select(&w.r, METRIC_PEAK), 0);
	assert_int_equal(w.r.metric, METRIC_PEAK);
	assert_close(w.r.rows[0].live_bytes.value, 500);
	assert_close(w.r.rows[0].allocated_bytes, 600);
	assert_int_equal(w.r.rows[0].samples, 6);
	assert_int_equal(w.r.rows[0].live_samples, 5);
	assert_close(w.r.rows[1].live_bytes.value, 70);
	assert_close(w.r.rows[1].allocated_bytes, 1000);
	assert_close(w.r.live_bytes.value, 570);
	assert_int_equal(w.r.live_samples, 12);
	assert_close(w.r.allocated_bytes, 1630);
	assert_int_equal(report_select(&w.r, METRIC_TEMPORARY), 0);
	assert_close(w.r.rows[0].live_bytes.value, 70);
	assert_close(w.r.live_blocks, 7);
}

static void test_lifetimes(void **state)
{
	struct life_rec lives[3] = {
		{.key = {.stack_id = 1, .tgid = PID},
		 .v = {.bytes = {[2] = 10}, .samples = {[2] = 1}}},
		{.key = {.stack_id = 3, .tgid = PID},
		 .v = {.bytes = {[2] = 5, [9] = 7},
		       .blocks16 = {[9] = 3 << 16},
		       .samples = {[9] = 3}}},
		{.key = {.stack_id = 3, .tgid = PID + 1}, .v = {.bytes = {[2] = 1000}}},
	};

	(void)state;
	add_site(1, 1000, 10);
	add_site(3, 1000, 10);
	w.d.lives = lives;
	w.d.nlives = 3;
	/* Twice: what rows point at is made anew each time. */
	run(GROUP_LINE);
	run(GROUP_FILE);
	assert_int_equal(w.r.nrows, 1);
	assert_non_null(w.r.rows[0].lives);
	assert_close(w.r.rows[0].lives->bytes[2], 15);
	assert_close(w.r.rows[0].lives->bytes[9], 7);
	assert_close(w.r.rows[0].lives->blocks[9], 3);
	assert_int_equal(w.r.rows[0].lives->samples[9], 3);
	assert_close(w.r.lives.bytes[2], 15);
	run(GROUP_LINE);
	assert_int_equal(w.r.nrows, 2);
	assert_close(w.r.rows[0].lives->bytes[2] + w.r.rows[1].lives->bytes[2], 15);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
		cmocka_unit_test_setup_teardown(test_grouping, setup, teardown),
		cmocka_unit_test_setup_teardown(test_near_names, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sorting, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_processes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lost_stacks, setup, teardown),
		cmocka_unit_test_setup_teardown(test_growth, setup, teardown),
		cmocka_unit_test_setup_teardown(test_estimates, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_live_sample, setup, teardown),
		cmocka_unit_test_setup_teardown(test_heaviest_stack, setup, teardown),
		cmocka_unit_test_setup_teardown(test_coverage_share, setup, teardown),
		cmocka_unit_test_setup_teardown(test_peak, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lifetimes, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
