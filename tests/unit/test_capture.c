// SPDX-License-Identifier: BSD-2-Clause
/* The format of captures: what goes in comes out, and nothing comes of what makes no sense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <errno.h>
#include <math.h>

#include <cmocka.h>

#include "capture_files.h"

/* ---- numbers */

static void numbers_survive(void **state)
{
	static const double reals[] = {0,      1,    127,    128,  4503599627370496.0, 0.5,
				       1e-300, -3.5, 1.0001, 1e30, 123456.789};
	static const u64 integers[] = {0, 1, 127, 128, 16383, 16384, UINT32_MAX, UINT64_MAX};
	struct outbuf b = {0};
	struct inbuf in;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(reals); i++) {
		put_real(&b, reals[i]);
		assert_true(fabs(real_kept(reals[i]) - reals[i]) <= fabs(reals[i]) * 2e-5);
		put_coarse(&b, reals[i]);
		assert_true(fabs(coarse_kept(reals[i]) - reals[i]) <= fabs(reals[i]) * 1e-3);
	}
	for (size_t i = 0; i < ARRAY_SIZE(integers); i++)
		put_varint(&b, integers[i]);
	put_double(&b, 0.1);
	put_real(&b, INFINITY);
	put_real(&b, NAN);
	put_real(&b, 1.7976931348623157e308);
	in = (struct inbuf){.p = b.data, .end = b.data + b.len};
	for (size_t i = 0; i < ARRAY_SIZE(reals); i++) {
		assert_true(get_real(&in) == real_kept(reals[i]));
		assert_true(get_coarse(&in) == coarse_kept(reals[i]));
	}
	for (size_t i = 0; i < ARRAY_SIZE(integers); i++)
		assert_true(get_varint(&in) == integers[i]);
	assert_true(get_double(&in) == 0.1);
	assert_true(get_real(&in) == 0);
	assert_true(get_real(&in) == 0);
	assert_true(isfinite(get_real(&in)));
	assert_false(in.failed);
	assert_ptr_equal(in.p, in.end);
	/* Whole numbers are kept to the last, and keeping is idempotent. */
	assert_true(real_kept(1234567890123.0) == 1234567890123.0);
	assert_true(real_kept(real_kept(0.123456789)) == real_kept(0.123456789));
	get_varint(&in);
	assert_true(in.failed);
	outbuf_free(&b);
}

static void overlong_numbers_fail(void **state)
{
	static const u8 endless[12] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
				       0x80, 0x80, 0x80, 0x80, 0x80, 0x80};
	static const u8 over[10] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02};
	static const u8 longer[5] = {1, 5, 'a', 'b', 'c'};
	struct inbuf in = {.p = endless, .end = endless + sizeof(endless)};
	u32 id;
	struct inbuf part;

	(void)state;
	get_varint(&in);
	assert_true(in.failed);
	in = (struct inbuf){.p = over, .end = over + sizeof(over)};
	get_varint(&in);
	assert_true(in.failed);
	/* A section longer than what is there. */
	in = (struct inbuf){.p = longer, .end = longer + sizeof(longer)};
	assert_false(get_section(&in, &id, &part));
	assert_true(in.failed);
}

/* ---- whole files */

/* A frame is the same in two stores when its words are. */
static void assert_same_stack(const struct stacks *a, u32 sa, const struct stacks *b, u32 sb)
{
	struct frame fa[64], fb[64];
	u32 n = stacks_expand(a, sa, fa, 64);

	assert_int_equal(n, stacks_expand(b, sb, fb, 64));
	assert_int_equal(stacks_truncated(a, sa), stacks_truncated(b, sb));
	for (u32 i = 0; i < n; i++) {
		assert_string_equal(fa[i].function, fb[i].function);
		assert_string_equal(fa[i].file, fb[i].file);
		assert_int_equal(fa[i].line, fb[i].line);
		assert_int_equal(fa[i].kind, fb[i].kind);
	}
}

