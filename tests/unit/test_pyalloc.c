// SPDX-License-Identifier: BSD-2-Clause
/* Allocator tables of live interpreters, against what the interpreters themselves report. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <sys/wait.h>

#include "pyalloc.h"
#include "pyalloc_find.h"
#include "pyoffsets.h"
#include "pythons.h"

/*
 * Prints the 3 x 5 words that PyMem_GetAllocator gives and the arena
 * allocator's function; then, on each line of input, puts another allocator
 * in place (the same functions with an unknown context) or back again.
 */
static const char script[] = "import ctypes as c, sys\n"
			     "api = c.pythonapi\n"
			     "def get(d):\n"
			     "    w = (c.c_size_t * 5)(); api.PyMem_GetAllocator(d, w); return w\n"
			     "a = (c.c_size_t * 3)(); api.PyObject_GetArenaAllocator(a)\n"
			     "print(*[x for d in range(3) for x in get(d)], a[1], flush=True)\n"
			     "old = get(2); new = get(2); new[0] = 0x1234\n"
			     "for line in sys.stdin:\n"
			     "    api.PyMem_SetAllocator(2, new if line == 'hook\\n' else old)\n"
			     "    print('ok', flush=True)\n";

struct target {
	pid_t pid;
	FILE *in, *out;
	u64 words[16]; /* what it printed */
};

static void target_start(struct target *t, const char *command, const char *env)
{
	char line[1024];
	int to[2], from[2];

	snprintf(line, sizeof(line), "exec env %s %s -c \"$SCRIPT\"", env, command);
	assert_int_equal(pipe(to) | pipe(from), 0);
	t->pid = fork();
	assert_true(t->pid >= 0);
	if (!t->pid) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		for (int fd = 3; fd < 64; fd++)
			close(fd);
		setenv("SCRIPT", script, 1);
		execl("/bin/sh", "sh", "-c", line, NULL);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	t->in = fdopen(to[1], "w");
	t->out = fdopen(from[0], "r");
	assert_true(t->in && t->out);
	for (size_t i = 0; i < ARRAY_SIZE(t->words); i++)
		if (fscanf(t->out, "%" SCNu64, &t->words[i]) != 1)
			fail_msg("%s with %s printed nothing", command, env);
}

static void target_tell(struct target *t, const char *word)
{
	char answer[8];

	fprintf(t->in, "%s\n", word);
	fflush(t->in);
	assert_int_equal(fscanf(t->out, "%7s", answer), 1);
	assert_string_equal(answer, "ok");
}

static void target_stop(struct target *t)
{
	int status;

	fclose(t->in);
	fclose(t->out);
	assert_int_equal(waitpid(t->pid, &status, 0), t->pid);
	assert_int_equal(status, 0);
}

/* What pyinfo_examine() would have found out before it asks for the allocators. */
struct seen {
	struct pyinfo info;
	struct proc_maps maps;
	struct elf_file *elf;
};

static bool take_object(struct seen *s, const struct proc_map *map)
{
	struct elf_sym sym;
	int fd = proc_open_map(s->info.pid, map);

	if (fd < 0 || elf_open_fd(fd, &s->elf))
		return false;
	if (elf_find_sym(s->elf, "_PyRuntime", &sym) ||
	    elf_load_bias(s->elf, map->start, map->offset, &s->info.object_bias)) {
		elf_close(s->elf);
		return false;
	}
	s->info.runtime = sym.value + s->info.object_bias;
	for (size_t i = 0; i < s->maps.n; i++) {
		const struct proc_map *m = &s->maps.v[i];

		if (m->inode != map->inode)
			continue;
		if (!s->info.object_start)
			s->info.object_start = m->start;
		s->info.object_end = m->end;
	}
	return true;
}

