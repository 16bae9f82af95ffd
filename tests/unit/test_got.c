// SPDX-License-Identifier: BSD-2-Clause
/*
 * Slots found in processes that load small libraries of every kind, against
 * what readelf says of the files; swapped, called through, and put back.
 * Needs a C compiler, readelf, and the right to ptrace its own children.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "elf.h"
#include "got.h"
#include "got_elf.h"
#include "got_reloc.h"
#include "pht_tramp.h"
#include "pythons.h"

static const char ext_source[] =
	"#include <stdlib.h>\n"
	"#ifdef POINTERS\n"
	"void *(*volatile m)(size_t) = malloc; void (*volatile f)(void *) = free;\n"
	"const struct { void *(*c)(size_t, size_t); } ops = {calloc};\n"
	"#define malloc m\n#define free f\n"
	"#endif\n"
	"void run(int n) { while (n-- > 0) { void *volatile p = malloc(100); free(p); } }\n"
	"void *more(void *p, size_t n) { void *q = 0; p = realloc(p, n); p = calloc(n, 2);\n"
	"p = aligned_alloc(64, n); return posix_memalign(&q, 64, n) ? p : q; }\n";

/* Wrappers that count; the functions below them come from wherever the linker says. */
static const char count_source[] = "#include <stdlib.h>\n"
				   "long mallocs, frees;\n"
				   "void *count_malloc(size_t n) { mallocs++; return malloc(n); }\n"
				   "void count_free(void *p) { frees++; free(p); }\n";

/* Obeys one-letter commands, and answers each with one number. */
static const char host_source[] =
	"#define _GNU_SOURCE\n"
	"#include <dlfcn.h>\n#include <stdio.h>\n#include <stdlib.h>\n"
	"int main(void) { char c, s[300]; void *h[64]; long k, n, id = 0;\n"
	"#ifdef TAKE_ADDRESS\n"
	"void *volatile a = (void *)malloc; void *volatile b = (void *)free;\n"
	"#else\n"
	"void *volatile a = malloc(1), *volatile b = 0; free(b);\n"
	"#endif\n"
	"printf(\"%lu\\n\", (unsigned long)a + !b); fflush(stdout);\n"
	"while (scanf(\" %c %299s %ld %ld\", &c, s, &k, &n) == 4) { unsigned long r = 0;\n"
	"switch (c) {\n"
	"case 'o': h[r = id++] = dlopen(s, (int)k);\n"
	"if (!h[r]) { fputs(dlerror(), stderr); return 1; } break;\n"
	"#ifdef LM_ID_NEWLM\n"
	"case 'n': h[r = id++] = dlmopen(LM_ID_NEWLM, s, (int)k);\n"
	"if (!h[r]) { fputs(dlerror(), stderr); return 1; } break;\n"
	"#endif\n"
	"case 'c': r = (unsigned long)dlclose(h[k]); break;\n"
	"case 'r': ((void (*)(int))dlsym(h[k], \"run\"))((int)n); break;\n"
	"case 'a': r = (unsigned long)dlsym(h[k], s); break;\n"
	"case 'l': r = *(unsigned long *)dlsym(h[k], s); break; }\n"
	"printf(\"%lu\\n\", r); fflush(stdout); } return 0; }\n";

static char dir[] = "/tmp/pht-got-XXXXXX";

static void write_file(const char *name, const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "we");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static bool compile(const char *command)
{
	char line[512];

	snprintf(line, sizeof(line), "cd %s && %s", dir, command);
	return system(line) == 0;
}

struct target {
	pid_t pid;
	int in;
	FILE *out;
	struct pyinfo info; /* all but pid may be empty */
	struct proc_maps maps;
	struct alloc_family heap, mm;
	struct got_slots got;
};

static u64 answer(struct target *t)
{
	u64 v;

	if (fscanf(t->out, "%" SCNu64, &v) != 1)
		fail_msg("the target says nothing");
	return v;
}