static void assert_same_rows(const struct stacks *a, const struct snapshot *sa,
			     const struct stacks *b, const struct snapshot *sb)
{
	assert_int_equal(sa->nrows, sb->nrows);
	for (size_t i = 0; i < sa->nrows; i++) {
		/* Numbers of stacks are given in the same order, so rows are too. */
		assert_int_equal(sa->rows[i].domain, sb->rows[i].domain);
		assert_same_stack(a, sa->rows[i].stack, b, sb->rows[i].stack);
		assert_memory_equal(&sa->rows[i].live, &sb->rows[i].live,
				    sizeof(sa->rows[i]) - offsetof(struct snap_row, live));
	}
}

static void assert_same_head(const struct snapshot *a, const struct snapshot *b)
{
	assert_int_equal(a->pid, b->pid);
	assert_string_equal(a->comm, b->comm);
	assert_string_equal(a->python_version, b->python_version);
	assert_string_equal(a->collector, b->collector);
	assert_string_equal(a->coverage, b->coverage);
	assert_string_equal(a->end_reason, b->end_reason);
	assert_true(a->coverage_share == b->coverage_share);
	assert_int_equal(a->coverage_complete, b->coverage_complete);
	assert_true(a->duration == b->duration);
	assert_true(a->wall_ns == b->wall_ns && a->rss == b->rss && a->calls == b->calls);
	assert_true(a->overhead == b->overhead);
	assert_true(a->sample_interval == b->sample_interval);
	assert_memory_equal(a->losses, b->losses, sizeof(a->losses));
	assert_true(a->peak_seconds == b->peak_seconds && a->temporary_ns == b->temporary_ns);
	assert_int_equal(a->nlives, b->nlives);
	for (size_t i = 0; i < a->nlives; i++)
		assert_memory_equal(&a->lives[i], &b->lives[i], sizeof(a->lives[i]));
	assert_int_equal(a->nsizes, b->nsizes);
	for (size_t i = 0; i < a->nsizes; i++)
		assert_true(a->sizes[i].samples == b->sizes[i].samples &&
			    a->sizes[i].log2 == b->sizes[i].log2);
}

/* What a heap is like to begin with. */
static void begin(struct sim *s, bool with_peak)
{
	sim_init(s, 1);
	for (int i = 0; i < 5; i++)
		assert_int_equal(snapshot_add_bin(&s->now, i % 2, 100 << i, 7, 10, 1), 0);
	if (!with_peak)
		return;
	s->now.peak_seconds = 0.5;
	s->now.temporary_ns = 20000000;
	for (u32 i = 0; i < PHT_LIFE_BUCKETS; i++)
		assert_int_equal(snapshot_add_life(&s->now, i % 3, i, 100 * i, i, i), 0);
}

static void check_round_trip(bool with_peak)
{
	struct sim s, again;
	struct capture *c;
	struct stacks *stacks = stacks_new();
	int n = 0;

	begin(&s, with_peak);
	write_steps(&s, 40, NULL);
	begin(&again, with_peak);
	assert_int_equal(capture_open(path, stacks, &c), 0);
	while (capture_next(c) > 0) {
		sim_step(&again, n < 10 ? 20 : n % 2, 30, 1);
		assert_int_equal(capture_index(c), n);
		assert_same_head(&again.now, capture_snapshot(c));
		assert_same_rows(again.stacks, &again.now, stacks, capture_snapshot(c));
		n++;
	}
	assert_int_equal(n, 40);
	assert_null(capture_trouble(c));
	assert_int_equal(capture_next(c), 0);
	capture_close(c);
	stacks_free(stacks);
	sim_free(&s);
	sim_free(&again);
}

static void what_goes_in_comes_out(void **state)
{
	(void)state;
	check_round_trip(false);
	check_round_trip(true);
}

/* Unchanged rows cost nothing: a hundred snapshots of a steady heap stay small. */
static void repeats_are_small(void **state)
{
	struct sim s;
	struct capture_writer *w;
	u64 first;

	(void)state;
	sim_init(&s, 2);
	sim_step(&s, 5000, 0, 1);
	assert_int_equal(capture_create(path, s.stacks, NULL, &w), 0);
	assert_int_equal(capture_append(w, &s.now), 0);
	first = capture_written(w);
	for (int i = 0; i < 100; i++) {
		s.now.duration += 1;
		assert_int_equal(capture_append(w, &s.now), 0);
	}
	assert_true(capture_written(w) < first + 100 * 600);
	capture_writer_free(w);
	sim_free(&s);
}

