// SPDX-License-Identifier: BSD-2-Clause
/* Flame graphs as files: well-formed, harmless, the same each time, with the right sums. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <json-c/json.h>
#include <math.h>

#include <cmocka.h>

#include "capture_sim.h"
#include "flame_json.h"
#include "flame_live.h"

static const struct snap_filter all = {0};

struct text {
	char *data;
	size_t len;
};

static struct text page_of(const struct flame_input *in)
{
	struct text t = {0};
	FILE *f = open_memstream(&t.data, &t.len);

	assert_non_null(f);
	assert_int_equal(flame_write(f, in), 0);
	assert_int_equal(fclose(f), 0);
	return t;
}

/* The data of a page, parsed by another's parser. */
static struct json_object *data_of(const struct text *page)
{
	static const char open[] = "<script id=\"data\" type=\"application/json\">";
	struct json_tokener *tok = json_tokener_new();
	const char *from = strstr(page->data, open), *to;
	struct json_object *json;

	assert_non_null(from);
	from += strlen(open);
	to = strstr(from, "</script>");
	assert_non_null(to);
	json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	json = json_tokener_parse_ex(tok, from, (int)(to - from));
	assert_int_equal(json_tokener_get_error(tok), json_tokener_success);
	assert_int_equal(json_tokener_get_parse_end(tok), to - from);
	json_tokener_free(tok);
	return json;
}

static struct json_object *get(struct json_object *o, const char *key)
{
	struct json_object *v;

	assert_true(json_object_object_get_ex(o, key, &v));
	return v;
}

static u32 digit(char c)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = strchr(digits, c);

	assert_true(c && at);
	return at - digits;
}

/* A column of exactly n numbers, read back without its own code. */
static u64 *column(struct json_object *o, const char *key, size_t n)
{
	const char *text = json_object_get_string(get(o, key));
	size_t len = strlen(text), bytes = 0, at = 0;
	u8 *raw = malloc(len + 3);
	u64 *out = calloc(n + 1, sizeof(*out));

	assert_true(raw && out && len % 4 == 0);
	for (size_t i = 0; i < len; i += 4) {
		u32 pad = (text[i + 2] == '=') + (text[i + 3] == '='), bits = 0;

		for (u32 j = 0; j < 4; j++)
			bits = bits << 6 | (j < 4 - pad ? digit(text[i + j]) : 0);
		for (u32 j = 0; j < 3 - pad; j++)
			raw[bytes++] = bits >> (16 - 8 * j);
	}
	for (size_t i = 0; i < n; i++) {
		int shift = 0;

		do {
			assert_true(at < bytes && shift < 64);
			out[i] |= (u64)(raw[at] & 0x7f) << shift;
			shift += 7;
		} while (raw[at++] & 0x80);
	}
	assert_int_equal(at, bytes);
	free(raw);
	return out;
}

static u64 sum_of(struct json_object *o, const char *key, size_t n)
{
	u64 *values = column(o, key, n), sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += values[i];
	free(values);
	return sum;
}

static u64 live_bytes(const struct snapshot *s)
{
	struct snap_total t;

	snapshot_total(s, SNAP_DOMAINS, &t);
	return llround(t.live.bytes);
}

static void heap(struct sim *s)
{
	sim_init(s, 12);
	sim_step(s, 200, 0, 10);
}

static void the_same_bytes_each_time(void **state)
{
	struct text a, b;
	struct sim one, two;

	(void)state;
	/* Two stores: addresses must not come into it. */
	heap(&one);
	heap(&two);
	a = page_of(&(struct flame_input){.stacks = one.stacks, .now = &one.now, .filter = &all});
	b = page_of(&(struct flame_input){.stacks = two.stacks, .now = &two.now, .filter = &all});
	assert_int_equal(a.len, b.len);
	assert_memory_equal(a.data, b.data, a.len);
	free(a.data);
	free(b.data);
	sim_free(&one);
	sim_free(&two);
}

