// SPDX-License-Identifier: BSD-2-Clause
/*
 * Who serves malloc, in small programs under several allocators; the truth is
 * what dlsym() says inside them.  What is not installed is skipped, loudly.
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
#include <string.h>
#include <sys/wait.h>

#include "allocfind.h"
#include "elf.h"

/* Prints "function address" lines, then waits for its input to end. */
static const char program[] =
	"#define _GNU_SOURCE\n"
	"#include <dlfcn.h>\n#include <stdio.h>\n#include <stdlib.h>\n"
	"static const char *n[] = {\"malloc\", \"calloc\", \"realloc\", \"reallocarray\", "
	"\"free\",\n"
	"\"posix_memalign\", \"aligned_alloc\", \"memalign\", \"valloc\", \"pvalloc\", \"mmap\",\n"
	"\"munmap\", \"mremap\", 0};\n"
	"int main(void) { for (int i = 0; n[i]; i++)\n"
	"printf(\"%s %lu\\n\", n[i], (unsigned long)dlsym(RTLD_DEFAULT, n[i]));\n"
	"puts(\"end 0\"); fflush(stdout); void *volatile p = malloc(10); free(p);\n"
	"return getchar() != -1; }\n";

/* An executable with an allocator of its own, offered to the libraries. */
static const char own_malloc[] =
	"#include <stddef.h>\n"
	"static char pool[1 << 20]; static size_t used;\n"
	"void *malloc(size_t n) { void *p = pool + used; used += (n + 31) & ~15ul; return p; }\n"
	"void free(void *p) { (void)p; }\n"
	"void *calloc(size_t a, size_t b) { return malloc(a * b); }\n"
	"void *realloc(void *p, size_t n) { char *q = malloc(n); if (p) for (size_t i = 0; i < n; "
	"i++)\n"
	"q[i] = ((char *)p)[i]; return q; }\n";

static char dir[] = "/tmp/pht-allocfind-XXXXXX";

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

/* Compile in the directory; false when the compiler is missing. */
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
	u64 addr[AF_NR]; /* by dlsym(), 0 = not there */
	struct proc_maps maps;
};

static void target_launch(struct target *t, const char *exe, const char *preload)
{
	int to[2], from[2];

	assert_int_equal(pipe2(to, O_CLOEXEC) | pipe2(from, O_CLOEXEC), 0);
	t->pid = fork();
	assert_true(t->pid >= 0);
	if (!t->pid) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		if (preload)
			setenv("LD_PRELOAD", preload, 1);
		if (!chdir(dir))
			execl(exe, exe, NULL);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	t->in = to[1];
	t->out = fdopen(from[0], "re");
	assert_non_null(t->out);
}

static void target_start(struct target *t, const char *exe, const char *preload)
{
	char name[32];
	u64 addr;

	memset(t, 0, sizeof(*t));
	target_launch(t, exe, preload);
	for (;;) {
		if (fscanf(t->out, "%31s %" SCNu64, name, &addr) != 2)
			fail_msg("%s printed nothing", exe);
		if (!strcmp(name, "end"))
			break;
		for (int f = 0; f < AF_NR; f++)
			if (!strcmp(alloc_func_name(f), name))
				t->addr[f] = addr;
	}
	assert_int_equal(proc_maps_read(t->pid, &t->maps), 0);
}

static void target_stop(struct target *t)
{
	int status;

	close(t->in);
	fclose(t->out);
	assert_int_equal(waitpid(t->pid, &status, 0), t->pid);
	assert_int_equal(status, 0);
	proc_maps_free(&t->maps);
}

static bool is_mm(int f)
{
	return f == AF_MMAP || f == AF_MUNMAP || f == AF_MREMAP;
}

/* The site lies on the same bytes in memory and at the file offset. */
static void check_site(const struct target *t, const struct alloc_family *fam, int f)
{
	const struct alloc_target *at = &fam->f[f];
	u64 addr = at->vaddr + fam->bias + at->site.offset;
	u8 live[8], file[8];
	int fd = proc_open_map(t->pid, &fam->map);

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, file, sizeof(file), (off_t)at->offset), sizeof(file));
	close(fd);
	assert_int_equal(proc_read(t->pid, addr, live, sizeof(live)), 0);
	assert_memory_equal(live, file, sizeof(live));
	assert_true(addr >= fam->code_start && addr < fam->code_end);
	if (at->site.cost == PROBE_EMULATED)
		assert_true((live[0] & 0xf8) == 0x50 || live[0] == 0x41 || live[0] == 0x0f ||
			    (live[0] & 0xf0) == 0x70 || live[0] == 0xe9 || live[0] == 0xeb ||
			    live[0] == 0xe8 || live[0] == 0x90);
}

