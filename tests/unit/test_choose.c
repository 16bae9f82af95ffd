// SPDX-License-Identifier: BSD-2-Clause
/* Processes by name and control group: what fits, and what is looked at again. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "choose.h"

static void test_cgroup(void **state)
{
	static const char text[] = "12:cpu,cpuacct:/other\n0::/web/shop.service/worker\n";
	static const char *const within[] = {"/web",
					     "web/",
					     "/web/shop.service",
					     "/web/shop.service/worker/",
					     "/sys/fs/cgroup/web/shop.service",
					     "/sys/fs/cgroup",
					     "/"};
	static const char *const outside[] = {"/we", "/web/shop", "/web/shop.service/worker/more",
					      "/other", "/sys/fs/cgroups/web"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(within); i++)
		assert_true(choose_in_cgroup(text, within[i]));
	for (size_t i = 0; i < ARRAY_SIZE(outside); i++)
		assert_false(choose_in_cgroup(text, outside[i]));
	/* Both versions mounted: version 2 is one deeper. */
	assert_true(choose_in_cgroup(text, "/sys/fs/cgroup/unified/web/shop.service"));
	assert_true(choose_in_cgroup(text, "/sys/fs/cgroup/unified/"));
	assert_false(choose_in_cgroup(text, "/sys/fs/cgroup/unified/other"));
	assert_false(choose_in_cgroup(text, "/unified/web"));
	/* Version 1 only, nothing, and what is no such file. */
	assert_false(choose_in_cgroup("1:name=systemd:/web\n", "/web"));
	assert_false(choose_in_cgroup("", "/"));
	assert_false(choose_in_cgroup("0:", "/"));
}

struct seen {
	pid_t pid;
	int times, answer;
};

static int on_fit(void *ctx, pid_t pid)
{
	struct seen *seen = ctx;

	assert_int_equal(pid, seen->pid);
	seen->times++;
	return seen->answer;
}

/* A child of that name, which waits until it is killed. */
static pid_t start_named(const char *name)
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, name);
		if (write(ready[1], "r", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	assert_true(pid > 0);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void test_scan(void **state)
{
	char name[16];
	struct choose_rule rule = {.comm = name};
	struct seen seen = {.answer = -EAGAIN};
	struct choose *c;

	(void)state;
	snprintf(name, sizeof(name), "cho%d", (int)getpid());
	seen.pid = start_named(name);
	memcpy(name, "c?o", 3);
	c = choose_new(&rule);
	assert_non_null(c);
	assert_int_equal(choose_scan(c, on_fit, &seen), 0);
	assert_int_equal(choose_scan(c, on_fit, &seen), 0);
	assert_int_equal(seen.times, 2); /* it was asked to come again */
	seen.answer = 0;
	assert_int_equal(choose_scan(c, on_fit, &seen), 0);
	assert_int_equal(choose_scan(c, on_fit, &seen), 0);
	assert_int_equal(seen.times, 3); /* and once it was taken, no more */
	kill(seen.pid, SIGKILL);
	waitpid(seen.pid, NULL, 0);
	assert_int_equal(choose_scan(c, on_fit, &seen), 0);
	assert_int_equal(seen.times, 3);
	choose_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cgroup),
		cmocka_unit_test(test_scan),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
