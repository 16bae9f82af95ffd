// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <sys/wait.h>

#include "pht_abi.h"
#include "pht_ident.h"
#include "proc.h"
#include "pycode.h"
#include "pyoffsets.h"
#include "pythons.h"

struct child {
	pid_t shell;
	FILE *in, *out; /* its stdin, its stdout */
};

static void child_start(struct child *c, const char *command)
{
	char line[1600];
	int to[2], from[2];

	snprintf(line, sizeof(line), "exec %s -c \"$(cat '%s')\"", command,
		 pythons_path("gen/codeobjects.py"));
	assert_int_equal(pipe(to) | pipe(from), 0);
	c->shell = fork();
	assert_true(c->shell >= 0);
	if (!c->shell) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		for (int fd = 3; fd < 64; fd++)
			close(fd);
		execl("/bin/sh", "sh", "-c", line, NULL);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	c->in = fdopen(to[1], "w");
	c->out = fdopen(from[0], "r");
	assert_true(c->in && c->out);
}

static void child_stop(struct child *c)
{
	int status;

	fclose(c->in);
	fclose(c->out);
	assert_int_equal(waitpid(c->shell, &status, 0), c->shell);
	assert_int_equal(status, 0);
}

static u8 *parse_hex(const char *hex, size_t *len)
{
	u8 *out;

	*len = strcmp(hex, "-") ? strlen(hex) / 2 : 0;
	out = calloc(1, *len + 1);
	assert_non_null(out);
	for (size_t i = 0; i < *len; i++)
		assert_int_equal(sscanf(hex + 2 * i, "%2hhx", &out[i]), 1);
	return out;
}

static void assert_text(const char *got, const char *hex)
{
	size_t len;
	u8 *want = parse_hex(hex, &len);

	assert_string_equal(got, (char *)want);
	free(want);
}

/* The frame position that stands for a code unit. */
static s32 pos_of(const struct pht_pyoffsets *off, s32 unit)
{
	switch (off->pos_kind) {
	case PHT_POS_LASTI_UNITS:
		return unit;
	case PHT_POS_INSTR_PTR:
		return (s32)off->co_code_adaptive + 2 * unit;
	default:
		return 2 * unit;
	}
}

static void check_lines(const struct pht_pyoffsets *off, const struct pycode *code, char *runs)
{
	bool py311 = off->pos_kind == PHT_POS_INSTR_PTR, incomplete;
	char *save = NULL;
	s32 unit = 0;

	for (char *run = strtok_r(runs, ",", &save); run; run = strtok_r(NULL, ",", &save)) {
		s32 line, pos = pos_of(off, unit);

		assert_int_equal(sscanf(run, "1:%d", &line), 1);
		assert_int_equal(pycode_line(off, code, pos, false, &incomplete), line);
		assert_int_equal(incomplete, py311 && unit < code->firsttraceable);
		assert_int_equal(pycode_line(off, code, pos, true, &incomplete), line);
		assert_false(incomplete);
		if (off->pos_kind != PHT_POS_LASTI_UNITS) {
			assert_int_equal(pycode_line(off, code, pos + 1, false, &incomplete), 0);
		}
		unit++;
	}
	assert_int_equal(pycode_line(off, code, pos_of(off, -1), false, &incomplete), 0);
	assert_true(incomplete);
	assert_int_equal(pycode_line(off, code, INT32_MIN, false, &incomplete), 0);
	if (off->line_kind != PHT_LINE_LNOTAB) {
		assert_int_equal(pycode_line(off, code, pos_of(off, unit), false, &incomplete), 0);
		assert_int_equal(pycode_line(off, code, INT32_MAX, false, &incomplete), 0);
	}
}

