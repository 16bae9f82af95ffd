// SPDX-License-Identifier: BSD-2-Clause
/* Hostile text for a terminal: escapes, widths, clipping. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

#include "escape.h"

static void check(const char *src, const char *want)
{
	char buf[256];

	assert_int_equal(escape_text(buf, sizeof(buf), src, false), strlen(want));
	assert_string_equal(buf, want);
}

static void test_plain(void **state)
{
	check("", "");
	check("Cart.add <locals>", "Cart.add <locals>");
	check("caf\xc3\xa9", "caf\xc3\xa9");
	check("\xe6\x97\xa5\xe6\x9c\xac", "\xe6\x97\xa5\xe6\x9c\xac");
	check("\xf0\x9f\x90\x8d", "\xf0\x9f\x90\x8d");
	check("C:\\x", "C:\\x");
}

static void test_controls(void **state)
{
	check("\033[2J", "\\x1b[2J");
	check("a\nb\tc\rd\be\a", "a\\x0ab\\x09c\\x0dd\\x08e\\x07");
	check("\x7f", "\\x7f");
	check("\xc2\x9b"
	      "31m",
	      "\\xc2\\x9b31m");
	check("\xc2\x80\xc2\x9f\xc2\xa1", "\\xc2\\x80\\xc2\\x9f\xc2\xa1");
	check("\x9b", "\\x9b");
}

static void test_direction_and_invisible(void **state)
{
	check("a\xe2\x80\xaey", "a\\xe2\\x80\\xaey");	   /* U+202E */
	check("\xe2\x81\xa6", "\\xe2\\x81\\xa6");	   /* U+2066 */
	check("\xe2\x80\x8f", "\\xe2\\x80\\x8f");	   /* U+200F */
	check("\xd8\x9c", "\\xd8\\x9c");		   /* U+061C */
	check("\xe2\x80\xa8", "\\xe2\\x80\\xa8");	   /* U+2028 */
	check("\xe2\x80\x8b", "\\xe2\\x80\\x8b");	   /* U+200B */
	check("\xf3\xa0\x81\x81", "\\xf3\\xa0\\x81\\x81"); /* U+E0041 */
	check("\xef\xbf\xbf", "\\xef\\xbf\\xbf");	   /* U+FFFF */
}

static void test_invalid_utf8(void **state)
{
	check("\xff", "\\xff");
	check("a\xc3", "a\\xc3");
	check("\xc3(", "\\xc3(");
	check("\xe2\x82", "\\xe2\\x82");
	check("\xc0\xaf", "\\xc0\\xaf");		   /* overlong */
	check("\xe0\x80\xaf", "\\xe0\\x80\\xaf");	   /* overlong */
	check("\xed\xa0\x80", "\\xed\\xa0\\x80");	   /* surrogate */
	check("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"); /* above U+10FFFF */
	check("\xf8\x88\x80\x80\x80", "\\xf8\\x88\\x80\\x80\\x80");
}

/* Whatever comes in, what goes out is printable valid UTF-8. */
static void test_every_pair(void **state)
{
	for (unsigned int i = 0; i < 65536; i++) {
		char src[] = {(char)(i >> 8), (char)i, 'z', '\0'}, dst[64];
		const char *p = dst;

		escape_text(dst, sizeof(dst), src, false);
		while (*p) {
			unsigned int len;
			u32 cp;

			len = utf8_decode(p, &cp);
			assert_int_not_equal(len, 0);
			assert_false(escape_unsafe(cp));
			p += len;
		}
		escape_text(dst, sizeof(dst), src, true);
		for (p = dst; *p; p++)
			assert_true(*p >= 0x20 && *p < 0x7f);
	}
}

