// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "pytls_machine.h"

/* This process's own libc tells it as a debugger would be told. */
static void test_descriptor_size(void **state)
{
	const u32 *size = dlsym(RTLD_DEFAULT, "_thread_db_sizeof_pthread");
	u64 found;

	(void)state;
	if (!size)
		skip();
	assert_int_equal(pytls_descriptor_size(getpid(), &found), 0);
	assert_int_equal(found, *size);
	assert_true(found > sizeof(pthread_mutex_t));
}

static void test_machines(void **state)
{
	struct pytls_machine m = {.tp = 1, .dtv = 1};
	u64 size = 7;

	(void)state;
	assert_int_equal(pytls_machine(getpid(), EM_386, &m), -ENOENT);
	assert_int_equal(m.tp, 1);
	assert_int_equal(pytls_machine(getpid(), EM_X86_64, &m), 0);
	assert_int_equal(m.tp, 0);
	assert_int_equal(m.dtv, 8);
	if (pytls_descriptor_size(getpid(), &size))
		skip();
	assert_int_equal(pytls_machine(getpid(), EM_AARCH64, &m), 0);
	assert_int_equal(m.tp, size);
	assert_int_equal(m.dtv, 0);
}

/* A process that is not there, and one whose file has no such symbol, are the same here. */
static void test_nobody(void **state)
{
	u64 size = 7;

	(void)state;
	assert_int_equal(pytls_descriptor_size(0x7fffffff, &size), -ENOENT);
	assert_int_equal(size, 7);
}

/* What the table says of the machine that this runs on. */
static void test_here(void **state)
{
	u64 tp = (u64)(uintptr_t)__builtin_thread_pointer();
	struct pytls_machine m;

	(void)state;
#ifdef __aarch64__
	if (pytls_machine(getpid(), EM_AARCH64, &m))
		skip();
#else
	assert_int_equal(pytls_machine(getpid(), EM_X86_64, &m), 0);
#endif
	assert_int_equal((u64)pthread_self() + m.tp, tp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_descriptor_size),
		cmocka_unit_test(test_machines),
		cmocka_unit_test(test_nobody),
		cmocka_unit_test(test_here),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
