// SPDX-License-Identifier: BSD-2-Clause
/* The frame walker of bpf/pyframes.bpf.h on pretended interpreters of every version. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pyframes_sim.h"

#define MINOR_FIRST 8
#define MINOR_LAST  (PY_GIL_LAST + PY_FT)

/* Walk; the flags, once they agree with the counters. */
static __u32 walk(void)
{
	__u64 before[3] = {py_loss(PHT_LOSS_stack_truncated), py_loss(PHT_LOSS_frame_unreadable),
			   py_loss(PHT_LOSS_no_python_state)};
	__u32 flags;

	assert_int_equal(pht_walk(), 0);
	flags = py.th->stack.flags;
	assert_int_equal(py_loss(PHT_LOSS_stack_truncated) - before[0],
			 !!(flags & PHT_STACK_TRUNCATED));
	assert_int_equal(py_loss(PHT_LOSS_frame_unreadable) - before[1],
			 !!(flags & PHT_STACK_UNREADABLE));
	assert_int_equal(py_loss(PHT_LOSS_no_python_state) - before[2],
			 !!(flags & PHT_STACK_NO_PYTHON));
	assert_true(py.th->stack.nframes <= PHT_MAX_FRAMES);
	assert_int_not_equal(py.th->stack_id, 0);
	return flags;
}

/* Frame n of the result is that code object at that unit. */
static void assert_frame(__u32 n, int code, __s32 unit, bool gen)
{
	const struct pht_frame *f = &py.th->stack.frames[n];

	assert_true(n < py.th->stack.nframes);
	assert_int_equal(f->code, PY_CODE(code));
	assert_int_equal(f->pos, py_pos(unit));
	assert_int_equal(f->ident, pht_ident(0x1000 + code, 0x2000 + code, 10 * code) | gen);
}

static void assert_chain(__u32 n)
{
	assert_int_equal(py.th->stack.nframes, n);
	for (__u32 i = 0; i < n; i++)
		assert_frame(i, i % PY_NCODES, i, false);
}

static void test_plain(__u32 minor)
{
	py_init(minor);
	py_chain(5);
	assert_int_equal(walk(), 0);
	assert_chain(5);
	/* Before the first instruction. */
	py_frame(0, PY_CODE(0), -1, 0, 0);
	assert_int_equal(walk(), 0);
	assert_int_equal(py.th->stack.nframes, 1);
	assert_frame(0, 0, -1, false);
	/* A thread state without frames. */
	py_top(0);
	assert_int_equal(walk(), 0);
	assert_int_equal(py.th->stack.nframes, 0);
}

static void test_owners(__u32 minor)
{
	py_init(minor);
	py_chain(4);
	py_frame(1, PY_CODE(1), 1, 1, PY_FRAME(2)); /* a generator's, where there are owners */
	/* A shim's code is None, or on 3.12 a code object of its own; it is never read. */
	py_frame(2, 0xdead0000, 0, 3, PY_FRAME(3));
	if (minor < 12) {
		assert_int_equal(walk(), PHT_STACK_UNREADABLE);
		assert_int_equal(py.th->stack.nframes, 2);
		assert_frame(1, 1, 1, minor == 11);
		return;
	}
	assert_int_equal(walk(), 0);
	assert_int_equal(py.th->stack.nframes, 3);
	assert_frame(0, 0, 0, false);
	assert_frame(1, 1, 1, true);
	assert_frame(2, 3, 3, false);
	py_frame(2, 0xdead0000, 0, 4, PY_FRAME(3)); /* 3.14 has more of them */
	assert_int_equal(walk(), 0);
	assert_int_equal(py.th->stack.nframes, 3);
	py_frame(3, 0, 0, 3, 0); /* and the chain may end in one */
	assert_int_equal(walk(), 0);
	assert_int_equal(py.th->stack.nframes, 2);
}

static void test_identity(__u32 minor)
{
	__u32 was;

	py_init(minor);
	py_chain(1);
	walk();
	was = py.th->stack.frames[0].ident;
	for (int i = 0; i < 3; i++) {
		py_code(0, 0x1000 + (i == 0), 0x2000 + (i == 1), i == 2);
		walk();
		assert_int_not_equal(py.th->stack.frames[0].ident, was);
	}
	py_code(0, 0x1000, 0x2000, 0);
	walk();
	assert_int_equal(py.th->stack.frames[0].ident, was);
	/* One in 2^31 would hash to nothing, which stands for "unreadable". */
	py_code(0, 0x1000, 0x2000, 2846596978);
	assert_int_equal(pht_ident(0x1000, 0x2000, 2846596978), 2);
	assert_int_equal(walk(), 0);
	assert_int_equal(py.th->stack.nframes, 1);
}