static void check_code(pid_t pid, const struct pht_pyoffsets *off, char *line)
{
	enum { ADDR, NAME, FILENAME, FIRST, TRACEABLE, WANT_FILE, WANT_NAME, TABLE, RUNS, NR };
	struct pycode code = {0};
	char *f[NR], *save = NULL;
	size_t len;
	u64 addr;
	u32 ident;
	u8 *table;

	for (int i = 0; i < NR; i++) {
		f[i] = strtok_r(i ? NULL : line, " \n", &save);
		assert_non_null(f[i]);
	}
	addr = strtoull(f[ADDR], NULL, 10);
	ident = pht_ident(strtoull(f[NAME], NULL, 10), strtoull(f[FILENAME], NULL, 10),
			  atoi(f[FIRST]));
	assert_int_equal(pycode_read(pid, off, addr, ident ^ 2, &code), -EAGAIN);
	assert_null(code.name);
	assert_int_equal(pycode_read(pid, off, addr, ident | PHT_IDENT_GEN, &code), 0);
	assert_text(code.filename, f[WANT_FILE]);
	assert_text(code.name, f[WANT_NAME]);
	assert_int_equal(code.firstlineno, atoi(f[FIRST]));
	assert_int_equal(code.firsttraceable, atoi(f[TRACEABLE]));
	assert_int_equal(code.ident, ident);
	table = parse_hex(f[TABLE], &len);
	assert_int_equal(code.linetable_len, len);
	assert_memory_equal(code.linetable, table, len);
	check_lines(off, &code, f[RUNS]);
	free(table);
	pycode_free(&code);
	assert_null(code.linetable);
}

/* Addresses that hold no code object must fail, never crash. */
static void check_garbage(pid_t pid, const struct pht_pyoffsets *off, u64 near)
{
	struct pycode code = {0};

	assert_int_equal(pycode_read(pid, off, 8, 0, &code), -EFAULT);
	assert_int_equal(pycode_read(pid, off, UINT64_MAX - 8, 0, &code), -EFAULT);
	for (u64 addr = near & ~4095ull; addr < (near & ~4095ull) + 4096; addr += 8) {
		struct pht_pyoffsets o = *off;
		u64 name, file;
		s32 first;
		int err;

		/* With its own ident, so that the contents are followed, too. */
		if (proc_read(pid, addr + o.co_name, &name, 8) ||
		    proc_read(pid, addr + o.co_filename, &file, 8) ||
		    proc_read(pid, addr + o.co_firstlineno, &first, 4))
			continue;
		err = pycode_read(pid, &o, addr, pht_ident(name, file, first), &code);
		assert_true(!err || err == -EFAULT || err == -EINVAL);
		if (!err)
			pycode_free(&code);
	}
}

static bool read_head(FILE *f, pid_t *pid, struct pht_pyoffsets *off)
{
	char *line = NULL, *save = NULL, *hex;
	size_t cap = 0, len;
	u8 *head;
	u32 version;
	int err;

	assert_true(getline(&line, &cap, f) > 0);
	*pid = atoi(strtok_r(line, " \n", &save));
	version = strtoul(strtok_r(NULL, " \n", &save), NULL, 10);
	hex = strtok_r(NULL, " \n", &save);
	head = parse_hex(hex, &len);
	err = pyoffsets_fill(version, false, head, len, off);
	free(head);
	free(line);
	/* Without ctypes the interpreter cannot show its own offsets. */
	if (err == -EINVAL && !len)
		return false;
	assert_int_equal(err, 0);
	return true;
}

static void check_python(const struct python *py)
{
	struct pht_pyoffsets off;
	struct pycode code;
	struct child c;
	char *line = NULL;
	size_t cap = 0, n = 0;
	u64 addr = 0;
	pid_t pid;

	child_start(&c, py->command);
	if (read_head(c.out, &pid, &off)) {
		while (getline(&line, &cap, c.out) > 0 && line[0] != '.') {
			addr = strtoull(line, NULL, 10);
			check_code(pid, &off, line);
			n++;
		}
		assert_int_equal(line[0], '.');
		assert_true(n > 40);
		check_garbage(pid, &off, addr);
		print_message("%08x: %zu code objects: %s\n", py->hex, n, py->command);
	} else {
		print_message("%08x: no ctypes, NOT tested: %s\n", py->hex, py->command);
	}
	child_stop(&c);
	if (n)
		assert_int_equal(pycode_read(pid, &off, addr, 0, &code), -ESRCH);
	free(line);
}

