/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * LD_PRELOAD this into the tracer: at its PHT_SHIM_AT-th bpf() or
 * perf_event_open() the process PHT_SHIM_PID is killed, and the call goes on
 * once it is dead.  So "the target exits while attaching" happens at every
 * moment there is, without a race.  PHT_SHIM_COUNT names a file for the number
 * of such calls made.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static int nr_calls;

static int env_int(const char *name)
{
	const char *text = getenv(name);

	return text ? atoi(text) : 0;
}

/* Killed, and reaped by its parent: the test waits for it. */
static void kill_and_wait(int pid)
{
	kill(pid, SIGKILL);
	for (int i = 0; i < 2000 && kill(pid, 0) == 0; i++)
		usleep(5000);
}

static void note_count(void)
{
	const char *path = getenv("PHT_SHIM_COUNT");
	FILE *f = path ? fopen(path, "w") : NULL;

	if (f) {
		fprintf(f, "%d\n", nr_calls);
		fclose(f);
	}
}

long syscall(long number, ...)
{
	static long (*real)(long, ...);
	long a[6];
	va_list ap;

	if (!real)
		real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_bpf || number == SYS_perf_event_open) {
		if (++nr_calls == env_int("PHT_SHIM_AT"))
			kill_and_wait(env_int("PHT_SHIM_PID"));
		note_count();
	}
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
