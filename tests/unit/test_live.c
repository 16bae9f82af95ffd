// SPDX-License-Identifier: BSD-2-Clause
/* The live view without a terminal: rows, keys, and what is drawn. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
// clang-format on
#include <math.h>
#include <string.h>

#include "estimate.h"
#include "live_ui.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static const struct frame leak = {"remember", "/srv/app/cache.py", 32, FRAME_PYTHON};
static const struct frame leak_too = {"remember", "/srv/app/cache.py", 40, FRAME_PYTHON};
static const struct frame churn = {"render", "/srv/app/page.py", 7, FRAME_PYTHON};
static const struct frame decode = {"decode", "/usr/lib/python3/json.py", 5, FRAME_PYTHON};
static const struct frame add = {"Cache.add", "/srv/app/cache.py", 50, FRAME_PYTHON};
static const struct frame tick = {"tick", "/srv/app/main.py", 9, FRAME_PYTHON};
static const struct frame main_frame = {"<module>", "/srv/app/main.py", 99, FRAME_PYTHON};

struct fixture {
	struct live_ui ui;
	struct live_model *m;
	struct snapshot s; /* the next one */
	double now;
	struct canvas canvas;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	live_ui_init(&f->ui, GROUP_LINE, false);
	f->m = live_ui_model(&f->ui, 42);
	*state = f;
	return f->m ? 0 : -1;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	free(f->s.rows);
	canvas_free(&f->canvas);
	live_ui_free(&f->ui);
	free(f);
	return 0;
}

/* blocks of size are live in a stack, allocated bytes were in all. */
static void put(struct fixture *f, const struct frame *frames, u32 n, int blocks, u64 size,
		double allocated)
{
	struct snap_row *row;

	f->s.rows = realloc(f->s.rows, (f->s.nrows + 1) * sizeof(*f->s.rows));
	assert_non_null(f->s.rows);
	row = &f->s.rows[f->s.nrows++];
	*row = (struct snap_row){.domain = PHT_DOM_LIBC, .allocated_bytes = allocated};
	assert_int_equal(stacks_add(f->m->stacks, frames, n, n == 1, &row->stack), 0);
	for (int i = 0; i < blocks; i++)
		estimate_add(&row->live, size, 1);
	row->samples = blocks;
}

static void feed(struct fixture *f)
{
	f->now += 2;
	f->s.duration = f->now;
	f->s.sample_interval = 1;
	f->s.pid = 42;
	f->s.coverage_complete = true;
	f->s.coverage_share = 1;
	f->s.overhead = -1;
	f->s.rss = 100 << 20;
	strcpy(f->s.comm, "python3");
	strcpy(f->s.python_version, "3.11.2");
	strcpy(f->s.collector, "trampoline");
	assert_int_equal(live_model_feed_snapshot(f->m, &f->s), 0);
	f->s = (struct snapshot){0};
}

/* A small service: kept blocks of 1000 bytes leak, everything else stays. */
static void heap(struct fixture *f, int kept)
{
	put(f, (const struct frame[]){leak, add, tick, main_frame}, 4, kept, 1000, 1000 * kept);
	put(f, (const struct frame[]){leak, add, main_frame}, 3, 3, 1000, 3000);
	put(f, (const struct frame[]){leak_too, main_frame}, 2, 1, 500, 500);
	put(f, (const struct frame[]){churn, tick, main_frame}, 3, 0, 0, 100000 * f->now);
	put(f, (const struct frame[]){decode, tick, main_frame}, 3, 40, 100, 8000);
	feed(f);
}

static const char *function_at(const struct fixture *f, size_t i)
{
	assert_true(i < f->m->list.n);
	return stacks_frame(f->m->stacks, stacks_top(f->m->stacks, f->m->rows[i].stack))->function;
}

static void keys(struct fixture *f, const char *text)
{
	for (; *text; text++)
		assert_int_equal(live_ui_key(&f->ui, (u8)*text), LIVE_GO_ON);
}