static void test_live(void **state)
{
	struct pythons ps;

	pythons_find(&ps);
	if (!ps.n) {
		print_message("no CPython found: code objects NOT tested\n");
		skip();
	}
	for (size_t i = 0; i < ps.n; i++)
		check_python(&ps.v[i]);
}

/* Objects made up in our own memory, laid out as 3.12 does. */
struct fake_str {
	u64 head[2];
	s64 length;
	u64 hash;
	u32 state;
	u32 pad;
	union {
		char ascii[16];
		struct {
			u64 utf8[2];
			union {
				u64 data; /* address, legacy form */
				u32 ucs4[8];
			};
		};
	};
};

#define STATE(kind, compact, ascii) ((kind) << 2 | (compact) << 5 | (ascii) << 6)

static int read_fake(const struct fake_str *s, size_t max, char **out)
{
	struct pht_pyoffsets off;

	assert_int_equal(pyoffsets_fill(0x030c01f0, false, NULL, 0, &off), 0);
	return pystr_read(getpid(), &off, (uintptr_t)s, max, out);
}

static void assert_fake(const struct fake_str *s, size_t max, const char *want)
{
	char *text = NULL;

	assert_int_equal(read_fake(s, max, &text), 0);
	assert_string_equal(text, want);
	free(text);
}

static void test_str_hostile(void **state)
{
	static const u32 bad_states[] = {STATE(0, 1, 0), STATE(3, 1, 0), STATE(7, 1, 1),
					 STATE(2, 1, 1), STATE(4, 1, 1)};
	static const s64 bad_lengths[] = {-1, INT64_MIN, INT64_MAX, 1ll << 50};
	struct fake_str s = {.length = 5, .ascii = "abcde"};
	char *text = (char *)&s;

	for (size_t i = 0; i < ARRAY_SIZE(bad_states); i++) {
		s.state = bad_states[i];
		assert_int_equal(read_fake(&s, 100, &text), -EINVAL);
	}
	s.state = STATE(1, 1, 1);
	assert_fake(&s, 100, "abcde");
	assert_fake(&s, 5, "abcde");
	assert_fake(&s, 3, "abc");
	assert_fake(&s, 0, "");
	for (size_t i = 0; i < ARRAY_SIZE(bad_lengths); i++) {
		s.length = bad_lengths[i];
		assert_int_equal(read_fake(&s, 100, &text), -EINVAL);
	}
	/* A huge length is clipped to what is wanted, not read. */
	s.length = 1ll << 33;
	assert_fake(&s, 5, "abcde");
	assert_int_equal(pystr_read(getpid(), NULL, 0, 10, &text), -EINVAL);
	assert_ptr_equal(text, &s);
}

static void test_str_wide(void **state)
{
	static const char latin1[] = "\xe9z\xff";
	struct fake_str s = {.length = 8, .state = STATE(4, 1, 0)};
	const u32 points[] = {'a', 0x7ff, 0x800, 0x10ffff, 0x110000, 0xffffffff, 0xdc80, 0xd800};

	memcpy(s.ucs4, points, sizeof(points));
	assert_fake(
		&s, 100,
		"a\xdf\xbf\xe0\xa0\x80\xf4\x8f\xbf\xbf\xef\xbf\xbd\xef\xbf\xbd\\x80\xef\xbf\xbd");
	/* Clipped between characters, never inside one. */
	assert_fake(&s, 2, "a");
	assert_fake(&s, 3, "a\xdf\xbf");
	assert_fake(&s, 9, "a\xdf\xbf\xe0\xa0\x80");
	assert_fake(&s, 18, "a\xdf\xbf\xe0\xa0\x80\xf4\x8f\xbf\xbf\xef\xbf\xbd\xef\xbf\xbd");
	s.length = 3;
	s.state = STATE(1, 0, 0);
	s.data = (uintptr_t)latin1;
	assert_fake(&s, 100, "\xc3\xa9z\xc3\xbf");
	s.data = 8;
	assert_int_equal(read_fake(&s, 100, &(char *){NULL}), -EFAULT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_str_hostile),
		cmocka_unit_test(test_str_wide),
		cmocka_unit_test(test_live),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
