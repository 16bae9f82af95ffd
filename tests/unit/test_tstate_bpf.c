// SPDX-License-Identifier: BSD-2-Clause
/* How bpf/pyframes.bpf.h finds the thread state of the thread that hit a probe. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pyframes_sim.h"

#define MODULE	  3
#define OFFSET	  24
#define TLS_BLOCK 0x00007f2600000000ull
#define OTHER	  (PY_TSTATE + 0x10000)

/* Does the walk see our thread's two frames? */
static bool found(void)
{
	__u64 before = py_loss(PHT_LOSS_no_python_state);
	bool lost;

	assert_int_equal(pht_walk(), 0);
	lost = py.th->stack.flags & PHT_STACK_NO_PYTHON;
	assert_int_equal(py_loss(PHT_LOSS_no_python_state) - before, lost);
	assert_int_equal(py.th->stack.nframes, lost ? 0 : 2);
	assert_int_equal(py.th->stack.flags, lost ? PHT_STACK_NO_PYTHON : 0);
	return !lost;
}

static void init(__u32 minor)
{
	py_init(minor);
	py_chain(2);
	py_tstate(OTHER, PY_TP2);
}

static void key_set(__u32 key, __u64 ts)
{
	py.proc.tss_key = key;
	py_store();
	shim_poke(PY_TP + 0x310 + 16ull * key + 8, ts);
}

/* 3.8 to 3.11: one word for the process, that of whoever holds the GIL. */
static void test_current(void **state)
{
	(void)state;
	for (__u32 minor = 8; minor <= 11; minor++) {
		__u64 word;

		init(minor);
		word = PY_RUNTIME + py.proc.off.rt_tstate_current;
		assert_true(found());
		shim_poke(word, OTHER);
		assert_false(found());
		shim_poke(word, 0);
		assert_false(found());
		shim_poke(word, 0x1234567);
		assert_false(found());
		/* The thread's own key knows better, whoever holds the GIL. */
		key_set(0, PY_TSTATE);
		assert_true(found());
		shim_poke(word, OTHER);
		assert_true(found());
		key_set(1, OTHER);
		assert_false(found());
	}
}

static void test_static_tls(void **state)
{
	(void)state;
	for (__u32 minor = 12; minor <= 15; minor++) {
		init(minor);
		assert_true(found());
		shim_poke(PY_TP + PY_STATIC_AT, 0); /* without the GIL */
		assert_false(found());
		key_set(31, PY_TSTATE);
		assert_true(found());
		/* Keys from 32 on are elsewhere; that word is not one of them. */
		key_set(32, PY_TSTATE);
		assert_false(found());
		py.proc.tss_key = PHT_ABSENT;
		py_store();
		shim_poke(PY_TP + PY_STATIC_AT, OTHER); /* not this thread's: never believed */
		assert_false(found());
		shim_poke(PY_TP + PY_STATIC_AT, PY_TSTATE);
		assert_true(found());
		machine_thread(PY_TP2); /* a thread whose memory we cannot read */
		assert_false(found());
	}
}

static void test_dtv(void **state)
{
	(void)state;
	for (__u32 minor = 12; minor <= 15; minor++) {
		__u64 slot = PY_DTV + 16ull * MODULE;

		init(minor);
		shim_mem(PY_DTV, 0x100);
		shim_mem(TLS_BLOCK, 0x100);
		py.proc.tls_kind = PHT_TLS_DTV;
		py.proc.tls_module = MODULE;
		py.proc.tls_offset = OFFSET;
		py_store();
		shim_poke(PY_TP + PY_STATIC_AT, 0);
		assert_false(found()); /* no dtv */
		shim_poke(PY_TP + 8, PY_DTV);
		assert_false(found()); /* no block */
		shim_poke(slot, ~0ull);
		/* Were it taken for an address, this would be at the block's offset. */
		shim_mem(OFFSET - 1, 8);
		shim_poke(OFFSET - 1, PY_TSTATE);
		assert_false(found()); /* not allocated yet */
		shim_poke(slot, TLS_BLOCK);
		assert_false(found()); /* without the GIL */
		shim_poke(TLS_BLOCK + OFFSET, PY_TSTATE);
		assert_true(found());
		shim_poke(TLS_BLOCK + OFFSET, OTHER);
		assert_false(found());
		key_set(0, PY_TSTATE);
		assert_true(found());
	}
}

/* musl keeps keys elsewhere: look through the interpreter's list instead. */
static void test_musl_list(void **state)
{
	(void)state;
	for (__u32 minor = 8; minor <= 15; minor++) {
		const struct pht_pyoffsets *off = &py.proc.off;
		__u64 first = PY_TSTATE + 0x100000;

		init(minor);
		py.proc.tls_kind = PHT_TLS_STATIC;
		py.proc.tls_offset = PY_STATIC_AT;
		shim_poke(PY_TP + PY_STATIC_AT, 0);
		key_set(0, PY_TSTATE);
		assert_true(found());
		py.proc.flags |= PHT_PROC_MUSL;
		py_store();
		assert_false(found()); /* what lies there is no key */
		shim_poke(PY_RUNTIME + off->rt_interp_head, PY_INTERP);
		assert_false(found()); /* an empty list */
		shim_poke(PY_INTERP + off->in_threads_head, OTHER);
		assert_false(found());
		shim_poke(OTHER + off->ts_next, PY_TSTATE);
		assert_true(found());
		shim_poke(OTHER + off->ts_next, OTHER); /* a list that bites its tail */
		assert_false(found());
		/* One step for the interpreter, and the last one finds it; one more is too many. */
		for (int i = 0; i < LIST_STEPS - 2; i++) {
			py_tstate(first + i * 0x1000, PY_TP2);
			shim_poke(first + i * 0x1000 + off->ts_next,
				  i < LIST_STEPS - 3 ? first + (i + 1) * 0x1000 : PY_TSTATE);
		}
		shim_poke(PY_INTERP + off->in_threads_head, first);
		assert_true(found());
		shim_poke(OTHER + off->ts_next, first);
		shim_poke(PY_INTERP + off->in_threads_head, OTHER);
		assert_false(found());
		/* Only on musl: on glibc a thread unknown to its key has no Python. */
		shim_poke(PY_INTERP + off->in_threads_head, PY_TSTATE);
		py.proc.flags &= ~PHT_PROC_MUSL;
		key_set(0, 0);
		assert_false(found());
	}
}

