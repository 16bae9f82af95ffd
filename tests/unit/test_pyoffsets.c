// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "debug_tables.h"
#include "pyobject.h"
#include "pyoffsets.h"

static void test_static_versions(void **state)
{
	/* minor, thread_id, code, pos, tstate_current, firstlineno, ascii data, raw table */
	static const u32 want[][8] = {
		{8, 176, 32, 104, 1368, 40, 48, PHT_ABSENT},
		{9, 176, 32, 104, 568, 40, 48, PHT_ABSENT},
		{10, 176, 32, 96, 568, 40, 48, PHT_ABSENT},
		{11, 152, 32, 56, 576, 72, 48, PHT_ABSENT},
		{12, 136, 0, 56, PHT_ABSENT, 68, 40, 96},
	};

	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		struct pht_pyoffsets o;
		u32 current;

		assert_int_equal(pyoffsets_fill(V(want[i][0]), false, NULL, 0, &o), 0);
		assert_int_equal(o.ts_thread_id, want[i][1]);
		assert_int_equal(o.fr_code, want[i][2]);
		assert_int_equal(o.fr_pos, want[i][3]);
		/* Larger mutexes elsewhere: at least what x86-64 has. */
		current = o.rt_tstate_current;
		assert_true(current == want[i][4] || (current > want[i][4] && current < 2000));
		assert_int_equal(o.co_firstlineno, want[i][5]);
		assert_int_equal(o.str_data_ascii, want[i][6]);
		assert_int_equal(o.rt_alloc_raw, want[i][7]);
		assert_true(o.fr_size <= 128 && o.fr_pos < o.fr_size);
	}
}

static void test_debug_tables(void **state)
{
	/* runtime: finalizing, head, key, raw, arena; frame: owner, size; code; str */
	static const u32 want[3][9] = {
		{608, 632, 2164, 704, 976, 70, 72, 200, 56},
		{784, 808, 2340, 880, 1152, 74, 80, 208, 56},
		{912, 936, PHT_ABSENT, 1008, 1280, 74, 80, 208, 56},
	};

	for (u32 minor = 13; minor <= 15; minor++) {
		const u32 *w = want[minor - 13];
		struct pht_pyoffsets o;
		u8 table[TABLE_MAX];

		make_table(minor, table);
		assert_int_equal(pyoffsets_fill(V(minor), false, table, TABLE_MAX, &o), 0);
		assert_int_equal(o.rt_finalizing, w[0]);
		assert_int_equal(o.rt_interp_head, w[1]);
		assert_int_equal(o.rt_interp_main, w[1] + 8);
		assert_int_equal(o.rt_autotss_key, w[2]);
		assert_int_equal(o.rt_alloc_raw, w[3]);
		assert_int_equal(o.rt_alloc_arena, w[4]);
		assert_int_equal(o.fr_owner, w[5]);
		assert_int_equal(o.fr_size, w[6]);
		assert_int_equal(o.co_code_adaptive, w[7]);
		assert_int_equal(o.str_data_compact, w[8]);
		assert_int_equal(o.ts_frame, 72);
		assert_int_equal(o.cf_frame, PHT_ABSENT);
		assert_int_equal(o.code_tag_mask, minor >= 14 ? 3 : 0);
	}
}

/* Without a GIL: a larger header, bits of str elsewhere, and copies of the bytecode. */
static void test_free_threaded(void **state)
{
	/* frame: owner, copy, size; code: traceable, bytes, copies; str: kind */
	static const u32 want[3][7] = {
		{70, PHT_ABSENT, 72, 200, 216, PHT_ABSENT, 2},
		{78, 72, 80, 208, 232, 224, 8},
		{78, 72, 80, 208, 232, 224, 8},
	};

	for (u32 minor = 13; minor <= 15; minor++) {
		const u32 *w = want[minor - 13];
		struct pht_pyoffsets o;
		u8 table[TABLE_MAX];

		make_ft_table(minor, table);
		assert_int_equal(pyoffsets_fill(V(minor), true, table, TABLE_MAX, &o), 0);
		assert_int_equal(o.fr_owner, w[0]);
		assert_int_equal(o.fr_tlbc, w[1]);
		assert_int_equal(o.fr_size, w[2]);
		assert_int_equal(o.co_firsttraceable, w[3]);
		assert_int_equal(o.co_code_adaptive, w[4]);
		assert_int_equal(o.co_tlbc, w[5]);
		assert_int_equal(o.str_kind_shift, w[6]);
		assert_int_equal(o.str_compact_bit, w[6] + 3);
		assert_int_equal(o.str_ascii_bit, w[6] + 4);
		assert_int_equal(o.co_firstlineno, 84);
		assert_int_equal(o.co_version, 108);
		assert_int_equal(o.ob_type, 24);
		assert_int_equal(o.str_data_ascii, 56);
		assert_int_equal(o.str_data_compact, 72);
		assert_int_equal(o.bytes_data, 48);
		assert_int_equal(pyoffsets_fill(V(minor), false, table, TABLE_MAX, &o), -EINVAL);
		/* Says that it is, but has the other header. */
		make_table(minor, table);
		put(table, 16, 1);
		assert_int_equal(pyoffsets_fill(V(minor), true, table, TABLE_MAX, &o), -EINVAL);
	}
}

/* 0 says that the build has no copies, and then there is no number of one either. */
static void test_half_copies(void **state)
{
	static const u16 at[2][2] = {{304, 392}, {368, 456}};

	for (u32 minor = 14; minor <= 15; minor++) {
		for (int i = 0; i < 2; i++) {
			struct pht_pyoffsets o;
			u8 table[TABLE_MAX];

			make_ft_table(minor, table);
			put(table, at[minor - 14][i], 0);
			assert_int_equal(pyoffsets_fill(V(minor), true, table, TABLE_MAX, &o),
					 -EINVAL);
			put(table, at[minor - 14][i], UINT32_MAX);
			assert_int_equal(pyoffsets_fill(V(minor), true, table, TABLE_MAX, &o),
					 -EINVAL);
		}
	}
}