static void key(struct fixture *f, u32 k)
{
	assert_int_equal(live_ui_key(&f->ui, k), LIVE_GO_ON);
}

static void rows_have_numbers(void **state)
{
	struct fixture *f = *state;
	const struct live_numbers *n;

	heap(f, 10);
	heap(f, 14);
	assert_int_equal(f->m->list.n, 4);
	assert_string_equal(function_at(f, 0), "remember");
	n = &f->m->rows[0].numbers;
	assert_float_equal(n->value[LIVE_LIVE], 17000, 1e-6);
	assert_float_equal(n->live.high, 17000, 1e-6);
	assert_float_equal(n->value[LIVE_GROWTH], 4000, 1e-6);
	assert_float_equal(n->value[LIVE_BLOCKS], 17, 1e-6);
	assert_float_equal(n->value[LIVE_RATE], 2000, 1e-6);
	assert_float_equal(n->value[LIVE_SINCE], 0, 1e-6);
	assert_float_equal(f->m->total.live.bytes, 17000 + 500 + 4000, 1e-6);
}

static void sorting(void **state)
{
	struct fixture *f = *state;

	heap(f, 10);
	heap(f, 12);
	keys(f, "s"); /* growth */
	assert_int_equal(f->m->set.sort, LIVE_GROWTH);
	assert_string_equal(function_at(f, 0), "remember");
	keys(f, "s"); /* blocks */
	assert_string_equal(function_at(f, 0), "decode");
	keys(f, ">"); /* rate */
	assert_string_equal(function_at(f, 0), "render");
	keys(f, "s"); /* no baseline, no column for it: live again */
	assert_int_equal(f->m->set.sort, LIVE_LIVE);
	keys(f, "r");
	assert_string_equal(function_at(f, 0), "render");
	assert_string_equal(function_at(f, 3), "remember");
	keys(f, "rS");
	assert_int_equal(f->m->set.sort, LIVE_RATE);
}

static void grouping(void **state)
{
	struct fixture *f = *state;

	heap(f, 10);
	keys(f, "g");
	assert_int_equal(f->m->set.group_by, GROUP_FUNCTION);
	assert_int_equal(f->m->list.n, 3);
	assert_float_equal(f->m->rows[0].numbers.value[LIVE_LIVE], 13500, 1e-6);
	keys(f, "g");
	assert_int_equal(f->m->set.group_by, GROUP_FILE);
	assert_int_equal(f->m->list.n, 3);
	keys(f, "g");
	assert_int_equal(f->m->set.group_by, GROUP_TRACEBACK);
	assert_int_equal(f->m->list.n, 5);
	keys(f, "g");
	assert_int_equal(f->m->set.group_by, GROUP_LINE);
	assert_int_equal(f->m->list.n, 4);
	/* By thread only where threads are known. */
	f->ui.threads = true;
	keys(f, "gggg");
	assert_int_equal(f->m->set.group_by, GROUP_THREAD);
	keys(f, "g");
	assert_int_equal(f->m->set.group_by, GROUP_LINE);
}

static void filters_match(void **state)
{
	static const struct {
		const char *filter;
		bool fits;
	} cases[] = {
		{"member", true},   {"MEMBER", true},	   {"cache.py", true},
		{"srv/app", true},  {"json", false},	   {"cache.*", true},
		{"*.py", true},	    {"*/app/*", true},	   {"rem?mber", true},
		{"member*", false}, {"[qr]emember", true}, {"/srv/*/page*", false},
		{"[", false},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++)
		if (live_filter_match(cases[i].filter, &leak) != cases[i].fits)
			fail_msg("%s", cases[i].filter);
}

