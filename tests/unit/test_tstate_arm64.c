// SPDX-License-Identifier: BSD-2-Clause
/* How bpf/pyframes.bpf.h finds a thread's state where its descriptor lies below its pointer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define __TARGET_ARCH_arm64
#include "pyframes_sim.h"

#define MODULE	  3
#define OFFSET	  24
#define TLS_BLOCK 0x00007f2600000000ull
#define OTHER	  (PY_TSTATE + 0x10000)

static bool found(void)
{
	assert_int_equal(pht_walk(), 0);
	if (py.th->stack.flags & PHT_STACK_NO_PYTHON)
		return false;
	assert_int_equal(py.th->stack.nframes, 2);
	return true;
}

static void init(__u32 minor)
{
	py_init(minor);
	py_chain(2);
	py_tstate(OTHER, PY_TP2);
}

/* 3.12 on: a thread-local variable; earlier ones have a word for the process. */
static void test_variable(void **state)
{
	(void)state;
	for (__u32 minor = 8; minor <= 15; minor++) {
		__u64 word;

		init(minor);
		word = minor < 12 ? PY_RUNTIME + py.proc.off.rt_tstate_current
				  : PY_TP + PY_STATIC_AT;
		assert_true(found());
		shim_poke(word, OTHER);
		assert_false(found());
		shim_poke(word, 0);
		assert_false(found());
	}
}

/* The descriptor's size is not known: any within a page is this thread's. */
static void test_span(void **state)
{
	__u64 *id;

	(void)state;
	init(12);
	id = (__u64 *)shim_at(PY_TSTATE + py.proc.off.ts_thread_id, 8);
	*id = PY_TP - 200;
	assert_true(found());
	*id = PY_TP - 4095;
	assert_true(found());
	*id = PY_TP - 4096;
	assert_false(found());
	*id = PY_TP + 8;
	assert_false(found());
	*id = 0; /* not bound to a thread yet */
	assert_false(found());
}

/* The vector's address is the first word there is at the thread pointer. */
static void test_dtv(void **state)
{
	(void)state;
	for (__u32 minor = 12; minor <= 15; minor++) {
		init(minor);
		shim_mem(PY_DTV, 0x100);
		shim_mem(TLS_BLOCK, 0x100);
		py.proc.tls_kind = PHT_TLS_DTV;
		py.proc.tls_module = MODULE;
		py.proc.tls_offset = OFFSET;
		py_store();
		shim_poke(PY_DTV + 16ull * MODULE, TLS_BLOCK);
		shim_poke(TLS_BLOCK + OFFSET, PY_TSTATE);
		shim_poke(PY_TP + 8, PY_DTV);
		assert_false(found());
		shim_poke(PY_TP, PY_DTV);
		assert_true(found());
	}
}

/* No key lies at a known place: without the GIL the interpreter's list tells. */
static void test_list(void **state)
{
	(void)state;
	for (__u32 minor = 8; minor <= 15; minor++) {
		const struct pht_pyoffsets *off = &py.proc.off;

		init(minor);
		py.proc.tls_kind = PHT_TLS_STATIC;
		py.proc.tls_offset = PY_STATIC_AT;
		py.proc.tss_key = 0;
		py_store();
		shim_poke(PY_TP + PY_STATIC_AT, 0);
		shim_poke(PY_TP + 0x318, PY_TSTATE); /* where x86-64 has the key */
		assert_false(found());
		shim_poke(PY_RUNTIME + off->rt_interp_head, PY_INTERP);
		shim_poke(PY_INTERP + off->in_threads_head, OTHER);
		assert_false(found());
		shim_poke(OTHER + off->ts_next, PY_TSTATE);
		assert_true(found());
		machine_thread(PY_TP2 + 0x10000); /* a thread without Python */
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
		cmocka_unit_test_teardown(test_variable, teardown),
		cmocka_unit_test_teardown(test_span, teardown),
		cmocka_unit_test_teardown(test_dtv, teardown),
		cmocka_unit_test_teardown(test_list, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