/* Any one entry made absurd is noticed, and the output is left alone. */
static void test_hostile_tables(void **state)
{
	for (u32 minor = 13; minor <= 15; minor++) {
		const struct entry *e = tables[minor - 13];
		struct pht_pyoffsets o, before;
		u8 table[TABLE_MAX];

		memset(&o, 0x5a, sizeof(o));
		before = o;
		for (; e->pos; e++) {
			make_table(minor, table);
			put(table, e->pos, UINT64_MAX - 3);
			/* prev, datastack and localsplus are not ours to check. */
			if (e->value == 0 && e->pos == (minor == 13 ? 160 : 184))
				continue;
			if (e->pos == (minor == 13   ? 208
				       : minor == 14 ? 232
						     : 256) ||
			    e->pos == (minor == 13   ? 256
				       : minor == 14 ? 280
						     : 344))
				continue;
			if (pyoffsets_fill(V(minor), false, table, TABLE_MAX, &o) != -EINVAL)
				fail_msg("3.%u: absurd entry at %u accepted", minor, e->pos);
		}
		make_table(minor, table);
		for (size_t len = 0; len < SHORTEST; len++)
			assert_int_equal(pyoffsets_fill(V(minor), false, table, len, &o), -EINVAL);
		assert_int_equal(pyoffsets_fill(V(minor), false, NULL, 0, &o), -EINVAL);
		table[0] ^= 1;
		assert_int_equal(pyoffsets_fill(V(minor), false, table, TABLE_MAX, &o), -EINVAL);
		make_table(minor, table);
		put(table, 8, V(minor + 1));
		assert_int_equal(pyoffsets_fill(V(minor), false, table, TABLE_MAX, &o), -EINVAL);
		assert_memory_equal(&o, &before, sizeof(o));
	}
}

static void test_refused(void **state)
{
	static const u32 versions[] = {0,      0x02071200,	  V(0), V(7), V(16),
				       V(255), 0x04000000 | V(12)};
	struct pht_pyoffsets o;
	u8 table[TABLE_MAX];
	u32 pool, arena;

	make_table(13, table);
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		assert_int_equal(pyoffsets_fill(versions[i], false, table, TABLE_MAX, &o),
				 -ENOTSUP);
		assert_int_equal(pyoffsets_pymalloc(versions[i], &pool, &arena), -ENOTSUP);
		assert_int_equal(pyoffsets_debug_len(versions[i]), 0);
	}
	assert_int_equal(pyoffsets_fill(V(12), true, table, TABLE_MAX, &o), -ENOTSUP);
}

static void test_pymalloc(void **state)
{
	u32 pool, arena;

	assert_int_equal(pyoffsets_pymalloc(V(9), &pool, &arena), 0);
	assert_true(pool == 4096 && arena == 262144);
	assert_int_equal(pyoffsets_pymalloc(V(10), &pool, &arena), 0);
	assert_true(pool == 16384 && arena == 1048576);
}

static void test_head(void **state)
{
	u8 table[TABLE_MAX];
	u32 version = 0;
	bool ft = true;

	make_table(14, table);
	assert_int_equal(pyoffsets_debug_head(table, TABLE_MAX, &version, &ft), 0);
	assert_int_equal(version, V(14));
	assert_false(ft);
	put(table, 16, 1);
	assert_int_equal(pyoffsets_debug_head(table, TABLE_MAX, &version, &ft), 0);
	assert_true(ft);
	put(table, 16, 2);
	assert_int_equal(pyoffsets_debug_head(table, TABLE_MAX, &version, &ft), -EINVAL);
	assert_int_equal(pyoffsets_debug_head(table, 23, &version, &ft), -EINVAL);
}

static void test_version_text(void **state)
{
	static const struct {
		const char *text;
		u32 hex;
	} cases[] = {
		{"3.9.2", 0x030902f0},
		{"3.10.13", 0x030a0df0},
		{"2.7.18", 0x020712f0},
		{"3.13.0rc1", 0x030d00c1},
		{"3.15.0a7", 0x030f00a7},
		{"3.15.0b2+", 0x030f00b2},
		{"3.9.2+", 0x030902f0},
		{"3.9", 0},
		{"3.9.", 0},
		{"3.9.2 ", 0},
		{"3.9.2.1", 0},
		{"1.2.3", 0},
		{"4.0.0", 0},
		{"3.256.0", 0},
		{"3.9.99999999999", 0},
		{"", 0},
		{"3.9.2rc", 0},
		{"3.9.2x", 0},
	};
	char text[16];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (pyversion_parse(cases[i].text) != cases[i].hex)
			fail_msg("%s: %#x", cases[i].text, pyversion_parse(cases[i].text));
	pyversion_format(0x030b02f0, text, sizeof(text));
	assert_string_equal(text, "3.11.2");
	pyversion_format(0x030f00b2, text, sizeof(text));
	assert_string_equal(text, "3.15.0b2");
	pyversion_format(0xffffffff, text, sizeof(text));
	assert_string_equal(text, "255.255.255");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_static_versions), cmocka_unit_test(test_debug_tables),
		cmocka_unit_test(test_free_threaded),	cmocka_unit_test(test_half_copies),
		cmocka_unit_test(test_hostile_tables),	cmocka_unit_test(test_refused),
		cmocka_unit_test(test_pymalloc),	cmocka_unit_test(test_head),
		cmocka_unit_test(test_version_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
