// SPDX-License-Identifier: BSD-2-Clause
/* Exports: their sums, their syntax, and that they do not change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <json-c/json.h>
#include <math.h>
#include <zlib.h>

#include <cmocka.h>

#include "capture_sim.h"
#include "export.h"
#include "export_text.h"

struct exported {
	char *data;
	size_t len;
};

static const struct snap_view view = {.group_by = GROUP_TRACEBACK};

static struct exported run(const struct exporter *e, const struct stacks *stacks,
			   const struct snapshot *s)
{
	struct export_input in = {s, stacks, s->rows, s->nrows, &view};
	struct exported out = {0};
	FILE *f = open_memstream(&out.data, &out.len);

	assert_non_null(f);
	assert_int_equal(e->write(f, &in), 0);
	assert_int_equal(fclose(f), 0);
	return out;
}

static void heap(struct sim *s)
{
	sim_init(s, 12);
	sim_step(s, 200, 0, 10);
}

static double live_bytes(const struct snapshot *s)
{
	double sum = 0;

	for (size_t i = 0; i < s->nrows; i++)
		sum += s->rows[i].live.bytes;
	return sum;
}

static void the_same_bytes_each_time(void **state)
{
	(void)state;
	for (size_t i = 0; exporters[i]; i++) {
		struct exported a, b;
		struct sim one, two;

		/* Two stores: addresses must not come into it. */
		heap(&one);
		heap(&two);
		a = run(exporters[i], one.stacks, &one.now);
		b = run(exporters[i], two.stacks, &two.now);
		assert_int_equal(a.len, b.len);
		assert_true(a.len > 100);
		assert_memory_equal(a.data, b.data, a.len);
		free(a.data);
		free(b.data);
		sim_free(&one);
		sim_free(&two);
	}
}

static void nothing_live_is_no_trouble(void **state)
{
	struct sim s;

	(void)state;
	sim_init(&s, 1);
	for (size_t i = 0; exporters[i]; i++) {
		struct exported e = run(exporters[i], s.stacks, &s.now);

		free(e.data);
	}
	sim_free(&s);
}

/* ---- pprof, read back without its own code */

struct proto {
	const u8 *p, *end;
};

static u64 proto_varint(struct proto *in)
{
	u64 v = 0;

	for (int shift = 0;; shift += 7) {
		u8 byte;

		assert_true(in->p < in->end && shift < 64);
		byte = *in->p++;
		v |= (u64)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return v;
	}
}

/* The next field; a message's content in *part. */
static bool proto_field(struct proto *in, u32 *field, u64 *value, struct proto *part)
{
	u64 key;

	if (in->p == in->end)
		return false;
	key = proto_varint(in);
	*field = key >> 3;
	*value = proto_varint(in);
	if ((key & 7) == 2) {
		assert_true(*value <= (u64)(in->end - in->p));
		*part = (struct proto){in->p, in->p + *value};
		in->p += *value;
	} else {
		assert_int_equal(key & 7, 0);
	}
	return true;
}

static u8 *gunzip(const struct exported *e, size_t *len)
{
	z_stream z = {.next_in = (u8 *)e->data, .avail_in = e->len};
	u8 *out = malloc(1 << 22);

	assert_non_null(out);
	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	z.next_out = out;
	z.avail_out = 1 << 22;
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	*len = z.total_out;
	inflateEnd(&z);
	return out;
}

struct counts {
	u64 samples, locations, functions, strings, types, period;
	u64 values[4];
	u64 highest_location;
};

static void count_sample(struct proto in, struct counts *c)
{
	struct proto part = {0};
	u32 field;
	u64 value;

	while (proto_field(&in, &field, &value, &part)) {
		for (int i = 0; field == 2 && i < 4; i++)
			c->values[i] += proto_varint(&part);
		while (field == 1 && part.p < part.end) {
			u64 location = proto_varint(&part);

			assert_true(location > 0);
			if (location > c->highest_location)
				c->highest_location = location;
		}
	}
	c->samples++;
}