/* ---- damage */

static void cut_anywhere(void **state)
{
	struct sim s;
	size_t len, at = CAPTURE_HEAD_SIZE;
	int whole = 0;
	bool trouble;
	u8 *data;

	(void)state;
	sim_init(&s, 3);
	write_steps(&s, 8, NULL);
	data = read_file(&len);
	for (size_t cut = 0; cut <= len; cut++) {
		u32 stored;

		/* Walk the blocks by their lengths, apart from the reader. */
		while (at + BLOCK_HEAD_SIZE <= cut) {
			memcpy(&stored, data + at + 8, 4);
			if (at + BLOCK_HEAD_SIZE + stored > cut)
				break;
			at += BLOCK_HEAD_SIZE + stored;
			whole++;
		}
		if (cut < CAPTURE_HEAD_SIZE) {
			assert_int_equal(count_snapshots(data, cut, &trouble), -1);
			continue;
		}
		assert_int_equal(count_snapshots(data, cut, &trouble), whole > 8 ? 8 : whole);
		assert_int_equal(trouble, cut < len);
	}
	free(data);
	sim_free(&s);
}

static void flip_anywhere(void **state)
{
	struct sim s;
	size_t len;
	bool trouble = true;
	u8 *data;

	(void)state;
	sim_init(&s, 4);
	write_steps(&s, 5, NULL);
	data = read_file(&len);
	for (size_t at = 0; at < len; at++) {
		int n;

		data[at] ^= 1 << at % 8;
		n = count_snapshots(data, len, &trouble);
		/* In the head: refused.  Behind it: said, and only what is whole is given out. */
		assert_int_equal(n < 0, at < CAPTURE_HEAD_SIZE);
		assert_true(n <= 5);
		if (n >= 0)
			assert_true(trouble);
		data[at] ^= 1 << at % 8;
	}
	assert_int_equal(count_snapshots(data, len, &trouble), 5);
	assert_false(trouble);
	free(data);
	sim_free(&s);
}

static void refused_versions(void **state)
{
	struct outbuf b = {0};
	struct stacks *stacks = stacks_new();
	struct capture *c;

	(void)state;
	put_head(&b, CAPTURE_VERSION + 1);
	assert_int_equal(open_bytes(b.data, b.len, stacks, &c), -EPROTONOSUPPORT);
	outbuf_clear(&b);
	put_head(&b, 0);
	assert_int_equal(open_bytes(b.data, b.len, stacks, &c), -EBADMSG);
	assert_int_equal(open_bytes((const u8 *)"not a capture at all", 20, stacks, &c), -EINVAL);
	assert_int_equal(open_bytes((const u8 *)"", 0, stacks, &c), -EINVAL);
	assert_int_equal(capture_open("/nonexistent/file", stacks, &c), -ENOENT);
	outbuf_free(&b);
	stacks_free(stacks);
}

/* ---- content that makes no sense, in blocks whose checksum is right */

enum { HEAD = 1, STRINGS, FRAMES, STACKS, ROWS };

static int count_payload(const struct outbuf *payload, bool *trouble)
{
	struct outbuf file = {0};
	int n;

	put_head(&file, CAPTURE_VERSION);
	assert_int_equal(put_block(&file, BLOCK_SNAPSHOT, payload), 0);
	n = count_snapshots(file.data, file.len, trouble);
	outbuf_free(&file);
	return n;
}

static void put_numbers(struct outbuf *payload, u32 section, const u64 *numbers, size_t n)
{
	struct outbuf part = {0};

	for (size_t i = 0; i < n; i++)
		put_varint(&part, numbers[i]);
	put_section(payload, section, &part);
	outbuf_free(&part);
}

#define NUMBERS(payload, section, ...)                                                             \
	put_numbers(payload, section, (const u64[]){__VA_ARGS__},                                  \
		    sizeof((const u64[]){__VA_ARGS__}) / sizeof(u64))

static void base_payload(struct outbuf *payload)
{
	struct outbuf part = {0};

	outbuf_clear(payload);
	put_section_varint(&part, 1, 77);
	put_section(payload, HEAD, &part);
	outbuf_clear(&part);
	put_varint(&part, 1);
	put_bytes(&part, "f", 1);
	put_section(payload, STRINGS, &part);
	NUMBERS(payload, FRAMES, 0, 0, 10, 0);
	NUMBERS(payload, STACKS, 0, 0);
	outbuf_free(&part);
}