static void filtering(void **state)
{
	struct fixture *f = *state;

	heap(f, 10);
	keys(f, "/deco");
	assert_true(f->ui.typing);
	assert_int_equal(f->m->list.n, 1);
	assert_string_equal(function_at(f, 0), "decode");
	assert_float_equal(f->m->passed, 4000, 1e-6);
	keys(f, "X");
	assert_int_equal(f->m->list.n, 0);
	key(f, LIVE_KEY_BACKSPACE);
	assert_int_equal(f->m->list.n, 1);
	key(f, LIVE_KEY_ENTER);
	assert_false(f->ui.typing);
	/* It holds for what comes. */
	heap(f, 12);
	assert_int_equal(f->m->list.n, 1);
	/* Another one, given up: the first is back. */
	keys(f, "/qq");
	assert_string_equal(f->m->set.filter, "decoqq");
	key(f, LIVE_KEY_ESC);
	assert_string_equal(f->m->set.filter, "deco");
	key(f, LIVE_KEY_ESC);
	assert_string_equal(f->m->set.filter, "");
	assert_int_equal(f->m->list.n, 4);
	/* By traceback any frame counts. */
	keys(f, "ggg/Cache.add");
	assert_int_equal(f->m->list.n, 2);
}

static void filter_takes_any_text(void **state)
{
	struct fixture *f = *state;

	heap(f, 10);
	keys(f, "/");
	for (int i = 0; i < 2 * LIVE_FILTER_MAX; i++)
		key(f, i % 2 ? 0x20ac : 'a');
	assert_true(strlen(f->m->set.filter) < LIVE_FILTER_MAX);
	assert_true(strlen(f->m->set.filter) > LIVE_FILTER_MAX - 5);
	key(f, LIVE_KEY_BACKSPACE);
	assert_int_equal(escape_width(f->m->set.filter) > 0, 1);
	key(f, 0x15); /* Ctrl-U */
	assert_string_equal(f->m->set.filter, "");
	key(f, LIVE_KEY_BACKSPACE);
	key(f, 0x9b); /* a control character is no text */
	key(f, LIVE_KEY_UP);
	assert_string_equal(f->m->set.filter, "");
	key(f, 0x1f600);
	assert_string_equal(f->m->set.filter, "\xf0\x9f\x98\x80");
}

static void baseline(void **state)
{
	struct fixture *f = *state;
	const struct live_numbers *n;

	heap(f, 10);
	keys(f, "b");
	assert_true(f->m->has_base);
	assert_non_null(strstr(f->ui.message, "Baseline"));
	heap(f, 12);
	heap(f, 20);
	n = &f->m->rows[0].numbers;
	assert_float_equal(n->value[LIVE_GROWTH], 8000, 1e-6);
	assert_float_equal(n->value[LIVE_SINCE], 10000, 1e-6);
	assert_false(n->noise);
	assert_true(f->m->rows[1].numbers.value[LIVE_SINCE] == 0);
	keys(f, "ssss");
	assert_int_equal(f->m->set.sort, LIVE_SINCE);
	keys(f, "B");
	assert_false(f->m->has_base);
	assert_int_equal(f->m->set.sort, LIVE_LIVE);
	assert_float_equal(f->m->rows[0].numbers.value[LIVE_SINCE], 0, 1e-6);
}

/* Sampled at R, a block or two more are no news. */
static void baseline_knows_noise(void **state)
{
	struct fixture *f = *state;

	for (int round = 0; round < 2; round++) {
		put(f, &leak, 1, 0, 0, 0);
		for (int i = 0; i < 20 + round; i++)
			estimate_add(&f->s.rows[0].live, 1000, 65536);
		f->s.rows[0].samples = 100 + 50 * round;
		f->s.rows[0].freed_samples = 80 + 49 * round;
		f->now += 2;
		f->s.duration = f->now;
		f->s.sample_interval = 65536;
		assert_int_equal(live_model_feed_snapshot(f->m, &f->s), 0);
		f->s = (struct snapshot){0};
		if (!round)
			keys(f, "b");
	}
	assert_true(f->m->rows[0].numbers.value[LIVE_SINCE] > 60000);
	assert_true(f->m->rows[0].numbers.noise);
}