static void pprof_adds_up(void **state)
{
	struct counts c = {0};
	struct exported e;
	struct proto in = {0}, part = {0};
	struct sim s;
	double blocks = 0;
	size_t len;
	u64 value;
	u32 field;
	u8 *raw;

	(void)state;
	heap(&s);
	e = run(&export_pprof, s.stacks, &s.now);
	/* No time in the gzip head. */
	assert_memory_equal(e.data + 4, "\0\0\0\0", 4);
	raw = gunzip(&e, &len);
	in = (struct proto){raw, raw + len};
	while (proto_field(&in, &field, &value, &part)) {
		c.types += field == 1;
		c.locations += field == 4;
		c.functions += field == 5;
		c.strings += field == 6;
		if (field == 6 && c.strings == 1)
			assert_int_equal(value, 0); /* string 0 is empty */
		if (field == 12)
			c.period = value;
		if (field == 2)
			count_sample(part, &c);
	}
	for (size_t i = 0; i < s.now.nrows; i++)
		blocks += round(s.now.rows[i].live.blocks);
	assert_int_equal(c.types, 4);
	assert_int_equal(c.samples, s.now.nrows);
	assert_true(c.highest_location == c.locations);
	assert_true(c.functions > 0 && c.strings > 10);
	assert_int_equal(c.period, s.now.sample_interval);
	assert_true((double)c.values[3] == live_bytes(&s.now));
	assert_true((double)c.values[2] == blocks);
	free(raw);
	free(e.data);
	sim_free(&s);
}

/* ---- JSON formats */

static struct json_object *parse(const struct exported *e)
{
	struct json_tokener *t = json_tokener_new();
	struct json_object *json = json_tokener_parse_ex(t, e->data, e->len);

	assert_non_null(json);
	json_tokener_free(t);
	return json;
}

static struct json_object *at(struct json_object *o, const char *key)
{
	struct json_object *value;

	assert_true(json_object_object_get_ex(o, key, &value));
	return value;
}

static void speedscope_adds_up(void **state)
{
	struct exported e;
	struct json_object *json, *live, *weights, *samples, *frames;
	struct sim s;
	double sum = 0;

	(void)state;
	heap(&s);
	e = run(&export_speedscope, s.stacks, &s.now);
	json = parse(&e);
	frames = at(at(json, "shared"), "frames");
	live = json_object_array_get_idx(at(json, "profiles"), 0);
	weights = at(live, "weights");
	samples = at(live, "samples");
	assert_int_equal(json_object_array_length(weights), json_object_array_length(samples));
	for (size_t i = 0; i < json_object_array_length(weights); i++) {
		struct json_object *sample = json_object_array_get_idx(samples, i);

		sum += json_object_get_int64(json_object_array_get_idx(weights, i));
		for (size_t k = 0; k < json_object_array_length(sample); k++)
			assert_in_range(json_object_get_int64(json_object_array_get_idx(sample, k)),
					0, json_object_array_length(frames) - 1);
	}
	assert_true(sum == live_bytes(&s.now));
	assert_true(sum == json_object_get_double(at(live, "endValue")));
	json_object_put(json);
	free(e.data);
	sim_free(&s);
}

static void json_adds_up(void **state)
{
	struct exported e;
	struct json_object *json, *sites;
	struct sim s;
	double sum = 0;

	(void)state;
	heap(&s);
	e = run(&export_json, s.stacks, &s.now);
	json = parse(&e);
	sites = at(json, "sites");
	for (size_t i = 0; i < json_object_array_length(sites); i++)
		sum += json_object_get_int64(at(json_object_array_get_idx(sites, i), "live_bytes"));
	assert_true(sum == live_bytes(&s.now));
	json_object_put(json);
	free(e.data);
	sim_free(&s);
}

/* ---- lines */

/* One row with a stack of hostile names. */
static void hostile_heap(struct sim *s)
{
	static const struct frame frames[] = {
		{"=cmd|' /C calc'!A0", "/tmp/a;b,\"c\"\n.py", 3, FRAME_PYTHON},
		{"\033[2J\xff", "\xe2\x80\xae.py", 0, FRAME_NATIVE},
	};
	struct snap_row *row = calloc(1, sizeof(*row));

	sim_init(s, 1);
	assert_int_equal(stacks_add(s->stacks, frames, 2, false, &row->stack), 0);
	estimate_add(&row->live, 1000, 1);
	row->allocated_bytes = 3000;
	row->allocated_blocks = 3;
	s->now.rows = row;
	s->now.nrows = 1;
}

