// SPDX-License-Identifier: BSD-2-Clause
/* bpf/alloc.bpf.h: mappings, pools, threads, calls that never return, full tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "alloc_sim.h"

#define T (&sim.threads[0])
#define U (&sim.threads[1])

#define ANON_PRIVATE	  0x22
#define ANON_SHARED	  0x21
#define MAP_NORESERVE_BIT 0x4000

static int setup(void **state)
{
	sim_init(*state != NULL, 1, 100);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	shim_reset();
	return 0;
}

/* No loss but this many of one kind. */
static void assert_loss(enum pht_loss which, __u64 n)
{
	for (int i = 0; i < PHT_LOSS_NR; i++)
		assert_int_equal(sim_loss(i), i == (int)which ? n : 0);
}

static void assert_no_loss(void)
{
	assert_loss(0, 0);
}

static void assert_live(__u64 addr, __u64 size, __u32 domain)
{
	const struct pht_live *v = sim_live(addr);

	assert_non_null(v);
	assert_int_equal(v->size, size);
	assert_int_equal(v->domain, domain);
}

static void map(__u64 caller, __u64 size, __u64 flags, __u64 result)
{
	sim.caller = caller;
	sim_call4(T, PHT_FN_MMAP, 0, size, 3, flags);
	sim_ret(T, result);
	sim.caller = SIM_USER;
}

static void test_mmap_callers(void **state)
{
	(void)state;
	map(SIM_LIBC + 0x1000, 1 << 20, ANON_PRIVATE, 0x1000000);
	map(SIM_LIBC + 0x1fffff, 4096, ANON_PRIVATE, 0x1000000);
	map(SIM_HEAP, 1 << 20, ANON_PRIVATE, 0x1000000);
	map(SIM_PYTHON + 5, SIM_ARENA, ANON_PRIVATE, 0x1000000);
	map(SIM_PYTHON + 5, SIM_ARENA, ANON_PRIVATE | MAP_NORESERVE_BIT, 0x1000000);
	assert_int_equal(shim_count(&live), 0);
	assert_int_equal(sim_stat(PHT_STAT_CALLS), 0);
	map(SIM_LIBC + 0x200000, 4096, ANON_PRIVATE, 0x1000000);
	map(SIM_PYTHON + 5, SIM_ARENA, ANON_SHARED, 0x2000000); /* the mmap module */
	map(SIM_PYTHON + 5, 16384, ANON_PRIVATE, 0x3000000);	/* a data stack chunk */
	map(SIM_USER, SIM_ARENA, ANON_PRIVATE, 0x4000000);
	assert_live(0x1000000, 4096, PHT_DOM_MMAP);
	assert_live(0x2000000, SIM_ARENA, PHT_DOM_MMAP);
	assert_live(0x3000000, 16384, PHT_DOM_MMAP);
	assert_live(0x4000000, SIM_ARENA, PHT_DOM_MMAP);
	/* The caller's address cannot be read: nobody's allocator, as far as we know. */
	shim.fail_read = shim.reads + 1;
	map(SIM_LIBC, 8192, ANON_PRIVATE, 0x5000000);
	assert_live(0x5000000, 8192, PHT_DOM_MMAP);
	assert_no_loss();
}

static void test_munmap(void **state)
{
	struct pht_site s;

	(void)state;
	map(SIM_USER, 10000, ANON_PRIVATE, 0x1000000);
	sim_run(T, PHT_FN_MUNMAP, 0x1000000, 0, 0, -1ull); /* EINVAL, all three */
	sim_run(T, PHT_FN_MUNMAP, 0x1000000, ~0ull, 0, -1ull);
	sim_run(T, PHT_FN_MUNMAP, 0x1000001, 4096, 0, -1ull);
	assert_live(0x1000000, 10000, PHT_DOM_MMAP);
	sim_run(T, PHT_FN_MUNMAP, 0x1000000, 100, 0, 0); /* the first page */
	assert_null(sim_live(0x1000000));
	assert_live(0x1001000, 10000 - 4096, PHT_DOM_MMAP);
	assert_int_equal(sim_live(0x1001000)->drawn_size, 10000);
	assert_int_equal(sim_site(-1, PHT_DOM_MMAP).freed_samples, 0);
	sim_run(T, PHT_FN_MUNMAP, 0x1001000, 8192, 0, 0);
	assert_int_equal(shim_count(&live), 0);
	s = sim_site(-1, PHT_DOM_MMAP);
	assert_int_equal(s.alloc_bytes, 10000);
	assert_int_equal(s.freed_bytes, 10000);
	assert_int_equal(s.freed_samples, 1);
	/* Blocks of other owners are none of munmap's business. */
	sim_run(T, PHT_FN_MALLOC, 4096, 0, 0, 0x2000000);
	sim_run(T, PHT_FN_MUNMAP, 0x2000000, 4096, 0, 0);
	assert_live(0x2000000, 4096, PHT_DOM_LIBC);
	assert_no_loss();
}

