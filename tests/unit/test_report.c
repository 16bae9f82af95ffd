// SPDX-License-Identifier: BSD-2-Clause
/* Reports: units, what the text says and how wide it is, JSON that parses back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "escape.h"
#include "report.h"
#include "report_units.h"

#define MIB 1048576.0

static const struct frame leak_stack[] = {
	{"Cart.add", "/srv/shop/lib/python3.11/site-packages/shop/cart/models.py", 117, 0},
	{"checkout", "/srv/shop/lib/python3.11/site-packages/shop/api/views.py", 40, 0},
	{"dispatch", "/usr/lib/python3/dist-packages/flask/app.py", 1469, 0},
	{"wsgi_app", "/usr/lib/python3/dist-packages/flask/app.py", 2190, 0},
	{"serve", "/srv/shop/serve.py", 30, 0},
	{"<module>", "/srv/shop/run.py", 12, 0},
};
static const struct frame hostile_stack[] = {
	{"\033]0;owned\a\xc2\x9b"
	 "2J",
	 "/tmp/\xe2\x80\xae/\xff\n.py", 3, FRAME_PYTHON},
	{"\xed\xa0\x80\"\\", "quote\".py", 0, FRAME_NATIVE},
};
static const struct frame no_state = {"<no Python state>", "", 0, FRAME_OTHER};

struct sample {
	struct report report;
	struct row rows[4];
};

static void fill(struct sample *s)
{
	*s = (struct sample){
		.rows =
			{
				{
					.frames = leak_stack,
					.nframes = 6,
					.truncated = true,
					.live_bytes = {12.4 * MIB, 11.9 * MIB, 12.9 * MIB},
					.live_blocks = 12800,
					.allocated_bytes = 20 * MIB,
					.allocated_blocks = 21000.4,
					.growth_bytes = 1.5 * MIB,
					.alloc_rate = 620 * 1024,
					.samples = 310,
					.live_samples = 25,
				},
				{
					.frames = hostile_stack,
					.nframes = 2,
					.live_bytes = {3 * MIB, 1 * MIB, 5 * MIB},
					.live_blocks = 7,
					.allocated_bytes = 4 * MIB,
					.allocated_blocks = 9,
					.growth_bytes = -2048,
					.samples = 9,
					.live_samples = 6,
				},
				{
					.frames = &no_state,
					.nframes = 1,
					.live_bytes = {1 * MIB, 1 * MIB, 1 * MIB},
					.live_blocks = 2,
					.allocated_bytes = MIB,
					.allocated_blocks = 2,
					.samples = 2,
					.live_samples = 2,
				},
				{
					.live_bytes = {1000, 0, 2000},
					.live_blocks = 1,
					.allocated_bytes = 1000,
					.allocated_blocks = 1,
					.samples = 1,
					.live_samples = 1,
				},
			},
		.report =
			{
				.pid = 4242,
				.comm = "gunicorn",
				.python_version = "3.11.2",
				.collector = "probe",
				.overhead = 0.0123,
				.coverage =
					"libc malloc family, and small blocks through pool grants",
				.coverage_share = 0.613,
				.sample_interval = 512 << 10,
				.duration = 65,
				.rss = 45 * 1048576,
				.live_bytes = {16.4 * MIB, 15 * MIB, 17.9 * MIB},
				.live_blocks = 12810,
				.allocated_bytes = 25 * MIB,
				.allocated_blocks = 21012,
				.samples = 322,
				.live_samples = 34,
				.calls = 1234567,
				.frees = 982000,
				.group_by = GROUP_LINE,
				.nrows = 4,
				.top = 20,
			},
	};
	s->report.rows = s->rows;
}

static char *text_of(const struct report *r, const struct report_style *style)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	assert_int_equal(report_text(f, r, style), 0);
	fclose(f);
	return text;
}

static void has(const char *text, const char *want)
{
	if (!strstr(text, want))
		fail_msg("\"%s\" is not in:\n%s", want, text);
}

static void lacks(const char *text, const char *unwanted)
{
	if (strstr(text, unwanted))
		fail_msg("\"%s\" is in:\n%s", unwanted, text);
}

static int count_lines(const char *text)
{
	int n = 0;

	for (; (text = strchr(text, '\n')); text++)
		n++;
	return n;
}

/* The widest line; every character must be printable. */
static int widest(char *text)
{
	int max = 0;
	char *line, *save = NULL;

	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		int width = escape_width(line);

		for (const char *p = line; *p;) {
			unsigned int n;
			u32 cp;

			n = utf8_decode(p, &cp);
			assert_int_not_equal(n, 0);
			assert_false(escape_unsafe(cp));
			p += n;
		}
		max = width > max ? width : max;
	}
	return max;
}