static void folded_lines_stay_lines(void **state)
{
	struct exported e;
	struct sim s;

	(void)state;
	hostile_heap(&s);
	e = run(&export_folded, s.stacks, &s.now);
	assert_string_equal(e.data, "\\x1b[2J\\xff (\\xe2\\x80\\xae.py);=cmd|' /C calc'!A0 "
				    "(/tmp/a:b,\"c\"\\x0a.py:3) 1000\n");
	free(e.data);
	e = run(&export_folded_allocated, s.stacks, &s.now);
	assert_non_null(strstr(e.data, " 3000\n"));
	free(e.data);
	e = run(&export_csv, s.stacks, &s.now);
	/* Quotes doubled, no formula, no control characters. */
	assert_non_null(strstr(e.data,
			       "\n1000,1000,1000,1,3000,3,0,0,0,1,libc,"
			       "\"'=cmd|' /C calc'!A0\",\"/tmp/a;b,\"\"c\"\"\\x0a.py\",3,"));
	assert_null(strchr(e.data, '\033'));
	free(e.data);
	sim_free(&s);
}

static void hostile_names_in_json(void **state)
{
	static const struct exporter *const both[] = {&export_speedscope, &export_json};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct exported e;
		struct sim s;

		hostile_heap(&s);
		e = run(both[i], s.stacks, &s.now);
		json_object_put(parse(&e));
		assert_null(strchr(e.data, '\033'));
		assert_null(strchr(e.data, '\xff'));
		assert_non_null(strstr(e.data, "\\ufffd"));
		free(e.data);
		sim_free(&s);
	}
}

static void folded_adds_up(void **state)
{
	struct exported e;
	struct sim s;
	double sum = 0;

	(void)state;
	heap(&s);
	e = run(&export_folded, s.stacks, &s.now);
	for (char *line = strtok(e.data, "\n"); line; line = strtok(NULL, "\n"))
		sum += strtod(strrchr(line, ' '), NULL);
	assert_true(sum == live_bytes(&s.now));
	free(e.data);
	sim_free(&s);
}

/* ---- the pickle; that it loads is for the integration test */

static void a_pickle_has_both_ends(void **state)
{
	struct exported e;
	struct sim s;

	(void)state;
	heap(&s);
	e = run(&export_tracemalloc, s.stacks, &s.now);
	assert_int_equal((u8)e.data[0], 0x80);
	assert_int_equal(e.data[1], 4);
	assert_int_equal(e.data[e.len - 1], '.');
	assert_true(memmem(e.data, e.len, "tracemalloc", 11) != NULL);
	free(e.data);
	sim_free(&s);
}

static void whole_numbers(void **state)
{
	(void)state;
	assert_true(export_whole(-1) == 0 && export_whole(NAN) == 0 && export_whole(0.4) == 0);
	assert_true(export_whole(0.5) == 1 && export_whole(1e6) == 1000000);
	assert_true(export_whole(1e300) == 1ull << 62 && export_whole(INFINITY) == 1ull << 62);
}

static void json_words(void **state)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	(void)state;
	json_whole(f, -0.2);
	fputc(' ', f);
	json_whole(f, -1234567890123.0);
	fputc(' ', f);
	json_whole(f, NAN);
	fputc(' ', f);
	json_string(f, "a\"\\\n\xf0\x9f\x90\x8d\xc3(");
	fclose(f);
	assert_string_equal(text,
			    "0 -1234567890123 null \"a\\\"\\\\\\u000a\xf0\x9f\x90\x8d\\ufffd(\"");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_bytes_each_time),
		cmocka_unit_test(nothing_live_is_no_trouble),
		cmocka_unit_test(pprof_adds_up),
		cmocka_unit_test(speedscope_adds_up),
		cmocka_unit_test(json_adds_up),
		cmocka_unit_test(folded_lines_stay_lines),
		cmocka_unit_test(hostile_names_in_json),
		cmocka_unit_test(folded_adds_up),
		cmocka_unit_test(a_pickle_has_both_ends),
		cmocka_unit_test(whole_numbers),
		cmocka_unit_test(json_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