static void test_mremap(void **state)
{
	(void)state;
	map(SIM_USER, 8192, ANON_PRIVATE, 0x1000000);
	sim_run(T, PHT_FN_MREMAP, 0x1000000, 8192, 1ull << 50, ~0ull);
	assert_live(0x1000000, 8192, PHT_DOM_MMAP);
	assert_int_equal(sim_site(-1, PHT_DOM_MMAP).freed_samples, 0);
	sim_run(T, PHT_FN_MREMAP, 0x1000000, 8192, 16384, 0x2000000);
	assert_null(sim_live(0x1000000));
	assert_live(0x2000000, 16384, PHT_DOM_MMAP);
	sim_run(T, PHT_FN_MREMAP, 0x2000000, 16384, 4096, 0x2000000);
	assert_live(0x2000000, 4096, PHT_DOM_MMAP);
	assert_int_equal(sim_site(-1, PHT_DOM_MMAP).freed_bytes, 8192 + 16384);
	/* libc moves a large block of its own: its realloc counts it, not mremap. */
	sim_run(T, PHT_FN_MALLOC, 1 << 20, 0, 0, 0x3000010);
	sim_call(T, PHT_FN_REALLOC, 0x3000010, 2 << 20, 0);
	sim.caller = SIM_LIBC;
	sim_run(T, PHT_FN_MREMAP, 0x3000000, 1 << 20, 2 << 20, 0x4000000);
	sim_ret(T, 0x4000010);
	assert_live(0x4000010, 2 << 20, PHT_DOM_LIBC);
	assert_int_equal(shim_count(&live), 2);
	assert_int_equal(sim_site(-1, PHT_DOM_MMAP).samples, 3);
	assert_no_loss();
}

static void test_pools(void **state)
{
	struct pht_site s;

	(void)state;
	sim.proc.always_return = 1u << PHT_FN_PY_POOL;
	sim_proc_store();
	/* The first block of a pool: the pool begins 48 bytes before. */
	sim_run(T, PHT_FN_PY_POOL, 1, 0, 0, 0x40030);
	assert_live(0x40000, SIM_POOL, PHT_DOM_POOL);
	sim_run(T, PHT_FN_PY_POOL, 1, 0, 0, 0); /* no memory */
	assert_int_equal(sim_stat(PHT_STAT_POOLS), 1);
	/* Given back unseen, and granted again. */
	sim_run(T, PHT_FN_PY_POOL, 2, 0, 0, 0x40030);
	assert_live(0x40000, SIM_POOL, PHT_DOM_POOL);
	assert_int_equal(shim_count(&live), 1);
	s = sim_site(-1, PHT_DOM_POOL);
	assert_int_equal(s.alloc_bytes, 2 * SIM_POOL);
	assert_int_equal(s.freed_bytes, SIM_POOL);
	/* The grant opens an arena and grows libc's array of arenas on the way. */
	sim_call(T, PHT_FN_PY_POOL, 3, 0, 0);
	sim_run(T, PHT_FN_REALLOC, 0, 1536, 0, 0x50010);
	sim.caller = SIM_PYTHON + 0x100;
	sim_call4(T, PHT_FN_MMAP, 0, SIM_ARENA, 3, ANON_PRIVATE);
	sim_ret(T, 0x100000);
	sim.caller = SIM_USER;
	sim_ret(T, 0x100030);
	assert_live(0x50010, 1536, PHT_DOM_LIBC);
	assert_live(0x100000, SIM_POOL, PHT_DOM_POOL);
	assert_int_equal(shim_count(&live), 3);
	assert_int_equal(sim_stat(PHT_STAT_POOLS), 3);
	/* An unsampled grant ends the old one all the same. */
	sim.proc.interval = 1ull << 40;
	sim_proc_store();
	sim_run(T, PHT_FN_PY_POOL, 2, 0, 0, 0x40030);
	assert_null(sim_live(0x40000));
	assert_int_equal(sim_site(-1, PHT_DOM_POOL).freed_bytes, 2 * SIM_POOL);
	assert_no_loss();
}