static void test_bytes(void **state)
{
	static const struct {
		double bytes;
		const char *full, *brief;
	} cases[] = {
		{0, "0 B", "0B"},
		{1, "1 B", "1B"},
		{1023, "1023 B", "1023B"},
		{1023.6, "1.00 KiB", "1.00K"},
		{1024, "1.00 KiB", "1.00K"},
		{1.5 * MIB, "1.50 MiB", "1.50M"},
		{12.44 * MIB, "12.4 MiB", "12.4M"},
		{99.96 * MIB, "100 MiB", "100M"},
		{1023 * MIB, "1023 MiB", "1023M"},
		{1023.7 * MIB, "1.00 GiB", "1.00G"},
		{-2048, "-2.00 KiB", "-2.00K"},
		{NAN, "?", "?"},
		{INFINITY, "?", "?"},
		{1e300, "9999 EiB", "9999E"},
	};
	char buf[UNITS_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_string_equal(units_bytes(buf, cases[i].bytes, false), cases[i].full);
		assert_string_equal(units_bytes(buf, cases[i].bytes, true), cases[i].brief);
	}
	for (double v = 0.3; v < 1e18; v *= 1.0007) {
		assert_true(strlen(units_bytes(buf, v, false)) <= 8);
		assert_true(strlen(units_bytes(buf, v, true)) <= 5);
		assert_true(strlen(units_count(buf, v)) <= 5);
	}
}

static void test_other_units(void **state)
{
	char buf[UNITS_MAX];

	assert_string_equal(units_growth(buf, 0.2, true), "0");
	assert_string_equal(units_growth(buf, 1.5 * MIB, true), "+1.50M");
	assert_string_equal(units_growth(buf, -1.5 * MIB, false), "-1.50 MiB");
	assert_string_equal(units_count(buf, 999.4), "999");
	assert_string_equal(units_count(buf, 999.6), "1.00k");
	assert_string_equal(units_count(buf, 12800), "12.8k");
	assert_string_equal(units_count(buf, -1), "?");
	assert_string_equal(units_seconds(buf, 4.21), "4.2 s");
	assert_string_equal(units_seconds(buf, 59.97), "1 min 00 s");
	assert_string_equal(units_seconds(buf, 65), "1 min 05 s");
	assert_string_equal(units_seconds(buf, 7380), "2 h 03 min");
	assert_string_equal(units_moment(buf, 1.6384e-05), "16 us");
	assert_string_equal(units_moment(buf, 0.0009996), "1.0 ms");
	assert_string_equal(units_moment(buf, 0.00996), "10 ms");
	assert_string_equal(units_moment(buf, 0.25), "250 ms");
	assert_string_equal(units_moment(buf, 0.9997), "1.0 s");
	assert_string_equal(units_moment(buf, INFINITY), "?");
	assert_string_equal(units_moment(buf, -1), "?");
	assert_string_equal(units_share(buf, 0.41234, false), "41.2%");
	assert_string_equal(units_share(buf, 0.41234, true), "41%");
	assert_string_equal(units_share(buf, 0.9999, false), "99.9%");
	assert_string_equal(units_share(buf, 0.9999, true), "99%");
	assert_string_equal(units_share(buf, 1, false), "100.0%");
}

