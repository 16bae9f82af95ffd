// SPDX-License-Identifier: BSD-2-Clause
/* What is said about a host, for hosts we do not have; and this one, tried. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <errno.h>
#include <string.h>

#include <cmocka.h>

#include "check_host.h"

#define CAP(n) (1ull << (n))

/* A host where everything works, with the capabilities of root. */
static struct host_trial good(void)
{
	return (struct host_trial){.caps = UINT64_MAX};
}

static void verdict(struct host_trial t, int want, const char *words)
{
	char why[HOST_WHY_MAX];

	assert_int_equal(host_verdict(&t, why), want);
	if (!strstr(why, words))
		fail_msg("\"%s\" is not in: %s", words, why);
	assert_null(strchr(why, '\n'));
}

static struct host_trial unprivileged(u64 caps)
{
	struct host_trial t = good();

	t.caps = caps;
	t.bpf = t.program = t.ringbuf = t.uprobe_multi = t.uprobe_session = -EPERM;
	t.uprobe_perf = -EACCES;
	return t;
}

static void test_good(void **state)
{
	struct host_trial t = good();

	verdict(t, 0, "");
	t.uprobe_multi = t.uprobe_session = -EINVAL;
	verdict(t, 0, "");
	t = good();
	t.uprobe_perf = -EACCES; /* uprobe multi will do */
	t.caps = CAP(39) | CAP(38) | CAP(19);
	verdict(t, 0, "");
}

static void test_privilege(void **state)
{
	struct host_trial t;

	verdict(unprivileged(0), -EPERM, "CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE missing");
	verdict(unprivileged(0), -EPERM, "sudo");
	verdict(unprivileged(CAP(38)), -EPERM, ": CAP_BPF, CAP_SYS_PTRACE missing");
	verdict(unprivileged(CAP(39) | CAP(19)), -EPERM, ": CAP_PERFMON missing");
	/* CAP_SYS_ADMIN stands for both: then it is something else that refuses. */
	verdict(unprivileged(CAP(21)), -EPERM, "policy");
	verdict(unprivileged(UINT64_MAX), -EPERM, "policy");
	t = unprivileged(UINT64_MAX);
	t.other_userns = true;
	verdict(t, -EPERM, "user namespace");
	t = good();
	t.confidentiality = true;
	verdict(t, -EPERM, "lockdown");
	t = good();
	t.caps = CAP(39) | CAP(38) | CAP(19);
	t.uprobe_perf = -EACCES;
	t.uprobe_multi = -EINVAL;
	verdict(t, -EPERM, "CAP_SYS_ADMIN");
}

static void test_kernel(void **state)
{
	struct host_trial t = good();

	t.btf = -ENOENT;
	verdict(t, -ENOTSUP, "BTF");
	t = good();
	t.ringbuf = -EINVAL;
	verdict(t, -ENOTSUP, "ring buffer");
	t = good();
	t.uprobe_perf = -ENOENT;
	t.uprobe_multi = t.uprobe_session = -EINVAL;
	verdict(t, -ENOTSUP, "uprobes");
	t = good();
	t.bpf = t.program = -ENOSYS;
	verdict(t, -ENOTSUP, "bpf system call");
}

/* On whatever host the tests run, the trials agree with each other. */
static void test_this_host(void **state)
{
	struct host_features f;
	struct host_trial t;
	char why[HOST_WHY_MAX];

	host_try(&t);
	check_probe(&f);
	assert_int_equal(f.ringbuf, !t.ringbuf);
	assert_int_equal(f.uprobe_multi, !t.uprobe_multi);
	if (f.uprobe_session)
		assert_true(f.uprobe_multi);
	if (!host_verdict(&t, why)) {
		assert_true(f.privileged && f.btf && f.ringbuf);
		assert_true(f.uprobe_perf || f.uprobe_multi);
		assert_string_equal(why, "");
	} else {
		assert_string_not_equal(why, "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_privilege),
		cmocka_unit_test(test_kernel),
		cmocka_unit_test(test_this_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
