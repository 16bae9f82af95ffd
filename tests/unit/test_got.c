// SPDX-License-Identifier: BSD-2-Clause
/*
 * Slots found in processes that load small libraries of every kind, against
 * what readelf says of the files; swapped, called through, and put back.
 * Needs a C compiler, readelf, and the right to ptrace its own children.
 */
#include <errno.h>
#include <glob.h>

#include "elf.h"
#include "got_target.h"
#include "pythons.h"

/* Where the first bytes of the object's file are; 0 for one that is not moved. */
static u64 true_bias(struct target *t, const struct got_object *o)
{
	char ehdr[sizeof(Elf64_Ehdr)];

	assert_int_equal(proc_read(t->pid, o->start, ehdr, sizeof(ehdr)), 0);
	return ((Elf64_Ehdr *)(void *)ehdr)->e_type == ET_EXEC ? 0 : o->start;
}

/* Every relocation that readelf shows for the family has its slot.  How many there are. */
static size_t check_truth(struct target *t, struct got_object *o)
{
	char line[1200], type[64], name[512], *at;
	u64 bias = true_bias(t, o), offset;
	size_t n = 0;
	FILE *f;

	snprintf(line, sizeof(line), "readelf -rW '/proc/%d/root%s' 2>/dev/null", (int)t->pid,
		 o->path);
	f = popen(line, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		const struct got_slot *s;
		enum alloc_func func;

		if (sscanf(line, "%" SCNx64 " %*x %63s %*x %511s", &offset, type, name) != 3)
			continue;
		at = strchr(name, '@');
		if (at)
			*at = '\0';
		func = func_named(name);
		if (func == AF_NR ||
		    (strncmp(type, "R_X86_64_JUMP_SLO", 17) && strcmp(type, "R_X86_64_GLOB_DAT") &&
		     strcmp(type, "R_X86_64_64")))
			continue;
		s = slot_at(t, bias + offset);
		if (!s)
			fail_msg("%s: no slot for %s at %#" PRIx64, o->path, name, offset);
		assert_int_equal(s->func, func);
		assert_int_equal(s->kind, type[9] == 'J'   ? GOT_JUMP_SLOT
					  : type[9] == 'G' ? GOT_GLOB_DAT
							   : GOT_DATA);
		n++;
	}
	assert_int_equal(pclose(f), 0);
	assert_int_equal(o->bias, bias);
	return n;
}

static u64 true_function(struct target *t, enum alloc_func f)
{
	const struct alloc_family *from = got_is_mapping(f) ? &t->mm : &t->heap;

	return from->f[f].vaddr + from->bias;
}

static void check_slots(struct target *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->got.nobjects; i++)
		n += check_truth(t, &t->got.objects[i]);
	assert_int_equal(n, t->got.n);
	for (size_t i = 0; i < t->got.n; i++) {
		const struct got_slot *s = &t->got.v[i];
		const struct proc_map *m = proc_maps_find(&t->maps, s->addr);
		u64 value;

		assert_int_equal(proc_read(t->pid, s->addr, &value, sizeof(value)), 0);
		assert_true(value == s->value);
		assert_true(m && m->w == s->writable && !m->x);
		assert_string_equal(m->path, t->got.objects[s->object].path);
		assert_int_equal(s->state == GOT_RESOLVED, value == true_function(t, s->func));
	}
}

static void check_slot(const struct got_slot *s, enum got_state state, bool writable,
		       bool swappable)
{
	if (s->state != state || s->writable != writable || s->swappable != swappable)
		fail_msg("%s slot: state %d, writable %d, swappable %d", alloc_func_name(s->func),
			 s->state, s->writable, s->swappable);
}

#define LAZY 1 /* RTLD_LAZY, RTLD_NOW */
#define NOW  2