/* -R is what was asked for, not always what is done. */
static void test_raised_interval(void **state)
{
	struct report_style style = {.width = 200};
	struct sample s;
	char *text;

	fill(&s);
	s.report.interval_asked = 64 << 10;
	text = text_of(&s.report, &style);
	has(text, "1 per 512 KiB (64.0 KiB asked for, raised for --max-overhead), 322 samples");
	free(text);
	s.report.interval_asked = 1;
	text = text_of(&s.report, &style);
	has(text, "1 per 512 KiB (all asked for, raised");
	free(text);
	s.report.interval_asked = s.report.sample_interval;
	text = text_of(&s.report, &style);
	has(text, "1 per 512 KiB, 322 samples");
	free(text);
}

static void test_text_says_all(void **state)
{
	struct report_style style = {.width = 200, .callers = true};
	struct sample s;
	char *text;

	fill(&s);
	text = text_of(&s.report, &style);
	has(text, "gunicorn (pid 4242)  Python 3.11.2  1 min 05 s\n");
	has(text, "16.4 MiB \u00b1 1.50 MiB in 12.8k blocks since attach; RSS 45.0 MiB\n");
	has(text, "collector   probe, wrote nothing into the process; the process runs 1.2% slower "
		  "meanwhile\n");
	has(text,
	    "partial, 61.3% of live bytes block by block: libc malloc family, and small blocks");
	has(text, "1 per 512 KiB, 322 samples, 34 live; 1.23M calls, 982k frees\n");
	has(text, "12.4 MiB   \u00b1512 KiB   75.6%   12.8k  +1.50 MiB   620 KiB/s  "
		  "/srv/shop/lib/python3.11/site-packages/shop/cart/models.py:117  Cart.add*\n");
	has(text, "\u2190 /srv/shop/lib/python3.11/site-packages/shop/api/views.py:40 ");
	has(text, "\u2026 2 more\n");
	lacks(text, "serve.py");
	has(text, "* stack cut off, outer callers missing\n");
	has(text, "exact ");
	has(text, "<no Python state>\n");
	has(text, "<no stack>\n");
	has(text, "\\x1b]0;owned\\x07\\xc2\\x9b2J\n");
	lacks(text, "more row");
	lacks(text, "Lost");
	lacks(text, "\033");
	free(text);
}

static void test_text_widths(void **state)
{
	for (int group = GROUP_TRACEBACK; group <= GROUP_FILE; group++) {
		for (int width = 40; width <= 240; width++) {
			struct report_style style = {.width = width, .callers = true};
			struct sample s;
			char *text;

			fill(&s);
			s.report.group_by = group;
			s.report.losses[PHT_LOSS_frame_unreadable] = 12;
			s.report.top = 3;
			text = text_of(&s.report, &style);
			/* The file name survives at any width. */
			has(text, "models.py");
			assert_true(widest(text) <= width);
			free(text);
		}
	}
}

static void test_text_ascii(void **state)
{
	struct report_style style = {.width = 100, .callers = true, .ascii = true};
	struct sample s;
	char *text;

	fill(&s);
	text = text_of(&s.report, &style);
	has(text, "+/-");
	for (const char *p = text; *p; p++)
		assert_true(*p == '\n' || (*p >= 0x20 && *p < 0x7f));
	free(text);
}

static void test_text_groups(void **state)
{
	struct report_style style = {.width = 160, .callers = true};
	struct sample s;
	char *text;

	fill(&s);
	s.report.group_by = GROUP_FUNCTION;
	text = text_of(&s.report, &style);
	lacks(text, ":117");
	has(text, "Cart.add");
	has(text, "views.py:40");
	free(text);

	s.report.group_by = GROUP_FILE;
	text = text_of(&s.report, &style);
	lacks(text, ":117");
	lacks(text, "Cart.add");
	lacks(text, "views.py");
	lacks(text, "*");
	free(text);

	s.report.group_by = GROUP_TRACEBACK;
	text = text_of(&s.report, &style);
	has(text, "run.py:12");
	free(text);

	style.callers = false;
	text = text_of(&s.report, &style);
	lacks(text, "views.py");
	has(text, "Cart.add*");
	free(text);
}

