/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * LD_PRELOAD this into the tracer: it appends to the file PHT_STOPS how long
 * each thread of the target stood still, in ns, from the moment at which the
 * tracer learns of the stop until it has let go.  Not what the tracer says.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* Not from <sys/ptrace.h>: its ptrace() has a type of each libc's own. */
#define DETACH	   17
#define SEIZE	   0x4206
#define EVENT_STOP 128

static pid_t stopped;
static long long since;

static long long now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

static void record(long long ns)
{
	const char *path = getenv("PHT_STOPS");
	int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;

	if (fd < 0 || dprintf(fd, "%lld\n", ns) < 0)
		abort();
	close(fd);
}

long ptrace(int request, ...)
{
	long (*real)(int, ...) = (long (*)(int, ...))dlsym(RTLD_NEXT, "ptrace");
	long args[3], ret;
	va_list ap;

	va_start(ap, request);
	for (int i = 0; i < 3; i++)
		args[i] = va_arg(ap, long);
	va_end(ap);
	if (request == SEIZE)
		stopped = 0;
	ret = real(request, args[0], args[1], args[2]);
	if (request == DETACH && !ret && stopped == args[0]) {
		record(now() - since);
		stopped = 0;
	}
	return ret;
}

pid_t waitpid(pid_t pid, int *status, int options)
{
	pid_t (*real)(pid_t, int *, int) = (pid_t(*)(pid_t, int *, int))dlsym(RTLD_NEXT, "waitpid");
	pid_t got = real(pid, status, options);

	if (got > 0 && status && !stopped && *status >> 16 == EVENT_STOP) {
		since = now();
		stopped = got;
	}
	return got;
}