static void pausing(void **state)
{
	struct fixture *f = *state;

	heap(f, 10);
	keys(f, " ");
	heap(f, 50);
	assert_float_equal(f->m->rows[0].numbers.value[LIVE_LIVE], 13000, 1e-6);
	/* What is there can be looked at in any way. */
	keys(f, "g");
	assert_int_equal(f->m->list.n, 3);
	keys(f, "gggp");
	heap(f, 60);
	assert_float_equal(f->m->rows[0].numbers.value[LIVE_LIVE], 63000, 1e-6);
	assert_float_equal(f->m->rows[0].numbers.value[LIVE_GROWTH], 50000, 1e-6);
}

static void selection_follows_its_row(void **state)
{
	struct fixture *f = *state;

	heap(f, 10);
	assert_int_equal(f->m->list.at, 0);
	key(f, LIVE_KEY_DOWN);
	assert_string_equal(function_at(f, 1), "decode");
	/* The others overtake it. */
	put(f, (const struct frame[]){leak, main_frame}, 2, 50, 1000, 1);
	put(f, (const struct frame[]){churn, main_frame}, 2, 50, 900, 1);
	put(f, (const struct frame[]){decode, main_frame}, 2, 1, 100, 1);
	feed(f);
	assert_int_equal(f->m->list.at, 2);
	/* It goes: the place stays. */
	put(f, (const struct frame[]){leak, main_frame}, 2, 50, 1000, 1);
	feed(f);
	assert_int_equal(f->m->list.at, 0);
	heap(f, 10);
	key(f, LIVE_KEY_END);
	assert_int_equal(f->m->list.at, 3);
	key(f, LIVE_KEY_HOME);
	assert_int_equal(f->m->list.at, 0);
	key(f, LIVE_KEY_UP);
	assert_int_equal(f->m->list.at, 0);
	key(f, LIVE_KEY_PAGE_DOWN);
	assert_int_equal(f->m->list.at, 1);
}

static void scrolling(void **state)
{
	struct live_list l = {.n = 100};

	(void)state;
	live_list_scroll(&l, 10);
	assert_int_equal(l.first, 0);
	l.at = 10;
	live_list_scroll(&l, 10);
	assert_int_equal(l.first, 1);
	l.at = 0;
	live_list_scroll(&l, 10);
	assert_int_equal(l.first, 0);
	l.at = 99;
	live_list_scroll(&l, 10);
	assert_int_equal(l.first, 90);
	live_list_scroll(&l, 40);
	assert_int_equal(l.first, 60);
	l.n = 5;
	live_list_scroll(&l, 40);
	assert_int_equal(l.first, 0);
	assert_int_equal(l.at, 4);
	l.n = 0;
	live_list_scroll(&l, 0);
	assert_int_equal(l.at, 0);
}

static const char *caller_at(const struct fixture *f, size_t i)
{
	const struct live_callers *c = &f->m->callers;

	assert_true(i < c->list.n);
	return stacks_frame(f->m->stacks, c->nodes[c->lines[i].node].frame)->function;
}

static double bytes_at(const struct fixture *f, size_t i)
{
	const struct live_callers *c = &f->m->callers;

	return c->nodes[c->lines[i].node].numbers.value[LIVE_LIVE];
}