static void test_text_metrics(void **state)
{
	struct report_style style = {.width = 140};
	struct sample s;
	char *text;

	fill(&s);
	s.report.peak_seconds = 12;
	s.report.peak_bytes = (struct estimate){18 * MIB, 17 * MIB, 19 * MIB};
	/* Hardly more than what is live now: no news. */
	text = text_of(&s.report, &style);
	lacks(text, "peak");
	has(text, "GROWTH");
	free(text);
	s.report.peak_bytes = (struct estimate){100 * MIB, 98 * MIB, 103 * MIB};
	text = text_of(&s.report, &style);
	has(text,
	    "\npeak        100 MiB \u00b1 3.00 MiB were live 12.0 s after attach (--peak shows");
	free(text);
	s.report.metric = METRIC_PEAK;
	text = text_of(&s.report, &style);
	has(text, "\npeak heap   16.4 MiB");
	has(text, "in 12.8k blocks at the peak, 12.0 s after attach\n");
	has(text, "    PEAK ");
	lacks(text, "LIVE");
	lacks(text, "GROWTH");
	lacks(text, "RSS");
	free(text);
	s.report.metric = METRIC_TEMPORARY;
	s.report.temporary_seconds = 0.02;
	text = text_of(&s.report, &style);
	has(text, "\ntemporary   16.4 MiB");
	has(text, "in 12.8k blocks freed within 20 ms, since attach\n");
	has(text, "    TEMP ");
	lacks(text, "lifetimes");
	free(text);
	s.report.lives.blocks[0] = 60;
	s.report.lives.blocks[7] = 35;
	s.report.lives.blocks[31] = 5;
	text = text_of(&s.report, &style);
	has(text, "\nlifetimes   50% of what was freed lived less than 16 us, 90% lived less than "
		  "2.1 ms, "
		  "99% lived more than 4 h 53 min\n");
	free(text);
}

static void test_text_end(void **state)
{
	struct report_style style = {.width = 100};
	struct sample s;
	char *text;

	fill(&s);
	s.report.top = 1;
	s.report.final = true;
	s.report.end_reason = "target exited\033[2J";
	s.report.losses[PHT_LOSS_ring_full] = 7;
	text = text_of(&s.report, &style);
	has(text, "final report");
	has(text, "\n4.00M            24%      10  -2.00K        0  \u2026 3 more rows\n");
	has(text, "Lost, and so missing above:\n");
	has(text, "7  events lost: ring buffer full\n");
	lacks(text, loss_text(PHT_LOSS_live_map_full));
	has(text, "ended: target exited\\x1b[2J\n");
	free(text);
}

static void test_text_no_rows(void **state)
{
	struct report_style style = {.width = 400};
	struct sample s;
	char *text;

	fill(&s);
	s.report.nrows = 0;
	text = text_of(&s.report, &style);
	has(text, "Nothing live: all 322 sampled blocks have been freed again.");
	lacks(text, "LIVE");
	free(text);
	s.report.samples = 0;
	s.report.losses[PHT_LOSS_live_map_full] = 1;
	text = text_of(&s.report, &style);
	has(text, "No samples yet");
	has(text, "512 KiB");
	has(text, "see below");
	free(text);
}

static void test_text_color(void **state)
{
	struct report_style style = {.width = 100, .color = true};
	struct sample s;
	char *text;

	fill(&s);
	text = text_of(&s.report, &style);
	has(text, "\033[1mgunicorn\033[0m");
	has(text, "\033[31m+1.50M\033[0m");
	has(text, "\033[33mpartial");
	lacks(text, "\033]");
	free(text);
	s.report.coverage_complete = true;
	text = text_of(&s.report, &style);
	has(text, "\033[32mcomplete");
	free(text);
}

static void test_text_in_place(void **state)
{
	struct report_style style = {.width = 80, .callers = true, .clear = true};
	struct row *rows = calloc(60, sizeof(*rows));
	struct sample s;

	assert_non_null(rows);
	fill(&s);
	for (int i = 0; i < 60; i++)
		rows[i] = s.rows[0];
	s.report.rows = rows;
	s.report.nrows = 60;
	s.report.top = 50;
	for (int group = GROUP_TRACEBACK; group <= GROUP_FILE; group++) {
		s.report.group_by = group;
		for (style.height = 14; style.height < 200; style.height++) {
			char *text = text_of(&s.report, &style);

			assert_memory_equal(text, "\033[H", 3);
			assert_string_equal(text + strlen(text) - 4, "\n\033[J");
			assert_true(count_lines(text) < style.height);
			has(text, "more rows");
			free(text);
		}
		/* Without a height nothing is held back. */
		style.height = 0;
		char *text = text_of(&s.report, &style);

		assert_true(count_lines(text) > 50);
		free(text);
	}
	free(rows);
}