static void sums_and_shape(void **state)
{
	struct snapshot first;
	struct json_object *json, *nodes, *sites;
	struct sim s;
	struct text page;
	size_t n, nsites;
	u64 *depth, *node;

	(void)state;
	heap(&s);
	assert_int_equal(snapshot_copy(&s.now, &first), 0);
	sim_step(&s, 50, 30, 10);
	page = page_of(&(struct flame_input){
		.stacks = s.stacks, .now = &s.now, .first = &first, .filter = &all});
	json = data_of(&page);
	nodes = get(json, "nodes");
	sites = get(json, "sites");
	n = json_object_get_int64(get(nodes, "count"));
	nsites = json_object_get_int64(get(sites, "count"));
	assert_true(n > nsites && nsites > 100);
	/* Depth first: one deeper at most, and only the root at 0. */
	depth = column(nodes, "depth", n);
	for (size_t i = 0; i < n; i++)
		assert_true(i ? depth[i] >= 1 && depth[i] <= depth[i - 1] + 1 : depth[i] == 0);
	node = column(sites, "node", nsites);
	for (size_t i = 0, at = 0; i < nsites; i++) {
		assert_true(i == 0 || node[i] > 0);
		at += node[i];
		assert_true(at < n);
	}
	assert_int_equal(sum_of(get(sites, "now"), "bytes", nsites), live_bytes(&s.now));
	assert_int_equal(sum_of(get(sites, "first"), "bytes", nsites), live_bytes(&first));
	assert_false(json_object_object_get_ex(sites, "peak", NULL));
	assert_int_equal(json_object_get_int(get(get(json, "pruned"), "count")), 0);
	free(depth);
	free(node);
	json_object_put(json);
	free(page.data);
	snapshot_free(&first);
	sim_free(&s);
}

static void small_ones_go_where_there_are_too_many(void **state)
{
	struct json_object *json, *sites;
	struct sim s;
	struct text page;
	size_t nsites;

	(void)state;
	sim_init(&s, 3);
	sim_step(&s, 2000, 0, 10);
	page = page_of(&(struct flame_input){
		.stacks = s.stacks, .now = &s.now, .filter = &all, .max_bytes = 30000});
	json = data_of(&page);
	sites = get(json, "sites");
	nsites = json_object_get_int64(get(sites, "count"));
	assert_true(json_object_get_int(get(get(json, "pruned"), "count")) > 100);
	assert_true(json_object_get_double(get(get(json, "pruned"), "share")) > 0);
	/* Fewer places, not a byte less. */
	assert_true(nsites > 10 && nsites < 900);
	assert_int_equal(sum_of(get(sites, "now"), "bytes", nsites), live_bytes(&s.now));
	json_object_put(json);
	free(page.data);
	sim_free(&s);
}

