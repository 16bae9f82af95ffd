// SPDX-License-Identifier: BSD-2-Clause
/*
 * A code object that is replaced while it is read.  The target is this file's
 * own memory: proc_read() below stands in for the library's, which is then not
 * linked, and swaps the object after a chosen number of reads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "pht_abi.h"
#include "pht_ident.h"
#include "proc.h"
#include "pycode.h"
#include "pyoffsets.h"

struct fake_str {
	u64 head[2];
	s64 length;
	u64 hash;
	u32 state, pad;
	char data[64];
};

struct fake_bytes {
	u64 head[2];
	s64 size;
	u64 hash;
	u8 data[64];
};

static u64 object[32]; /* the code object, as 3.12 lays it out */
static struct fake_str name, file, other;
static struct fake_bytes table;
static int reads, swap_after, fail_after;

enum { SWAP_NAME, SWAP_QUALNAME, SWAP_FILE, SWAP_TABLE, SWAP_LINE, SWAP_NR };
static int swap_what;

static void swap_object(void)
{
	static const u8 word[] = {120 / 8, 128 / 8, 112 / 8, 136 / 8};

	if (swap_what == SWAP_LINE)
		((u32 *)object)[68 / 4] = 99;
	else
		object[word[swap_what]] = (uintptr_t)&other;
	/* What it pointed to was freed and is now something else. */
	memset(&name, 0xaa, sizeof(name));
}

int proc_read(pid_t pid, u64 addr, void *buf, size_t len)
{
	if (++reads == fail_after)
		return -EFAULT;
	memcpy(buf, (const void *)(uintptr_t)addr, len);
	if (reads == swap_after)
		swap_object();
	return 0;
}

static void set_str(struct fake_str *s, const char *text)
{
	memset(s, 0, sizeof(*s));
	s->length = strlen(text);
	s->state = 1 << 2 | 1 << 5 | 1 << 6;
	memcpy(s->data, text, strlen(text));
}

static void make_object(void)
{
	memset(object, 0, sizeof(object));
	set_str(&name, "name");
	set_str(&file, "file");
	set_str(&other, "other");
	table.size = 3;
	memcpy(table.data, "\x80\x00\x80", 3);
	object[112 / 8] = (uintptr_t)&file;
	object[120 / 8] = object[128 / 8] = (uintptr_t)&name;
	object[136 / 8] = (uintptr_t)&table;
	((u32 *)object)[68 / 4] = 12;
	reads = 0;
}

/* A whole object, its identity, and then the race begins. */
static u32 set_up(void)
{
	int swap = swap_after, fail = fail_after;
	struct pht_pyoffsets off;
	u32 ident = 0;

	swap_after = fail_after = 0;
	make_object();
	assert_int_equal(pyoffsets_fill(0x030c01f0, false, NULL, 0, &off), 0);
	assert_int_equal(pycode_ident(1, &off, (uintptr_t)object, &ident), 0);
	reads = 0;
	swap_after = swap;
	fail_after = fail;
	return ident;
}

static int read_it(u32 ident, struct pycode *code)
{
	struct pht_pyoffsets off;

	assert_int_equal(pyoffsets_fill(0x030c01f0, false, NULL, 0, &off), 0);
	return pycode_read(1, &off, (uintptr_t)object, ident, code);
}

static void test_replaced(void **state)
{
	struct pycode code, untouched;
	int total, err;

	swap_after = fail_after = 0;
	assert_int_equal(read_it(set_up(), &code), 0);
	assert_string_equal(code.name, "name");
	assert_string_equal(code.filename, "file");
	assert_int_equal(code.linetable_len, 3);
	pycode_free(&code);
	total = reads;
	assert_true(total >= 5);
	memset(&untouched, 0x5a, sizeof(untouched));
	for (swap_what = 0; swap_what < SWAP_NR; swap_what++) {
		for (swap_after = 1; swap_after < total; swap_after++) {
			memset(&code, 0x5a, sizeof(code));
			assert_int_equal(read_it(set_up(), &code), -EAGAIN);
			assert_memory_equal(&code, &untouched, sizeof(code));
		}
	}
	swap_after = 0;
	for (fail_after = 1; fail_after <= total; fail_after++) {
		memset(&code, 0x5a, sizeof(code));
		err = read_it(set_up(), &code);
		/* Without a part it cannot be known to be the same object. */
		assert_true(err == -EFAULT || err == -EAGAIN);
		assert_memory_equal(&code, &untouched, sizeof(code));
	}
}

/* Same pointers, other contents: the memory was freed and used again, all of it. */
static void test_same_addresses(void **state)
{
	struct pycode code;
	u32 ident;

	swap_after = fail_after = 0;
	for (int what = 0; what < 4; what++) {
		ident = set_up();
		if (what == 0)
			set_str(&name, "nope");
		else if (what == 1)
			set_str(&file, "fine");
		else if (what == 2)
			table.data[2] ^= 8;
		else
			table.size--;
		assert_int_equal(read_it(ident, &code), -EAGAIN);
	}
	/* The unwinder could not read one of them: the rest decides. */
	ident = set_up();
	assert_int_equal(read_it(pht_ident((uintptr_t)&name, (uintptr_t)&file, 12), &code), 0);
	pycode_free(&code);
	assert_int_equal(read_it(ident, &code), 0);
	pycode_free(&code);
}

static void test_bad_table(void **state)
{
	static const s64 bad[] = {-1, INT64_MIN};
	struct pycode code;
	bool incomplete;

	swap_after = fail_after = 0;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		set_up();
		table.size = bad[i];
		assert_int_equal(read_it(pht_ident((uintptr_t)&name, (uintptr_t)&file, 12), &code),
				 -EINVAL);
	}
	for (s64 size = (1 << 20) + 1; size > 0 && size < 1ll << 62; size *= 3) {
		struct pht_pyoffsets off;

		set_up();
		table.size = size;
		assert_int_equal(read_it(pht_ident((uintptr_t)&name, (uintptr_t)&file, 12), &code),
				 0);
		assert_null(code.linetable);
		assert_int_equal(pyoffsets_fill(0x030c01f0, false, NULL, 0, &off), 0);
		assert_int_equal(pycode_line(&off, &code, 192, false, &incomplete), 0);
		pycode_free(&code);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replaced),
		cmocka_unit_test(test_same_addresses),
		cmocka_unit_test(test_bad_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
