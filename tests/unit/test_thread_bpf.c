// SPDX-License-Identifier: BSD-2-Clause
/* Stacks kept apart by thread: bpf/thread.bpf.h on pretended interpreters of every version. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define CFG_THREADS 1
#include "pyframes_sim.h"

#define MINOR_FIRST 8
#define MINOR_LAST  (PY_GIL_LAST + PY_FT)
#define OBJECT	    0x00007f3000000040ull
#define START	    123456789ull

/* Three frames; the outermost has the object as its first local variable. */
static void init(__u32 minor)
{
	const struct pht_pyoffsets *off;

	py_init(minor);
	off = &py.proc.off;
	py_chain(3);
	/* Beyond this frame lies another one, in which nothing is to be written. */
	shim_mem(0x00007f2800000000ull, 0x400);
	py_frame(1, PY_CODE(1), 1, 0, 0x00007f2800000000ull);
	memcpy(shim_at(0x00007f2800000000ull, 0x100), shim_at(PY_FRAME(2), 0x100), 0x100);
	shim_poke(0x00007f2800000000ull + off->fr_locals, OBJECT | (off->code_tag_mask & 1));
	shim.task.start_boottime = START;
	memcpy(shim.comm, "worker", 7);
	thread_places = 0;
}

static __u64 walk(void)
{
	assert_int_equal(pht_walk(), 0);
	return py.th->stack_id;
}

static void test_filled(void **state)
{
	(void)state;
	for (__u32 minor = MINOR_FIRST; minor <= MINOR_LAST; minor++) {
		const struct pht_stack_thread *t;

		init(minor);
		walk();
		t = &py.th->stack.thread;
		assert_int_equal(py.th->stack.nframes, 3);
		assert_int_equal(t->known, 1);
		assert_int_equal(t->tid, 78);
		assert_int_equal(t->start_ns, START);
		assert_int_equal(t->object, OBJECT);
		assert_string_equal(t->comm, "worker");
		assert_int_equal(py_loss(PHT_LOSS_threads_merged), 0);
	}
}

/* The same frames in another thread, and in another one of the same id, are other stacks. */
static void test_apart(void **state)
{
	__u64 id = (__u64)PY_TGID << 32 | 79, first, second, third;
	struct pht_thread th = {0};

	(void)state;
	init(12);
	first = walk();
	assert_int_equal(walk(), first);
	shim.task.start_boottime++;
	second = walk();
	assert_int_not_equal(second, first);
	shim.task.start_boottime--;
	assert_int_equal(walk(), first);
	shim.id = id;
	bpf_map_update_elem(&threads, &id, &th, BPF_ANY);
	py.th = bpf_map_lookup_elem(&threads, &id);
	third = walk();
	assert_int_not_equal(third, first);
	assert_int_not_equal(third, second);
	assert_int_equal(py.th->stack.thread.tid, 79);
}

/* Of a stack whose outer frames are missing, or which has none, nothing is taken for an argument.
 */
static void test_incomplete(void **state)
{
	(void)state;
	init(12);
	py_frame(1, PY_CODE(1), 1, 0, 0x10);
	walk();
	assert_true(py.th->stack.flags & PHT_STACK_UNREADABLE);
	assert_int_equal(py.th->stack.thread.object, 0);
	assert_int_equal(py.th->stack.thread.tid, 78);
	py_chain(PHT_MAX_FRAMES + 1);
	walk();
	assert_true(py.th->stack.flags & PHT_STACK_TRUNCATED);
	assert_int_equal(py.th->stack.thread.object, 0);
	py_chain(0);
	walk();
	assert_int_equal(py.th->stack.nframes, 0);
	assert_int_equal(py.th->stack.thread.object, 0);
	/* That cannot be read. */
	init(12);
	py_frame(1, PY_CODE(1), 1, 0, PY_FRAME(2));
	shim_poke(PY_FRAME(2) + py.proc.off.fr_locals, 7);
	walk();
	assert_int_equal(py.th->stack.thread.object, 7);
}

/* From the 1,025th on threads share one place; those that had one keep it. */
static void test_bound(void **state)
{
	__u64 own = PY_ID, id, shared = 0, first;

	(void)state;
	init(12);
	first = walk();
	for (__u32 i = 1; i < PHT_THREADS_MAX + 3; i++) {
		struct pht_thread th = {0};

		id = shim.id = (__u64)PY_TGID << 32 | (100 + i);
		bpf_map_update_elem(&threads, &id, &th, BPF_ANY);
		py.th = bpf_map_lookup_elem(&threads, &id);
		walk();
		if (i < PHT_THREADS_MAX) {
			assert_int_equal(py.th->stack.thread.tid, 100 + i);
			continue;
		}
		assert_int_equal(py.th->stack.thread.known, 1);
		assert_int_equal(py.th->stack.thread.tid, 0);
		assert_int_equal(py.th->stack.thread.start_ns, 0);
		assert_int_equal(py.th->stack.thread.object, 0);
		if (shared)
			assert_int_equal(py.th->stack_id, shared);
		shared = py.th->stack_id;
		assert_int_equal(py_loss(PHT_LOSS_threads_merged), i - PHT_THREADS_MAX + 1);
	}
	assert_int_equal(thread_places, PHT_THREADS_MAX);
	shim.id = own;
	py.th = bpf_map_lookup_elem(&threads, &own);
	assert_int_equal(walk(), first);
	assert_int_not_equal(first, shared);
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
		cmocka_unit_test_teardown(test_filled, teardown),
		cmocka_unit_test_teardown(test_apart, teardown),
		cmocka_unit_test_teardown(test_incomplete, teardown),
		cmocka_unit_test_teardown(test_bound, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