static size_t count(const char *text, const char *what)
{
	size_t n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

static void hostile_names_stay_text(void **state)
{
	static const struct frame frames[] = {
		{"</script><script>alert(1)</script>", "<!--&amp;", 1, FRAME_PYTHON},
		{"\"\\\n\x01\xe2\x80\xa8\xff", "\xe2\x80\xae", 2, FRAME_NATIVE},
		{"@DATA@ @SCRIPT@", "", -5, FRAME_OTHER},
	};
	struct stacks *stacks = stacks_new();
	struct snap_row row = {0};
	struct snapshot now = {.rows = &row, .nrows = 1, .overhead = NAN, .duration = NAN};
	struct flame_input in = {.stacks = stacks, .now = &now, .filter = &all};
	struct json_object *json, *strings;
	struct text page, plain;
	bool found = false;

	(void)state;
	strcpy(now.comm, "</script>");
	plain = page_of(&in);
	assert_int_equal(stacks_add(stacks, frames, 3, true, &row.stack), 0);
	estimate_add(&row.live, 1000, 1);
	page = page_of(&in);
	assert_int_equal(count(page.data, "<script"), count(plain.data, "<script"));
	assert_int_equal(count(page.data, "</script"), count(plain.data, "</script"));
	assert_int_equal(count(page.data, "<!--"), count(plain.data, "<!--"));
	json = data_of(&page);
	strings = get(json, "strings");
	for (size_t i = 0; i < json_object_array_length(strings); i++) {
		const char *text = json_object_get_string(json_object_array_get_idx(strings, i));

		found |= !strcmp(text, "\"\\\\x0a\\x01\\xe2\\x80\\xa8\\xff");
		for (const char *p = text; *p; p++)
			assert_true((u8)*p >= ' ');
	}
	assert_true(found);
	json_object_put(json);
	free(page.data);
	free(plain.data);
	stacks_free(stacks);
}

static struct text string_of(const char *name, bool *cut)
{
	struct text t = {0};
	FILE *f = open_memstream(&t.data, &t.len);

	assert_non_null(f);
	*cut = flame_string(f, name);
	fclose(f);
	return t;
}

static void long_names_are_cut(void **state)
{
	char name[2 * FLAME_NAME_MAX];
	struct text t;
	bool cut;

	(void)state;
	memset(name, 'x', sizeof(name));
	name[FLAME_NAME_MAX] = '\0';
	t = string_of(name, &cut);
	assert_false(cut);
	assert_int_equal(t.len, FLAME_NAME_MAX + 2);
	free(t.data);
	/* In the middle of a character of three bytes. */
	memset(name, 'x', sizeof(name));
	memcpy(name + FLAME_NAME_MAX - 2, "\xe2\x82\xac", 3);
	name[FLAME_NAME_MAX + 20] = '\0';
	t = string_of(name, &cut);
	assert_true(cut);
	assert_int_equal(t.len, FLAME_NAME_MAX - 2 + 3 + 2);
	assert_null(strchr(t.data, '\\'));
	free(t.data);
	/* All of it to be escaped. */
	memset(name, 1, sizeof(name));
	name[sizeof(name) - 1] = '\0';
	t = string_of(name, &cut);
	assert_true(cut);
	assert_int_equal(count(t.data, "\\\\x01"), FLAME_NAME_MAX);
	free(t.data);
}

static double uncoarse(u64 v)
{
	u32 bits = (u32)(v >> 1) << 16;
	float f;

	memcpy(&f, &bits, sizeof(f));
	return v & 1 ? -f : f;
}

static void coarse_numbers(void **state)
{
	static const double values[] = {1, 1e-30, 12345678, 3.7e30, -5e9, -1e-3, 254.999};

	(void)state;
	assert_int_equal(flame_coarse(0), 0);
	assert_int_equal(flame_coarse(-0.0), 0);
	assert_int_equal(flame_coarse(NAN), 0);
	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		assert_true(fabs(uncoarse(flame_coarse(values[i])) / values[i] - 1) < 1 / 256.0);
	assert_true(isfinite(uncoarse(flame_coarse(1e300))));
	assert_true(uncoarse(flame_coarse(-1e300)) < -1e38);
}

static void nothing_live_is_no_trouble(void **state)
{
	struct snapshot now = {0};
	struct stacks *stacks = stacks_new();
	struct text page =
		page_of(&(struct flame_input){.stacks = stacks, .now = &now, .filter = &all});
	struct json_object *json = data_of(&page);

	(void)state;
	assert_int_equal(json_object_get_int(get(get(json, "nodes"), "count")), 1);
	assert_int_equal(json_object_get_int(get(get(json, "sites"), "count")), 0);
	json_object_put(json);
	free(page.data);
	stacks_free(stacks);
}

static void rows_of_nothing_are_left_out(void **state)
{
	static const struct frame frame = {"f", "f.py", 1, FRAME_PYTHON};
	static const struct frame other = {"g", "g.py", 1, FRAME_PYTHON};
	struct snap_row rows[2] = {0};
	struct snapshot now = {.rows = rows, .nrows = 2};
	struct stacks *stacks = stacks_new();
	struct json_object *json, *sites;
	struct text page;

	(void)state;
	assert_int_equal(stacks_add(stacks, &frame, 1, false, &rows[0].stack), 0);
	assert_int_equal(stacks_add(stacks, &other, 1, false, &rows[1].stack), 0);
	estimate_add(&rows[0].live, 1000, 1);
	page = page_of(&(struct flame_input){.stacks = stacks, .now = &now, .filter = &all});
	json = data_of(&page);
	sites = get(json, "sites");
	assert_int_equal(json_object_get_int(get(get(json, "nodes"), "count")), 2);
	assert_int_equal(json_object_get_int(get(sites, "count")), 1);
	assert_int_equal(sum_of(sites, "node", 1), 1);
	assert_int_equal(sum_of(get(sites, "now"), "bytes", 1), 1000);
	json_object_put(json);
	free(page.data);
	stacks_free(stacks);
}

static void a_filter_leaves_out(void **state)
{
	static const char *const include[] = {"*/part3.py"};
	struct snap_filter filter = {.include = include, .ninclude = 1, .domains = 1};
	struct json_object *json;
	struct text page;
	double want = 0;
	struct sim s;

	(void)state;
	heap(&s);
	for (size_t i = 0; i < s.now.nrows; i++) {
		const struct snap_row *row = &s.now.rows[i];
		const struct frame *f = stacks_frame(s.stacks, stacks_top(s.stacks, row->stack));

		if (row->domain == 0 && !strcmp(f->file, "/srv/app/part3.py"))
			want += row->live.bytes;
	}
	assert_true(want > 0);
	page = page_of(&(struct flame_input){.stacks = s.stacks, .now = &s.now, .filter = &filter});
	json = data_of(&page);
	assert_int_equal(sum_of(get(get(json, "sites"), "now"), "bytes",
				json_object_get_int(get(get(json, "sites"), "count"))),
			 llround(want));
	json_object_put(json);
	free(page.data);
	sim_free(&s);
}

static void a_course_is_bounded(void **state)
{
	struct flame_course c = {.max_points = 8};
	double peak = 0, peak_at = 0;
	struct text page = {0};
	struct sim s;
	FILE *f;

	(void)state;
	sim_init(&s, 5);
	for (int i = 0; i < 100; i++) {
		struct snapshot copy;

		sim_step(&s, i < 20, 40, 1);
		if (live_bytes(&s.now) > peak) {
			peak = live_bytes(&s.now);
			peak_at = s.now.duration;
		}
		assert_int_equal(snapshot_copy(&s.now, &copy), 0);
		assert_int_equal(flame_course_add(&c, &copy), 0);
		assert_null(copy.rows);
		assert_true(c.npoints <= 8);
		/* The first and the last are always there, evenly spaced in between. */
		assert_true(c.points[0].duration == 1);
		assert_true(c.points[c.npoints - 1].duration == i + 1);
		for (size_t j = 2; j + 1 < c.npoints; j++)
			assert_true(c.points[j].duration - c.points[j - 1].duration ==
				    c.points[1].duration - c.points[0].duration);
	}
	assert_true(c.npoints >= 4);
	assert_true(c.first.duration == 1 && c.now.duration == 100);
	assert_true(c.peak.duration == peak_at);
	f = open_memstream(&page.data, &page.len);
	assert_int_equal(flame_course_write(f, &c, s.stacks), 0);
	fclose(f);
	json_object_put(data_of(&page));
	free(page.data);
	flame_course_free(&c);
	sim_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_bytes_each_time),
		cmocka_unit_test(sums_and_shape),
		cmocka_unit_test(small_ones_go_where_there_are_too_many),
		cmocka_unit_test(hostile_names_stay_text),
		cmocka_unit_test(long_names_are_cut),
		cmocka_unit_test(coarse_numbers),
		cmocka_unit_test(nothing_live_is_no_trouble),
		cmocka_unit_test(rows_of_nothing_are_left_out),
		cmocka_unit_test(a_filter_leaves_out),
		cmocka_unit_test(a_course_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
