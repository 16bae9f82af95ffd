// SPDX-License-Identifier: BSD-2-Clause
/* Snapshots in memory: stacks, groups, filters, order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <errno.h>
#include <math.h>

#include <cmocka.h>

#include "snapshot_heap.h"

static void equal_stacks_have_one_number(void **state)
{
	struct stacks *s = stacks_new();
	char copy[] = "leaf";
	const struct frame again = {copy, "/app/a.py", 10, FRAME_PYTHON};
	const struct frame native = {"leaf", "/app/a.py", 10, FRAME_NATIVE};
	u32 a = stack(s, (const struct frame[]){leaf, main_frame}, 2, false);
	struct frame out[4];

	(void)state;
	assert_int_equal(a, stack(s, (const struct frame[]){again, main_frame}, 2, false));
	assert_int_not_equal(a, stack(s, (const struct frame[]){native, main_frame}, 2, false));
	assert_int_not_equal(a, stack(s, (const struct frame[]){leaf, main_frame}, 2, true));
	assert_int_not_equal(a, stack(s, (const struct frame[]){main_frame, leaf}, 2, false));
	assert_int_equal(stacks_parent(s, a), stack(s, &main_frame, 1, false));
	assert_int_equal(stacks_depth(s, a), 2);
	assert_false(stacks_truncated(s, a));
	assert_true(stacks_truncated(s, stack(s, &leaf, 1, true)));
	assert_int_equal(stacks_expand(s, a, out, 4), 2);
	assert_string_equal(out[0].function, "leaf");
	assert_string_equal(out[1].file, "/app/main.py");
	assert_int_equal(stacks_expand(s, a, out, 1), 1);
	assert_int_equal(stacks_expand(s, STACK_ROOT, out, 4), 0);
	stacks_free(s);
}

static void deep_stacks_are_cut(void **state)
{
	struct stacks *s = stacks_new();
	struct frame frames[STACKS_MAX_DEPTH + 50];
	u32 a;

	(void)state;
	for (u32 i = 0; i < ARRAY_SIZE(frames); i++)
		frames[i] = (struct frame){"f", "x.py", (s32)i + 1, FRAME_PYTHON};
	a = stack(s, frames, ARRAY_SIZE(frames), false);
	assert_int_equal(stacks_depth(s, a), STACKS_MAX_DEPTH);
	assert_true(stacks_truncated(s, a));
	assert_int_equal(stacks_frame(s, stacks_top(s, a))->line, 1);
	assert_int_equal(stacks_push(s, a, 0, &a), -E2BIG);
	stacks_free(s);
}

/* Many stacks, looked up again in another order. */
static void a_hundred_thousand_stacks(void **state)
{
	struct sim s;
	u32 *numbers = calloc(100000, sizeof(*numbers));

	(void)state;
	sim_init(&s, 1);
	for (u32 i = 0; i < 100000; i++)
		numbers[i] = sim_stack(&s, i);
	for (u32 i = 100000; i-- > 0;)
		assert_int_equal(numbers[i], sim_stack(&s, i));
	assert_true(stacks_count(s.stacks) > 100000);
	sim_free(&s);
	free(numbers);
}

/* ---- from a live report */

