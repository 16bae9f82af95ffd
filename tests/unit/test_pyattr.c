// SPDX-License-Identifier: BSD-2-Clause
/* Attributes of instances of every version, in all the ways that these keep them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "mem_image.h"
#include "pyattr.h"

#define VERSION(minor) (0x030000f0u | (minor) << 16)

#define TYPE	 0x10000ull
#define STR_TYPE 0x11000ull
#define INT_TYPE 0x12000ull
#define KEYS	 0x20000ull
#define VALUES	 0x21000ull
#define DICT	 0x22000ull
#define OBJECT	 0x30000ull
#define TEXT(i)	 (0x40000ull + (i)*0x100)
#define NUMBER	 0x50000ull

#define BASIC	 32
#define MANAGED	 (1u << 4)
#define INLINED	 (1u << 2)
#define TP_FLAGS 168

static struct {
	const struct pylayout *l;
	struct mem_image *m;
	struct reader r;
} w;

static void put_type(u64 addr, u32 flags, u64 dictoffset)
{
	u8 zero[296] = {0};

	image_write(w.m, addr, zero, sizeof(zero));
	image_put_u64(w.m, addr + 32, BASIC);
	image_put_u64(w.m, addr + TP_FLAGS, flags);
	image_put_u64(w.m, addr + 288, dictoffset);
	image_put_u64(w.m, addr + w.l->ht_cached_keys, KEYS);
}

static void put_str(u64 addr, const char *text)
{
	image_put_u64(w.m, addr + 8, STR_TYPE);
	image_put_u64(w.m, addr + 16, strlen(text));
	image_put_u64(w.m, addr + 24, 0);
	image_put_u64(w.m, addr + 32, 1 << 2 | 1 << 5 | 1 << 6);
	image_write(w.m, addr + w.l->str_ascii, text, strlen(text) + 1);
}

/* Keys "_target", "_name" and "_native_id"; the values are in them where there are no others. */
static void put_keys(bool split, bool general)
{
	static const char *const names[] = {"_target", "_name", "_native_id"};
	const u64 values[] = {TEXT(3), TEXT(4), NUMBER};
	u64 entry = KEYS + w.l->keys_head + 8;

	image_put_u64(w.m, KEYS, 1);
	image_put_u64(w.m, KEYS + 8, w.l->keys_log2 ? 3 | 3 << 8 | (general ? 0 : 1) << 16 : 8);
	image_put_u64(w.m, KEYS + w.l->keys_usable, 2);
	image_put_u64(w.m, KEYS + w.l->keys_nentries, 3);
	for (int i = 0; i < 3; i++) {
		put_str(TEXT(i), names[i]);
		if (!w.l->keys_log2 || general)
			entry += 8;
		image_put_u64(w.m, entry, TEXT(i));
		image_put_u64(w.m, entry + 8, split ? 0xdead0 : values[i]);
		entry += 16;
	}
	put_str(TEXT(3), "a function");
	put_str(TEXT(4), "worker 1");
	image_put_u64(w.m, NUMBER + 8, INT_TYPE);
	image_put_u64(w.m, NUMBER + 16, w.l->long_tagged ? 1 << 3 : 1);
	image_put_u64(w.m, NUMBER + 24, 4711);
}

static void put_values(u64 addr)
{
	image_put_u64(w.m, addr, TEXT(3));
	image_put_u64(w.m, addr + 8, TEXT(4));
	image_put_u64(w.m, addr + 16, NUMBER);
}

static void put_dict(u64 values)
{
	image_put_u64(w.m, DICT + 8, 0);
	image_put_u64(w.m, DICT + 32, KEYS);
	image_put_u64(w.m, DICT + 40, values);
}

static void begin(u32 minor)
{
	w.m = calloc(1, sizeof(*w.m));
	assert_non_null(w.m);
	w.r = image_reader(w.m);
	w.l = pylayout_find(VERSION(minor));
	assert_non_null(w.l);
	put_type(STR_TYPE, PYTYPE_STR, 0);
	put_type(INT_TYPE, PYTYPE_LONG, 0);
	image_put_u64(w.m, OBJECT - 32, 0);
	image_put_u64(w.m, OBJECT - 24, 0);
	image_put_u64(w.m, OBJECT + 8, TYPE);
	for (u64 at = OBJECT + 16; at < OBJECT + 128; at += 8)
		image_put_u64(w.m, at, 0);
}

static void end(void)
{
	image_free(w.m);
	w.m = NULL;
}

static void assert_found(void)
{
	char text[64];
	u32 number;

	assert_int_equal(pyattr_str(w.l, &w.r, OBJECT, "_name", text, sizeof(text)), 0);
	assert_string_equal(text, "worker 1");
	assert_int_equal(pyattr_u32(w.l, &w.r, OBJECT, "_native_id", &number), 0);
	assert_int_equal(number, 4711);
	/* Of another type, or not there. */
	assert_int_equal(pyattr_u32(w.l, &w.r, OBJECT, "_name", &number), -ENOENT);
	assert_int_equal(pyattr_str(w.l, &w.r, OBJECT, "_native_id", text, 64), -ENOENT);
	assert_int_equal(pyattr_str(w.l, &w.r, OBJECT, "_nam", text, 64), -ENOENT);
	assert_int_equal(pyattr_str(w.l, &w.r, OBJECT, "_name ", text, 64), -ENOENT);
}