static void test_kinds(void **state)
{
	struct got_slot *s;
	struct target t;
	u64 lazy;

	start(&t, "exec ./host", NULL);
	lazy = load(&t, "./lazy.so", LAZY);
	load(&t, "./now.so", LAZY);
	load(&t, "./noplt.so", LAZY);
	load(&t, "./data.so", LAZY);
	scan(&t);
	check_slots(&t);
	assert_true(t.got.brk != 0 && t.got.r_debug != 0);

	s = slot_of(&t, "/lazy.so", AF_MALLOC, GOT_JUMP_SLOT);
	check_slot(s, GOT_LAZY, true, true);
	assert_false(s->relro);
	check_slot(slot_of(&t, "/now.so", AF_MALLOC, GOT_JUMP_SLOT), GOT_RESOLVED, false, true);
	assert_true(slot_of(&t, "/now.so", AF_FREE, -1)->relro);
	check_slot(slot_of(&t, "/noplt.so", AF_FREE, GOT_GLOB_DAT), GOT_RESOLVED, false, true);
	check_slot(slot_of(&t, "/noplt.so", AF_POSIX_MEMALIGN, -1), GOT_RESOLVED, false, true);
	check_slot(slot_of(&t, "/data.so", AF_MALLOC, GOT_DATA), GOT_RESOLVED, true, true);
	check_slot(slot_of(&t, "/data.so", AF_CALLOC, GOT_DATA), GOT_RESOLVED, false, true);
	assert_int_equal(s->of, GOT_OF_LIBRARY);
	assert_int_equal(slot_of(&t, "/libc.so.6", AF_REALLOC, -1)->of, GOT_OF_ALLOCATOR);
	assert_null(object(&t, "/ld-linux-x86-64.so.2"));
	assert_null(object(&t, "[vdso]"));

	/* after its first call */
	ask(&t, 'r', "-", (long)lazy, 1);
	s = slot_of(&t, "/lazy.so", AF_MALLOC, -1);
	check_slot(s, GOT_LAZY, true, true);
	assert_int_equal(got_refresh(t.pid, &t.got), 0);
	check_slot(s, GOT_RESOLVED, true, true);
	check_slot(slot_of(&t, "/lazy.so", AF_REALLOC, -1), GOT_LAZY, true, true);
	check_slots(&t);
	stop(&t);
}

static void test_dlopen(void **state)
{
	struct got_slot gone;
	struct target t;
	u64 id;

	start(&t, "exec ./host", NULL);
	scan(&t);
	assert_null(object(&t, "/lazy.so"));
	id = load(&t, "./lazy.so", NOW);
	assert_true(got_changed(t.pid, &t.got));
	scan(&t);
	gone = *slot_of(&t, "/lazy.so", AF_MALLOC, -1);
	check_slot(&gone, GOT_RESOLVED, true, true);

	assert_int_equal(ask(&t, 'c', "-", (long)id, 0), 0);
	assert_true(got_changed(t.pid, &t.got));
	assert_int_equal(got_refresh(t.pid, &t.got), 0);
	check_slot(slot_of(&t, "/lazy.so", AF_MALLOC, -1), GOT_OTHER, true, false);
	assert_int_equal(got_write(t.pid, &gone, gone.value, 1), -ESTALE);

	/* another file of the same shape, most likely at the very same place */
	load(&t, "./lazy2.so", LAZY);
	assert_true(got_changed(t.pid, &t.got));
	assert_int_equal(got_write(t.pid, &gone, gone.value, 1), -ESTALE);
	scan(&t);
	assert_null(object(&t, "/lazy.so"));
	check_slot(slot_of(&t, "/lazy2.so", AF_MALLOC, -1), GOT_LAZY, true, true);
	assert_true(got_changed(1 << 30, &t.got));
	assert_int_equal(got_refresh(1 << 30, &t.got), -ESRCH);
	stop(&t);
}

