// SPDX-License-Identifier: BSD-2-Clause
/* user/plan.c: this very program plays the interpreter; its allocators are made up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/wait.h>

#include "elf.h"
#include "plan.h"

#define INTERVAL 4096

/* Functions for the tables to point at: they only need to be code of ours. */
#define FAKE(name)                                                                                 \
	__attribute__((noinline, used)) static u64 name(u64 a, u64 b, u64 c)                       \
	{                                                                                          \
		__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c));                                  \
		return a * 3 + b * 5 + c + __LINE__ * (u64)(uintptr_t) #name;                      \
	}
FAKE(obj_malloc)
FAKE(obj_calloc)
FAKE(obj_realloc)
FAKE(obj_free)
FAKE(mem_malloc)
FAKE(mem_calloc)
FAKE(mem_realloc)
FAKE(mem_free)
FAKE(new_pool)

static int runtime_stand_in = 1;

/* What the stand-in for allocfind.c finds. */
static struct {
	int err;
	bool has_mm;
	struct alloc_family heap, mm;
} found;

int allocfind(pid_t pid, const struct proc_maps *maps, struct alloc_family *heap,
	      struct alloc_family *mm)
{
	const struct proc_map *map = proc_maps_find(maps, (uintptr_t)obj_malloc);

	(void)pid;
	if (found.err)
		return found.err;
	assert_non_null(map);
	found.heap.map = found.mm.map = *map;
	*heap = found.heap;
	heap->path = strdup("heap.so");
	*mm = found.mm;
	mm->path = found.has_mm ? strdup("libc.so") : NULL;
	return 0;
}

void alloc_family_free(struct alloc_family *family)
{
	free(family->path);
	family->path = NULL;
}

const char *alloc_func_name(enum alloc_func f)
{
	(void)f;
	return "function";
}

enum alloc_shape alloc_func_shape(enum alloc_func f)
{
	static const enum alloc_shape shapes[AF_NR] = {
		[AF_MALLOC] = AS_MALLOC,
		[AF_CALLOC] = AS_CALLOC,
		[AF_REALLOC] = AS_REALLOC,
		[AF_REALLOCARRAY] = AS_REALLOCARRAY,
		[AF_FREE] = AS_FREE,
		[AF_POSIX_MEMALIGN] = AS_POSIX_MEMALIGN,
		[AF_ALIGNED_ALLOC] = AS_MEMALIGN,
		[AF_MEMALIGN] = AS_MEMALIGN,
		[AF_VALLOC] = AS_MALLOC,
		[AF_PVALLOC] = AS_PVALLOC,
		[AF_MMAP] = AS_MMAP,
		[AF_MUNMAP] = AS_MUNMAP,
		[AF_MREMAP] = AS_MREMAP,
		[AF_NEW] = AS_MALLOC,
		[AF_DELETE] = AS_FREE,
	};

	return shapes[f];
}

static struct pyinfo info;
static struct proc_maps maps;
static struct plan plan;

static void present(struct alloc_family *family, enum alloc_func f, bool always)
{
	family->f[f] = (struct alloc_target){
		.present = true, .always_return = always, .offset = 0x1000 + 0x100 * f};
}

static int setup(void **state)
{
	const struct proc_map *map;
	struct elf_file *elf;

	(void)state;
	memset(&found, 0, sizeof(found));
	memset(&info, 0, sizeof(info));
	assert_int_equal(proc_maps_read(getpid(), &maps), 0);
	map = proc_maps_find(&maps, (uintptr_t)obj_malloc);
	assert_non_null(map);
	assert_int_equal(elf_open_fd(proc_open_map(getpid(), map), &elf), 0);
	assert_int_equal(elf_load_bias(elf, map->start, map->offset, &info.object_bias), 0);
	elf_close(elf);
	info.pid = getpid();
	info.runtime = (uintptr_t)&runtime_stand_in;
	info.object_path = map->path;
	info.object_start = 0x1000;
	info.object_end = 0x2000;
	info.pool_size = 16384;
	info.arena_size = 1 << 20;
	info.tss_key = 1;
	info.tls_kind = PHT_TLS_DTV;
	info.tls_module = 3;
	info.tls_offset = -24;
	info.off.ts_frame = 72;
	info.new_pool_fn = (uintptr_t)new_pool;
	info.raw = (struct py_allocator){.ctx = 0x10, .malloc_fn = (uintptr_t)mem_malloc};
	info.obj = (struct py_allocator){
		.ctx = 0x20,
		.malloc_fn = (uintptr_t)obj_malloc,
		.calloc_fn = (uintptr_t)obj_calloc,
		.realloc_fn = (uintptr_t)obj_realloc,
		.free_fn = (uintptr_t)obj_free,
	};
	info.mem = info.obj;
	found.has_mm = true;
	present(&found.heap, AF_MALLOC, false);
	present(&found.heap, AF_FREE, false);
	present(&found.mm, AF_MMAP, false);
	present(&found.mm, AF_MUNMAP, false);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	proc_maps_free(&maps);
	plan_free(&plan);
	return 0;
}