static void callers(void **state)
{
	struct fixture *f = *state;
	struct live_callers *c = &f->m->callers;

	heap(f, 10);
	key(f, LIVE_KEY_ENTER);
	assert_true(c->open);
	assert_float_equal(c->nodes[0].numbers.value[LIVE_LIVE], 13000, 1e-6);
	assert_int_equal(c->list.n, 4);
	assert_string_equal(caller_at(f, 0), "Cache.add");
	assert_float_equal(bytes_at(f, 0), 13000, 1e-6);
	assert_int_equal(c->lines[0].indent, 0);
	assert_string_equal(caller_at(f, 1), "tick");
	assert_float_equal(bytes_at(f, 1), 10000, 1e-6);
	assert_int_equal(c->lines[1].indent, 1);
	assert_string_equal(caller_at(f, 2), "<module>");
	assert_int_equal(c->lines[2].indent, 1);
	assert_string_equal(caller_at(f, 3), "<module>");
	assert_float_equal(bytes_at(f, 3), 3000, 1e-6);
	/* Folded, also in what comes. */
	key(f, LIVE_KEY_DOWN);
	key(f, LIVE_KEY_ENTER);
	assert_int_equal(c->list.n, 3);
	assert_true(c->lines[1].folded);
	heap(f, 20);
	assert_int_equal(c->list.n, 3);
	assert_float_equal(bytes_at(f, 1), 20000, 1e-6);
	assert_float_equal(c->nodes[c->lines[1].node].numbers.value[LIVE_GROWTH], 10000, 1e-6);
	assert_int_equal(c->list.at, 1);
	key(f, LIVE_KEY_ENTER);
	assert_int_equal(c->list.n, 4);
	key(f, LIVE_KEY_ESC);
	assert_false(c->open);
	assert_int_equal(f->m->list.at, 0);
	assert_int_equal(f->m->list.n, 4);
}

static void callers_of_a_file(void **state)
{
	struct fixture *f = *state;

	heap(f, 10);
	keys(f, "gg");
	key(f, LIVE_KEY_ENTER);
	assert_float_equal(f->m->callers.nodes[0].numbers.value[LIVE_LIVE], 13500, 1e-6);
	assert_string_equal(caller_at(f, 0), "remember");
	assert_float_equal(bytes_at(f, 0), 13000, 1e-6);
}

static void missing_callers_are_said(void **state)
{
	struct fixture *f = *state;

	put(f, &leak, 1, 1, 10, 10); /* truncated */
	feed(f);
	key(f, LIVE_KEY_ENTER);
	assert_int_equal(f->m->callers.list.n, 1);
	assert_int_equal(f->m->callers.nodes[1].frame, LIVE_NO_FRAME);
	assert_int_equal(live_draw(&f->ui, &f->canvas, 100, 20), 0);
}

static void end_stays(void **state)
{
	struct fixture *f = *state;

	heap(f, 10);
	strcpy(f->s.end_reason, "the process exited");
	heap(f, 12);
	heap(f, 99);
	assert_float_equal(f->m->rows[0].numbers.value[LIVE_LIVE], 15000, 1e-6);
	assert_float_equal(f->m->rows[0].numbers.value[LIVE_GROWTH], 2000, 1e-6);
}

static void several_processes(void **state)
{
	struct fixture *f = *state;
	struct live_model *other;

	heap(f, 10);
	keys(f, "gb");
	other = live_ui_model(&f->ui, 43);
	assert_ptr_not_equal(other, f->m);
	assert_ptr_equal(live_ui_model(&f->ui, 43), other);
	assert_int_equal(other->set.group_by, GROUP_FUNCTION);
	keys(f, "ssss"); /* by the baseline, which the other one lacks */
	key(f, LIVE_KEY_TAB);
	assert_ptr_equal(live_ui_shown(&f->ui), other);
	assert_int_equal(other->set.sort, LIVE_LIVE);
	assert_int_equal(live_draw(&f->ui, &f->canvas, 100, 20), 0);
	key(f, LIVE_KEY_BACKTAB);
	assert_ptr_equal(live_ui_shown(&f->ui), f->m);
}

static void quitting(void **state)
{
	struct fixture *f = *state;
	struct live_ui none;

	assert_int_equal(live_ui_key(&f->ui, 'q'), LIVE_QUIT);
	keys(f, "/q");
	assert_true(f->ui.typing);
	key(f, LIVE_KEY_ESC);
	keys(f, "h");
	assert_true(f->ui.help);
	key(f, 'x');
	assert_false(f->ui.help);
	live_ui_init(&none, GROUP_LINE, true);
	assert_int_equal(live_ui_key(&none, 's'), LIVE_GO_ON);
	assert_int_equal(live_ui_key(&none, 'q'), LIVE_QUIT);
}