/* Swap malloc and free in one library, see calls arrive, restore. */
static void swap_and_call(struct target *t, const char *lib, u64 id, u64 count)
{
	u64 cm = ask(t, 'a', "count_malloc", (long)count, 0);
	u64 cf = ask(t, 'a', "count_free", (long)count, 0);
	u64 m0 = ask(t, 'l', "mallocs", (long)count, 0);
	struct got_slot m, f;

	scan(t);
	m = *slot_of(t, lib, AF_MALLOC, -1);
	f = *slot_of(t, lib, AF_FREE, -1);
	assert_true(m.swappable && f.swappable);
	assert_int_equal(got_write(t->pid, &m, m.value, cm), 0);
	assert_int_equal(got_write(t->pid, &f, f.value, cf), 0);
	assert_int_equal(got_write(t->pid, &f, f.value, cf), -EAGAIN);
	ask(t, 'r', "-", (long)id, 1000);
	assert_int_equal(ask(t, 'l', "mallocs", (long)count, 0) - m0, 1000);
	assert_int_equal(ask(t, 'l', "frees", (long)count, 0) - m0, 1000);

	assert_false(got_changed(t->pid, &t->got));
	assert_int_equal(got_refresh(t->pid, &t->got), 0);
	check_slot(slot_of(t, lib, AF_MALLOC, -1), GOT_OTHER, m.writable, false);
	assert_int_equal(got_write(t->pid, &m, cm, m.value), 0);
	assert_int_equal(got_write(t->pid, &f, cf, f.value), 0);
	ask(t, 'r', "-", (long)id, 1000);
	assert_int_equal(ask(t, 'l', "mallocs", (long)count, 0) - m0, 1000);
	assert_int_equal(got_refresh(t->pid, &t->got), 0);
	assert_true(slot_of(t, lib, AF_MALLOC, -1)->swappable);
}

static void test_swap(void **state)
{
	static const char *const libs[] = {"lazy.so", "now.so", "noplt.so", "data.so"};
	struct target t, other;
	u64 count;
	char path[64];

	start(&t, "exec ./host", NULL);
	start(&other, "exec ./host", NULL);
	count = load(&t, "./count.so", LAZY);
	for (size_t i = 0; i < ARRAY_SIZE(libs); i++) {
		snprintf(path, sizeof(path), "./%s", libs[i]);
		load(&other, path, LAZY);
		swap_and_call(&t, path + 1, load(&t, path, LAZY), count);
	}
	/* what was forced on one process is not in the file, nor in another */
	scan(&other);
	check_slot(slot_of(&other, "/now.so", AF_MALLOC, -1), GOT_RESOLVED, false, true);
	stop(&other);
	stop(&t);
}

static void test_write_refused(void **state)
{
	struct got_slot s, bad;
	struct target t;

	start(&t, "exec ./host", NULL);
	load(&t, "./now.so", LAZY);
	scan(&t);
	s = *slot_of(&t, "/now.so", AF_MALLOC, -1);
	bad = s;
	bad.addr = s.seg_end;
	assert_int_equal(got_write(t.pid, &bad, s.value, 1), -ESTALE);
	bad.addr = s.addr + 4;
	assert_int_equal(got_write(t.pid, &bad, s.value, 1), -ESTALE);
	bad = s;
	bad.inode++;
	assert_int_equal(got_write(t.pid, &bad, s.value, 1), -ESTALE);
	/* code is never written to, whatever the slot says */
	bad = s;
	bad.seg_start = object(&t, "/now.so")->start;
	for (bad.addr = bad.seg_start; bad.addr < s.seg_start; bad.addr += 4096) {
		const struct proc_map *m = proc_maps_find(&t.maps, bad.addr);
		u64 now;

		if (!m || !m->x)
			continue;
		assert_int_equal(proc_read(t.pid, bad.addr, &now, sizeof(now)), 0);
		assert_int_equal(got_write(t.pid, &bad, now, now), -ESTALE);
	}
	assert_int_equal(got_write(t.pid, &s, s.value + 1, 1), -EAGAIN);
	assert_int_equal(got_write(1 << 30, &s, s.value, 1), -ESRCH);
	check_slots(&t);
	stop(&t);
}