static void make(enum py_alloc_mode mode)
{
	plan_free(&plan);
	info.alloc_mode = mode;
	assert_int_equal(plan_make(&info, INTERVAL, &plan), 0);
}

static size_t count(enum pht_func func)
{
	size_t n = 0;

	for (size_t i = 0; i < plan.nprobes; i++)
		n += plan.probes[i].func == func;
	return n;
}

static size_t count_tables(void)
{
	return count(PHT_FN_PY_MALLOC) + count(PHT_FN_PY_CALLOC) + count(PHT_FN_PY_REALLOC) +
	       count(PHT_FN_PY_FREE);
}

/* The probe of a function of ours lies in the interpreter's file, on its code. */
static void assert_probe_on(enum pht_func func, u64 (*fn)(u64, u64, u64))
{
	const struct proc_map *map = proc_maps_find(&maps, (uintptr_t)fn);
	u64 at = (uintptr_t)fn - map->start + map->offset;

	for (size_t i = 0; i < plan.nprobes; i++) {
		const struct plan_probe *p = &plan.probes[i];

		if (p->func == func && p->object == 2 && p->offset >= at && p->offset < at + 16)
			return;
	}
	fail_msg("no probe of function %d at %#lx", func, at);
}

static void test_process_facts(void **state)
{
	(void)state;
	found.heap.code_start = 0x100;
	found.heap.code_end = 0x200;
	found.mm.code_start = 0x300;
	found.mm.code_end = 0x400;
	info.musl = true;
	make(PY_ALLOC_PYMALLOC);
	assert_int_equal(plan.proc.runtime, info.runtime);
	assert_int_equal(plan.proc.interval, INTERVAL);
	assert_int_equal(plan.proc.tls_kind, PHT_TLS_DTV);
	assert_int_equal(plan.proc.tls_module, 3);
	assert_int_equal(plan.proc.tls_offset, -24);
	assert_int_equal(plan.proc.tss_key, 1);
	assert_int_equal(plan.proc.flags, PHT_PROC_ENABLED | PHT_PROC_MUSL);
	assert_int_equal(plan.proc.pool_size, 16384);
	assert_int_equal(plan.proc.arena_size, 1 << 20);
	assert_int_equal(plan.proc.heap_start, 0x100);
	assert_int_equal(plan.proc.heap_end, 0x200);
	assert_int_equal(plan.proc.libc_start, 0x300);
	assert_int_equal(plan.proc.libc_end, 0x400);
	assert_int_equal(plan.proc.python_start, 0x1000);
	assert_int_equal(plan.proc.python_end, 0x2000);
	assert_int_equal(plan.proc.off.ts_frame, 72);
	info.musl = false;
	make(PY_ALLOC_PYMALLOC);
	assert_int_equal(plan.proc.flags, PHT_PROC_ENABLED);
}