static struct json_object *parse_json(const struct report *r)
{
	struct json_tokener *tok = json_tokener_new();
	struct json_object *json;
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	assert_non_null(tok);
	assert_int_equal(report_json(f, r), 0);
	fclose(f);
	assert_int_equal(text[len - 1], '\n');
	assert_ptr_equal(strchr(text, '\n'), text + len - 1);
	for (const char *p = text; *p && *p != '\n';) {
		unsigned int n;
		u32 cp;

		n = utf8_decode(p, &cp);
		assert_int_not_equal(n, 0);
		assert_false(escape_unsafe(cp));
		p += n;
	}
	json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	json = json_tokener_parse_ex(tok, text, (int)len);
	assert_int_equal(json_tokener_get_error(tok), json_tokener_success);
	assert_non_null(json);
	json_tokener_free(tok);
	free(text);
	return json;
}

/* The value at a key; the key must be there. */
static struct json_object *get(struct json_object *o, const char *key)
{
	struct json_object *value;

	if (!json_object_object_get_ex(o, key, &value))
		fail_msg("no key %s", key);
	return value;
}

static void is_int(struct json_object *o, const char *key, int64_t want)
{
	assert_int_equal(json_object_get_type(get(o, key)), json_type_int);
	assert_true(json_object_get_int64(get(o, key)) == want);
}

static void is_text(struct json_object *o, const char *key, const char *want)
{
	assert_int_equal(json_object_get_type(get(o, key)), json_type_string);
	assert_string_equal(json_object_get_string(get(o, key)), want);
}

static void test_json_head(void **state)
{
	struct json_object *json, *coverage, *totals, *losses, *value;
	struct sample s;

	fill(&s);
	s.report.losses[PHT_LOSS_ring_full] = 7;
	json = parse_json(&s.report);
	is_int(json, "pid", 4242);
	is_text(json, "comm", "gunicorn");
	is_text(json, "python_version", "3.11.2");
	is_text(json, "collector", "probe");
	assert_true(json_object_object_get_ex(json, "written_to_target", &value));
	assert_null(value);
	coverage = get(json, "coverage");
	is_text(coverage, "description", s.report.coverage);
	assert_true(json_object_get_double(get(coverage, "share")) == 0.613);
	assert_int_equal(json_object_get_type(get(coverage, "complete")), json_type_boolean);
	assert_false(json_object_get_boolean(get(coverage, "complete")));
	is_int(json, "sample_interval", 524288);
	assert_true(json_object_get_double(get(json, "duration_seconds")) == 65);
	is_int(json, "rss_bytes", 47185920);
	is_text(json, "group_by", "line");
	is_text(json, "metric", "live");
	assert_null(get(json, "end_reason"));
	totals = get(json, "totals");
	is_int(totals, "live_bytes", llround(16.4 * MIB));
	is_int(totals, "live_bytes_low", 15 * 1048576);
	is_int(totals, "live_bytes_high", llround(17.9 * MIB));
	is_int(totals, "live_blocks", 12810);
	is_int(totals, "allocated_bytes", 25 * 1048576);
	is_int(totals, "allocated_blocks", 21012);
	is_int(totals, "samples", 322);
	is_int(totals, "live_samples", 34);
	is_int(totals, "calls", 1234567);
	is_int(totals, "frees", 982000);
	losses = get(json, "losses");
	assert_int_equal(json_object_object_length(losses), PHT_LOSS_NR);
	is_int(losses, "ring_full", 7);
	is_int(losses, "name_unreadable", 0);
	json_object_put(json);
}

static void is_null(struct json_object *o, const char *key)
{
	struct json_object *value;

	assert_true(json_object_object_get_ex(o, key, &value));
	assert_null(value);
}