/* Slots that somebody else has changed, or that lead to another malloc, are not ours. */
static void test_interposers(void **state)
{
	struct target t;
	glob_t g;
	u64 id;

	start(&t, "exec ./host", NULL);
	id = load(&t, "./lazy.so", LAZY);
	scan(&t);
	assert_int_equal(got_write(t.pid, slot_of(&t, "/lazy.so", AF_MALLOC, -1),
				   slot_of(&t, "/lazy.so", AF_MALLOC, -1)->value,
				   ask(&t, 'a', "run", (long)id, 0)),
			 0);
	scan(&t);
	check_slot(slot_of(&t, "/lazy.so", AF_MALLOC, -1), GOT_OTHER, true, false);
	/* in another namespace there is another libc */
	ask(&t, 'n', "./now.so", LAZY, 0);
	ask(&t, 'n', "./lazy2.so", LAZY, 0);
	scan(&t);
	check_slot(slot_of(&t, "/now.so", AF_MALLOC, -1), GOT_OTHER, false, false);
	check_slot(slot_of(&t, "/lazy2.so", AF_MALLOC, -1), GOT_LAZY, true, false);
	assert_true(object(&t, "/now.so")->ns == 1 && object(&t, "/lazy2.so")->ns == 2);
	stop(&t);

	if (glob("/usr/lib*/*/libjemalloc.so.2", 0, NULL, &g)) {
		print_error("SKIPPED: jemalloc is not installed (package libjemalloc2)\n");
		skip();
	}
	start(&t, "exec ./host", g.gl_pathv[0]);
	globfree(&g);
	load(&t, "./now.so", LAZY);
	id = load(&t, "./lazy.so", LAZY);
	scan(&t);
	check_slots(&t);
	assert_string_equal(t.heap.name, "jemalloc");
	check_slot(slot_of(&t, "/now.so", AF_MALLOC, -1), GOT_RESOLVED, false, true);
	assert_int_not_equal(slot_of(&t, "/libc.so.6", AF_REALLOC, -1)->state, GOT_OTHER);
	assert_int_equal(slot_of(&t, "/libc.so.6", AF_REALLOC, -1)->of, GOT_OF_LIBRARY);
	/* libc has a malloc too: only the linker knows which one this slot would get */
	check_slot(slot_of(&t, "/lazy.so", AF_MALLOC, -1), GOT_LAZY, true, false);
	ask(&t, 'r', "-", (long)id, 1);
	assert_int_equal(got_refresh(t.pid, &t.got), 0);
	check_slot(slot_of(&t, "/lazy.so", AF_MALLOC, -1), GOT_RESOLVED, true, true);
	stop(&t);
}

/* An executable that is not moved gives its PLT entries out as the functions' addresses. */
static void test_via_exe(void **state)
{
	struct target t;
	u64 id, count;

	assert_true(compile("cc -O1 -fno-pic -no-pie -DTAKE_ADDRESS host.c -o host-nopie -ldl"));
	start(&t, "exec ./host-nopie", NULL);
	id = load(&t, "./data.so", LAZY);
	count = load(&t, "./count.so", LAZY);
	scan(&t);
	check_slots(&t);
	check_slot(slot_of(&t, "/data.so", AF_MALLOC, GOT_DATA), GOT_VIA_EXE, true, true);
	swap_and_call(&t, "/data.so", id, count);
	/* where that entry leads elsewhere, so does the pointer */
	assert_int_equal(got_write(t.pid, slot_of(&t, "/host-nopie", AF_MALLOC, GOT_JUMP_SLOT),
				   slot_of(&t, "/host-nopie", AF_MALLOC, GOT_JUMP_SLOT)->value,
				   ask(&t, 'a', "count_malloc", (long)count, 0)),
			 0);
	scan(&t);
	check_slot(slot_of(&t, "/data.so", AF_MALLOC, GOT_DATA), GOT_VIA_EXE, true, false);
	stop(&t);
}

