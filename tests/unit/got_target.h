/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Small programs and libraries that the tests of GOT slots are run on: built
 * in a directory of their own, driven through a pipe, scanned.
 */
#ifndef PHT_TEST_GOT_TARGET_H
#define PHT_TEST_GOT_TARGET_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "got.h"
#include "got_reloc.h"

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

static inline void write_file(const char *name, const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "we");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static inline bool compile(const char *command)
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

static inline u64 answer(struct target *t)
{
	u64 v;

	if (fscanf(t->out, "%" SCNu64, &v) != 1)
		fail_msg("the target says nothing");
	return v;
}

static inline void start(struct target *t, const char *command, const char *preload)
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

static inline void stop(struct target *t)
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

static inline u64 ask(struct target *t, char command, const char *text, long k, long n)
{
	dprintf(t->in, "%c %s %ld %ld\n", command, text, k, n);
	return answer(t);
}

static inline u64 load(struct target *t, const char *lib, long mode)
{
	return ask(t, 'o', lib, mode, 0);
}

static inline void scan(struct target *t)
{
	struct timespec a, b;

	got_slots_free(&t->got);
	alloc_family_free(&t->heap);
	alloc_family_free(&t->mm);
	proc_maps_free(&t->maps);
	assert_int_equal(proc_maps_read(t->pid, &t->maps), 0);
	assert_int_equal(allocfind(t->pid, &t->maps, &t->heap, &t->mm), 0);
	clock_gettime(CLOCK_MONOTONIC, &a);
	assert_int_equal(got_scan(&t->info, &t->maps, &t->heap, &t->mm, &t->got), 0);
	clock_gettime(CLOCK_MONOTONIC, &b);
	assert_true(t->got.settled);
	assert_int_equal(t->got.skipped, 0);
	assert_false(got_changed(t->pid, &t->got));
	print_message("  %zu slots in %zu objects, %.1f ms\n", t->got.n, t->got.nobjects,
		      (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6);
}

static inline enum alloc_func func_named(const char *name)
{
	int f = got_func_by_name(name);

	return f < 0 ? AF_NR : (enum alloc_func)f;
}

static inline struct got_object *object(struct target *t, const char *suffix)
{
	for (size_t i = 0; i < t->got.nobjects; i++) {
		struct got_object *o = &t->got.objects[i];
		size_t len = strlen(o->path), n = strlen(suffix);

		if (len >= n && !strcmp(o->path + len - n, suffix))
			return o;
	}
	return NULL;
}

static inline struct got_slot *slot_at(struct target *t, u64 addr)
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
static inline struct got_slot *slot_of(struct target *t, const char *suffix, enum alloc_func f,
				       int kind)
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

static inline int make_dir(void **state)
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
static inline int remove_dir(void **state)
{
	char line[128];

	snprintf(line, sizeof(line), "rm -r %s", dir);
	return system(line);
}

#endif