static void test_short_buffer(void **state)
{
	char buf[8];

	assert_int_equal(escape_text(buf, sizeof(buf), "abcdefghij", false), 7);
	assert_string_equal(buf, "abcdefg");
	/* Half an escape or half a character is never left. */
	assert_int_equal(escape_text(buf, sizeof(buf), "abcd\033", false), 4);
	assert_string_equal(buf, "abcd");
	assert_int_equal(escape_text(buf, sizeof(buf), "abcdef\xc3\xa9", false), 6);
	assert_int_equal(escape_text(buf, 1, "abc", false), 0);
	assert_string_equal(buf, "");
	buf[0] = 'k';
	assert_int_equal(escape_text(buf, 0, "abc", false), 0);
	assert_int_equal(buf[0], 'k');
}

static void test_width(void **state)
{
	assert_int_equal(escape_width(""), 0);
	assert_int_equal(escape_width("abc"), 3);
	assert_int_equal(escape_width("caf\xc3\xa9"), 4);
	assert_int_equal(escape_width("e\xcc\x81"), 1);
	assert_int_equal(escape_width("\xe6\x97\xa5\xe6\x9c\xac"), 4);
	assert_int_equal(escape_width("\xf0\x9f\x90\x8d"), 2);
}

static void clip(const char *text, int columns, enum clip_side side, const char *want)
{
	char buf[64];
	int used = escape_clip(buf, sizeof(buf), text, columns, side, "\xe2\x80\xa6");

	assert_string_equal(buf, want);
	assert_int_equal(used, escape_width(want));
	assert_true(used <= columns || columns < 0);
}

static void test_clip(void **state)
{
	clip("abcdef", 6, CLIP_RIGHT, "abcdef");
	clip("abcdef", 5, CLIP_RIGHT, "abcd\xe2\x80\xa6");
	clip("abcdef", 5, CLIP_LEFT,
	     "\xe2\x80\xa6"
	     "cdef");
	clip("abcdef", 1, CLIP_LEFT, "\xe2\x80\xa6");
	clip("abcdef", 0, CLIP_RIGHT, "");
	clip("abcdef", -3, CLIP_LEFT, "");
	clip("", 0, CLIP_LEFT, "");
	/* A wide character is in or out, never halved. */
	clip("\xe6\x97\xa5\xe6\x9c\xac", 3, CLIP_RIGHT, "\xe6\x97\xa5\xe2\x80\xa6");
	clip("a\xe6\x97\xa5\xe6\x9c\xac", 4, CLIP_RIGHT, "a\xe6\x97\xa5\xe2\x80\xa6");
	clip("\xe6\x97\xa5\xe6\x9c\xac"
	     "a",
	     3, CLIP_LEFT,
	     "\xe2\x80\xa6"
	     "a");
	/* An accent goes with its letter. */
	clip("abe\xcc\x81x", 2, CLIP_LEFT,
	     "\xe2\x80\xa6"
	     "x");
	clip("abe\xcc\x81x", 3, CLIP_LEFT,
	     "\xe2\x80\xa6"
	     "e\xcc\x81x");
}

static void test_clip_short_buffer(void **state)
{
	char buf[6];

	assert_int_equal(escape_clip(buf, sizeof(buf), "abcdefgh", 8, CLIP_RIGHT, ".."), 5);
	assert_string_equal(buf, "abcde");
	assert_int_equal(
		escape_clip(buf, sizeof(buf), "\xe6\x97\xa5\xe6\x9c\xac", 4, CLIP_RIGHT, ".."), 2);
	assert_string_equal(buf, "\xe6\x97\xa5");
	/* An ellipsis wider than the room is left out. */
	assert_int_equal(escape_clip(buf, sizeof(buf), "abc", 1, CLIP_RIGHT, ".."), 1);
	assert_string_equal(buf, "a");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_controls),
		cmocka_unit_test(test_direction_and_invisible),
		cmocka_unit_test(test_invalid_utf8),
		cmocka_unit_test(test_every_pair),
		cmocka_unit_test(test_short_buffer),
		cmocka_unit_test(test_width),
		cmocka_unit_test(test_clip),
		cmocka_unit_test(test_clip_short_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