static void test_depth(__u32 minor)
{
	py_init(minor);
	py_chain(PHT_MAX_FRAMES);
	assert_int_equal(walk(), 0);
	assert_chain(PHT_MAX_FRAMES);
	py_chain(PHT_MAX_FRAMES + 1);
	assert_int_equal(walk(), PHT_STACK_TRUNCATED);
	assert_chain(PHT_MAX_FRAMES);
	if (minor < 12)
		return;
	/* Shims take steps, not room. */
	py_chain(190);
	for (int i = 0; i < 190; i += 3)
		py_frame(i, 0, 0, 3, i + 1 < 190 ? PY_FRAME(i + 1) : 0);
	assert_int_equal(walk(), 0);
	assert_int_equal(py.th->stack.nframes, 126);
	assert_frame(0, 1, 1, false);
	assert_frame(125, 188 % PY_NCODES, 188, false);
	for (int i = 0; i < 250; i++)
		py_frame(i, 0, 0, 3, PY_FRAME(i + 1));
	assert_int_equal(walk(), PHT_STACK_TRUNCATED);
	assert_int_equal(py.th->stack.nframes, 0);
}

static void test_cycles(__u32 minor)
{
	py_init(minor);
	py_chain(1);
	py_frame(0, PY_CODE(0), 0, 0, PY_FRAME(0));
	assert_int_equal(walk(), PHT_STACK_TRUNCATED);
	assert_int_equal(py.th->stack.nframes, PHT_MAX_FRAMES);
	py_chain(3);
	py_frame(2, PY_CODE(2), 2, 0, PY_FRAME(0));
	assert_int_equal(walk(), PHT_STACK_TRUNCATED);
	for (int i = 0; i < PHT_MAX_FRAMES; i++)
		assert_frame(i, i % 3, i % 3, false);
	if (minor < 12)
		return;
	py_frame(0, 0, 0, 3, PY_FRAME(0)); /* nothing but a shim, for ever */
	assert_int_equal(walk(), PHT_STACK_TRUNCATED);
	assert_int_equal(py.th->stack.nframes, 0);
}

/* Back links and code pointers that lead nowhere. */
static void test_torn(__u32 minor)
{
	static const __u64 bad[] = {
		1,
		8,
		0xffffffff,
		~0ull,
		~0ull - 15,
		1ull << 47,
		0xffff800000000000ull,
		/* the frame, or code object, begins on a page but does not end on it */
		PY_FRAMES + PY_NFRAMES * 0x100 - 8,
		PY_CODES + PY_NCODES * 0x100 - 8,
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		py_init(minor);
		py_chain(3);
		py_frame(1, PY_CODE(1), 1, 0, bad[i]);
		assert_int_equal(walk(), PHT_STACK_UNREADABLE);
		assert_chain(2);
		py_chain(3);
		py_frame(2, bad[i], 2, 0, 0);
		assert_int_equal(walk(), PHT_STACK_UNREADABLE);
		assert_chain(2);
		py_top(bad[i]);
		assert_int_equal(walk(), PHT_STACK_UNREADABLE);
		assert_int_equal(py.th->stack.nframes, 0);
	}
	py_chain(3);
	py_frame(2, 0, 2, 0, 0);
	assert_int_equal(walk(), PHT_STACK_UNREADABLE);
	assert_chain(2);
}

/*
 * Each read in turn fails: what is left is the beginning of the truth, marked;
 * or all of it, where a smaller read did in the place of a large one.
 */
static void test_faults(__u32 minor)
{
	long total, cut = 0;

	py_init(minor);
	py_chain(6);
	assert_int_equal(walk(), 0);
	total = shim.reads;
	assert_true(total >= 8);
	for (long k = 1; k <= total; k++) {
		__u32 flags;

		shim.reads = 0;
		shim.fail_read = k;
		flags = walk();
		assert_chain(py.th->stack.nframes);
		if (py.th->stack.nframes == 6) {
			assert_int_equal(flags, 0);
			continue;
		}
		cut++;
		if (py.th->stack.nframes)
			assert_int_equal(flags, PHT_STACK_UNREADABLE);
	}
	/* The code objects' reads have no substitute. */
	assert_true(cut >= 6);
	shim.fail_read = 0;
	assert_int_equal(walk(), 0);
	assert_chain(6);
}

static void test_stack_ids(__u32 minor)
{
	__u32 tgid = PY_TGID + 1;
	__u64 ids[6], id = (__u64)tgid << 32 | 78;

	py_init(minor);
	py_chain(2);
	walk();
	ids[0] = py.th->stack_id;
	walk();
	assert_int_equal(py.th->stack_id, ids[0]);
	py_frame(1, PY_CODE(1), 2, 0, 0); /* another line */
	walk();
	ids[1] = py.th->stack_id;
	py_frame(1, PY_CODE(2), 1, 0, 0); /* another caller */
	walk();
	ids[2] = py.th->stack_id;
	py_frame(1, PY_CODE(1), 1, 0, PY_FRAME(0)); /* deeper */
	walk();
	ids[3] = py.th->stack_id;
	py_frame(1, PY_CODE(1), 1, 0, 1); /* cut off */
	walk();
	ids[4] = py.th->stack_id;
	/* The same frames in another process. */
	py_chain(2);
	bpf_map_update_elem(&procs, &tgid, &py.proc, BPF_ANY);
	bpf_map_update_elem(&threads, &id, py.th, BPF_ANY);
	shim.id = id;
	assert_int_equal(pht_walk(), 0);
	ids[5] = ((struct pht_thread *)bpf_map_lookup_elem(&threads, &id))->stack_id;
	for (int i = 0; i < 6; i++)
		for (int j = 0; j < i; j++)
			assert_int_not_equal(ids[i], ids[j]);
}

