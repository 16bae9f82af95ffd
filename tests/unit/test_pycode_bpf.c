// SPDX-License-Identifier: BSD-2-Clause
/* What bpf/pycode.bpf.h makes of code objects: identities, and the names it sends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pyframes_sim.h"

#include "pycode.h"

#define MINOR_FIRST 8
#define MINOR_LAST  15
#define OBJECTS	    0x00007f3000000000ull
#define NAME	    (OBJECTS + 0x1000)
#define FILENAME    (OBJECTS + 0x3000)
#define TABLE	    (OBJECTS + 0x8000)

enum { ASCII = 0, LATIN = 1, UCS2 = 2, UCS4 = 4 };

static void set_str(__u64 at, int form, __u64 length, const void *data, size_t size)
{
	const struct pht_pyoffsets *off = &py.proc.off;
	__u32 kind = form == ASCII ? 1 : form;

	shim_poke(at + off->str_length, length);
	poke32(at + off->str_state, kind << off->str_kind_shift | 1u << off->str_compact_bit |
					    (form == ASCII ? 1u << off->str_ascii_bit : 0));
	memcpy(shim_at(at + (form == ASCII ? off->str_data_ascii : off->str_data_compact), size),
	       data, size);
}

static void set_ascii(__u64 at, const char *text)
{
	set_str(at, ASCII, strlen(text), text, strlen(text));
}

static void set_table(const void *data, __u64 size)
{
	shim_poke(TABLE + py.proc.off.bytes_size, size);
	memcpy(shim_at(TABLE + py.proc.off.bytes_data, size), data, size);
}

/* One frame in one code object that has all it should have. */
static void set_up(__u32 minor)
{
	const struct pht_pyoffsets *off;

	py_init(minor);
	off = &py.proc.off;
	shim_mem(OBJECTS, 0x20000);
	for (int i = 0; i < 2; i++) {
		py_code(i, NAME, FILENAME, 7);
		if (off->co_qualname != PHT_ABSENT)
			shim_poke(PY_CODE(i) + off->co_qualname, NAME);
		shim_poke(PY_CODE(i) + off->co_linetable, TABLE);
		if (off->co_firsttraceable != PHT_ABSENT)
			poke32(PY_CODE(i) + off->co_firsttraceable, 3);
	}
	set_ascii(NAME, "Class.method");
	set_ascii(FILENAME, "/srv/app/views.py");
	set_table("\x80\x00\xd8\x08\x09\x80\x41\xe0\x09\x0a", 10);
	py_chain(1);
}

static __u32 ident(void)
{
	assert_int_equal(pht_walk(), 0);
	assert_int_equal(py.th->stack.nframes, 1);
	return py.th->stack.frames[0].ident;
}

static void fill(char *text, size_t n)
{
	memset(text, 'x', n);
	text[n] = '\0';
}

/* Whatever changes behind the same pointers. */
static void test_contents(__u32 minor)
{
	char text[400];
	__u32 was;

	set_up(minor);
	was = ident();
	assert_int_equal(ident(), was);
	assert_int_not_equal(was, pht_ident(NAME, FILENAME, 7));
	set_ascii(NAME, "Class.mathod");
	assert_int_not_equal(ident(), was);
	set_ascii(NAME, "Class.metho");
	assert_int_not_equal(ident(), was);
	set_ascii(NAME, "Class.method");
	assert_int_equal(ident(), was);
	set_ascii(FILENAME, "/srv/app/viewz.py");
	assert_int_not_equal(ident(), was);
	set_ascii(FILENAME, "/srv/app/views.py");
	set_table("\x80\x00\xd8\x08\x09\x80\x41\xe0\x09\x0b", 10);
	assert_int_not_equal(ident(), was);
	set_table("\x80\x00\xd8\x08\x09\x80\x41\xe0\x09", 9);
	assert_int_not_equal(ident(), was);
	set_table("\x80\x00\xd8\x08\x09\x80\x41\xe0\x09\x0a", 10);
	assert_int_equal(ident(), was);
	/* What lies behind an object is none of it. */
	memset(shim_at(NAME + py.proc.off.str_data_ascii + 12, 100), 0x77, 100);
	memset(shim_at(TABLE + py.proc.off.bytes_data + 10, 100), 0x77, 100);
	assert_int_equal(ident(), was);
	/* Names of every length, told apart by their ends. */
	for (size_t n = 1; n < sizeof(text) - 1; n++) {
		fill(text, n);
		set_ascii(FILENAME, text);
		was = ident();
		text[n - 1] = 'y';
		set_ascii(FILENAME, text);
		assert_int_not_equal(ident(), was);
		text[n - 1] = 'x';
		text[n > PHT_ID_WINDOW ? n - PHT_ID_WINDOW : 0] = 'y';
		set_ascii(FILENAME, text);
		assert_int_not_equal(ident(), was);
	}
}