static void a_report_becomes_a_snapshot(void **state)
{
	const struct frame frames[] = {leaf, helper, main_frame};
	struct row rows[3] = {
		{.frames = frames, .nframes = 3, .domain = PHT_DOM_LIBC, .samples = 4},
		{.frames = frames, .nframes = 3, .domain = PHT_DOM_PYMALLOC, .samples = 5},
		{.frames = frames + 1, .nframes = 2, .domain = PHT_DOM_LIBC, .truncated = true},
	};
	struct report r = {.pid = 7,
			   .comm = "app",
			   .python_version = "3.12.1",
			   .collector = "probe",
			   .coverage = "some",
			   .coverage_share = 0.5,
			   .sample_interval = R,
			   .duration = 3,
			   .rss = 9,
			   .by_domain = true,
			   .rows = rows,
			   .nrows = 3,
			   .end_reason = "gone"};
	struct stacks *stacks = stacks_new();
	struct snap_cache *cache = snap_cache_new();
	struct snapshot s, twice;
	struct snap_total total;

	(void)state;
	estimate_add(&rows[0].live, 1000, R);
	rows[0].allocated_bytes = 123456.7;
	assert_int_equal(snapshot_from_report(&r, stacks, cache, &s), 0);
	assert_int_equal(s.nrows, 3);
	assert_int_equal(s.pid, 7);
	assert_string_equal(s.end_reason, "gone");
	snapshot_total(&s, SNAP_DOMAINS, &total);
	assert_true(total.allocated_bytes == 123457);
	assert_int_equal(total.samples, 9);
	assert_true(fabs(total.live.bytes - rows[0].live.bytes) <= 0.5);
	snapshot_total(&s, PHT_DOM_PYMALLOC, &total);
	assert_int_equal(total.samples, 5);
	/* Rows come ordered, and a second time their stacks are known. */
	for (size_t i = 1; i < s.nrows; i++)
		assert_true(sim_order(&s.rows[i - 1], &s.rows[i]) < 0);
	assert_int_equal(snapshot_from_report(&r, stacks, cache, &twice), 0);
	assert_memory_equal(s.rows, twice.rows, 3 * sizeof(*s.rows));
	/* Without domains, equal stacks become one row. */
	r.by_domain = false;
	snapshot_free(&twice);
	assert_int_equal(snapshot_from_report(&r, stacks, cache, &twice), 0);
	assert_int_equal(twice.nrows, 2);
	r.group_by = GROUP_LINE;
	snapshot_free(&twice);
	assert_int_equal(snapshot_from_report(&r, stacks, cache, &twice), -EINVAL);
	snapshot_free(&s);
	snap_cache_free(cache);
	stacks_free(stacks);
}

/* ---- groups and filters */

static const struct snap_group *find_group(const struct heap *h, const struct snap_groups *g,
					   const char *file, s32 line, const char *function)
{
	for (size_t i = 0; i < g->n; i++) {
		const struct frame *f =
			stacks_frame(h->stacks, stacks_top(h->stacks, g->groups[i].stack));

		if (!strcmp(f->file, file) && (!line || f->line == line) &&
		    (!function || !strcmp(f->function, function)))
			return &g->groups[i];
	}
	fail_msg("no group %s:%d", file, line);
	return NULL;
}

static void group(const struct heap *h, const struct snap_view *view, struct snap_groups *g)
{
	assert_int_equal(snapshot_group(&h->s, h->stacks, view, g), 0);
}

static void grouping(void **state)
{
	struct snap_view view = {.group_by = GROUP_LINE};
	struct snap_groups g;
	struct heap h;

	(void)state;
	heap_open(&h);
	/* Two functions on one line of one file are one, as with tracemalloc. */
	group(&h, &view, &g);
	assert_int_equal(g.n, 2);
	assert_true(find_group(&h, &g, "/app/a.py", 10, NULL)->sum.live.bytes == 12700);
	assert_true(g.total.live.bytes == 17700 && g.total.live.blocks == 20);
	snap_groups_free(&g);
	view.group_by = GROUP_FUNCTION;
	group(&h, &view, &g);
	assert_int_equal(g.n, 3);
	assert_true(find_group(&h, &g, "/app/a.py", 0, "leaf")->sum.live.bytes == 12000);
	snap_groups_free(&g);
	view.group_by = GROUP_FILE;
	group(&h, &view, &g);
	assert_int_equal(g.n, 2);
	snap_groups_free(&g);
	view.group_by = GROUP_TRACEBACK;
	group(&h, &view, &g);
	assert_int_equal(g.n, 4);
	snap_groups_free(&g);
	stacks_free(h.stacks);
}