/* Functions of the family's own object are all found, at their addresses, each address once. */
static void check_family(const struct target *t, const struct alloc_family *fam, bool mm)
{
	for (int f = 0; f < AF_NR; f++) {
		const struct alloc_target *at = &fam->f[f];
		bool here = t->addr[f] >= fam->code_start && t->addr[f] < fam->code_end;

		if (f <= AF_MREMAP && is_mm(f) == mm) {
			if ((at->vaddr ? at->vaddr + fam->bias : 0) != (here ? t->addr[f] : 0))
				fail_msg("%s: %s at %#" PRIx64 ", not %#" PRIx64, fam->name,
					 alloc_func_name(f), at->vaddr + fam->bias, t->addr[f]);
		}
		if (is_mm(f) != mm)
			assert_false(at->present);
		for (int g = 0; g < f; g++)
			if (at->present && fam->f[g].present)
				assert_true(at->vaddr != fam->f[g].vaddr);
		if (at->present)
			check_site(t, fam, f);
	}
}

static void show(const struct alloc_family *fam)
{
	for (int f = 0; f < AF_NR; f++)
		if (fam->f[f].present)
			print_message("  %-9s %-34s +%-3" PRIu64 "%s%s\n", fam->name,
				      alloc_func_name(f), fam->f[f].site.offset,
				      fam->f[f].site.cost == PROBE_EMULATED ? "" : " stepped",
				      fam->f[f].always_return ? " always-return" : "");
}

static void find(struct target *t, const char *exe, const char *preload, struct alloc_family *heap,
		 struct alloc_family *mm)
{
	target_start(t, exe, preload);
	assert_int_equal(allocfind(t->pid, &t->maps, heap, mm), 0);
	show(heap);
	check_family(t, heap, false);
	if (mm->path)
		check_family(t, mm, true);
	assert_true(heap->f[AF_REALLOC].always_return);
	assert_false(heap->f[AF_FREE].always_return);
}

static void done(struct target *t, struct alloc_family *heap, struct alloc_family *mm)
{
	alloc_family_free(heap);
	alloc_family_free(mm);
	target_stop(t);
}

static void test_glibc(void **state)
{
	struct alloc_family heap, mm;
	struct target t;

	if (!compile("cc -O1 prog.c -o prog -ldl"))
		fail_msg("no C compiler");
	find(&t, "./prog", NULL, &heap, &mm);
	assert_string_equal(heap.path, mm.path);
	if (!strcmp(heap.name, "glibc")) {
		assert_true(heap.f[AF_MALLOC].present && heap.f[AF_FREE].present);
		assert_false(heap.f[AF_NEW].present);
		/* it multiplies and calls realloc through the PLT */
		assert_true(heap.f[AF_REALLOCARRAY].always_return);
		/* a helper of theirs calls malloc for small alignments */
		assert_true(heap.f[AF_POSIX_MEMALIGN].always_return);
		assert_true(heap.f[AF_ALIGNED_ALLOC].always_return);
		assert_false(heap.f[AF_MALLOC].always_return);
		assert_false(heap.f[AF_CALLOC].always_return);
	}
	done(&t, &heap, &mm);
}

static void test_musl(void **state)
{
	struct alloc_family heap, mm;
	struct target t;

	if (!compile("musl-gcc -O1 prog.c -o prog-musl 2>/dev/null")) {
		print_error("SKIPPED: musl-gcc is not installed (package musl-tools)\n");
		skip();
	}
	find(&t, "./prog-musl", NULL, &heap, &mm);
	assert_string_equal(heap.name, "musl");
	assert_string_equal(heap.path, mm.path);
	assert_true(heap.f[AF_CALLOC].always_return);
	assert_true(heap.f[AF_POSIX_MEMALIGN].always_return);
	assert_true(heap.f[AF_REALLOCARRAY].always_return);
	assert_false(heap.f[AF_MALLOC].always_return);
	assert_false(heap.f[AF_PVALLOC].present);
	done(&t, &heap, &mm);
}

static void test_static_musl(void **state)
{
	struct alloc_family heap = {.path = NULL}, mm = {.path = NULL};
	struct proc_maps maps;
	struct target t;

	write_file("wait.c", "#include <stdio.h>\nint main(void) { puts(\"up\"); fflush(stdout);\n"
			     "return getchar() != -1; }\n");
	if (!compile("musl-gcc -O1 -static -s wait.c -o wait-musl 2>/dev/null")) {
		print_error("SKIPPED: musl-gcc is not installed (package musl-tools)\n");
		skip();
	}
	memset(&t, 0, sizeof(t));
	target_launch(&t, "./wait-musl", NULL);
	assert_int_equal(fgetc(t.out), 'u');
	assert_int_equal(proc_maps_read(t.pid, &maps), 0);
	assert_int_equal(allocfind(t.pid, &maps, &heap, &mm), -ENOENT);
	assert_null(heap.path);
	proc_maps_free(&maps);
	target_stop(&t);
}