/* An object at the very end of what can be read has the identity it has elsewhere. */
static void test_end_of_mapping(__u32 minor)
{
	const struct pht_pyoffsets *off;
	__u64 at = 0x00007f4000000000ull;
	char text[200];

	for (size_t n = 1; n < sizeof(text); n += 7) {
		__u64 length = n;
		__u32 was;

		set_up(minor);
		off = &py.proc.off;
		fill(text, n);
		shim_mem(at, off->str_data_ascii + n);
		set_ascii(NAME, text);
		set_ascii(at, text);
		py_code(0, at, FILENAME, 7);
		if (off->co_qualname != PHT_ABSENT)
			shim_poke(PY_CODE(0) + off->co_qualname, at);
		was = ident() ^ pht_ident(at, FILENAME, 7);
		py_code(0, NAME, FILENAME, 7);
		if (off->co_qualname != PHT_ABSENT)
			shim_poke(PY_CODE(0) + off->co_qualname, NAME);
		assert_int_equal(ident() ^ pht_ident(NAME, FILENAME, 7), was);
		/* And so has a table. */
		shim_mem(at + 0x100000, off->bytes_data + n);
		shim_poke(at + 0x100000 + off->bytes_size, length);
		memcpy(shim_at(at + 0x100000 + off->bytes_data, n), text, n);
		set_table(text, n);
		was = ident();
		shim_poke(PY_CODE(0) + off->co_linetable, at + 0x100000);
		assert_int_equal(ident(), was);
	}
}

/* From 3.12 on the version stands for the contents. */
static void test_version(__u32 minor)
{
	const struct pht_pyoffsets *off;
	__u32 was;
	long reads;

	set_up(minor);
	off = &py.proc.off;
	was = ident();
	if (minor < 12) {
		assert_int_equal(off->co_version, PHT_ABSENT);
		return;
	}
	poke32(PY_CODE(0) + off->co_version, 1234);
	assert_int_equal(ident(), was);
	reads = shim.reads;
	assert_int_equal(ident(), was);
	/* Thread state, frame and code object; nothing behind it. */
	assert_true(shim.reads - reads <= 6);
	set_ascii(NAME, "Class.mathod");
	poke32(PY_CODE(0) + off->co_version, 1235);
	assert_int_not_equal(ident(), was);
}

static void send(void)
{
	py.th->stack_id = 0;
	assert_int_equal(pht_walk(), 0);
	pht_codes_send();
}

static void decode(size_t i, struct pycode *code)
{
	assert_true(i < shim.nrecords);
	assert_int_equal(pycode_from_record(shim.records[i], code), 0);
}

static void test_records(__u32 minor)
{
	struct pycode code;
	const struct pht_code_head *head;

	set_up(minor);
	send();
	assert_int_equal(shim.nrecords, 1);
	head = shim.records[0];
	assert_int_equal(head->ev.type, PHT_EV_CODE);
	assert_int_equal(head->ev.tgid, PY_TGID);
	assert_int_equal(head->ev.value, PY_CODE(0));
	assert_int_equal(head->ident, ident());
	decode(0, &code);
	assert_string_equal(code.name, "Class.method");
	assert_string_equal(code.filename, "/srv/app/views.py");
	assert_int_equal(code.firstlineno, 7);
	assert_int_equal(code.firsttraceable, minor < 11 ? 0 : 3);
	assert_int_equal(code.linetable_len, 10);
	assert_memory_equal(code.linetable, "\x80\x00\xd8\x08\x09\x80\x41\xe0\x09\x0a", 10);
	pycode_free(&code);
	/* Once each; again when it is another, or when there was no room. */
	send();
	assert_int_equal(shim.nrecords, 1);
	py_chain(2);
	send();
	assert_int_equal(shim.nrecords, 2);
	set_ascii(NAME, "Class.mathod");
	shim.max_records = 2;
	send();
	assert_int_equal(shim.nrecords, 2);
	shim.max_records = 100;
	send();
	assert_int_equal(shim.nrecords, 4);
	decode(2, &code);
	assert_string_equal(code.name, "Class.mathod");
	pycode_free(&code);
	/* A generator's frame is in the same code object as any. */
	py_frame(0, PY_CODE(0), 0, 1, 0);
	send();
	assert_int_equal(shim.nrecords, 4);
}

static void test_forms(__u32 minor)
{
	static const __u16 ucs2[] = {0x6e2c, 0x5b9a};
	static const __u32 ucs4[] = {0x10330, 'x'};
	struct pycode code;

	set_up(minor);
	set_str(NAME, LATIN, 3, "n\xef\x65", 3);
	set_str(FILENAME, UCS2, 2, ucs2, sizeof(ucs2));
	send();
	decode(0, &code);
	assert_string_equal(code.name, "n\xc3\xaf\x65");
	assert_string_equal(code.filename, "\xe6\xb8\xac\xe5\xae\x9a");
	pycode_free(&code);
	set_str(NAME, UCS4, 2, ucs4, sizeof(ucs4));
	send();
	decode(1, &code);
	assert_string_equal(code.name, "\xf0\x90\x8c\xb0x");
	pycode_free(&code);
}