static void start(struct target *t, const char *command, const char *preload)
{
	int to[2], from[2];

	memset(t, 0, sizeof(*t));
	assert_int_equal(pipe2(to, O_CLOEXEC) | pipe2(from, O_CLOEXEC), 0);
	fflush(NULL);
	t->pid = fork();
	assert_true(t->pid >= 0);
	if (!t->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(to[0], 0);
		dup2(from[1], 1);
		unsetenv("LD_BIND_NOW");
		if (preload)
			setenv("LD_PRELOAD", preload, 1);
		if (!chdir(dir))
			execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	t->in = to[1];
	t->out = fdopen(from[0], "re");
	assert_non_null(t->out);
	t->info.pid = t->pid;
	answer(t);
}

static void stop(struct target *t)
{
	int status;

	close(t->in);
	fclose(t->out);
	assert_int_equal(waitpid(t->pid, &status, 0), t->pid);
	assert_int_equal(status, 0);
	got_slots_free(&t->got);
	alloc_family_free(&t->heap);
	alloc_family_free(&t->mm);
	proc_maps_free(&t->maps);
}

static u64 ask(struct target *t, char command, const char *text, long k, long n)
{
	dprintf(t->in, "%c %s %ld %ld\n", command, text, k, n);
	return answer(t);
}

static u64 load(struct target *t, const char *lib, long mode)
{
	return ask(t, 'o', lib, mode, 0);
}

static void scan(struct target *t)
{
	struct timespec a, b;

	got_slots_free(&t->got);
	alloc_family_free(&t->heap);
	alloc_family_free(&t->mm);
	proc_maps_free(&t->maps);
	assert_int_equal(proc_maps_read(t->pid, &t->maps), 0);
	assert_int_equal(allocfind(t->pid, &t->maps, &t->heap, &t->mm), 0);
	clock_gettime(CLOCK_MONOTONIC, &a);
	assert_int_equal(got_scan(&t->info, &t->maps, &t->heap, &t->got), 0);
	clock_gettime(CLOCK_MONOTONIC, &b);
	assert_true(t->got.settled);
	assert_int_equal(t->got.skipped, 0);
	assert_false(got_changed(t->pid, &t->got));
	print_message("  %zu slots in %zu objects, %.1f ms\n", t->got.n, t->got.nobjects,
		      (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6);
}

static enum alloc_func func_named(const char *name)
{
	for (int f = 0; f < AF_NR; f++)
		if (got_func_symbol(f) && !strcmp(got_func_symbol(f), name))
			return f;
	return AF_NR;
}

static struct got_object *object(struct target *t, const char *suffix)
{
	for (size_t i = 0; i < t->got.nobjects; i++) {
		struct got_object *o = &t->got.objects[i];
		size_t len = strlen(o->path), n = strlen(suffix);

		if (len >= n && !strcmp(o->path + len - n, suffix))
			return o;
	}
	return NULL;
}

static struct got_slot *slot_at(struct target *t, u64 addr)
{
	struct got_slot *found = NULL;

	for (size_t i = 0; i < t->got.n; i++)
		if (t->got.v[i].addr == addr) {
			assert_null(found);
			found = &t->got.v[i];
		}
	return found;
}

/* The one slot of a function in an object; kind < 0: any. */
static struct got_slot *slot_of(struct target *t, const char *suffix, enum alloc_func f, int kind)
{
	struct got_slot *found = NULL;

	for (size_t i = 0; i < t->got.n; i++) {
		struct got_slot *s = &t->got.v[i];

		if (s->func != f || (kind >= 0 && (int)s->kind != kind) ||
		    &t->got.objects[s->object] != object(t, suffix))
			continue;
		assert_null(found);
		found = s;
	}
	if (!found)
		fail_msg("no slot for %s in %s", alloc_func_name(f), suffix);
	return found;
}

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
		assert_int_equal(s->state == GOT_RESOLVED,
				 value == t->heap.f[s->func].vaddr + t->heap.bias);
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
	assert_int_equal(slot_of(&t, "/libc.so.6", AF_FREE, GOT_JUMP_SLOT)->of, GOT_OF_ALLOCATOR);
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
	check_slot(slot_of(&t, "/libc.so.6", AF_MALLOC, GOT_JUMP_SLOT), GOT_RESOLVED, false, true);
	assert_int_equal(slot_of(&t, "/libc.so.6", AF_MALLOC, -1)->of, GOT_OF_LIBRARY);
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
		assert_int_equal(states[GOT_OTHER], 0);
		pyinfo_free(&t.info);
		stop(&t);
	}
}

