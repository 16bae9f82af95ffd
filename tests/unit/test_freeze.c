// SPDX-License-Identifier: BSD-2-Clause
/* user/freeze.c on a child with threads that count as fast as they can. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "freeze.h"

#define THREADS 4

struct shared {
	volatile u64 count[THREADS];
	volatile int go_on;
};

struct target {
	struct shared *shared;
	pid_t pid;
};

static void sleep_ms(unsigned ms)
{
	struct timespec ts = {ms / 1000, (long)(ms % 1000) * 1000000};

	nanosleep(&ts, NULL);
}

static void *count(void *arg)
{
	volatile u64 *n = arg;

	for (;;)
		++*n;
	return NULL;
}

static void child(struct shared *s)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_t t;

		if (pthread_create(&t, NULL, count, (void *)&s->count[i]))
			_exit(1);
	}
	for (;;)
		pause();
}

static bool all_count(const struct shared *s)
{
	u64 before[THREADS];
	bool moved = false;

	for (int i = 0; i < THREADS; i++)
		before[i] = s->count[i];
	for (int tries = 0; tries < 500 && !moved; tries++) {
		sleep_ms(10);
		moved = true;
		for (int i = 0; i < THREADS; i++)
			moved &= s->count[i] != before[i];
	}
	return moved;
}

static bool none_counts(const struct shared *s)
{
	u64 before[THREADS];

	for (int i = 0; i < THREADS; i++)
		before[i] = s->count[i];
	sleep_ms(50);
	for (int i = 0; i < THREADS; i++)
		if (s->count[i] != before[i])
			return false;
	return true;
}

static int setup(void **state)
{
	struct target *t = calloc(1, sizeof(*t));

	t->shared = mmap(NULL, sizeof(*t->shared), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(t->shared, MAP_FAILED);
	t->pid = fork();
	if (!t->pid)
		child(t->shared);
	*state = t;
	return all_count(t->shared) ? 0 : -1;
}

static int teardown(void **state)
{
	struct target *t = *state;

	kill(t->pid, SIGKILL);
	waitpid(t->pid, NULL, 0);
	munmap(t->shared, sizeof(*t->shared));
	free(t);
	return 0;
}

static void test_stops_and_goes_on(void **state)
{
	struct target *t = *state;
	struct freeze *f;
	u64 ns;

	assert_int_equal(freeze_start(t->pid, 10000, &f), 0);
	assert_true(none_counts(t->shared));
	assert_true(freeze_holds(f));
	ns = freeze_end(f);
	assert_true(ns >= 50000000u && ns < 10000000000u);
	assert_true(all_count(t->shared));
}

static void test_time_is_up(void **state)
{
	struct target *t = *state;
	struct freeze *f;
	u64 ns;

	assert_int_equal(freeze_start(t->pid, 2000, &f), 0);
	assert_true(none_counts(t->shared));
	for (int i = 0; i < 500 && freeze_holds(f); i++)
		sleep_ms(10);
	assert_false(freeze_holds(f));
	assert_true(all_count(t->shared));
	sleep_ms(1000);
	ns = freeze_end(f);
	assert_true(ns < 3000000000u); /* and not until now */
}

static void test_we_are_killed(void **state)
{
	struct target *t = *state;
	pid_t tracer = fork();

	if (!tracer) {
		struct freeze *f;

		if (freeze_start(t->pid, 60000, &f))
			_exit(1);
		t->shared->go_on = 1;
		for (;;)
			pause();
	}
	for (int i = 0; i < 500 && !t->shared->go_on; i++)
		sleep_ms(10);
	assert_int_equal(t->shared->go_on, 1);
	assert_true(none_counts(t->shared));
	kill(tracer, SIGKILL);
	waitpid(tracer, NULL, 0);
	assert_true(all_count(t->shared));
}

static void test_cannot(void **state)
{
	struct target *t = *state;
	struct freeze *f, *second;
	pid_t gone = fork();

	if (!gone)
		_exit(0);
	waitpid(gone, NULL, 0);
	assert_int_equal(freeze_start(gone, 1000, &f), -ESRCH);
	assert_int_equal(freeze_start(t->pid, 10000, &f), 0);
	assert_int_equal(freeze_start(t->pid, 1000, &second), -EPERM);
	freeze_end(f);
	assert_true(all_count(t->shared));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_stops_and_goes_on, setup, teardown),
		cmocka_unit_test_setup_teardown(test_time_is_up, setup, teardown),
		cmocka_unit_test_setup_teardown(test_we_are_killed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cannot, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
