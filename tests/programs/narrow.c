// SPDX-License-Identifier: BSD-2-Clause
/* For tramp_target.py: waits with little stack left. */
#define _GNU_SOURCE
#include <alloca.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* Forever, with about that many bytes between the frame and the guard page. */
int narrow_wait(unsigned long left)
{
	volatile char *eaten;
	pthread_attr_t attr;
	void *base;
	size_t size;

	if (pthread_getattr_np(pthread_self(), &attr) || pthread_attr_getstack(&attr, &base, &size))
		return -1;
	pthread_attr_destroy(&attr);
	eaten = alloca((uintptr_t)__builtin_frame_address(0) - (uintptr_t)base - left);
	eaten[0] = 1;
	return poll(NULL, 0, -1);
}
