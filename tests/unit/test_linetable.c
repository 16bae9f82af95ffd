// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "linetable.h"
#include "pht_sampling.h"
#include "pythons.h"

struct tally {
	unsigned long codes, units, none;
};

static int hex_digit(char c)
{
	return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* An exact-size copy, so that ASan sees one byte too many. */
static u8 *parse_hex(const char *hex, size_t *len)
{
	u8 *out;

	*len = strcmp(hex, "-") ? strlen(hex) / 2 : 0;
	out = malloc(*len ? *len : 1);
	assert_non_null(out);
	for (size_t i = 0; i < *len; i++)
		out[i] = hex_digit(hex[2 * i]) << 4 | hex_digit(hex[2 * i + 1]);
	return out;
}

static void check_code(int kind, s32 first, const char *hex, char *runs, struct tally *t)
{
	size_t len;
	u8 *table = parse_hex(hex, &len);
	char *save = NULL;
	s32 addr = 0;

	t->codes++;
	for (char *run = strtok_r(runs, ",-", &save); run; run = strtok_r(NULL, ",", &save)) {
		long units, line;

		assert_int_equal(sscanf(run, "%ld:%ld", &units, &line), 2);
		for (long i = 0; i < units; i++, addr += 2) {
			s32 got = linetable_lookup(kind, table, len, first, addr);

			if (got != line)
				fail_msg("first line %d, byte %d: got %d, want %ld; table %s",
					 first, addr, got, line, hex);
			t->units++;
			t->none += !line;
		}
	}
	/* Past the end only lnotab, which has no end, gives a line. */
	if (kind != PHT_LINE_LNOTAB)
		assert_int_equal(linetable_lookup(kind, table, len, first, addr), 0);
	free(table);
}

static void check_stream(FILE *f, struct tally *t)
{
	char *line = NULL;
	size_t cap = 0;

	while (getline(&line, &cap, f) > 0) {
		char *save = NULL, *field[5];

		for (int i = 0; i < 5; i++) {
			field[i] = strtok_r(i ? NULL : line, " \n", &save);
			assert_non_null(field[i]);
		}
		check_code(atoi(field[1]), atoi(field[2]), field[3], field[4], t);
	}
	free(line);
}

static void test_recorded(void **state)
{
	for (int minor = 8; minor <= 14; minor++) {
		struct tally t = {0};
		char name[32];
		FILE *f;

		snprintf(name, sizeof(name), "data/lines-3.%d.txt", minor);
		f = fopen(pythons_path(name), "r");
		assert_non_null(f);
		check_stream(f, &t);
		fclose(f);
		assert_in_range(t.codes, 50, 1000);
	}
}

static void test_interpreters(void **state)
{
	struct pythons ps;

	pythons_find(&ps);
	if (!ps.n) {
		print_message("no CPython found: live line tables NOT tested\n");
		skip();
	}
	for (size_t i = 0; i < ps.n; i++) {
		struct tally t = {0};
		char cmd[2048];
		FILE *f;

		snprintf(cmd, sizeof(cmd), "exec %s -W ignore - <'%s'", ps.v[i].command,
			 pythons_path("gen/linetables.py"));
		f = popen(cmd, "r");
		assert_non_null(f);
		check_stream(f, &t);
		assert_int_equal(pclose(f), 0);
		print_message("%08x: %lu code objects, %lu units (%lu without a line): %s\n",
			      ps.v[i].hex, t.codes, t.units, t.none, ps.v[i].command);
		assert_true(t.codes > 50);
	}
}

static void check_bytes(int kind, const char *hex, s32 first, const s32 (*want)[2], size_t n)
{
	size_t len;
	u8 *table = parse_hex(hex, &len);

	for (size_t i = 0; i < n; i++)
		assert_int_equal(linetable_lookup(kind, table, len, first, want[i][0]), want[i][1]);
	free(table);
}

static void test_worked(void **state)
{
	static const s32 lnotab[][2] = {{0, 2}, {3, 2}, {4, 4}, {6, 5}, {8, 4}, {11, 4}, {12, 6}};
	static const s32 lnotab_far[][2] = {{0, 2},    {6, 2},	  {8, 303},
					    {10, 304}, {18, 304}, {20, 306}};
	static const s32 far[][2] = {{0, 2},	{6, 2},	   {8, 303}, {10, 304}, {18, 304},
				     {20, 306}, {34, 306}, {36, 2},  {38, 2},	{40, 0}};
	static const s32 loc[][2] = {{0, 1},  {2, 2},  {4, 2},	{6, 4},	 {8, 5},
				     {10, 4}, {12, 4}, {14, 6}, {16, 6}, {18, 0}};

	check_bytes(PHT_LINE_LNOTAB, "00010402020102ff0402", 1, lnotab, ARRAY_SIZE(lnotab));
	check_bytes(PHT_LINE_LNOTAB, "0001087f007f002f02010a02", 1, lnotab_far,
		    ARRAY_SIZE(lnotab_far));
	check_bytes(PHT_LINE_LINETABLE, "0801007f007f022f0a0110020081008104ce", 1, far,
		    ARRAY_SIZE(far));
	check_bytes(PHT_LINE_LOCATIONS, "8000d808098041e0090ad8090af00301090c8041e00b0c8048", 1,
		    loc, ARRAY_SIZE(loc));
}

/* What the tables of real interpreters do not contain. */
static void test_edges(void **state)
{
	static const s32 no_line[][2] = {{0, 0}, {2, 6}, {4, 0}};
	static const s32 none_keeps[][2] = {{0, 0}, {2, 7}, {4, 0}};
	static const s32 cut[][2] = {{0, 1}, {2, 0}, {4, 0}};
	static const s32 first[][2] = {{0, 5}, {1000, 5}, {-1, 0}, {-2, 0}, {INT32_MIN, 0}};

	check_bytes(PHT_LINE_LINETABLE, "02800201", 5, no_line, ARRAY_SIZE(no_line));
	check_bytes(PHT_LINE_LOCATIONS, "f8d80000", 6, none_keeps, ARRAY_SIZE(none_keeps));
	/* A varint that ends the table, one that runs into an entry, one of 7 groups. */
	check_bytes(PHT_LINE_LOCATIONS, "8000f07f", 1, cut, ARRAY_SIZE(cut));
	check_bytes(PHT_LINE_LOCATIONS, "8000e87f8000", 1, cut, ARRAY_SIZE(cut));
	check_bytes(PHT_LINE_LOCATIONS, "8000e87f7f7f7f7f7f00", 1, cut, ARRAY_SIZE(cut));
	/* Lines outside int are damage. */
	check_bytes(PHT_LINE_LOCATIONS, "8000e87e7f7f7f7f03", 1, cut, ARRAY_SIZE(cut));
	check_bytes(PHT_LINE_LOCATIONS, "8000e87f7f7f7f7f03", 1, cut, ARRAY_SIZE(cut));
	check_bytes(PHT_LINE_LNOTAB, "-", 5, first, ARRAY_SIZE(first));
	check_bytes(PHT_LINE_LNOTAB, "00", 5, first, ARRAY_SIZE(first));
	assert_int_equal(linetable_lookup(77, (const u8 *)"\x80", 1, 1, 0), 0);
	assert_int_equal(linetable_lookup(PHT_LINE_LNOTAB, NULL, 0, -3, 0), 0);
}

/* Random and nearly right tables: nothing but bounds (ASan) and sense (>= 0). */
static void test_damaged(void **state)
{
	__u64 rng = 20240601;

	for (int round = 0; round < 60000; round++) {
		size_t len = pht_rng_next(&rng) % 40;
		u8 *table = malloc(len ? len : 1);
		s32 first = (s32)pht_rng_next(&rng);

		assert_non_null(table);
		for (size_t i = 0; i < len; i++)
			table[i] = pht_rng_next(&rng) & (round & 1 ? 0xff : 0x7f);
		if (len)
			table[0] |= 0x80;
		for (int kind = 0; kind < 3; kind++) {
			for (s32 addr = -2; addr < 64; addr += 3)
				assert_true(linetable_lookup(kind, table, len, first, addr) >= 0);
			assert_true(linetable_lookup(kind, table, len, first, INT32_MAX) >= 0);
		}
		free(table);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_worked),	 cmocka_unit_test(test_edges),
		cmocka_unit_test(test_recorded), cmocka_unit_test(test_interpreters),
		cmocka_unit_test(test_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
