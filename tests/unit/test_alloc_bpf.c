// SPDX-License-Identifier: BSD-2-Clause
/* The pairing and accounting logic of bpf/alloc.bpf.h, call by scripted call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "alloc_sim.h"

#define T (&sim.threads[0])
#define U (&sim.threads[1])

/* Exact mode, one thread; state says whether returns fire only where asked. */
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

static void assert_no_loss(void)
{
	for (int i = 0; i < PHT_LOSS_NR; i++)
		assert_int_equal(sim_loss(i), 0);
}

static void assert_live(__u64 addr, __u64 size, __u32 domain)
{
	const struct pht_live *v = sim_live(addr);

	assert_non_null(v);
	assert_int_equal(v->size, size);
	assert_int_equal(v->domain, domain);
}

/* Allocated and freed so far in one domain, at R = 1. */
static void assert_totals(__u32 domain, __u64 bytes, __u64 blocks, __u64 freed, __u64 freed_blocks)
{
	struct pht_site s = sim_site(-1, domain);

	assert_int_equal(s.alloc_bytes, bytes);
	assert_int_equal(s.alloc_blocks16, blocks << 16);
	assert_int_equal(s.samples, blocks);
	assert_int_equal(s.freed_bytes, freed);
	assert_int_equal(s.freed_blocks16, freed_blocks << 16);
	assert_int_equal(s.freed_samples, freed_blocks);
}

static void test_every_function(void **state)
{
	unsigned char *slot = shim_mem(0x5000, 8);

	(void)state;
	sim_run(T, PHT_FN_MALLOC, 100, 0, 0, 0x10010);
	sim_run(T, PHT_FN_CALLOC, 10, 20, 0, 0x10020);
	sim_run(T, PHT_FN_REALLOC, 0, 300, 0, 0x10030);
	sim_run(T, PHT_FN_REALLOCARRAY, 0, 20, 20, 0x10040);
	memcpy(slot, &(__u64){0x10050}, 8);
	sim_run(T, PHT_FN_POSIX_MEMALIGN, 0x5000, 64, 500, 0);
	sim_run(T, PHT_FN_ALIGNED, 64, 600, 0, 0x10060);
	sim_run(T, PHT_FN_VALLOC, 700, 0, 0, 0x11000);
	sim_run(T, PHT_FN_PVALLOC, 800, 0, 0, 0x12000);
	for (__u64 i = 0; i < 6; i++)
		assert_live(0x10010 + 16 * i, 100 * (i + 1), PHT_DOM_LIBC);
	assert_live(0x11000, 700, PHT_DOM_LIBC);
	assert_live(0x12000, 800, PHT_DOM_LIBC);
	assert_totals(PHT_DOM_LIBC, 3600, 8, 0, 0);
	assert_int_equal(sim_stat(PHT_STAT_CALLS), 8);
	assert_int_equal(sim_stat(PHT_STAT_BYTES), 3600);
	assert_int_equal(sim_stat(PHT_STAT_SAMPLES), 8);
	for (__u64 i = 0; i < 6; i++)
		sim_run(T, PHT_FN_FREE, 0x10010 + 16 * i, 0, 0, 0);
	sim_run(T, PHT_FN_FREE, 0x11000, 0, 0, 0);
	sim_run(T, PHT_FN_FREE, 0x12000, 0, 0, 0);
	sim_run(T, PHT_FN_FREE, 0, 0, 0, 0);
	sim_run(T, PHT_FN_FREE, 0x99999, 0, 0, 0);
	assert_int_equal(sim_stat(PHT_STAT_FREES), 9);
	assert_totals(PHT_DOM_LIBC, 3600, 8, 3600, 8);
	assert_int_equal(shim_count(&live), 0);
	assert_no_loss();
}

static void test_python_functions(void **state)
{
	(void)state;
	sim_run(T, PHT_FN_PY_MALLOC, 7, 100, 0, 0x10010);
	sim_run(T, PHT_FN_PY_CALLOC, 7, 4, 128, 0x10020);
	sim_run(T, PHT_FN_PY_REALLOC, 7, 0, 300, 0x10030);
	assert_live(0x10010, 100, PHT_DOM_PYMALLOC);
	assert_live(0x10020, 512, PHT_DOM_PYMALLOC);
	assert_live(0x10030, 300, PHT_DOM_PYMALLOC);
	/* Not pymalloc's: too large, or empty. */
	sim_run(T, PHT_FN_PY_MALLOC, 7, 513, 0, 0x20000);
	sim_run(T, PHT_FN_PY_MALLOC, 7, 0, 0, 0x20010);
	sim_run(T, PHT_FN_PY_CALLOC, 7, 3, 171, 0x20020);
	sim_run(T, PHT_FN_PY_CALLOC, 7, 1ull << 32, 1ull << 32, 0);
	assert_totals(PHT_DOM_PYMALLOC, 912, 3, 0, 0);
	sim_run(T, PHT_FN_PY_FREE, 7, 0x10010, 0, 0);
	sim_run(T, PHT_FN_PY_FREE, 7, 0, 0, 0);
	assert_totals(PHT_DOM_PYMALLOC, 912, 3, 100, 1);
	assert_int_equal(sim_stat(PHT_STAT_CALLS), 3);
	assert_int_equal(shim_count(&live), 2);
	assert_no_loss();
}

