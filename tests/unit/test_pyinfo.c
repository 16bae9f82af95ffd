// SPDX-License-Identifier: BSD-2-Clause
/*
 * pyinfo_examine() on every interpreter of this host, against what the
 * interpreters say themselves; and on a crafted one.  Needs the right to
 * ptrace its own children, nothing more.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "debug_tables.h"
#include "pht_ident.h"
#include "pycode.h"
#include "pyinfo.h"
#include "proc.h"
#include "pythreads.h"

/* The crafted interpreter is this program: its children fill the table. */
u8 _PyRuntime[8192] = {1};
const unsigned long Py_Version = V(13);

struct child {
	pid_t pid;
	int in, out; /* ends of its stdin and stdout that we hold */
};

static void child_end(struct child *c)
{
	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
	close(c->in);
	close(c->out);
}

static void child_start(struct child *c, void (*body)(void *), void *arg)
{
	int in[2], out[2];

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	fflush(NULL);
	c->pid = fork();
	assert_true(c->pid >= 0);
	if (!c->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		body(arg);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	c->in = in[1];
	c->out = out[0];
}

/* One line of the child; "" when it ended without one. */
static void child_line(struct child *c, char *line, size_t len)
{
	size_t n = 0;

	while (n < len - 1 && read(c->out, line + n, 1) == 1 && line[n] != '\n')
		n++;
	line[n] = '\0';
}

/* Works on Python 2 too: old versions must be refused by name. */
static const char script[] = "import sys, threading\n"
			     "def spin():\n"
			     "    while True: pass\n"
			     "def inner():\n"
			     "    ident = getattr(threading, 'get_ident', lambda: 0)()\n"
			     "    free = 'free-threading' in sys.version or 'PyPy' in sys.version\n"
			     "    sys.stdout.write('%d %d %d\\n' % (sys.hexversion, free, ident))\n"
			     "    sys.stdout.flush()\n"
			     "    sys.stdin.readline()\n"
			     "class Outer(object):\n"
			     "    def __init__(self): [f() for f in [inner]]\n"
			     "def generator():\n"
			     "    yield Outer()\n"
			     "t = threading.Thread(target=spin)\n"
			     "t.daemon = True\n"
			     "t.start()\n"
			     "list(generator())\n";

static void run_script(void *python)
{
	int null = open("/dev/null", O_WRONLY);

	dup2(null, STDERR_FILENO);
	execl(python, python, "-c", script, NULL);
}

static u64 word_at(pid_t pid, u64 addr)
{
	u64 value = 0;

	proc_read(pid, addr, &value, sizeof(value));
	return value;
}

static int find_thread(const struct pyinfo *info, u64 ident, bool same, struct pythread *out)
{
	struct pythread v[16];
	int n = -EFAULT;

	for (int try = 0; try < 100 && n < 0; try++)
		n = pythreads_read(info, v, ARRAY_SIZE(v));
	assert_int_equal(n, 2);
	for (int i = 0; i < n; i++) {
		if ((v[i].thread_id == ident) != same)
			continue;
		*out = v[i];
		return 0;
	}
	return -ENOENT;
}

/* Name of the code object at addr, read as the tracer will. */
static void append_name(const struct pyinfo *info, u64 addr, char *names, size_t len)
{
	const struct pht_pyoffsets *o = &info->off;
	u32 line = (u32)word_at(info->pid, addr + o->co_firstlineno);
	u32 ident = pht_ident(word_at(info->pid, addr + o->co_name),
			      word_at(info->pid, addr + o->co_filename), line);
	const char *last;
	struct pycode code;

	assert_int_equal(pycode_read(info->pid, o, addr, ident, &code), 0);
	assert_true(!strcmp(code.filename, "<string>") || strstr(code.filename, "__init__"));
	/* Qualified names came with 3.11. */
	last = strrchr(code.name, '.');
	strncat(names, last ? last + 1 : code.name, len - strlen(names) - 2);
	strcat(names, ",");
	pycode_free(&code);
}

/* Names from the innermost frame outwards, "," after each. */
static void read_stack(const struct pyinfo *info, u64 frame, char *names, size_t len)
{
	const struct pht_pyoffsets *o = &info->off;

	names[0] = '\0';
	for (int depth = 0; frame && depth < 20; depth++) {
		u8 buf[128], owner;
		u64 addr;

		assert_int_equal(proc_read(info->pid, frame, buf, o->fr_size), 0);
		owner = o->fr_owner == PHT_ABSENT ? 0 : buf[o->fr_owner];
		memcpy(&addr, buf + o->fr_code, sizeof(addr));
		memcpy(&frame, buf + o->fr_back, sizeof(frame));
		if (owner < o->fr_skip_owner)
			append_name(info, addr & ~(u64)o->code_tag_mask, names, len);
	}
}

static void check_stack(const struct pyinfo *info, u64 ident)
{
	/* 3.12 made comprehensions part of their function; 3.13 has a frame for class calls. */
	static const char *const want[] = {
		"inner,<listcomp>,__init__,generator,<module>,",
		"inner,__init__,generator,<module>,",
		"inner,__init__,__init__,generator,<module>,",
	};
	struct pythread main_thread;
	char names[256];

	assert_int_equal(find_thread(info, ident, true, &main_thread), 0);
	read_stack(info, main_thread.frame, names, sizeof(names));
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		if (!strcmp(names, want[i]))
			return;
	fail_msg("stack: %s", names);
}

static u64 current_tstate(const struct pyinfo *info, u64 thread_id)
{
	u64 base = thread_id;

	if (info->tls_kind == PHT_TLS_NONE)
		return word_at(info->pid, info->runtime + info->off.rt_tstate_current);
	if (info->tls_kind == PHT_TLS_DTV)
		base = word_at(info->pid,
			       word_at(info->pid, thread_id + 8) + 16 * info->tls_module);
	return word_at(info->pid, base + (u64)info->tls_offset);
}

/* The thread that runs must be seen as current; the sleeping one must not. */
static void check_current(const struct pyinfo *info, u64 ident)
{
	struct pythread spinner;
	bool seen = false;

	assert_int_equal(find_thread(info, ident, false, &spinner), 0);
	if (info->version >> 16 >= 0x030c)
		assert_int_not_equal(info->tls_kind, PHT_TLS_NONE);
	for (int try = 0; try < 2000 && !seen; try++)
		seen = current_tstate(info, spinner.thread_id) == spinner.tstate;
	assert_true(seen);
	if (info->tls_kind != PHT_TLS_NONE)
		assert_int_equal(current_tstate(info, ident), 0);
}

static void check_supported(struct pyinfo *info, u32 version, u64 ident)
{
	char text[16];

	assert_int_equal(info->version, version);
	snprintf(text, sizeof(text), "%u.%u.%u", version >> 24, (version >> 16) & 255,
		 (version >> 8) & 255);
	assert_memory_equal(info->version_str, text, strlen(text));
	assert_false(info->free_threaded);
	assert_true(info->pool_size == (version >> 16 < 0x030a ? 4096 : 16384));
	assert_true(info->object_start < info->object_end && info->object_path);
	if (version >> 16 < 0x030f)
		assert_true(info->tss_key < 32);
	check_stack(info, ident);
	check_current(info, ident);
}

/* 1 when it ran and is supported, 0 otherwise. */
static int check_interpreter(char *python)
{
	unsigned long ident = 0;
	unsigned int version = 0;
	struct pyinfo info;
	char line[128];
	int other = 0, err, supported = 0;
	struct child c;

	child_start(&c, run_script, python);
	child_line(&c, line, sizeof(line));
	if (sscanf(line, "%u %d %lu", &version, &other, &ident) != 3) {
		printf("SKIPPED %s: it does not run\n", python);
		child_end(&c);
		return 0;
	}
	/* The answer was written a moment before the child blocks. */
	usleep(50000);
	err = pyinfo_examine(c.pid, &info);
	if (version < 0x03080000 || other) {
		assert_int_equal(err, -ENOTSUP);
	} else if (version < 0x030f0000 || !err) {
		assert_int_equal(err, 0);
		check_supported(&info, version, ident);
		printf("EXAMINED %s (%s, %s)\n", info.version_str, python,
		       info.static_build ? "static" : "shared");
		pyinfo_free(&info);
		supported = 1;
	}
	child_end(&c);
	return supported;
}

/* python3 and its numbered kin where distributions and pyenv put them. */
static void find_interpreters(glob_t *g)
{
	char pyenv[PATH_MAX];
	const char *home = getenv("HOME");

	glob("/usr/bin/python[23].[0-9]*[0-9]", GLOB_NOSORT, NULL, g);
	glob("/usr/bin/python3.[0-9]", GLOB_APPEND, NULL, g);
	glob("/usr/local/bin/python3.[0-9]*[0-9]", GLOB_APPEND, NULL, g);
	snprintf(pyenv, sizeof(pyenv), "%s/.pyenv/versions/*/bin/python", home ? home : "");
	glob(pyenv, GLOB_APPEND, NULL, g);
}

static void test_interpreters(void **state)
{
	glob_t g = {0};
	int supported = 0;

	find_interpreters(&g);
	for (size_t i = 0; i < g.gl_pathc; i++)
		supported += check_interpreter(g.gl_pathv[i]);
	globfree(&g);
	printf("%d interpreters examined\n", supported);
	assert_true(supported > 0);
}

static void run_nothing(void *arg)
{
	(void)arg;
	if (write(STDOUT_FILENO, "ready\n", 6) == 6)
		pause();
}

static void run_sleep(void *arg)
{
	execlp("sh", "sh", "-c", "echo ready; read x", NULL);
}

static void test_not_python(void **state)
{
	struct pyinfo info, before;
	struct child c;
	char line[16];

	memset(&info, 0x5a, sizeof(info));
	before = info;
	child_start(&c, run_sleep, NULL);
	child_line(&c, line, sizeof(line));
	assert_int_equal(pyinfo_examine(c.pid, &info), -ENOEXEC);
	child_end(&c);
	assert_int_equal(pyinfo_examine(c.pid, &info), -ESRCH);
	assert_int_equal(pyinfo_examine(0, &info), -ESRCH);
	assert_int_equal(pyinfo_examine(-1, &info), -ESRCH);
	assert_int_equal(pyinfo_examine(INT_MAX, &info), -ESRCH);
	assert_memory_equal(&info, &before, sizeof(info));
}

/* Structures in the crafted child; every pointer leads back into them. */
static u64 crafted[4096];

enum craft { CRAFT_NO_COOKIE, CRAFT_FREE_THREADED, CRAFT_EMPTY, CRAFT_WILD, CRAFT_LOOPS };

static void run_crafted(void *arg)
{
	u64 here = (u64)(uintptr_t)crafted;

	make_table(13, _PyRuntime);
	switch (*(enum craft *)arg) {
	case CRAFT_NO_COOKIE:
		_PyRuntime[0] = 'y';
		break;
	case CRAFT_FREE_THREADED:
		put(_PyRuntime, 16, 1);
		break;
	case CRAFT_EMPTY:
		break;
	case CRAFT_WILD:
		put(_PyRuntime, 632, 0xdead00000000);
		break;
	case CRAFT_LOOPS:
		put(_PyRuntime, 632, here);
		for (size_t i = 0; i < ARRAY_SIZE(crafted); i++)
			crafted[i] = here;
		break;
	}
	run_nothing(NULL);
}

static void test_crafted(void **state)
{
	static const struct {
		enum craft craft;
		int want;
	} cases[] = {
		{CRAFT_NO_COOKIE, -ENOTSUP},
		{CRAFT_FREE_THREADED, -ENOTSUP},
		{CRAFT_EMPTY, 0}, /* mapped, not initialised yet */
		{CRAFT_WILD, -ENOTSUP},
		{CRAFT_LOOPS, -ENOTSUP},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		enum craft craft = cases[i].craft;
		time_t start = time(NULL);
		struct pyinfo info;
		struct child c;
		char line[16];

		child_start(&c, run_crafted, &craft);
		child_line(&c, line, sizeof(line));
		assert_string_equal(line, "ready");
		assert_int_equal(pyinfo_examine(c.pid, &info), cases[i].want);
		if (!cases[i].want) {
			assert_int_equal(info.tls_kind, PHT_TLS_NONE);
			assert_int_equal(info.tss_key, PHT_ABSENT);
			pyinfo_free(&info);
		}
		child_end(&c);
		/* A crafted target must not hold us up. */
		assert_true(time(NULL) - start <= 15);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_interpreters),
		cmocka_unit_test(test_not_python),
		cmocka_unit_test(test_crafted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
