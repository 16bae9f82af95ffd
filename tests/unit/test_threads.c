// SPDX-License-Identifier: BSD-2-Clause
/* Names of threads: this process's own, without Python. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "proc.h"
#include "threads.h"

#define TICK 10000000ull

static struct {
	struct intern *names;
	struct threads *t;
	struct pyinfo info;
	pthread_barrier_t step;
	u32 tid;
} w;

static int setup(void **state)
{
	w.names = intern_new();
	w.t = threads_new(w.names);
	/* A version without objects that are known: only what the kernel says. */
	w.info = (struct pyinfo){.pid = getpid(), .version = 0x030c00f0, .free_threaded = true};
	return w.names && w.t ? 0 : -1;
}

static int teardown(void **state)
{
	threads_free(w.t);
	intern_free(w.names);
	return 0;
}

static void *worker(void *arg)
{
	(void)arg;
	w.tid = (u32)syscall(SYS_gettid);
	prctl(PR_SET_NAME, "first) name (");
	pthread_barrier_wait(&w.step);
	pthread_barrier_wait(&w.step);
	prctl(PR_SET_NAME, "second name");
	pthread_barrier_wait(&w.step);
	pthread_barrier_wait(&w.step);
	return NULL;
}

static struct pht_stack_thread seen(u32 tid, u64 start_ns, const char *comm)
{
	struct pht_stack_thread s = {.known = 1, .tid = tid, .start_ns = start_ns};

	memcpy(s.comm, comm, strnlen(comm, sizeof(s.comm)));
	return s;
}

/* A thread is called what it is called now; one that has ended keeps its last name. */
static void test_life(void **state)
{
	struct pht_stack_thread s;
	const struct frame *f;
	pthread_t thread;
	char comm[32];
	u64 ticks;

	assert_int_equal(pthread_barrier_init(&w.step, NULL, 2), 0);
	assert_int_equal(pthread_create(&thread, NULL, worker, NULL), 0);
	pthread_barrier_wait(&w.step);
	assert_int_equal(proc_thread(getpid(), w.tid, &ticks, comm, sizeof(comm)), 0);
	assert_string_equal(comm, "first) name (");
	/* What the kernel said is older than what it says. */
	s = seen(w.tid, ticks * TICK + 12345, "older name");
	f = threads_frame(w.t, &w.info, &s, false);
	assert_non_null(f);
	assert_string_equal(f->function, "first) name (");
	assert_int_equal(f->kind, FRAME_THREAD);
	assert_int_equal(f->line, 0);
	assert_int_equal(thread_frame_tid(f), w.tid);
	assert_false(threads_refresh(w.t, &w.info));
	pthread_barrier_wait(&w.step);
	pthread_barrier_wait(&w.step);
	assert_true(threads_refresh(w.t, &w.info));
	assert_string_equal(f->function, "second name");
	assert_ptr_equal(threads_frame(w.t, &w.info, &s, false), f);
	pthread_barrier_wait(&w.step);
	pthread_join(thread, NULL);
	assert_false(threads_refresh(w.t, &w.info));
	assert_string_equal(f->function, "second name");
	assert_int_not_equal(proc_thread(getpid(), w.tid, &ticks, comm, sizeof(comm)), 0);
	pthread_barrier_destroy(&w.step);
}

/* The id of a thread that has ended, given to another one. */
static void test_reused(void **state)
{
	const u32 tid = 0x3fffffff; /* above what the kernel hands out */
	struct pht_stack_thread s = seen(tid, 1, "one"), again = seen(tid, 2, "other");
	const struct frame *f = threads_frame(w.t, &w.info, &s, false);
	const struct frame *g = threads_frame(w.t, &w.info, &again, false);

	assert_ptr_not_equal(f, g);
	assert_string_equal(f->function, "one");
	assert_string_equal(f->file, "tid 1073741823");
	assert_string_equal(g->function, "other");
	assert_string_equal(g->file, "tid 1073741823 #2");
	assert_int_equal(thread_frame_tid(g), tid);
	assert_false(threads_refresh(w.t, &w.info));
	/* All 16 bytes of a comm, without a NUL. */
	s = seen(tid, 3, "sixteen bytes...");
	assert_string_equal(threads_frame(w.t, &w.info, &s, false)->function, "sixteen bytes...");
	s = seen(tid, 4, "");
	assert_string_equal(threads_frame(w.t, &w.info, &s, false)->function, "?");
}

static void test_main_thread(void **state)
{
	struct pht_stack_thread s;
	const struct frame *f;
	u64 ticks;

	assert_int_equal(proc_start_time(getpid(), &ticks), 0);
	s = seen((u32)getpid(), ticks * TICK, "python3");
	f = threads_frame(w.t, &w.info, &s, false);
	assert_string_equal(f->function, "MainThread");
	assert_false(threads_refresh(w.t, &w.info));
	assert_string_equal(f->function, "MainThread");
}

static void test_others(void **state)
{
	struct pht_stack_thread s = seen(0, 0, "");
	const struct frame *f = threads_frame(w.t, &w.info, &s, false);

	assert_string_equal(f->function, "<other threads>");
	assert_int_equal(f->kind, FRAME_OTHER);
	assert_int_equal(thread_frame_tid(f), 0);
	assert_ptr_equal(threads_frame(w.t, &w.info, &s, true), f);
}

static void test_bootstrap(void **state)
{
	static const struct {
		struct frame f;
		bool is;
	} cases[] = {
		{{"_bootstrap", "/usr/lib/python3.9/threading.py", 890, FRAME_PYTHON}, true},
		{{"Thread._bootstrap", "/usr/lib/python3.12/threading.py", 1030, FRAME_PYTHON},
		 true},
		{{"Thread._bootstrap_inner", "threading.py", 1, FRAME_PYTHON}, false},
		{{"Mine._bootstrap", "threading.py", 1, FRAME_PYTHON}, false},
		{{"_bootstrap", "/srv/shop.py", 1, FRAME_PYTHON}, false},
		{{"_bootstrap", ".py", 1, FRAME_PYTHON}, false},
		{{"_bootstrap", "", 0, FRAME_PYTHON}, false},
		{{"_bootstrap", "threading.py", 0, FRAME_OTHER}, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(threads_is_bootstrap(&cases[i].f), cases[i].is);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_life, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_main_thread, setup, teardown),
		cmocka_unit_test_setup_teardown(test_others, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bootstrap, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