static void test_record(void **state)
{
	const struct pht_live *v;
	const struct pht_stack *s;

	(void)state;
	sim_line(T, 48);
	sim_run(T, PHT_FN_MALLOC, 100, 0, 0, 0x10010);
	v = sim_live(0x10010);
	assert_int_equal(v->tid, 100);
	assert_int_equal(v->interval, 1);
	assert_int_equal(v->drawn_size, 100);
	assert_int_equal(v->time_ns, 1);
	s = bpf_map_lookup_elem(&stacks, &v->stack_id);
	assert_non_null(s);
	assert_int_equal(s->nframes, 1);
	assert_int_equal(s->flags, 0);
	assert_int_equal(s->frames[0].code, SIM_CODE);
	assert_int_equal(s->frames[0].pos, 48);
	assert_int_equal(shim.nevents, 1);
	/* The same place again is the same stack; another is another. */
	sim_run(T, PHT_FN_MALLOC, 100, 0, 0, 0x10020);
	assert_int_equal(sim_live(0x10020)->stack_id, v->stack_id);
	sim_line(T, 50);
	sim_run(T, PHT_FN_MALLOC, 100, 0, 0, 0x10030);
	assert_int_not_equal(sim_live(0x10030)->stack_id, v->stack_id);
	assert_int_equal(shim.nevents, 2);
	assert_int_equal(shim_count(&stacks), 2);
	assert_int_equal(sim_site(48, PHT_DOM_LIBC).alloc_bytes, 200);
	assert_int_equal(sim_site(50, PHT_DOM_LIBC).alloc_bytes, 100);
}

static void test_failed_calls(void **state)
{
	unsigned char *slot = shim_mem(0x5000, 8);

	(void)state;
	memcpy(slot, &(__u64){0x66660}, 8);
	sim_run(T, PHT_FN_MALLOC, 1ull << 60, 0, 0, 0);
	sim_run(T, PHT_FN_CALLOC, 1ull << 50, 1, 0, 0);
	sim_run(T, PHT_FN_POSIX_MEMALIGN, 0x5000, 64, 500, 12);
	/* int: the upper half of the register is garbage */
	sim_run(T, PHT_FN_POSIX_MEMALIGN, 0x5000, 64, 500, 0xdead00000000000cull);
	sim_run(T, PHT_FN_ALIGNED, 3, 600, 0, 0);
	sim_run(T, PHT_FN_MMAP, 0, 4096, 3, ~0ull);
	assert_int_equal(sim_stat(PHT_STAT_FAILED), 6);
	/* These overflow: not even an attempt. */
	sim_run(T, PHT_FN_CALLOC, 1ull << 33, 1ull << 33, 0, 0);
	sim_run(T, PHT_FN_REALLOCARRAY, 0, ~0ull, 2, 0);
	assert_int_equal(sim_stat(PHT_STAT_FAILED), 6);
	assert_int_equal(shim_count(&live), 0);
	assert_totals(PHT_DOM_NR, 0, 0, 0, 0);
	assert_no_loss();
	sim_run(T, PHT_FN_POSIX_MEMALIGN, 0x5000, 64, 500, 0xdead000000000000ull);
	assert_live(0x66660, 500, PHT_DOM_LIBC);
	sim_run(T, PHT_FN_POSIX_MEMALIGN, 0x7000, 64, 500, 0);
	assert_int_equal(sim_loss(PHT_LOSS_arg_unreadable), 1);
	assert_int_equal(shim_count(&live), 1);
}