#define INNER	     (PY_TSTATE + 0x20000)
#define INNER_INTERP (PY_INTERP + 0x100000)
#define INNER_FRAME  200
#define INNER_CFRAME 0x00007f2700000000ull

/* A sub-interpreter's thread state for our thread; its only frame, or none. */
static void add_inner(__u64 frame)
{
	const struct pht_pyoffsets *off = &py.proc.off;

	shim_poke(PY_RUNTIME + off->rt_interp_main, PY_INTERP);
	shim_poke(PY_RUNTIME + off->rt_interp_head, INNER_INTERP);
	shim_poke(PY_INTERP + off->in_threads_head, PY_TSTATE);
	shim_poke(PY_INTERP + off->in_next, 0);
	shim_mem(INNER_INTERP, 0x2000);
	py_tstate(INNER, PY_TP);
	shim_mem(INNER_CFRAME, 0x40);
	shim_poke(INNER + off->ts_frame, off->cf_frame == PHT_ABSENT ? frame : INNER_CFRAME);
	if (off->cf_frame != PHT_ABSENT)
		shim_poke(INNER_CFRAME + off->cf_frame, frame);
}

/* GIL released in a sub-interpreter that runs inside a call of the main one's. */
static void test_inner(void **state)
{
	(void)state;
	for (__u32 minor = 8; minor <= 11; minor++) {
		const struct pht_pyoffsets *off = &py.proc.off;

		init(minor);
		add_inner(PY_FRAME(INNER_FRAME));
		shim_poke(INNER_INTERP + off->in_threads_head, INNER);
		shim_poke(INNER_INTERP + off->in_next, PY_INTERP);
		py_frame(INNER_FRAME, PY_CODE(9), 1, 0, 0);
		shim_poke(PY_RUNTIME + off->rt_tstate_current, 0);
		key_set(0, PY_TSTATE);
		assert_int_equal(pht_walk(), 0);
		assert_int_equal(py.th->stack.nframes, 1);
		assert_int_equal(py.th->stack.frames[0].code, PY_CODE(9));
		/* It is there, but nothing runs in it. */
		add_inner(0);
		shim_poke(INNER_INTERP + off->in_threads_head, INNER);
		shim_poke(INNER_INTERP + off->in_next, PY_INTERP);
		assert_true(found());
		/* With the GIL there is no doubt. */
		shim_poke(PY_RUNTIME + off->rt_tstate_current, PY_TSTATE);
		assert_true(found());
	}
}

/* 3.15 has no key: the list, past thread states with only a frame at the bottom. */
static void test_no_key(void **state)
{
	const struct pht_pyoffsets *off = &py.proc.off;

	(void)state;
	init(15);
	assert_int_equal(off->rt_autotss_key, PHT_ABSENT);
	add_inner(PY_FRAME(INNER_FRAME));
	shim_poke(INNER_INTERP + off->in_threads_head, INNER);
	shim_poke(INNER_INTERP + off->in_next, PY_INTERP);
	py_frame(INNER_FRAME, 0, 0, 3, 0);
	shim_poke(PY_TP + PY_STATIC_AT, 0);
	assert_true(found());
	py_frame(INNER_FRAME, PY_CODE(9), 1, 0, 0);
	assert_int_equal(pht_walk(), 0);
	assert_int_equal(py.th->stack.nframes, 1);
}

static void test_nothing(void **state)
{
	(void)state;
	for (__u32 minor = 8; minor <= 15; minor++) {
		init(minor);
		/* Before Py_Initialize, or after Py_Finalize. */
		memset(shim_at(PY_RUNTIME, 0x1000), 0, 0x1000);
		memset(shim_at(PY_TP - 0x100, 0x1000), 0, 0x1000);
		assert_false(found());
		py.proc.flags |= PHT_PROC_MUSL;
		py_store();
		assert_false(found());
		/* The runtime's page is gone. */
		py.proc.runtime = 0x10;
		py_store();
		assert_false(found());
	}
}

static int teardown(void **state)
{
	(void)state;
	shim_reset();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_current, teardown),
		cmocka_unit_test_teardown(test_static_tls, teardown),
		cmocka_unit_test_teardown(test_dtv, teardown),
		cmocka_unit_test_teardown(test_musl_list, teardown),
		cmocka_unit_test_teardown(test_inner, teardown),
		cmocka_unit_test_teardown(test_no_key, teardown),
		cmocka_unit_test_teardown(test_nothing, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