/* The array of arenas is new just when Python's realloc starts from nothing. */
static void test_arena_array(void **state)
{
	(void)state;
	sim_call(T, PHT_FN_PY_REALLOC, 7, 0, 64);
	sim_run(T, PHT_FN_REALLOC, 0, 1536, 0, 0x50010);
	sim_ret(T, 0x60030);
	assert_live(0x50010, 1536, PHT_DOM_LIBC);
	assert_live(0x60030, 64, PHT_DOM_PYMALLOC);
	assert_no_loss();
}

static void test_two_threads_one_address(void **state)
{
	(void)state;
	sim_line(T, 10);
	sim_line(U, 20);
	sim_run(T, PHT_FN_MALLOC, 100, 0, 0, 0x10010);
	/* T's realloc has let go of the block, U gets its address, then T returns. */
	sim_call(T, PHT_FN_REALLOC, 0x10010, 200, 0);
	assert_null(sim_live(0x10010));
	sim_run(U, PHT_FN_MALLOC, 100, 0, 0, 0x10010);
	sim_ret(T, 0x20010);
	assert_live(0x10010, 100, PHT_DOM_LIBC);
	assert_live(0x20010, 200, PHT_DOM_LIBC);
	assert_int_equal(sim_live(0x10010)->tid, 101);
	assert_int_equal(sim_site(10, PHT_DOM_LIBC).freed_samples, 1);
	assert_int_equal(sim_site(20, PHT_DOM_LIBC).freed_samples, 0);
	/* T's malloc has the address but has not returned when U asks for more. */
	sim_call(T, PHT_FN_MALLOC, 300, 0, 0);
	sim_call(U, PHT_FN_MALLOC, 400, 0, 0);
	sim_ret(T, 0x30010);
	sim_ret(U, 0x40010);
	assert_live(0x30010, 300, PHT_DOM_LIBC);
	assert_live(0x40010, 400, PHT_DOM_LIBC);
	/* One thread frees what the other allocated. */
	sim_run(U, PHT_FN_FREE, 0x30010, 0, 0, 0);
	sim_run(T, PHT_FN_FREE, 0x40010, 0, 0, 0);
	assert_int_equal(shim_count(&live), 2);
	assert_no_loss();
}

/* A free that no probe saw: the new block takes the old one's place. */
static void test_unseen_free(void **state)
{
	struct pht_site s;

	(void)state;
	sim_run(T, PHT_FN_MALLOC, 100, 0, 0, 0x10010);
	sim_run(T, PHT_FN_MALLOC, 50, 0, 0, 0x10010);
	assert_live(0x10010, 50, PHT_DOM_LIBC);
	s = sim_site(-1, PHT_DOM_LIBC);
	assert_int_equal(s.alloc_bytes, 150);
	assert_int_equal(s.freed_bytes, 100);
	assert_no_loss();
}

static void test_longjmp(void **state)
{
	(void)state;
	sim_call(T, PHT_FN_MALLOC, 100, 0, 0);
	sim_longjmp(T, 1);
	/* The same function from the same place: the first one did not return. */
	sim_run(T, PHT_FN_MALLOC, 200, 0, 0, 0x10010);
	assert_live(0x10010, 200, PHT_DOM_LIBC);
	assert_loss(PHT_LOSS_pending_stale, 1);
	/* Two deep, then a call from further up. */
	sim_call(T, PHT_FN_PY_REALLOC, 7, 0x999, 100);
	sim_call(T, PHT_FN_MALLOC, 100, 0, 0);
	sim_longjmp(T, 2);
	T->sp += 64;
	sim_run(T, PHT_FN_CALLOC, 1, 300, 0, 0x20010);
	assert_live(0x20010, 300, PHT_DOM_LIBC);
	assert_loss(PHT_LOSS_pending_stale, 3);
	assert_int_equal(shim_count(&live), 2);
}