static void test_product(void **state)
{
	static const __u64 v[] = {
		0,	    1,
		2,	    3,
		1ull << 31, (1ull << 32) - 1,
		1ull << 32, (1ull << 32) + 1,
		1ull << 63, ~0ull,
		~0ull / 3,  ~0ull / 3 + 1,
	};
	__u64 got = 0, want = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		for (size_t j = 0; j < sizeof(v) / sizeof(v[0]); j++) {
			bool fits = !__builtin_mul_overflow(v[i], v[j], &want);

			assert_int_equal(product(v[i], v[j], &got), fits);
			if (fits)
				assert_int_equal(got, want);
		}
}

static void test_realloc_family(void **state)
{
	(void)state;
	sim_line(T, 10);
	sim_run(T, PHT_FN_MALLOC, 100, 0, 0, 0x10010);
	sim_line(T, 20);
	sim_run(T, PHT_FN_REALLOC, 0x10010, 150, 0, 0x10010); /* in place */
	assert_live(0x10010, 150, PHT_DOM_LIBC);
	assert_int_equal(sim_site(10, PHT_DOM_LIBC).freed_bytes, 100);
	sim_line(T, 30);
	sim_run(T, PHT_FN_REALLOC, 0x10010, 200, 0, 0x20010); /* moved */
	assert_null(sim_live(0x10010));
	assert_live(0x20010, 200, PHT_DOM_LIBC);
	assert_int_equal(sim_site(20, PHT_DOM_LIBC).freed_bytes, 150);
	sim_run(T, PHT_FN_REALLOC, 0x20010, 1ull << 60, 0, 0); /* failed */
	assert_live(0x20010, 200, PHT_DOM_LIBC);
	assert_totals(PHT_DOM_LIBC, 450, 3, 250, 2);
	sim_run(T, PHT_FN_REALLOC, 0x20010, 0, 0, 0); /* glibc: frees */
	assert_null(sim_live(0x20010));
	assert_totals(PHT_DOM_LIBC, 450, 3, 450, 3);
	sim_run(T, PHT_FN_MALLOC, 100, 0, 0, 0x10010);
	sim_run(T, PHT_FN_REALLOC, 0x10010, 0, 0, 0x30010); /* musl: a new empty block */
	assert_null(sim_live(0x10010));
	assert_live(0x30010, 0, PHT_DOM_LIBC);
	sim_run(T, PHT_FN_REALLOC, 0x77770, 64, 0, 0x40010); /* of a block not known */
	assert_live(0x40010, 64, PHT_DOM_LIBC);
	assert_int_equal(shim_count(&live), 2);
	assert_no_loss();
}

static void test_reallocarray(void **state)
{
	(void)state;
	sim_run(T, PHT_FN_MALLOC, 100, 0, 0, 0x10010);
	sim_call(T, PHT_FN_REALLOCARRAY, 0x10010, 10, 20); /* as glibc: a jump to realloc */
	sim_tail(T, PHT_FN_REALLOC, 0x10010, 200, 0);
	sim_ret(T, 0x20010);
	assert_live(0x20010, 200, PHT_DOM_LIBC);
	assert_totals(PHT_DOM_LIBC, 300, 2, 100, 1);
	sim_run(T, PHT_FN_REALLOCARRAY, 0x20010, ~0ull, 16, 0); /* overflow: nothing happens */
	assert_live(0x20010, 200, PHT_DOM_LIBC);
	sim_run(T, PHT_FN_REALLOCARRAY, 0x20010, 1ull << 50, 1, 0); /* no memory */
	assert_live(0x20010, 200, PHT_DOM_LIBC);
	sim_run(T, PHT_FN_REALLOCARRAY, 0x20010, 0, 8, 0); /* realloc(p, 0): frees */
	assert_int_equal(shim_count(&live), 0);
	assert_totals(PHT_DOM_LIBC, 300, 2, 300, 2);
	assert_no_loss();
}

