/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * LD_PRELOAD this into the tracer: it is killed at its PHT_KILL_AT-th
 * ptrace(), before or after the call as PHT_KILL_WHEN says.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int nr_calls;

static void die_here(void)
{
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

long ptrace(int request, ...)
{
	long (*real)(int, ...) = (long (*)(int, ...))dlsym(RTLD_NEXT, "ptrace");
	const char *at = getenv("PHT_KILL_AT"), *when = getenv("PHT_KILL_WHEN");
	int now = at && ++nr_calls == atoi(at);
	long args[3], ret;
	va_list ap;

	va_start(ap, request);
	for (int i = 0; i < 3; i++)
		args[i] = va_arg(ap, long);
	va_end(ap);
	if (now && when && !strcmp(when, "before"))
		die_here();
	ret = real(request, args[0], args[1], args[2]);
	if (now)
		die_here();
	return ret;
}