static void see(struct seen *s, pid_t pid, unsigned hex)
{
	u8 debug[1024] = {0};
	u64 inode = 0;
	bool found = false;
	size_t len;

	memset(s, 0, sizeof(*s));
	s->info.pid = pid;
	s->info.version = hex;
	assert_int_equal(proc_maps_read(pid, &s->maps), 0);
	for (size_t i = 0; i < s->maps.n && !found; i++) {
		if (s->maps.v[i].inode && s->maps.v[i].inode != inode)
			found = take_object(s, &s->maps.v[i]);
		inode = s->maps.v[i].inode;
	}
	assert_true(found);
	len = pyoffsets_debug_len(hex);
	assert_true(len <= sizeof(debug));
	assert_int_equal(proc_read(pid, s->info.runtime, debug, len), 0);
	assert_int_equal(pyoffsets_fill(hex, false, debug, len, &s->info.off), 0);
}

static void unsee(struct seen *s)
{
	elf_close(s->elf);
	proc_maps_free(&s->maps);
}

static void check_words(const struct pyinfo *info, const u64 words[16], const char *what)
{
	const struct py_allocator *const t[3] = {&info->raw, &info->mem, &info->obj};

	for (size_t d = 0; d < 3; d++) {
		const u64 *w = words + 5 * d;

		if (!t[d]->addr || t[d]->ctx != w[0] || t[d]->malloc_fn != w[1] ||
		    t[d]->calloc_fn != w[2] || t[d]->realloc_fn != w[3] || t[d]->free_fn != w[4])
			fail_msg("%s: domain %zu at %#" PRIx64 ": malloc %#" PRIx64
				 ", not %#" PRIx64,
				 what, d, t[d]->addr, t[d]->malloc_fn, w[1]);
	}
	if (info->arena_alloc_fn != words[15])
		fail_msg("%s: arena %#" PRIx64 ", not %#" PRIx64, what, info->arena_alloc_fn,
			 words[15]);
}

/* Where the file has symbols, they must agree with what was decoded. */
static void check_symbols(struct seen *s, const char *what)
{
	const struct pyalloc_view v = {.info = &s->info, .elf = s->elf, .maps = &s->maps};
	static const char *const names[] = {"_PyMem_Raw", "_PyMem", "_PyObject"};
	const u64 addr[] = {s->info.raw.addr, s->info.mem.addr, s->info.obj.addr};
	struct elf_sym sym;
	u64 fn, by_name = pyalloc_new_pool_by_name(&v);

	for (size_t d = 0; d < 3; d++)
		if (!elf_find_sym(s->elf, names[d], &sym))
			assert_int_equal(sym.value + s->info.object_bias, addr[d]);
	if (elf_find_sym(s->elf, "_PyObject_Malloc", &sym))
		return;
	fn = sym.value + s->info.object_bias;
	assert_int_equal(pyalloc_border(&v, fn), BORDER_PYMALLOC);
	if (pyalloc_new_pool_by_call(&v, fn) != by_name)
		fail_msg("%s: new pool %#" PRIx64 ", not %#" PRIx64, what,
			 pyalloc_new_pool_by_call(&v, fn), by_name);
}

struct mode_case {
	const char *env;
	enum py_alloc_mode mode;
	unsigned since;
};

static const struct mode_case mode_cases[] = {
	{"PYTHONMALLOC=", PY_ALLOC_PYMALLOC, 0},
	{"PYTHONMALLOC=malloc", PY_ALLOC_MALLOC, 0},
	{"PYTHONMALLOC=debug", PY_ALLOC_DEBUG, 0},
	{"PYTHONMALLOC=malloc_debug", PY_ALLOC_MALLOC_DEBUG, 0},
	{"PYTHONTRACEMALLOC=1", PY_ALLOC_TRACEMALLOC, 0},
	{"PYTHONTRACEMALLOC=1 PYTHONDEVMODE=1", PY_ALLOC_TRACEMALLOC, 0},
	{"PYTHONMALLOC=mimalloc", PY_ALLOC_MIMALLOC, 0x030d0000},
	{"PYTHONMALLOC=mimalloc_debug", PY_ALLOC_DEBUG, 0x030d0000},
};