/* own_mm: it serves mmap too, so that libc's is not used. */
static void check_preload(const char *pattern, const char *name, const char *package, bool own_mm,
			  const enum alloc_func *wrappers)
{
	struct alloc_family heap, mm;
	struct target t;
	glob_t g;

	if (glob(pattern, 0, NULL, &g)) {
		print_error("SKIPPED: %s is not installed (package %s)\n", name, package);
		skip();
	}
	compile("cc -O1 prog.c -o prog -ldl");
	find(&t, "./prog", g.gl_pathv[0], &heap, &mm);
	globfree(&g);
	assert_string_equal(heap.name, name);
	assert_string_equal(mm.name, own_mm ? name : "glibc");
	assert_int_equal(strcmp(heap.path, mm.path) == 0, own_mm);
	assert_true(heap.f[AF_MALLOC].present && heap.f[AF_FREE].present);
	assert_true(heap.f[AF_NEW].present);
	assert_false(heap.f[AF_MALLOC].always_return);
	assert_false(heap.f[AF_CALLOC].always_return);
	for (; *wrappers != AF_MALLOC; wrappers++)
		if (!heap.f[*wrappers].always_return)
			fail_msg("%s of %s wraps another", alloc_func_name(*wrappers), name);
	assert_true(mm.f[AF_MMAP].present && mm.f[AF_MUNMAP].present);
	done(&t, &heap, &mm);
}

static void test_jemalloc(void **state)
{
	check_preload("/usr/lib*/*/libjemalloc.so.2", "jemalloc", "libjemalloc2", false,
		      (const enum alloc_func[]){AF_NEW_ALIGNED, AF_NEW_ARRAY, AF_MALLOC});
}

static void test_tcmalloc(void **state)
{
	check_preload("/usr/lib*/*/libtcmalloc_minimal.so.4", "tcmalloc", "libtcmalloc-minimal4",
		      true, (const enum alloc_func[]){AF_MALLOC});
}

static void test_mimalloc(void **state)
{
	check_preload("/usr/lib*/*/libmimalloc.so.2", "mimalloc", "libmimalloc2.0", false,
		      (const enum alloc_func[]){AF_MALLOC});
}

static void test_own_malloc(void **state)
{
	struct alloc_family heap, mm;
	struct target t;

	write_file("own.c", own_malloc);
	assert_true(compile("cc -O1 -fno-builtin prog.c own.c -o own -ldl"));
	find(&t, "./own", NULL, &heap, &mm);
	assert_string_equal(heap.name, "unknown");
	assert_non_null(strstr(heap.path, "/own"));
	assert_true(heap.f[AF_MALLOC].present);
	assert_false(heap.f[AF_MEMALIGN].present);
	assert_string_equal(mm.name, "glibc");
	done(&t, &heap, &mm);
}

/* A library with a private malloc of its own, loaded first, must not be taken for the allocator. */
static void test_hidden_malloc(void **state)
{
	struct alloc_family heap, mm;
	struct target t;

	write_file("hidden.c", own_malloc);
	assert_true(compile("cc -O1 -fno-builtin -fPIC -shared -fvisibility=hidden hidden.c "
			    "-o hidden.so && cc -O1 prog.c -o prog -ldl"));
	find(&t, "./prog", "./hidden.so", &heap, &mm);
	assert_null(strstr(heap.path, "hidden"));
	done(&t, &heap, &mm);
}

static void test_gone(void **state)
{
	struct alloc_family heap = {.bias = 7}, mm = {.bias = 7};
	struct proc_maps maps = {0};

	/* no mappings to look through: nothing found, nothing written */
	assert_int_equal(allocfind(getpid(), &maps, &heap, &mm), -ENOENT);
	assert_int_equal(heap.bias + mm.bias, 14);
}

static void test_shapes(void **state)
{
	assert_int_equal(alloc_func_shape(AF_DELETE_ARRAY_SIZED_ALIGNED), AS_FREE);
	assert_int_equal(alloc_func_shape(AF_NEW_ALIGNED), AS_MALLOC);
	assert_int_equal(alloc_func_shape(AF_MEMALIGN), AS_MEMALIGN);
	for (int f = 0; f < AF_NR; f++)
		assert_non_null(alloc_func_name(f));
}

static int make_dir(void **state)
{
	if (!mkdtemp(dir))
		return -1;
	write_file("prog.c", program);
	return 0;
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
		cmocka_unit_test(test_glibc),	    cmocka_unit_test(test_musl),
		cmocka_unit_test(test_static_musl), cmocka_unit_test(test_jemalloc),
		cmocka_unit_test(test_tcmalloc),    cmocka_unit_test(test_mimalloc),
		cmocka_unit_test(test_own_malloc),  cmocka_unit_test(test_hidden_malloc),
		cmocka_unit_test(test_gone),	    cmocka_unit_test(test_shapes),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