static void test_modes_by_table(void **state)
{
	static const struct {
		enum py_alloc_mode mode;
		u64 small_max;
		bool free_threaded;
	} cases[] = {
		{PY_ALLOC_PYMALLOC, 512, false},    {PY_ALLOC_DEBUG, 488, false},
		{PY_ALLOC_TRACEMALLOC, 512, false}, {PY_ALLOC_MIMALLOC, ~0ull, false},
		{PY_ALLOC_DEBUG, ~0ull, true},	    {PY_ALLOC_TRACEMALLOC, ~0ull, true},
		{PY_ALLOC_MIMALLOC, ~0ull, true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		info.free_threaded = cases[i].free_threaded;
		make(cases[i].mode);
		assert_true(plan.complete);
		assert_int_equal(plan.proc.small_max, cases[i].small_max);
		assert_int_equal(plan.proc.raw_ctx, 0);
		assert_int_equal(plan.nprobes, 8);
		assert_int_equal(count(PHT_FN_PY_POOL), 0);
		assert_probe_on(PHT_FN_PY_MALLOC, obj_malloc);
		assert_probe_on(PHT_FN_PY_CALLOC, obj_calloc);
		assert_probe_on(PHT_FN_PY_REALLOC, obj_realloc);
		assert_probe_on(PHT_FN_PY_FREE, obj_free);
		/* It calls malloc for the new block, on most builds. */
		assert_int_equal(plan.proc.always_return, 1u << PHT_FN_PY_REALLOC);
		assert_non_null(strstr(plan.coverage, "every small Python block"));
	}
	/* A default that is copied into its callers cannot be probed. */
	info.inlined = true;
	make(PY_ALLOC_MIMALLOC);
	assert_false(plan.complete);
	assert_int_equal(count_tables(), 0);
	assert_int_equal(count(PHT_FN_PY_POOL), 0);
	assert_non_null(strstr(plan.coverage, "Python's own blocks not at all"));
	info.inlined = info.free_threaded = false;
	/* Debug hooks serve the raw domain with the same functions. */
	info.raw.malloc_fn = info.obj.malloc_fn;
	make(PY_ALLOC_DEBUG);
	assert_int_equal(plan.proc.raw_ctx, 0x10);
	info.raw.ctx = info.obj.ctx;
	make(PY_ALLOC_DEBUG);
	assert_int_equal(plan.proc.raw_ctx, 0);
	/* Domains with functions of their own. */
	info.mem.malloc_fn = (uintptr_t)mem_malloc;
	info.mem.calloc_fn = (uintptr_t)mem_calloc;
	info.mem.realloc_fn = (uintptr_t)mem_realloc;
	info.mem.free_fn = (uintptr_t)mem_free;
	make(PY_ALLOC_TRACEMALLOC);
	assert_int_equal(count_tables(), 8);
	assert_probe_on(PHT_FN_PY_MALLOC, mem_malloc);
	assert_probe_on(PHT_FN_PY_FREE, mem_free);
	assert_probe_on(PHT_FN_PY_FREE, obj_free);
}

static void assert_pools_only(void)
{
	assert_false(plan.complete);
	assert_int_equal(count_tables(), 0);
	assert_int_equal(count(PHT_FN_PY_POOL), 1);
	assert_probe_on(PHT_FN_PY_POOL, new_pool);
	assert_int_equal(plan.proc.always_return, 1u << PHT_FN_PY_POOL);
	assert_int_equal(plan.proc.small_max, 512);
	assert_int_equal(plan.proc.raw_ctx, 0);
	assert_non_null(strstr(plan.coverage, "16 KiB pools"));
}

static void test_modes_by_pool(void **state)
{
	(void)state;
	info.inlined = true;
	make(PY_ALLOC_PYMALLOC);
	assert_pools_only();
	info.inlined = false;
	make(PY_ALLOC_HOOKED);
	assert_pools_only();
	make(PY_ALLOC_UNKNOWN);
	assert_pools_only();
	/* A table that cannot be probed whole is not probed at all. */
	info.raw.malloc_fn = info.obj.malloc_fn;
	info.obj.free_fn = 0x10;
	make(PY_ALLOC_DEBUG);
	assert_pools_only();
	info.new_pool_fn = 0;
	make(PY_ALLOC_HOOKED);
	assert_false(plan.complete);
	assert_int_equal(plan.nprobes, 4);
	assert_non_null(strstr(plan.coverage, "not at all"));
}

static void test_modes_by_libc(void **state)
{
	static const enum py_alloc_mode modes[] = {PY_ALLOC_MALLOC, PY_ALLOC_MALLOC_DEBUG};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		make(modes[i]);
		assert_true(plan.complete);
		assert_int_equal(plan.nprobes, 4);
		assert_non_null(strstr(plan.coverage, py_alloc_mode_name(modes[i])));
	}
}