/* Frames and offsets from nowhere: no fault, and every loop ends. */
static void test_garbage(__u32 minor)
{
	__u64 rng = minor;
	struct pht_pyoffsets good;

	py_init(minor);
	good = py.proc.off;
	for (int n = 0; n < 2000; n++) {
		__u32 *field = (__u32 *)&py.proc.off;
		long reads;

		py.proc.off = good;
		py_chain(8);
		for (int i = 0; i < 12; i++) {
			__u64 at = PY_FRAME(pht_rng_next(&rng) % 8) + pht_rng_next(&rng) % 0x80;

			shim_poke(at, pht_rng_next(&rng) >> (pht_rng_next(&rng) & 63));
		}
		for (size_t i = 0; i < sizeof(py.proc.off) / sizeof(*field); i++)
			if (pht_rng_next(&rng) % 16 == 0)
				field[i] = pht_rng_next(&rng) >> (32 + (pht_rng_next(&rng) & 31));
		py_store();
		reads = shim.reads;
		walk();
		/* a frame in two tries, its copy in two, its code object, three parts in three */
		assert_true(shim.reads - reads <= 14 * WALK_STEPS + 8);
	}
}

/* The most that a frame may span is read, not taken for nothing. */
static void test_frame_size(__u32 minor)
{
	py_init(minor);
	py.proc.off.fr_size = 128;
	py_store();
	py_chain(3);
	assert_int_equal(walk(), 0);
	assert_chain(3);
}

/* A number that is none, or leads to nothing, ends the walk instead of giving a wrong line. */
static void test_copies(void **state)
{
	static const __s32 bad[] = {-1, PY_COPIES, 7, 65535, 65536, INT32_MAX, INT32_MIN};
	const struct pht_pyoffsets *off = &py.proc.off;

	(void)state;
	for (__u32 minor = MINOR_LAST - 1; minor <= MINOR_LAST; minor++) {
		py_init(minor);
		py_chain(3);
		for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
			poke32(PY_FRAME(1) + off->fr_tlbc, bad[i]);
			assert_int_equal(walk(), PHT_STACK_UNREADABLE);
			assert_chain(1);
		}
		py_chain(3);
		shim_poke(PY_CODE(1) + off->co_tlbc, 0);
		assert_int_equal(walk(), PHT_STACK_UNREADABLE);
		assert_chain(1);
	}
	py_init(MINOR_LAST - PY_FT);
	assert_int_equal(py.proc.off.fr_tlbc, PHT_ABSENT);
	py_init(MINOR_LAST - PY_FT + 1);
	assert_int_equal(py.proc.off.fr_tlbc, PHT_ABSENT);
}

static void test_not_ours(void **state)
{
	__u64 id = PY_ID;
	__u32 tgid = PY_TGID;

	(void)state;
	py_init(11);
	bpf_map_delete_elem(&threads, &id);
	assert_int_equal(pht_walk(), -1);
	py_init(11);
	bpf_map_delete_elem(&procs, &tgid);
	assert_int_equal(pht_walk(), -1);
}

#define EACH_VERSION(name)                                                                         \
	static void name##_all(void **state)                                                       \
	{                                                                                          \
		(void)state;                                                                       \
		for (__u32 minor = MINOR_FIRST; minor <= MINOR_LAST; minor++)                      \
			name(minor);                                                               \
	}

EACH_VERSION(test_plain)
EACH_VERSION(test_owners)
EACH_VERSION(test_identity)
EACH_VERSION(test_depth)
EACH_VERSION(test_cycles)
EACH_VERSION(test_torn)
EACH_VERSION(test_faults)
EACH_VERSION(test_stack_ids)
EACH_VERSION(test_garbage)
EACH_VERSION(test_frame_size)

static int teardown(void **state)
{
	(void)state;
	shim_reset();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_plain_all, teardown),
		cmocka_unit_test_teardown(test_owners_all, teardown),
		cmocka_unit_test_teardown(test_identity_all, teardown),
		cmocka_unit_test_teardown(test_depth_all, teardown),
		cmocka_unit_test_teardown(test_cycles_all, teardown),
		cmocka_unit_test_teardown(test_torn_all, teardown),
		cmocka_unit_test_teardown(test_faults_all, teardown),
		cmocka_unit_test_teardown(test_stack_ids_all, teardown),
		cmocka_unit_test_teardown(test_garbage_all, teardown),
		cmocka_unit_test_teardown(test_frame_size_all, teardown),
		cmocka_unit_test_teardown(test_copies, teardown),
		cmocka_unit_test_teardown(test_not_ours, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