/* What is not known is null, what is known is there; also where nothing has been freed. */
static void test_json_peak_and_lives(void **state)
{
	struct life_hist lives = {0};
	struct json_object *json, *totals, *site, *bucket;
	struct sample s;

	fill(&s);
	s.report.peak_seconds = -1;
	json = parse_json(&s.report);
	totals = get(json, "totals");
	site = json_object_array_get_idx(get(json, "sites"), 0);
	is_null(json, "temporary_ms");
	is_null(totals, "peak_bytes");
	is_null(totals, "peak_bytes_high");
	is_null(totals, "peak_seconds");
	is_null(totals, "temporary_blocks");
	is_null(totals, "lifetimes");
	is_null(site, "peak_blocks");
	is_null(site, "temporary_bytes_low");
	assert_int_equal(json_object_array_length(get(site, "lifetimes")), 0);
	json_object_put(json);

	s.report.peak_seconds = 2.5;
	s.report.peak_bytes = (struct estimate){20e6, 19e6, 21e6};
	s.report.peak_blocks = 77;
	s.report.temporary_seconds = 0.0125;
	s.report.lives.bytes[31] = 5000;
	s.report.lives.blocks[31] = 2.4;
	s.report.lives.samples[31] = 1;
	s.rows[0].peak_bytes = (struct estimate){300, 200, 400};
	s.rows[0].temporary.blocks = 9;
	s.rows[0].freed_samples = s.rows[1].freed_samples = 3;
	s.rows[0].lives = &lives;
	lives.bytes[0] = 1;
	lives.samples[0] = 1;
	json = parse_json(&s.report);
	totals = get(json, "totals");
	site = json_object_array_get_idx(get(json, "sites"), 0);
	assert_true(json_object_get_double(get(json, "temporary_ms")) == 12.5);
	is_int(totals, "peak_bytes", 20000000);
	is_int(totals, "peak_bytes_low", 19000000);
	is_int(totals, "peak_blocks", 77);
	assert_true(json_object_get_double(get(totals, "peak_seconds")) == 2.5);
	assert_int_equal(json_object_array_length(get(totals, "lifetimes")), 1);
	bucket = json_object_array_get_idx(get(totals, "lifetimes"), 0);
	is_null(bucket, "to_seconds");
	assert_true(fabs(json_object_get_double(get(bucket, "from_seconds")) - 17592.186) < 0.001);
	is_int(bucket, "blocks", 2);
	is_int(site, "peak_bytes_high", 400);
	is_int(site, "temporary_blocks", 9);
	bucket = json_object_array_get_idx(get(site, "lifetimes"), 0);
	assert_true(json_object_get_double(get(bucket, "from_seconds")) == 0);
	assert_true(json_object_get_double(get(bucket, "to_seconds")) == 1.6384e-05);
	/* Something was freed, but how old it was is not known by site. */
	is_null(json_object_array_get_idx(get(json, "sites"), 1), "lifetimes");
	json_object_put(json);
}