static void check_mode(const struct python *py, const struct mode_case *c)
{
	char what[600];
	struct target t;
	struct seen s;

	snprintf(what, sizeof(what), "%s (%x), %s", py->command, py->hex, c->env);
	target_start(&t, py->command, c->env);
	see(&s, t.pid, py->hex);
	assert_int_equal(pyalloc_examine(&s.info, s.elf, &s.maps), 0);
	check_words(&s.info, t.words, what);
	check_symbols(&s, what);
	if (s.info.alloc_mode != c->mode)
		fail_msg("%s: mode %s", what, py_alloc_mode_name(s.info.alloc_mode));
	/* 3.8 has it inlined; under malloc only a name or PGO's comparison leads to it */
	if (py->hex >= 0x03090000 && c->mode == PY_ALLOC_PYMALLOC && !s.info.new_pool_fn)
		fail_msg("%s: no new pool function", what);
	if (c->mode == PY_ALLOC_PYMALLOC)
		print_message("%s: obj %#" PRIx64 " mem %#" PRIx64 " raw %#" PRIx64
			      " new pool %#" PRIx64 "%s\n",
			      what, s.info.obj.addr, s.info.mem.addr, s.info.raw.addr,
			      s.info.new_pool_fn, s.info.inlined ? " inlined" : "");
	unsee(&s);
	target_stop(&t);
}

static struct pythons pythons;

static void test_modes(void **state)
{
	for (size_t p = 0; p < pythons.n; p++)
		for (size_t i = 0; i < ARRAY_SIZE(mode_cases); i++)
			if (pythons.v[p].hex >= mode_cases[i].since)
				check_mode(&pythons.v[p], &mode_cases[i]);
}

/* The 3.12+ tables must be found by reading code alone, too. */
static void test_decoded_tables(void **state)
{
	for (size_t p = 0; p < pythons.n; p++) {
		struct py_allocator known[3], decoded[3];
		struct pyalloc_view v;
		struct target t;
		struct seen s;

		target_start(&t, pythons.v[p].command, "PYTHONMALLOC=");
		see(&s, t.pid, pythons.v[p].hex);
		v = (struct pyalloc_view){.info = &s.info, .elf = s.elf, .maps = &s.maps};
		pyalloc_find_tables(&v, known);
		s.info.off.rt_alloc_raw = PHT_ABSENT;
		pyalloc_find_tables(&v, decoded);
		for (size_t d = 0; d < 3; d++)
			if (decoded[d].addr != known[d].addr)
				fail_msg("%s: domain %zu decoded as %#" PRIx64 ", not %#" PRIx64,
					 pythons.v[p].command, d, decoded[d].addr, known[d].addr);
		s.info.off.rt_alloc_arena = PHT_ABSENT;
		assert_int_equal(pyalloc_find_arena(&v), t.words[15]);
		unsee(&s);
		target_stop(&t);
	}
}

static void test_reread(void **state)
{
	struct target t;
	struct seen s;

	target_start(&t, pythons.v[0].command, "PYTHONMALLOC=");
	see(&s, t.pid, pythons.v[0].hex);
	assert_int_equal(pyalloc_examine(&s.info, s.elf, &s.maps), 0);
	assert_int_equal(pyinfo_reread_allocators(&s.info), 0);
	assert_int_equal(s.info.alloc_mode, PY_ALLOC_PYMALLOC);
	target_tell(&t, "hook");
	assert_int_equal(pyinfo_reread_allocators(&s.info), 0);
	assert_int_equal(s.info.alloc_mode, PY_ALLOC_HOOKED);
	assert_int_equal(s.info.obj.ctx, 0x1234);
	target_tell(&t, "back");
	assert_int_equal(pyinfo_reread_allocators(&s.info), 0);
	assert_int_equal(s.info.alloc_mode, PY_ALLOC_PYMALLOC);
	target_stop(&t);
	assert_int_not_equal(pyinfo_reread_allocators(&s.info), 0);
	assert_int_equal(s.info.alloc_mode, PY_ALLOC_PYMALLOC);
	unsee(&s);
}

static int find(void **state)
{
	pythons_find(&pythons);
	if (!pythons.n)
		print_error("no CPython found: nothing to test against\n");
	return pythons.n ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_modes),
		cmocka_unit_test(test_decoded_tables),
		cmocka_unit_test(test_reread),
	};

	return cmocka_run_group_tests(tests, find, NULL);
}
