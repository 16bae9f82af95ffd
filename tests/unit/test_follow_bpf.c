// SPDX-License-Identifier: BSD-2-Clause
/* The moments at which bpf/follow.bpf.h stops a process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "bpf_shim.h"
#include "follow.bpf.h"

#define TGID  500u
#define WATCH 0x00007f2000000000ull

static struct pht_follow *follow_of(__u32 flags, __u64 watch)
{
	struct pht_follow f = {.flags = flags, .watch = watch};
	__u32 tgid = TGID;

	bpf_map_update_elem(&follow, &tgid, &f, BPF_ANY);
	return bpf_map_lookup_elem(&follow, &tgid);
}

static __u64 missed(void)
{
	__u32 i = PHT_LOSS_stop_failed;

	return *(__u64 *)bpf_map_lookup_elem(&counters, &i);
}

static int setup(void **state)
{
	(void)state;
	shim_reset();
	shim.id = (__u64)TGID << 32 | TGID;
	shim_mem(WATCH, 8);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	shim_reset();
	return 0;
}

/* The four moments; a signal that cannot be sent is a moment missed, and told. */
static void moments(long error, __u32 stopped)
{
	struct pht_follow *f;

	shim.signal_error = error;
	f = follow_of(PHT_FOLLOW_STOP, 1);
	assert_true(on_follow_exec(TGID));
	assert_int_equal(f->stopped, stopped);
	f = follow_of(PHT_FOLLOW_NEW, 0);
	on_follow_birth(TGID);
	assert_int_equal(f->stopped, stopped);
	f = follow_of(PHT_FOLLOW_ENTRY, 0);
	on_follow_breakpoint(TGID);
	assert_int_equal(f->stopped, stopped);
	f = follow_of(0, WATCH);
	shim_poke(WATCH, 1);
	on_follow_breakpoint(TGID);
	assert_int_equal(f->stopped, stopped);
	assert_int_equal(f->ready, 1);
}

static void test_stops(void **state)
{
	(void)state;
	moments(0, 1);
	assert_int_equal(shim.signals, 4);
	assert_int_equal(missed(), 0);
	/* Those that nothing is to be done at. */
	shim.signals = 0;
	follow_of(0, 0);
	assert_true(on_follow_exec(TGID));
	on_follow_birth(TGID);
	on_follow_breakpoint(TGID);
	assert_false(on_follow_exec(TGID + 1));
	assert_int_equal(shim.signals, 0);
	assert_int_equal(missed(), 0);
}

static void test_cannot_stop(void **state)
{
	(void)state;
	moments(-EBUSY, 0);
	assert_int_equal(shim.signals, 0);
	assert_int_equal(missed(), 4);
	/* User space is told of the moment all the same. */
	assert_int_equal(shim.nevents, 3);
}

static size_t told(void)
{
	const struct pht_event *ev = (const void *)shim.events[0];
	size_t n = shim.nevents;

	if (n) {
		assert_int_equal(ev->type, PHT_EV_ANCHOR);
		assert_int_equal(ev->tgid, TGID);
		assert_int_equal(ev->value, TGID + 1);
	}
	shim.nevents = 0;
	return n;
}

/* The end of the thread that probes hang on, where it is no part of a larger end. */
static void test_anchor(void **state)
{
	struct signal_struct signal = {.live.counter = 2};
	struct pht_proc proc = {.anchor = TGID + 1};
	__u64 id = (__u64)TGID << 32 | (TGID + 1);

	(void)state;
	shim.task.signal = &signal;
	on_anchor_exit(id, &proc);
	assert_int_equal(told(), 1);
	on_anchor_exit(id + 1, &proc);
	assert_int_equal(told(), 0);
	signal.live.counter = 0;
	on_anchor_exit(id, &proc);
	assert_int_equal(told(), 0);
	/* exit_group, and exec by another thread. */
	signal.live.counter = 2;
	signal.flags = 4;
	on_anchor_exit(id, &proc);
	assert_int_equal(told(), 0);
	signal.flags = 8;
	on_anchor_exit(id, &proc);
	assert_int_equal(told(), 1);
	signal.group_exec_task = &shim.task;
	on_anchor_exit(id, &proc);
	assert_int_equal(told(), 0);
}

/* The signal that ended all of it; not what one thread of many ended with. */
static void test_exit_signal(void **state)
{
	struct signal_struct signal = {.live.counter = 1};
	struct pht_proc proc = {0};

	(void)state;
	shim.task.signal = &signal;
	shim.task.exit_code = 9;
	on_traced_exit(&proc);
	assert_int_equal(proc.exit_signal, 0);
	signal.live.counter = 0;
	on_traced_exit(&proc);
	assert_int_equal(proc.exit_signal, 9);
	shim.task.exit_code = 0x80 | 11; /* with a core dump */
	on_traced_exit(&proc);
	assert_int_equal(proc.exit_signal, 11);
	shim.task.exit_code = 3 << 8; /* a status */
	on_traced_exit(&proc);
	assert_int_equal(proc.exit_signal, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_stops, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cannot_stop, setup, teardown),
		cmocka_unit_test_setup_teardown(test_anchor, setup, teardown),
		cmocka_unit_test_setup_teardown(test_exit_signal, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