/* Whatever is pressed in whatever order, there is a selection and a drawing. */
static void any_keys(void **state)
{
	static const u32 all[] = {'s',
				  'S',
				  'r',
				  'g',
				  '/',
				  'a',
				  '*',
				  'p',
				  'b',
				  'B',
				  'h',
				  'k',
				  'j',
				  LIVE_KEY_ENTER,
				  LIVE_KEY_ESC,
				  LIVE_KEY_UP,
				  LIVE_KEY_DOWN,
				  LIVE_KEY_PAGE_UP,
				  LIVE_KEY_PAGE_DOWN,
				  LIVE_KEY_HOME,
				  LIVE_KEY_END,
				  LIVE_KEY_BACKSPACE,
				  LIVE_KEY_TAB,
				  LIVE_KEY_LEFT,
				  LIVE_KEY_RIGHT,
				  LIVE_KEY_REDRAW,
				  LIVE_KEY_OTHER,
				  'G',
				  0,
				  0xffff};
	struct fixture *f = *state;
	u32 seed = 1;

	for (int i = 0; i < 4000; i++) {
		const struct live_list *l;

		seed = seed * 1103515245 + 12345;
		if (seed >> 16 & 7)
			key(f, all[(seed >> 19) % LEN(all)]);
		else
			heap(f, (int)(seed >> 20) % 30);
		l = live_model_list(f->m);
		assert_true(l->n ? l->at < l->n : l->at == 0);
		assert_int_equal(live_draw(&f->ui, &f->canvas, (int)(seed >> 18) % 140,
					   (int)(seed >> 17) % 40),
				 0);
	}
}

static const char *line(const struct fixture *f, int y)
{
	static char buf[4000];

	canvas_line(&f->canvas, y, buf, sizeof(buf));
	return buf;
}

static bool drawn(const struct fixture *f, const char *text)
{
	for (int y = 0; y < f->canvas.height; y++)
		if (strstr(line(f, y), text))
			return true;
	return false;
}

static void drawing(void **state)
{
	struct fixture *f = *state;
	int y = 0;

	heap(f, 10);
	f->m->now.losses[0] = 7;
	assert_int_equal(live_draw(&f->ui, &f->canvas, 120, 20), 0);
	assert_non_null(strstr(line(f, 0), "python3 (pid 42)  Python 3.11.2  trampoline  2.0 s"));
	assert_true(drawn(f, "17.1 KiB exactly in 54 blocks since attach; RSS 100 MiB"));
	assert_true(drawn(f, "complete, 100.0% block by block"));
	assert_true(drawn(f, loss_name(0)));
	assert_true(drawn(f, "LIVE\u25bc"));
	while (!strstr(line(f, y), "remember"))
		assert_true(++y < 20);
	assert_non_null(strstr(line(f, y), "12.7 KiB"));
	assert_non_null(strstr(line(f, y), "/srv/app/cache.py:32 "));
	assert_true(canvas_at(&f->canvas, y, 0)->marked);
	assert_false(canvas_at(&f->canvas, y + 1, 0)->marked);
	assert_false(drawn(f, "SINCE"));
	keys(f, "b");
	assert_int_equal(live_draw(&f->ui, &f->canvas, 120, 20), 0);
	assert_true(drawn(f, "SINCE"));
	keys(f, "p");
	assert_int_equal(live_draw(&f->ui, &f->canvas, 120, 20), 0);
	assert_true(drawn(f, "PAUSED"));
	keys(f, "?");
	assert_int_equal(live_draw(&f->ui, &f->canvas, 120, 30), 0);
	assert_true(drawn(f, "mark a baseline"));
}