/* An allocator whose functions call one another counts each block once. */
static void test_nested(void **state)
{
	unsigned char *slot = shim_mem(0x5000, 8);

	(void)state;
	sim_call(T, PHT_FN_CALLOC, 4, 25, 0); /* calloc -> malloc */
	sim_run(T, PHT_FN_MALLOC, 100, 0, 0, 0x10010);
	sim_ret(T, 0x10010);
	assert_live(0x10010, 100, PHT_DOM_LIBC);
	sim_call(T, PHT_FN_REALLOC, 0x10010, 200, 0); /* realloc -> malloc, free */
	sim_run(T, PHT_FN_MALLOC, 200, 0, 0, 0x20010);
	sim_run(T, PHT_FN_FREE, 0x10010, 0, 0, 0);
	sim_ret(T, 0x20010);
	memcpy(slot, &(__u64){0x30000}, 8);
	sim_call(T, PHT_FN_POSIX_MEMALIGN, 0x5000, 64,
		 300); /* -> aligned_alloc -> malloc -> mmap */
	sim_call(T, PHT_FN_ALIGNED, 64, 300, 0);
	sim_call(T, PHT_FN_MALLOC, 364, 0, 0);
	sim_run(T, PHT_FN_MMAP, 0, 8192, 3, 0x2f000);
	sim_ret(T, 0x2fff0);
	sim_ret(T, 0x30000);
	sim_ret(T, 0);
	assert_live(0x20010, 200, PHT_DOM_LIBC);
	assert_live(0x30000, 300, PHT_DOM_LIBC);
	assert_int_equal(shim_count(&live), 2);
	assert_totals(PHT_DOM_LIBC, 600, 3, 100, 1);
	assert_totals(PHT_DOM_MMAP, 0, 0, 0, 0);
	assert_int_equal(sim_stat(PHT_STAT_CALLS), 3);
	assert_int_equal(sim_stat(PHT_STAT_BYTES), 600);
	assert_no_loss();
}

static void test_tail_calls(void **state)
{
	(void)state;
	sim_call(T, PHT_FN_VALLOC, 100, 0, 0);
	sim_tail(T, PHT_FN_ALIGNED, 4096, 100, 0);
	sim_tail(T, PHT_FN_MALLOC, 4196, 0, 0);
	sim_ret(T, 0x11000);
	assert_live(0x11000, 100, PHT_DOM_LIBC);
	sim_call(T, PHT_FN_PY_REALLOC, 7, 0, 64); /* realloc(NULL): a jump to malloc */
	sim_tail(T, PHT_FN_PY_MALLOC, 7, 64, 0);
	sim_ret(T, 0x12000);
	assert_live(0x12000, 64, PHT_DOM_PYMALLOC);
	sim_call(T, PHT_FN_PY_MALLOC, 7, 1000, 0); /* too large: a jump to libc */
	sim_tail(T, PHT_FN_MALLOC, 1000, 0, 0);
	sim_ret(T, 0x13000);
	assert_live(0x13000, 1000, PHT_DOM_LIBC);
	assert_int_equal(sim_stat(PHT_STAT_CALLS), 3);
	sim_call(T, PHT_FN_MALLOC, 1 << 20, 0, 0); /* served by a jump to mmap */
	sim_tail(T, PHT_FN_MMAP, 0, 1 << 20, 3);
	sim_ret(T, 0x1000000);
	assert_live(0x1000000, 1 << 20, PHT_DOM_LIBC);
	sim_run(T, PHT_FN_FREE, 0x1000000, 0, 0, 0);
	sim_call(T, PHT_FN_PY_FREE, 7, 0x13000, 0);
	sim_tail(T, PHT_FN_FREE, 0x13000, 0, 0);
	sim_ret(T, 0);
	assert_int_equal(shim_count(&live), 2);
	assert_totals(PHT_DOM_LIBC, 1100 + (1 << 20), 3, 1000 + (1 << 20), 2);
	assert_no_loss();
}

/* A function that always reports its return hides its inner calls at any interval. */
static void test_always_return(void **state)
{
	(void)state;
	sim.proc.interval = 1ull << 40;
	sim.proc.always_return = 1u << PHT_FN_PY_REALLOC | 1u << PHT_FN_CALLOC;
	sim_proc_store();
	for (int i = 0; i < 100; i++) {
		sim_call(T, PHT_FN_CALLOC, 4, 25, 0);
		sim_run(T, PHT_FN_MALLOC, 100, 0, 0, 0x10010);
		sim_ret(T, 0x10010);
		sim_call(T, PHT_FN_PY_REALLOC, 7, 0x20010, 64);
		sim_run(T, PHT_FN_PY_MALLOC, 7, 64, 0, 0x30010);
		sim_run(T, PHT_FN_PY_FREE, 7, 0x20010, 0, 0);
		sim_ret(T, 0x30010);
	}
	assert_int_equal(sim_stat(PHT_STAT_CALLS), 200);
	assert_int_equal(sim_stat(PHT_STAT_BYTES), 16400);
	assert_int_equal(sim_stat(PHT_STAT_FREES), 0);
	assert_no_loss();
}