/* Threads of one name, one thread with two names, and a stack that is nobody's. */
static void by_thread(void **state)
{
	static const struct frame one = {"worker", "tid 11", 0, FRAME_THREAD};
	static const struct frame two = {"worker", "tid 12", 0, FRAME_THREAD};
	static const struct frame renamed = {"waiter", "tid 12", 0, FRAME_THREAD};
	static const struct frame lost = {"<stack lost>", "", 0, FRAME_OTHER};
	struct snap_view view = {.group_by = GROUP_THREAD};
	struct heap h = {.stacks = stacks_new(), .s.sample_interval = 1};
	struct snap_groups g;

	(void)state;
	h.s.rows = h.rows;
	assert_false(stacks_have_threads(h.stacks));
	add_blocks(&h, stack(h.stacks, (const struct frame[]){leaf, helper, one}, 3, false),
		   PHT_DOM_LIBC, 1000, 1);
	add_blocks(&h, stack(h.stacks, (const struct frame[]){leaf, one}, 2, true), PHT_DOM_LIBC,
		   1000, 2);
	add_blocks(&h, stack(h.stacks, (const struct frame[]){leaf, two}, 2, false), PHT_DOM_LIBC,
		   1000, 4);
	add_blocks(&h, stack(h.stacks, (const struct frame[]){leaf, renamed}, 2, false),
		   PHT_DOM_LIBC, 1000, 8);
	add_blocks(&h, stack(h.stacks, &lost, 1, false), PHT_DOM_LIBC, 1000, 16);
	assert_true(stacks_have_threads(h.stacks));
	group(&h, &view, &g);
	assert_int_equal(g.n, 3);
	assert_true(find_group(&h, &g, "tid 11", 0, "worker")->sum.live.bytes == 3000);
	assert_true(find_group(&h, &g, "tid 12", 0, "waiter")->sum.live.bytes == 12000);
	assert_true(find_group(&h, &g, "", 0, "<stack lost>")->sum.live.bytes == 16000);
	assert_true(g.total.live.bytes == 31000);
	/* A row names the thread, whatever it allocated first. */
	for (size_t i = 0; i < g.n; i++)
		assert_int_equal(stacks_depth(h.stacks, g.groups[i].stack), 1);
	snap_groups_free(&g);
	/* Ids of another run say nothing. */
	view.threads_by_name = true;
	group(&h, &view, &g);
	assert_int_equal(g.n, 3);
	assert_true(find_group(&h, &g, "tid 12", 0, "worker")->sum.live.bytes == 7000);
	assert_true(find_group(&h, &g, "tid 12", 0, "waiter")->sum.live.bytes == 8000);
	snap_groups_free(&g);
	view.cumulative = SNAP_CUMULATIVE;
	assert_int_equal(snapshot_group(&h.s, h.stacks, &view, &g), -EINVAL);
	stacks_free(h.stacks);
}

static void cumulative(void **state)
{
	struct snap_view view = {.group_by = GROUP_LINE, .cumulative = SNAP_CUMULATIVE};
	struct snap_groups g;
	struct heap h;

	(void)state;
	heap_open(&h);
	group(&h, &view, &g);
	assert_int_equal(g.n, 4);
	assert_true(find_group(&h, &g, "/app/main.py", 1, NULL)->sum.live.bytes == 17700);
	assert_true(find_group(&h, &g, "/app/a.py", 20, NULL)->sum.live.bytes == 17700);
	assert_true(g.total.live.bytes == 17700);
	snap_groups_free(&g);
	/* As often as the frame is in the stack. */
	view.cumulative = SNAP_EACH_FRAME;
	group(&h, &view, &g);
	assert_true(find_group(&h, &g, "/app/a.py", 20, NULL)->sum.live.bytes == 19700);
	assert_true(find_group(&h, &g, "/app/a.py", 20, NULL)->sum.live.blocks == 22);
	snap_groups_free(&g);
	view.group_by = GROUP_TRACEBACK;
	assert_int_equal(snapshot_group(&h.s, h.stacks, &view, &g), -EINVAL);
	stacks_free(h.stacks);
}

static double filtered(const struct heap *h, const struct snap_filter *filter)
{
	struct snap_view view = {.group_by = GROUP_LINE, .filter = *filter};
	struct snap_groups g;
	double bytes;

	group(h, &view, &g);
	bytes = g.total.live.bytes;
	snap_groups_free(&g);
	return bytes;
}

static void filtering(void **state)
{
	static const char *const app[] = {"/app/*"}, *const json[] = {"*json.py"};
	static const char *const main_py[] = {"*/main.py"}, *const none[] = {"nothing"};
	static const char *const two[] = {"nothing", "*json*"};
	struct heap h;

	(void)state;
	heap_open(&h);
#define BYTES(...) filtered(&h, &(struct snap_filter){__VA_ARGS__})
	assert_true(BYTES(.include = app, .ninclude = 1) == 12700);
	assert_true(BYTES(.exclude = app, .nexclude = 1) == 5000);
	assert_true(BYTES(.include = two, .ninclude = 2) == 5000);
	assert_true(BYTES(.include = none, .ninclude = 1) == 0);
	assert_true(BYTES(.exclude = none, .nexclude = 1) == 17700);
	/* The innermost frame decides, unless all are asked for. */
	assert_true(BYTES(.include = main_py, .ninclude = 1) == 0);
	assert_true(BYTES(.include = main_py, .ninclude = 1, .all_frames = true) == 17700);
	assert_true(BYTES(.exclude = main_py, .nexclude = 1, .all_frames = true) == 0);
	assert_true(BYTES(.include = app, .ninclude = 1, .exclude = json, .nexclude = 1,
			  .all_frames = true) == 12700);
	assert_true(BYTES(.domains = 1 << PHT_DOM_PYMALLOC) == 700);
	assert_true(BYTES(.domains = 1 << PHT_DOM_PYMALLOC | 1 << PHT_DOM_LIBC) == 17700);
#undef BYTES
	stacks_free(h.stacks);
}