/* Rows: their number, then the stack column. */
static void rows_of(struct outbuf *payload, u64 n, u64 stack)
{
	struct outbuf part = {0}, column = {0};

	put_varint(&part, n);
	put_varint(&column, stack << 1);
	put_section(&part, 1, &column);
	outbuf_clear(&column);
	put_real(&column, 1000);
	put_section(&part, 3, &column);
	put_section(payload, ROWS, &part);
	outbuf_free(&part);
	outbuf_free(&column);
}

static void senseless_content(void **state)
{
	struct outbuf p = {0};
	bool trouble;

	(void)state;
	base_payload(&p);
	rows_of(&p, 1, 2);
	assert_int_equal(count_payload(&p, &trouble), 1);
	/* No such stack, frame, string, parent; more rows than there are bytes for. */
	base_payload(&p);
	rows_of(&p, 1, 3);
	assert_int_equal(count_payload(&p, &trouble), 0);
	assert_true(trouble);
	base_payload(&p);
	rows_of(&p, 1000000, 2);
	assert_int_equal(count_payload(&p, &trouble), 0);
	base_payload(&p);
	rows_of(&p, UINT64_MAX, 2);
	assert_int_equal(count_payload(&p, &trouble), 0);
	base_payload(&p);
	NUMBERS(&p, FRAMES, 1, 0, 10, 0);
	assert_int_equal(count_payload(&p, &trouble), 0);
	base_payload(&p);
	NUMBERS(&p, FRAMES, 0, 0, 1ull << 31, 0);
	assert_int_equal(count_payload(&p, &trouble), 0);
	base_payload(&p);
	NUMBERS(&p, STACKS, 3, 0);
	assert_int_equal(count_payload(&p, &trouble), 0);
	base_payload(&p);
	NUMBERS(&p, STACKS, 0, 1);
	assert_int_equal(count_payload(&p, &trouble), 0);
	base_payload(&p);
	NUMBERS(&p, STACKS, 0);
	assert_int_equal(count_payload(&p, &trouble), 0);
	base_payload(&p);
	NUMBERS(&p, STRINGS, 1ull << 40);
	assert_int_equal(count_payload(&p, &trouble), 0);
	/* Nothing at all. */
	outbuf_clear(&p);
	assert_int_equal(count_payload(&p, &trouble), 0);
	outbuf_free(&p);
}

static void endless_depth(void **state)
{
	struct outbuf p = {0}, part = {0};
	bool trouble;

	(void)state;
	base_payload(&p);
	for (u64 i = 0; i < 2 * STACKS_MAX_DEPTH; i++) {
		put_varint(&part, 2 + i);
		put_varint(&part, 0);
	}
	put_section(&p, STACKS, &part);
	assert_int_equal(count_payload(&p, &trouble), 0);
	outbuf_free(&p);
	outbuf_free(&part);
}

static void later_additions_are_skipped(void **state)
{
	struct outbuf p = {0}, file = {0}, nothing = {0};
	bool trouble = true;

	(void)state;
	base_payload(&p);
	put_section_text(&p, 999, "something new");
	rows_of(&p, 1, 2);
	put_head(&file, CAPTURE_VERSION);
	assert_int_equal(put_block(&file, (enum block_type)77, &p), 0);
	assert_int_equal(put_block(&file, BLOCK_SNAPSHOT, &p), 0);
	assert_int_equal(put_block(&file, BLOCK_END, &nothing), 0);
	assert_int_equal(count_snapshots(file.data, file.len, &trouble), 1);
	assert_false(trouble);
	outbuf_free(&p);
	outbuf_free(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_survive),
		cmocka_unit_test(overlong_numbers_fail),
		WITH_FILE(what_goes_in_comes_out),
		WITH_FILE(repeats_are_small),
		WITH_FILE(cut_anywhere),
		WITH_FILE(flip_anywhere),
		cmocka_unit_test(refused_versions),
		cmocka_unit_test(senseless_content),
		cmocka_unit_test(endless_depth),
		cmocka_unit_test(later_additions_are_skipped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