/* A library's file, laid out as a linker would, but writable, and not relocated. */
struct layout {
	u8 *at;
	size_t len;
	struct proc_maps maps;
	const struct proc_map *base;
};

static void lay_out(struct layout *l, const char *name)
{
	Elf64_Phdr ph[32];
	Elf64_Ehdr eh;
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &eh, sizeof(eh), 0), sizeof(eh));
	assert_true(eh.e_phnum <= ARRAY_SIZE(ph));
	assert_int_equal(pread(fd, ph, eh.e_phnum * sizeof(*ph), (off_t)eh.e_phoff),
			 eh.e_phnum * sizeof(*ph));
	l->len = 1 << 20;
	l->at = mmap(NULL, l->len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(l->at != MAP_FAILED);
	for (int i = 0; i < eh.e_phnum; i++) {
		u64 skew = ph[i].p_vaddr % 4096;

		if (ph[i].p_type != PT_LOAD)
			continue;
		assert_true(ph[i].p_vaddr + ph[i].p_memsz <= l->len);
		assert_true(mmap(l->at + ph[i].p_vaddr - skew, ph[i].p_filesz + skew,
				 PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd,
				 (off_t)(ph[i].p_offset - skew)) != MAP_FAILED);
	}
	close(fd);
	assert_int_equal(proc_maps_read(getpid(), &l->maps), 0);
	l->base = proc_maps_find(&l->maps, (u64)(uintptr_t)l->at);
	assert_non_null(l->base);
}

static size_t read_layout(const struct layout *l)
{
	struct got_slots slots = {.settled = true};
	u64 budget = 1 << 16;
	struct got_elf o;
	size_t n;

	slots.real[AF_MALLOC] = (u64)(uintptr_t)l->at + 64;
	if (got_elf_read(getpid(), &l->maps, l->base, &o))
		return 0;
	o.is_exe = true;
	o.defines = got_elf_defines(getpid(), &o, "run") << AF_MALLOC;
	got_elf_defines(getpid(), &o, "malloc");
	got_reloc_scan(getpid(), &l->maps, &o, 0, &budget, &slots);
	n = slots.n;
	for (size_t i = 0; i < n; i++) {
		const struct got_slot *s = &slots.v[i];

		/* whatever the tables say, a slot is a word of that very file's mappings */
		assert_true(s->addr % 8 == 0 && s->addr >= (u64)(uintptr_t)l->at &&
			    s->addr + 8 <= (u64)(uintptr_t)(l->at + l->len));
		assert_int_equal(s->inode, l->base->inode);
	}
	got_slots_free(&slots);
	return n;
}

/* Where the tables are that are worth damaging: headers, symbols, relocations, dynamic. */
static void test_hostile(void **state)
{
	static const char *const libs[] = {"lazy.so", "data.so", "sysv.so"};
	size_t found = 0, runs = 0;
	struct layout l;

	srandom(1);
	for (size_t k = 0; k < ARRAY_SIZE(libs); k++) {
		lay_out(&l, libs[k]);
		assert_true(read_layout(&l) >= 6);
		for (int i = 0; i < 4000; i++, runs++) {
			struct got_elf o;
			u64 places[8], saved[4], *at[4];

			assert_int_equal(got_elf_read(getpid(), &l.maps, l.base, &o), 0);
			places[0] = places[1] = (u64)(uintptr_t)l.at;
			places[2] = places[3] = o.dynamic;
			places[4] = o.rela;
			places[5] = o.jmprel;
			places[6] = o.symtab;
			places[7] = o.gnu_hash ? o.gnu_hash : o.hash;
			for (int j = 0; j < 4; j++) {
				u64 p = places[random() % 8] + (u64)(random() % 48) * 8;

				at[j] = (u64 *)(uintptr_t)(p & ~7ul);
				saved[j] = *at[j];
				switch (random() % 4) {
				case 0:
					*at[j] ^= 1ul << (random() % 64);
					break;
				case 1:
					*at[j] = UINT64_MAX - (u64)(random() % 64);
					break;
				case 2:
					*at[j] = (u64)random() << (random() % 40);
					break;
				case 3:
					*at[j] = saved[(random() % (j + 1))];
				}
			}
			found += read_layout(&l) != 0;
			for (int j = 3; j >= 0; j--)
				*at[j] = saved[j];
		}
		assert_true(read_layout(&l) >= 6);
		proc_maps_free(&l.maps);
		munmap(l.at, l.len);
	}
	print_message("  %zu of %zu damaged objects still had slots\n", found, runs);
	assert_true(found && found < runs);
}