static void test_family(void **state)
{
	static const struct {
		enum alloc_func f;
		enum pht_func func;
		bool with_return;
	} cases[] = {
		{AF_MALLOC, PHT_FN_MALLOC, true},
		{AF_CALLOC, PHT_FN_CALLOC, true},
		{AF_REALLOC, PHT_FN_REALLOC, true},
		{AF_REALLOCARRAY, PHT_FN_REALLOCARRAY, true},
		{AF_FREE, PHT_FN_FREE, false},
		{AF_POSIX_MEMALIGN, PHT_FN_POSIX_MEMALIGN, true},
		{AF_ALIGNED_ALLOC, PHT_FN_ALIGNED, true},
		{AF_MEMALIGN, PHT_FN_ALIGNED, true},
		{AF_VALLOC, PHT_FN_MALLOC, true},
		{AF_PVALLOC, PHT_FN_PVALLOC, true},
		{AF_NEW, PHT_FN_MALLOC, true},
		{AF_DELETE, PHT_FN_FREE, false},
		{AF_MMAP, PHT_FN_MMAP, true},
		{AF_MUNMAP, PHT_FN_MUNMAP, false},
		{AF_MREMAP, PHT_FN_MREMAP, true},
	};
	bool seen[256] = {false};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		bool mm = cases[i].f >= AF_MMAP && cases[i].f <= AF_MREMAP;

		present(mm ? &found.mm : &found.heap, cases[i].f, cases[i].f == AF_NEW);
	}
	make(PY_ALLOC_MALLOC);
	assert_int_equal(plan.nprobes, ARRAY_SIZE(cases));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		bool mm = cases[i].f >= AF_MMAP && cases[i].f <= AF_MREMAP;
		const struct plan_probe *p = plan.probes;
		u32 which;

		while (p->offset != 0x1000 + 0x100 * (u64)cases[i].f)
			assert_true(++p < plan.probes + plan.nprobes);
		assert_int_equal(p->object, mm ? 1 : 0);
		assert_int_equal(p->func, cases[i].func);
		assert_int_equal(p->with_return, cases[i].with_return);
		assert_int_equal(PHT_COOKIE_FUNC(p->cookie), cases[i].func);
		assert_int_equal(!!(p->cookie & PHT_COOKIE_ALWAYS), cases[i].f == AF_NEW);
		/* Alike functions are told apart, and from a plain number. */
		which = (p->cookie & ~PHT_COOKIE_ALWAYS) >> 8;
		assert_in_range(which, 1, 255);
		assert_false(seen[which]);
		seen[which] = true;
	}
	assert_int_equal(plan.proc.always_return, 1u << PHT_FN_MALLOC);
}

static void test_every_probe_fits(void **state)
{
	(void)state;
	for (enum alloc_func f = 0; f < AF_NR; f++)
		present(&found.heap, f, true);
	for (enum alloc_func f = AF_MMAP; f <= AF_MREMAP; f++) {
		found.heap.f[f].present = false;
		present(&found.mm, f, true);
	}
	info.mem.malloc_fn = (uintptr_t)mem_malloc;
	info.mem.calloc_fn = (uintptr_t)mem_calloc;
	info.mem.realloc_fn = (uintptr_t)mem_realloc;
	info.mem.free_fn = (uintptr_t)mem_free;
	make(PY_ALLOC_PYMALLOC);
	assert_int_equal(plan.nprobes, AF_NR + 8);
	assert_true(plan.nprobes < PLAN_MAX_PROBES);
}

static void test_one_object(void **state)
{
	(void)state;
	/* malloc's object is all there is. */
	found.has_mm = false;
	memset(found.mm.f, 0, sizeof(found.mm.f));
	make(PY_ALLOC_MALLOC);
	assert_int_equal(plan.nprobes, 2);
	assert_true(plan.fds[0] >= 0);
	assert_int_equal(plan.fds[1], -1);
	assert_true(plan.fds[2] >= 0);
}

static int open_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += lseek(fd, 0, SEEK_CUR) >= 0 || errno != EBADF;
	return n;
}

static void test_errors(void **state)
{
	int before = open_fds(), status;
	struct plan untouched;
	pid_t pid;

	(void)state;
	memset(&untouched, 0x5a, sizeof(untouched));
	plan = untouched;
	found.err = -ENOENT;
	assert_int_equal(plan_make(&info, INTERVAL, &plan), -ENOENT);
	found.err = 0;
	info.runtime = 0x10; /* in no mapping, and no mapping has the name */
	info.object_path = NULL;
	assert_int_equal(plan_make(&info, INTERVAL, &plan), -ENOENT);
	pid = fork();
	if (!pid)
		_exit(0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	info.pid = pid;
	assert_int_equal(plan_make(&info, INTERVAL, &plan), -ESRCH);
	assert_memory_equal(&plan, &untouched, sizeof(plan));
	plan = (struct plan){.fds = {-1, -1, -1}};
	assert_int_equal(open_fds(), before);
}

static void test_plan_free(void **state)
{
	int before = open_fds();

	(void)state;
	make(PY_ALLOC_PYMALLOC);
	assert_int_equal(open_fds(), before + 3);
	plan_free(&plan);
	assert_int_equal(open_fds(), before);
	plan_free(&plan); /* again: harmless */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_process_facts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_modes_by_table, setup, teardown),
		cmocka_unit_test_setup_teardown(test_modes_by_pool, setup, teardown),
		cmocka_unit_test_setup_teardown(test_modes_by_libc, setup, teardown),
		cmocka_unit_test_setup_teardown(test_family, setup, teardown),
		cmocka_unit_test_setup_teardown(test_every_probe_fits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_object, setup, teardown),
		cmocka_unit_test_setup_teardown(test_errors, setup, teardown),
		cmocka_unit_test_setup_teardown(test_plan_free, setup, teardown),
	};

	plan = (struct plan){.fds = {-1, -1, -1}};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