static void test_json_sites(void **state)
{
	struct json_object *json, *sites, *site, *frames, *frame;
	struct sample s;

	fill(&s);
	s.report.top = 1; /* of the table only */
	json = parse_json(&s.report);
	sites = get(json, "sites");
	assert_int_equal(json_object_array_length(sites), 4);
	site = json_object_array_get_idx(sites, 0);
	is_int(site, "live_bytes", llround(12.4 * MIB));
	is_int(site, "live_bytes_low", llround(11.9 * MIB));
	is_int(site, "live_bytes_high", llround(12.9 * MIB));
	is_int(site, "live_blocks", 12800);
	is_int(site, "allocated_bytes", 20 * 1048576);
	is_int(site, "allocated_blocks", 21000);
	is_int(site, "samples", 310);
	is_int(site, "live_samples", 25);
	is_int(site, "growth_bytes", 1572864);
	is_int(site, "alloc_rate", 634880);
	assert_true(json_object_get_boolean(get(site, "truncated")));
	frames = get(site, "frames");
	assert_int_equal(json_object_array_length(frames), 6);
	frame = json_object_array_get_idx(frames, 0);
	is_text(frame, "function", "Cart.add");
	is_text(frame, "file", leak_stack[0].file);
	is_int(frame, "line", 117);
	is_text(frame, "kind", "python");
	is_text(json_object_array_get_idx(frames, 5), "function", "<module>");

	site = json_object_array_get_idx(sites, 1);
	is_int(site, "growth_bytes", -2048);
	frame = json_object_array_get_idx(get(site, "frames"), 0);
	/* What is valid comes back as it was; what is not, as U+FFFD. */
	is_text(frame, "function", hostile_stack[0].function);
	is_text(frame, "file", "/tmp/\xe2\x80\xae/\xef\xbf\xbd\n.py");
	frame = json_object_array_get_idx(get(site, "frames"), 1);
	is_text(frame, "function", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"\\");
	is_text(frame, "kind", "native");
	assert_null(get(frame, "line"));
	frame = json_object_array_get_idx(get(json_object_array_get_idx(sites, 2), "frames"), 0);
	is_text(frame, "kind", "other");
	assert_null(get(frame, "file"));
	site = json_object_array_get_idx(sites, 3);
	assert_int_equal(json_object_array_length(get(site, "frames")), 0);
	json_object_put(json);
}

static void test_json_odd_numbers(void **state)
{
	struct json_object *json, *site;
	struct sample s;

	fill(&s);
	s.report.coverage_share = -1;
	s.report.duration = NAN;
	s.report.rss = UINT64_MAX;
	s.report.end_reason = "target exited";
	s.rows[0].live_bytes.high = INFINITY;
	s.rows[0].live_blocks = NAN;
	s.rows[0].growth_bytes = -1e300;
	json = parse_json(&s.report);
	assert_null(get(get(json, "coverage"), "share"));
	assert_null(get(json, "duration_seconds"));
	is_int(json, "rss_bytes", INT64_MAX);
	is_text(json, "end_reason", "target exited");
	site = json_object_array_get_idx(get(json, "sites"), 0);
	is_int(site, "live_bytes_high", INT64_MAX);
	is_int(site, "live_blocks", 0);
	is_int(site, "growth_bytes", INT64_MIN);
	json_object_put(json);

	s.report.nrows = 0;
	json = parse_json(&s.report);
	assert_int_equal(json_object_array_length(get(json, "sites")), 0);
	json_object_put(json);
}

static void test_full_disk(void **state)
{
	struct report_style style = {.width = 80};
	struct sample s;
	FILE *full = fopen("/dev/full", "w");

	if (!full)
		skip();
	fill(&s);
	assert_int_equal(report_text(full, &s.report, &style), -ENOSPC);
	clearerr(full);
	assert_int_equal(report_json(full, &s.report), -ENOSPC);
	fclose(full);
}

static void test_loss_names(void **state)
{
	assert_string_equal(loss_name(PHT_LOSS_live_map_full), "live_map_full");
	assert_string_equal(loss_text(PHT_LOSS_ring_full), "events lost: ring buffer full");
	for (int i = 0; i < PHT_LOSS_NR; i++) {
		assert_true(strlen(loss_text(i)) > 0);
		for (int j = 0; j < i; j++)
			assert_string_not_equal(loss_name(i), loss_name(j));
	}
	assert_string_equal(loss_name(PHT_LOSS_NR), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),	      cmocka_unit_test(test_other_units),
		cmocka_unit_test(test_text_says_all), cmocka_unit_test(test_raised_interval),
		cmocka_unit_test(test_text_widths),   cmocka_unit_test(test_text_ascii),
		cmocka_unit_test(test_text_groups),   cmocka_unit_test(test_text_metrics),
		cmocka_unit_test(test_text_end),      cmocka_unit_test(test_text_no_rows),
		cmocka_unit_test(test_text_color),    cmocka_unit_test(test_text_in_place),
		cmocka_unit_test(test_json_head),     cmocka_unit_test(test_json_peak_and_lives),
		cmocka_unit_test(test_json_sites),    cmocka_unit_test(test_json_odd_numbers),
		cmocka_unit_test(test_full_disk),     cmocka_unit_test(test_loss_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