/* A link map in a ring, of no end, or of nonsense. */
static void test_hostile_links(void **state)
{
	static u64 link[5], debug[6];
	struct got_slots slots = {.settled = true, .r_debug = (u64)(uintptr_t)debug};

	debug[0] = 2;
	debug[1] = link[3] = (u64)(uintptr_t)link;
	debug[5] = (u64)(uintptr_t)debug;
	link[1] = UINT64_MAX - 3;
	assert_true(got_changed(getpid(), &slots));
	link[3] = UINT64_MAX - 7;
	assert_true(got_changed(getpid(), &slots));
	debug[1] = 0;
	assert_true(got_changed(getpid(), &slots));
	slots.r_debug = UINT64_MAX;
	assert_true(got_changed(getpid(), &slots));
}

static void test_nothing(void **state)
{
	struct pyinfo info = {.pid = getpid()}, gone = {.pid = 1 << 30};
	struct alloc_family heap = {.bias = 0};
	struct got_slots out = {.n = 7};
	struct proc_maps maps = {0};

	assert_int_equal(got_scan(&info, &maps, &heap, &out), -ENOENT);
	heap.f[AF_MALLOC].vaddr = 4096;
	assert_int_equal(got_scan(&gone, &maps, &heap, &out), -ESRCH);
	assert_int_equal(out.n, 7);
	assert_int_equal(got_scan(&info, &maps, &heap, &out), 0);
	assert_int_equal(out.n + out.nobjects, 0);
	got_slots_free(&out);
	assert_int_equal(got_entry(AF_MALLOC), PHT_TFN_MALLOC);
	assert_int_equal(got_entry(AF_REALLOCARRAY), PHT_TFN_REALLOCARRAY);
	assert_int_equal(got_entry(AF_MMAP), -ENOENT);
}

static int make_dir(void **state)
{
	if (!mkdtemp(dir))
		return -1;
	write_file("ext.c", ext_source);
	write_file("count.c", count_source);
	write_file("host.c", host_source);
	return !compile("B='cc -O1 -fPIC -shared -fno-builtin ext.c -o' && "
			"$B lazy.so -Wl,-z,lazy && cp lazy.so lazy2.so && $B now.so -Wl,-z,now && "
			"$B noplt.so -fno-plt && $B data.so -DPOINTERS -Wl,-z,lazy && "
			"$B sysv.so -Wl,-z,lazy,--hash-style=sysv && "
			"cc -O1 -fPIC -shared -fno-builtin count.c -o count.so && "
			"cc -O1 host.c -o host -ldl");
}

static int remove_dir(void **state)
{
	char line[128];

	snprintf(line, sizeof(line), "rm -r %s", dir);
	return system(line);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),	    cmocka_unit_test(test_dlopen),
		cmocka_unit_test(test_swap),	    cmocka_unit_test(test_write_refused),
		cmocka_unit_test(test_interposers), cmocka_unit_test(test_via_exe),
		cmocka_unit_test(test_musl),	    cmocka_unit_test(test_python),
		cmocka_unit_test(test_hostile),	    cmocka_unit_test(test_hostile_links),
		cmocka_unit_test(test_nothing),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