/* Jumping out of an inner call, into the outer one, which then returns. */
static void test_longjmp_inner(void **state)
{
	(void)state;
	sim_call(T, PHT_FN_PY_REALLOC, 7, 0, 100);
	sim_call(T, PHT_FN_MALLOC, 4000, 0, 0);
	sim_longjmp(T, 1);
	sim_ret(T, 0x20010);
	assert_live(0x20010, 100, PHT_DOM_PYMALLOC);
	assert_int_equal(shim_count(&live), 1);
	assert_loss(PHT_LOSS_pending_stale, 1);
}

static void test_depth_overflow(void **state)
{
	static const __u32 funcs[] = {PHT_FN_PY_MALLOC, PHT_FN_MALLOC};

	(void)state;
	/* Layers that alternate hide nothing; the fifth has no room, the fourth hides the sixth. */
	for (int i = 0; i < 6; i++)
		sim_call(T, funcs[i & 1], 100, 100, 0);
	for (int i = 5; i >= 0; i--)
		sim_ret(T, 0x10000 + 16 * i);
	for (int i = 0; i < 4; i++)
		assert_live(0x10000 + 16 * i, 100, i & 1 ? PHT_DOM_LIBC : PHT_DOM_PYMALLOC);
	assert_int_equal(shim_count(&live), 4);
	assert_loss(PHT_LOSS_pending_overflow, 1);
	/* A hostile depth is no index. */
	((struct pht_thread *)bpf_map_lookup_elem(&threads, &shim.id))->depth = 77;
	sim_run(T, PHT_FN_MALLOC, 100, 0, 0, 0x20010);
	assert_loss(PHT_LOSS_pending_overflow, 2);
}

static void test_live_full(void **state)
{
	(void)state;
	shim_limit(&live, 2);
	for (int i = 0; i < 5; i++)
		sim_run(T, PHT_FN_MALLOC, 100, 0, 0, 0x10010 + 16 * i);
	assert_int_equal(shim_count(&live), 2);
	assert_loss(PHT_LOSS_live_map_full, 3);
	/* What was allocated is still told in full. */
	assert_int_equal(sim_site(-1, PHT_DOM_LIBC).alloc_bytes, 500);
	/* A failed realloc finds its place taken meanwhile. */
	sim_call(T, PHT_FN_REALLOC, 0x10010, 200, 0);
	sim_run(U, PHT_FN_MALLOC, 10, 0, 0, 0x90010);
	sim_ret(T, 0);
	assert_loss(PHT_LOSS_live_map_full, 4);
	assert_null(sim_live(0x10010));
	assert_live(0x90010, 10, PHT_DOM_LIBC);
	/* Or somebody there whom we know: the later news is the right one. */
	sim_call(T, PHT_FN_REALLOC, 0x90010, 200, 0);
	sim_run(U, PHT_FN_MALLOC, 20, 0, 0, 0x90010);
	sim_ret(T, 0);
	assert_live(0x90010, 20, PHT_DOM_LIBC);
}

static void test_site_and_stack_full(void **state)
{
	(void)state;
	shim_limit(&stacks, 2);
	for (int i = 0; i < 4; i++) {
		sim_line(T, 2 * i);
		sim_run(T, PHT_FN_MALLOC, 100, 0, 0, 0x10010 + 16 * i);
	}
	assert_loss(PHT_LOSS_stack_map_full, 2);
	assert_int_equal(sim_live(0x10010 + 48)->stack_id, 0);
	assert_int_equal(sim_site(-1, PHT_DOM_LIBC).alloc_bytes, 400);
	sim_init(sim.session, 1, 100);
	shim_limit(&sites, 2);
	for (int i = 0; i < 4; i++) {
		sim_line(T, 2 * i);
		sim_run(T, PHT_FN_MALLOC, 100, 0, 0, 0x10010 + 16 * i);
	}
	assert_loss(PHT_LOSS_site_map_full, 2);
	assert_int_equal(shim_count(&live), 4);
	sim_run(T, PHT_FN_FREE, 0x10010 + 48, 0, 0, 0);
	assert_loss(PHT_LOSS_site_map_full, 3);
}

static void test_thread_full(void **state)
{
	(void)state;
	shim_limit(&threads, 1);
	sim_run(T, PHT_FN_MALLOC, 100, 0, 0, 0x10010);
	sim_run(U, PHT_FN_MALLOC, 100, 0, 0, 0x10020);
	sim_run(U, PHT_FN_FREE, 0x10010, 0, 0, 0);
	assert_loss(PHT_LOSS_thread_map_full, 2);
	assert_live(0x10010, 100, PHT_DOM_LIBC);
	assert_int_equal(shim_count(&live), 1);
}