static void drawing_fits(void **state)
{
	struct fixture *f = *state;

	heap(f, 10);
	keys(f, "b");
	for (int width = 0; width < 150; width += 3)
		for (int height = 0; height < 30; height++) {
			assert_int_equal(live_draw(&f->ui, &f->canvas, width, height), 0);
			for (int y = 0; y < f->canvas.height; y++)
				assert_true(escape_width(line(f, y)) <= f->canvas.width);
			if (width >= 30 && height >= 7)
				assert_true(drawn(f, "remember"));
		}
}

static void hostile_names(void **state)
{
	static const struct frame evil = {"\x1b]0;owned\x07\x1b[2J\xc2\x9b"
					  "31m\r\n\xe2\x80\xae",
					  "/srv/\x1b[41mred\b\n\xe6\xbc\xa2\xe5\xad\x97.py", 3,
					  FRAME_PYTHON};
	struct fixture *f = *state;

	put(f, &evil, 1, 5, 1000, 5000);
	strcpy(f->s.coverage, "\x1b[31m");
	feed(f);
	strcpy(f->m->now.comm, "\x1b[31mevil");
	strcpy(f->m->now.end_reason, "\x1b[5m");
	live_ui_say(&f->ui, true, "\x1b[7m");
	for (int open = 0; open < 2; open++) {
		for (int width = 30; width < 160; width++) {
			assert_int_equal(live_draw(&f->ui, &f->canvas, width, 24), 0);
			for (int y = 0; y < 24; y++)
				for (const char *p = line(f, y); *p; p++)
					assert_true((u8)*p >= 0x20 && *p != 0x7f);
		}
		assert_true(drawn(f, "\\x1b"));
		key(f, LIVE_KEY_ENTER);
	}
}

static void canvas_cells(void **state)
{
	struct canvas c = {0};
	char buf[64];

	(void)state;
	assert_int_equal(canvas_reset(&c, 10, 2), 0);
	/* A wide character takes two cells, and none where only one is left. */
	assert_int_equal(canvas_put(&c, 0, 0, 3, INK_RED, "\xe6\xbc\xa2\xe5\xad\x97"), 2);
	assert_string_equal(canvas_at(&c, 0, 0)->text, "\xe6\xbc\xa2");
	assert_string_equal(canvas_at(&c, 0, 1)->text, "");
	assert_string_equal(canvas_at(&c, 0, 2)->text, " ");
	/* A combining mark joins its character. */
	assert_int_equal(canvas_put(&c, 0, 4, 6, INK_PLAIN, "e\xcc\x81x"), 6);
	assert_string_equal(canvas_at(&c, 0, 4)->text, "e\xcc\x81");
	/* Controls are harmless even unescaped. */
	canvas_put(&c, 1, 8, 10, INK_PLAIN, "\x1b[2J");
	canvas_line(&c, 1, buf, sizeof(buf));
	assert_string_equal(buf, "        ?[");
	assert_int_equal(canvas_put(&c, 5, 0, 3, INK_PLAIN, "x"), 0);
	assert_int_equal(canvas_put(&c, 0, 20, 3, INK_PLAIN, "x"), 20);
	assert_int_equal(canvas_put_right(&c, 1, 0, 5, INK_PLAIN, "ab"), 5);
	canvas_line(&c, 1, buf, sizeof(buf));
	assert_string_equal(buf, "   ab   ?[");
	assert_null(canvas_at(&c, 2, 0));
	canvas_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(rows_have_numbers), T(sorting),
		T(grouping),	      T(filters_match),
		T(filtering),	      T(filter_takes_any_text),
		T(baseline),	      T(baseline_knows_noise),
		T(pausing),	      T(selection_follows_its_row),
		T(scrolling),	      T(callers),
		T(callers_of_a_file), T(missing_callers_are_said),
		T(end_stays),	      T(several_processes),
		T(quitting),	      T(any_keys),
		T(drawing),	      T(drawing_fits),
		T(hostile_names),     T(canvas_cells),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