/* Sizes around those of the two records, and beyond both. */
static void test_sizes(__u32 minor)
{
	static const size_t around[] = {PHT_CODE_FILE_SMALL, PHT_CODE_FILE_LARGE};
	char text[PHT_CODE_FILE_LARGE + 4];
	static __u8 table[PHT_CODE_TABLE_LARGE + 4];
	struct pycode code;

	for (size_t i = 0; i < 2; i++)
		for (size_t n = around[i] - 2; n <= around[i] + 2; n++) {
			int err;

			set_up(minor);
			fill(text, n);
			set_ascii(FILENAME, text);
			send();
			err = pycode_from_record(shim.records[0], &code);
			assert_int_equal(err, n <= PHT_CODE_FILE_LARGE ? 0 : -ENODATA);
			if (err)
				continue;
			assert_string_equal(code.filename, text);
			pycode_free(&code);
		}
	for (size_t n = PHT_CODE_TABLE_LARGE - 1; n <= PHT_CODE_TABLE_LARGE + 1; n++) {
		set_up(minor);
		memset(table, n & 0x7f, n);
		set_table(table, n);
		send();
		assert_int_equal(pycode_from_record(shim.records[0], &code),
				 n <= PHT_CODE_TABLE_LARGE ? 0 : -EAGAIN);
		assert_string_equal(code.name, "Class.method");
		if (n <= PHT_CODE_TABLE_LARGE)
			assert_memory_equal(code.linetable, table, n);
		else
			assert_null(code.linetable);
		pycode_free(&code);
	}
}

/* Each read in turn fails: a record says what it lacks, and what it has is right. */
static void test_faults(__u32 minor)
{
	long before, total;

	set_up(minor);
	before = shim.reads;
	send();
	total = shim.reads - before;
	for (long k = 1; k <= total; k++) {
		struct pycode code;
		int err;

		set_up(minor);
		shim.reads = 0;
		shim.fail_read = k;
		py.th->stack.nframes = 0;
		if (!pht_walk())
			pht_codes_send();
		if (!shim.nrecords)
			continue;
		err = pycode_from_record(shim.records[0], &code);
		if (err && err != -EAGAIN)
			continue;
		assert_string_equal(code.name, "Class.method");
		assert_string_equal(code.filename, "/srv/app/views.py");
		assert_int_equal(code.linetable_len, err ? 0 : 10);
		pycode_free(&code);
	}
}

/* A record from nowhere is refused, or read within its bounds. */
static void test_hostile_records(void **state)
{
	static struct pht_code_large rec;
	__u64 rng = 1;

	(void)state;
	for (int n = 0; n < 20000; n++) {
		__u32 *head = (__u32 *)&rec.head;
		struct pycode code;
		int err;

		for (size_t i = 0; i < sizeof(rec.head) / 4; i++)
			head[i] = pht_rng_next(&rng) >> (32 + (pht_rng_next(&rng) & 31));
		if (n & 1)
			rec.head.size = n & 2 ? sizeof(rec) : sizeof(struct pht_code_small);
		if (n & 4)
			rec.head.name_kind = rec.head.file_kind = 1 << (n >> 3 & 3);
		err = pycode_from_record(&rec.head, &code);
		if (!err || err == -EAGAIN)
			pycode_free(&code);
		else
			assert_int_equal(err, -ENODATA);
	}
}

#define EACH_VERSION(name)                                                                         \
	static void name##_all(void **state)                                                       \
	{                                                                                          \
		(void)state;                                                                       \
		for (__u32 minor = MINOR_FIRST; minor <= MINOR_LAST; minor++)                      \
			name(minor);                                                               \
	}

EACH_VERSION(test_contents)
EACH_VERSION(test_end_of_mapping)
EACH_VERSION(test_version)
EACH_VERSION(test_records)
EACH_VERSION(test_forms)
EACH_VERSION(test_sizes)
EACH_VERSION(test_faults)

static int teardown(void **state)
{
	(void)state;
	shim_reset();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_contents_all, teardown),
		cmocka_unit_test_teardown(test_end_of_mapping_all, teardown),
		cmocka_unit_test_teardown(test_version_all, teardown),
		cmocka_unit_test_teardown(test_records_all, teardown),
		cmocka_unit_test_teardown(test_forms_all, teardown),
		cmocka_unit_test_teardown(test_sizes_all, teardown),
		cmocka_unit_test_teardown(test_faults_all, teardown),
		cmocka_unit_test(test_hostile_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