static void test_ring_full(void **state)
{
	(void)state;
	shim.max_events = 1;
	for (int i = 0; i < 3; i++) {
		sim_line(T, 2 * i);
		sim_run(T, PHT_FN_MALLOC, 100, 0, 0, 0x10010 + 16 * i);
	}
	assert_loss(PHT_LOSS_ring_full, 2);
	/* The stacks are there all the same, to be found by the sites. */
	assert_int_equal(shim_count(&stacks), 3);
	assert_int_equal(shim.nevents, 1);
}

/* Another CPU stores the same stack between the look-up and the update. */
static void other_cpu(const void *map_id)
{
	const struct pht_thread *th = bpf_map_lookup_elem(&threads, &shim.id);

	if (map_id != &stacks)
		return;
	shim.before_update = NULL;
	bpf_map_update_elem(&stacks, &th->stack_id, &th->stack, BPF_ANY);
}

static void test_stack_race(void **state)
{
	(void)state;
	shim.before_update = other_cpu;
	sim_run(T, PHT_FN_MALLOC, 100, 0, 0, 0x10010);
	assert_null(shim.before_update);
	assert_int_equal(shim_count(&stacks), 1);
	assert_int_not_equal(sim_live(0x10010)->stack_id, 0);
	assert_int_equal(shim.nevents, 0);
	assert_no_loss();
}

static void test_not_traced(void **state)
{
	__u32 tgid = SIM_TGID;

	(void)state;
	sim.proc.flags = 0; /* it has become another program */
	sim_proc_store();
	sim_run(T, PHT_FN_MALLOC, 100, 0, 0, 0x10010);
	bpf_map_delete_elem(&procs, &tgid);
	sim_run(T, PHT_FN_MALLOC, 100, 0, 0, 0x10010);
	sim_run(T, PHT_FN_FREE, 0x10010, 0, 0, 0);
	assert_int_equal(shim_count(&threads), 0);
	assert_int_equal(sim_stat(PHT_STAT_CALLS), 0);
	/* The return of a call that began while it was traced. */
	sim.proc.flags = PHT_PROC_ENABLED;
	sim_proc_store();
	sim_call(T, PHT_FN_MALLOC, 100, 0, 0);
	bpf_map_delete_elem(&procs, &tgid);
	sim_ret(T, 0x10010);
	assert_int_equal(shim_count(&live), 0);
	assert_no_loss();
}

static const struct CMUnitTest both_styles[] = {
	cmocka_unit_test_setup_teardown(test_mmap_callers, setup, teardown),
	cmocka_unit_test_setup_teardown(test_munmap, setup, teardown),
	cmocka_unit_test_setup_teardown(test_mremap, setup, teardown),
	cmocka_unit_test_setup_teardown(test_pools, setup, teardown),
	cmocka_unit_test_setup_teardown(test_arena_array, setup, teardown),
	cmocka_unit_test_setup_teardown(test_two_threads_one_address, setup, teardown),
	cmocka_unit_test_setup_teardown(test_unseen_free, setup, teardown),
	cmocka_unit_test_setup_teardown(test_longjmp, setup, teardown),
	cmocka_unit_test_setup_teardown(test_longjmp_inner, setup, teardown),
	cmocka_unit_test_setup_teardown(test_depth_overflow, setup, teardown),
	cmocka_unit_test_setup_teardown(test_live_full, setup, teardown),
	cmocka_unit_test_setup_teardown(test_site_and_stack_full, setup, teardown),
	cmocka_unit_test_setup_teardown(test_thread_full, setup, teardown),
	cmocka_unit_test_setup_teardown(test_ring_full, setup, teardown),
	cmocka_unit_test_setup_teardown(test_stack_race, setup, teardown),
	cmocka_unit_test_setup_teardown(test_not_traced, setup, teardown),
};

static int run_style(const char *name, void *session)
{
	struct CMUnitTest tests[sizeof(both_styles) / sizeof(both_styles[0])];

	memcpy(tests, both_styles, sizeof(both_styles));
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tests[i].initial_state = session;
	return _cmocka_run_group_tests(name, tests, sizeof(tests) / sizeof(tests[0]), NULL, NULL);
}

int main(void)
{
	return run_style("returns always fire", NULL) + run_style("returns fire when asked", &sim);
}