static void assert_none(void)
{
	char text[64];
	u64 value = 1;

	assert_int_equal(pyattr_find(w.l, &w.r, OBJECT, "_name", &value), -ENOENT);
	assert_int_equal(value, 1);
	assert_int_equal(pyattr_str(w.l, &w.r, OBJECT, "_name", text, 64), -ENOENT);
}

/* The dict that an instance points to, 3.8 to 3.10 and wherever it is not managed. */
static void test_plain_dict(void **state)
{
	for (u32 minor = 8; minor <= 15; minor++) {
		for (int general = 0; general < 2; general++) {
			begin(minor);
			put_type(TYPE, 0, 16);
			put_keys(false, general);
			put_dict(0);
			assert_none();
			image_put_u64(w.m, OBJECT + 16, DICT);
			assert_found();
			end();
		}
		begin(minor);
		put_type(TYPE, 0, 16);
		put_keys(true, false);
		put_dict(VALUES);
		put_values(VALUES + (w.l->values == PYVALUES_INLINE ? 8 : 0));
		image_put_u64(w.m, OBJECT + 16, DICT);
		assert_found();
		end();
	}
}

/* Where it is managed: a dict, or values without one. */
static void test_managed(void **state)
{
	for (u32 minor = 11; minor <= 15; minor++) {
		begin(minor);
		put_type(TYPE, MANAGED | (minor >= 13 ? INLINED : 0), minor == 11 ? -1ull : -24ull);
		put_keys(false, false);
		put_dict(0);
		image_put_u64(w.m, OBJECT - 24, DICT);
		assert_found();
		put_keys(true, false);
		image_put_u64(w.m, OBJECT - 24, 0);
		assert_none();
		if (w.l->values == PYVALUES_INLINE) {
			image_put_u64(w.m, OBJECT + BASIC, 30 | 3 << 8 | 1 << 16 | 1 << 24);
			put_values(OBJECT + BASIC + 8);
			assert_found();
			/* A dict took them over and was taken away again. */
			image_put_u64(w.m, OBJECT + BASIC, 30 | 3 << 8 | 1 << 16);
			assert_none();
		} else {
			put_values(VALUES);
			image_put_u64(w.m, OBJECT - (minor == 11 ? 32 : 24),
				      minor == 11 ? VALUES : VALUES - 1);
			assert_found();
			/* An attribute that was never set. */
			image_put_u64(w.m, VALUES + 8, 0);
			assert_none();
		}
		end();
	}
}

/* Nothing that the target can say leads to more than "there is none". */
static void test_hostile(void **state)
{
	static const u64 bad[] = {0,	      1,	  7,	      8,
				  0xff,	      0xffff,	  8u,	      0x0101010101,
				  1ull << 40, 1ull << 47, 1ull << 63, -1ull};
	static const u64 at[] = {TYPE + 32,    TYPE + 40,    TYPE + TP_FLAGS, TYPE + 288,
				 KEYS + 8,     KEYS + 16,    KEYS + 24,	      KEYS + 32,
				 DICT + 32,    DICT + 40,    OBJECT + 16,     OBJECT - 24,
				 TEXT(1) + 16, TEXT(1) + 32, TEXT(4) + 16};

	for (u32 minor = 8; minor <= 15; minor++) {
		for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
			for (size_t k = 0; k < ARRAY_SIZE(bad); k++) {
				char text[64];
				int err;

				begin(minor);
				put_type(TYPE, minor > 10 ? MANAGED | INLINED : 0, 16);
				put_keys(false, false);
				put_dict(0);
				image_put_u64(w.m, OBJECT + (minor > 10 ? -24 : 16), DICT);
				assert_found();
				image_put_u64(w.m, at[i], bad[k]);
				err = pyattr_str(w.l, &w.r, OBJECT, "_name", text, sizeof(text));
				assert_true(!err || err == -ENOENT);
				assert_true(w.m->reads < 20000);
				end();
			}
		}
	}
}

/* A table that claims to be large is looked at up to a bound. */
static void test_bound(void **state)
{
	u64 value, before;

	begin(12);
	put_type(TYPE, 0, 16);
	put_keys(false, false);
	put_dict(0);
	image_put_u64(w.m, OBJECT + 16, DICT);
	image_put_u64(w.m, KEYS + 8, 20 | 22 << 8 | 1 << 16);
	image_put_u64(w.m, KEYS + 24, 1 << 19);
	/* The entries are 4 MiB further on; let there be many that are nobody's. */
	for (u64 i = 0; i < 4000; i++)
		image_put_u64(w.m, KEYS + 32 + (4ull << 20) + i * 16, 0);
	before = w.m->reads;
	assert_int_equal(pyattr_find(w.l, &w.r, OBJECT, "_name", &value), -ENOENT);
	assert_true(w.m->reads - before > 1000 && w.m->reads - before < 1100);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain_dict),
		cmocka_unit_test(test_managed),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