static void test_musl(void **state)
{
	struct target t;

	if (!compile("musl-gcc -O1 host.c -o host-musl 2>/dev/null && "
		     "musl-gcc -O1 -fPIC -shared -fno-builtin ext.c -o ext-musl.so")) {
		print_error("SKIPPED: musl-gcc is not installed (package musl-tools)\n");
		skip();
	}
	start(&t, "exec ./host-musl", NULL);
	load(&t, "./ext-musl.so", LAZY);
	scan(&t);
	check_slots(&t);
	assert_true(t.got.r_debug != 0);
	check_slot(slot_of(&t, "/ext-musl.so", AF_MALLOC, -1), GOT_RESOLVED, true, true);
	stop(&t);
}

/* One file with everything in it: its pointers are relocations without a name. */
static void test_static_pie(void **state)
{
	struct target t;

	write_file("static.c", "#include <stdio.h>\n#include <stdlib.h>\n"
			       "void *(*volatile m)(size_t) = malloc;\n"
			       "int main(void) { puts(\"1\"); fflush(stdout); free(m(5));\n"
			       "return getchar() != -1; }\n");
	if (!compile("cc -O1 -fPIE -static-pie static.c -o static 2>/dev/null")) {
		print_error("SKIPPED: cannot link static-pie (package libc6-dev)\n");
		skip();
	}
	start(&t, "exec ./static", NULL);
	scan(&t);
	assert_true(t.got.n > 0);
	for (size_t i = 0; i < t.got.n; i++) {
		check_slot(&t.got.v[i], GOT_RESOLVED, t.got.v[i].writable, true);
		assert_int_equal(t.got.v[i].kind, GOT_DATA);
		assert_int_equal(t.got.v[i].of, GOT_OF_ALLOCATOR);
	}
	stop(&t);
}

static void test_python(void **state)
{
	static const char code[] =
		"import sys\n"
		"for m in 'ssl', 'sqlite3', 'lzma', 'ctypes', '_decimal', 'bz2', 'zlib':\n"
		"    try: __import__(m)\n"
		"    except ImportError: pass\n"
		"print(1, flush=True); sys.stdin.read()\n";
	char command[2048];
	struct pythons ps;
	struct target t;

	pythons_find(&ps);
	if (!ps.n) {
		print_error("SKIPPED: no CPython 3.8 to 3.14 found\n");
		skip();
	}
	for (size_t i = 0; i < ps.n; i++) {
		size_t by[3] = {0}, states[4] = {0}, relro = 0, kinds[3] = {0};

		snprintf(command, sizeof(command), "exec %s -c \"%s\"", ps.v[i].command, code);
		start(&t, command, NULL);
		pyinfo_free(&t.info);
		assert_int_equal(pyinfo_examine(t.pid, &t.info), 0);
		print_message("%s\n", ps.v[i].command);
		scan(&t);
		check_slots(&t);
		for (size_t k = 0; k < t.got.n; k++) {
			by[t.got.v[k].of]++;
			states[t.got.v[k].state]++;
			kinds[t.got.v[k].kind]++;
			relro += !t.got.v[k].writable;
			/* _decimal stores the interpreter's functions into its pointers */
			if (t.got.v[k].state == GOT_OTHER)
				assert_int_equal(t.got.v[k].kind, GOT_DATA);
			if (t.got.v[k].of == GOT_OF_INTERPRETER)
				assert_string_equal(t.got.objects[t.got.v[k].object].path,
						    t.info.object_path);
		}
		print_message(
			"  library %zu, interpreter %zu, allocator %zu; resolved %zu, lazy %zu, "
			"via exe %zu, other %zu;\n  plt %zu, got %zu, data %zu; read-only %zu\n",
			by[0], by[1], by[2], states[0], states[1], states[2], states[3], kinds[0],
			kinds[1], kinds[2], relro);
		assert_true(by[GOT_OF_INTERPRETER] >= 4 && by[GOT_OF_LIBRARY] >= 4);
		pyinfo_free(&t.info);
		stop(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),	    cmocka_unit_test(test_dlopen),
		cmocka_unit_test(test_swap),	    cmocka_unit_test(test_write_refused),
		cmocka_unit_test(test_interposers), cmocka_unit_test(test_via_exe),
		cmocka_unit_test(test_static_pie),  cmocka_unit_test(test_musl),
		cmocka_unit_test(test_python),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