/* Python hands a block that libc owns to libc's realloc: libc counts it. */
static void test_served_below(void **state)
{
	(void)state;
	sim_call(T, PHT_FN_PY_MALLOC, 7, 1000, 0);
	sim_run(T, PHT_FN_MALLOC, 1000, 0, 0, 0x10010);
	sim_ret(T, 0x10010);
	sim_call(T, PHT_FN_PY_REALLOC, 7, 0x10010, 400);
	sim_run(T, PHT_FN_REALLOC, 0x10010, 400, 0, 0x10010);
	sim_ret(T, 0x10010);
	assert_live(0x10010, 400, PHT_DOM_LIBC);
	assert_totals(PHT_DOM_LIBC, 1400, 2, 1000, 1);
	assert_totals(PHT_DOM_PYMALLOC, 0, 0, 0, 0);
	sim_call(T, PHT_FN_PY_REALLOC, 7, 0x10010, 300); /* fails */
	sim_run(T, PHT_FN_REALLOC, 0x10010, 300, 0, 0);
	sim_ret(T, 0);
	assert_live(0x10010, 400, PHT_DOM_LIBC);
	assert_totals(PHT_DOM_LIBC, 1400, 2, 1000, 1);
	/* From pymalloc to libc: the inner malloc counts, the old block ends. */
	sim_run(T, PHT_FN_PY_MALLOC, 7, 500, 0, 0x20010);
	sim_call(T, PHT_FN_PY_REALLOC, 7, 0x20010, 2000);
	sim_call(T, PHT_FN_PY_MALLOC, 7, 2000, 0);
	sim_run(T, PHT_FN_MALLOC, 2000, 0, 0, 0x30010);
	sim_ret(T, 0x30010);
	sim_run(T, PHT_FN_PY_FREE, 7, 0x20010, 0, 0);
	sim_ret(T, 0x30010);
	assert_live(0x30010, 2000, PHT_DOM_LIBC);
	assert_totals(PHT_DOM_PYMALLOC, 500, 1, 500, 1);
	assert_totals(PHT_DOM_LIBC, 3400, 3, 1000, 1);
	assert_int_equal(shim_count(&live), 2);
	assert_no_loss();
}

/* Debug hooks: libc sees a larger block that begins before Python's. */
static void test_served_below_debug(void **state)
{
	(void)state;
	sim.proc.small_max = 488;
	sim.proc.raw_ctx = 0x5550;
	sim_proc_store();
	sim_call(T, PHT_FN_PY_MALLOC, 0x5558, 1000, 0);
	sim_run(T, PHT_FN_MALLOC, 1048, 0, 0, 0x10000);
	sim_ret(T, 0x10020);
	assert_live(0x10000, 1048, PHT_DOM_LIBC);
	sim_call(T, PHT_FN_PY_REALLOC, 0x5558, 0x10020, 400);
	sim_run(T, PHT_FN_REALLOC, 0x10000, 448, 0, 0x10000);
	sim_ret(T, 0x10020);
	assert_live(0x10000, 448, PHT_DOM_LIBC);
	assert_null(sim_live(0x10020));
	assert_totals(PHT_DOM_PYMALLOC, 0, 0, 0, 0);
	/* The raw domain shares the functions, but not the context. */
	sim_call(T, PHT_FN_PY_MALLOC, 0x5550, 100, 0);
	sim_run(T, PHT_FN_MALLOC, 124, 0, 0, 0x20000);
	sim_ret(T, 0x20010);
	assert_null(sim_live(0x20010));
	assert_live(0x20000, 124, PHT_DOM_LIBC);
	sim_run(T, PHT_FN_PY_MALLOC, 0x5558, 488, 0, 0x30010);
	assert_live(0x30010, 488, PHT_DOM_PYMALLOC);
	assert_int_equal(shim_count(&live), 3);
	assert_no_loss();
}

static const struct CMUnitTest both_styles[] = {
	cmocka_unit_test_setup_teardown(test_every_function, setup, teardown),
	cmocka_unit_test_setup_teardown(test_python_functions, setup, teardown),
	cmocka_unit_test_setup_teardown(test_record, setup, teardown),
	cmocka_unit_test_setup_teardown(test_failed_calls, setup, teardown),
	cmocka_unit_test_setup_teardown(test_product, setup, teardown),
	cmocka_unit_test_setup_teardown(test_realloc_family, setup, teardown),
	cmocka_unit_test_setup_teardown(test_reallocarray, setup, teardown),
	cmocka_unit_test_setup_teardown(test_nested, setup, teardown),
	cmocka_unit_test_setup_teardown(test_tail_calls, setup, teardown),
	cmocka_unit_test_setup_teardown(test_always_return, setup, teardown),
	cmocka_unit_test_setup_teardown(test_served_below, setup, teardown),
	cmocka_unit_test_setup_teardown(test_served_below_debug, setup, teardown),
};

/* The initial state of each test: whether returns fire only where asked. */
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