/* Size, then count, then place from the last to the first: as tracemalloc sorts. */
static void sorting(void **state)
{
	struct snap_view view = {.group_by = GROUP_LINE};
	struct stacks *stacks = stacks_new();
	struct heap h = {.stacks = stacks, .s.sample_interval = 1};
	struct snap_groups g;
	const struct frame at[] = {{"f", "b.py", 9, 0},
				   {"f", "b.py", 10, 0},
				   {"f", "a.py", 1, 0},
				   {"f", "c.py", 1, 0},
				   {"f", "d.py", 1, 0}};
	static const s32 lines[] = {1, 10, 9, 1, 1};
	static const char *const files[] = {"d.py", "b.py", "b.py", "c.py", "a.py"};

	(void)state;
	h.s.rows = h.rows;
	add_blocks(&h, stack(stacks, &at[0], 1, 0), 0, 100, 6);
	add_blocks(&h, stack(stacks, &at[1], 1, 0), 0, 100, 6);
	add_blocks(&h, stack(stacks, &at[2], 1, 0), 0, 10, 3);
	add_blocks(&h, stack(stacks, &at[3], 1, 0), 0, 300, 2);
	add_blocks(&h, stack(stacks, &at[4], 1, 0), 0, 700, 1);
	group(&h, &view, &g);
	snap_groups_sort(&g, stacks, &view, SNAP_SORT_SIZE);
	for (size_t i = 0; i < 5; i++) {
		const struct frame *f = stacks_frame(stacks, stacks_top(stacks, g.groups[i].stack));

		assert_string_equal(f->file, files[i]);
		assert_int_equal(f->line, lines[i]);
	}
	snap_groups_sort(&g, stacks, &view, SNAP_SORT_COUNT);
	assert_true(g.groups[0].sum.live.blocks == 6 && g.groups[4].sum.live.blocks == 1);
	snap_groups_free(&g);
	stacks_free(stacks);
}

static void a_report_from_groups(void **state)
{
	struct snap_view view = {.group_by = GROUP_LINE, .cumulative = SNAP_CUMULATIVE};
	struct snap_groups g;
	struct frame *frames;
	struct report r;
	struct heap h;

	(void)state;
	heap_open(&h);
	group(&h, &view, &g);
	snap_groups_sort(&g, h.stacks, &view, SNAP_SORT_SIZE);
	assert_int_equal(snapshot_to_report(&h.s, h.stacks, &view, &g, &g, 2, 2, &r, &frames), 0);
	assert_int_equal(r.nrows, 4);
	assert_true(r.live_bytes.value == 17700 && r.live_bytes.low == 17700);
	assert_true(r.rows[0].live_bytes.value == 17700 && r.rows[0].growth_bytes == 0);
	/* main and helper hold the same; b after a in the alphabet comes first. */
	assert_string_equal(r.rows[0].frames[0].file, "/app/main.py");
	assert_int_equal(r.rows[0].nframes, 1);
	assert_string_equal(r.rows[1].frames[0].function, "helper");
	assert_string_equal(r.rows[1].frames[1].function, "<module>");
	/* Of the rest only the place itself. */
	assert_int_equal(r.rows[3].nframes, 1);
	free(r.rows);
	free(frames);
	snap_groups_free(&g);
	stacks_free(h.stacks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_stacks_have_one_number),
		cmocka_unit_test(deep_stacks_are_cut),
		cmocka_unit_test(a_hundred_thousand_stacks),
		cmocka_unit_test(a_report_becomes_a_snapshot),
		cmocka_unit_test(grouping),
		cmocka_unit_test(by_thread),
		cmocka_unit_test(cumulative),
		cmocka_unit_test(filtering),
		cmocka_unit_test(sorting),
		cmocka_unit_test(a_report_from_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
