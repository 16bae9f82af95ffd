/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread that no Python knows of, and which holds memory.
 *
 * Build: cc -shared -fPIC -pthread stranger.c -o stranger.so
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static struct {
	size_t blocks, size;
	void **held;
	pthread_barrier_t done;
} s;

static void *run(void *arg)
{
	(void)arg;
	for (size_t i = 0; i < s.blocks; i++)
		s.held[i] = malloc(s.size);
	pthread_barrier_wait(&s.done);
	for (;;)
		pause();
	return NULL;
}

/* Returns when the thread of that name has its blocks; 0 or an errno. */
int stranger_start(const char *name, size_t blocks, size_t size)
{
	pthread_t thread;
	int err;

	s.blocks = blocks;
	s.size = size;
	s.held = calloc(blocks, sizeof(*s.held));
	pthread_barrier_init(&s.done, NULL, 2);
	err = pthread_create(&thread, NULL, run, NULL);
	if (err)
		return err;
	err = pthread_setname_np(thread, name);
	pthread_barrier_wait(&s.done);
	return err;
}
