// SPDX-License-Identifier: BSD-2-Clause
#include "bounded.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "util.h"

struct job {
	int (*fn)(void *);
	void *arg;
	int err;
};

static void *run(void *p)
{
	struct job *job = p;

	job->err = job->fn(job->arg);
	return NULL;
}

static int start(pthread_t *thread, struct job *job)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(thread, NULL, run, job);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return err ? -EAGAIN : 0;
}

int bounded_call(int (*fn)(void *), void *arg, unsigned ms)
{
	AUTO_FREE struct job *job = malloc(sizeof(*job));
	struct timespec until;
	pthread_t thread;
	int err;

	if (!job)
		return -ENOMEM;
	*job = (struct job){.fn = fn, .arg = arg};
	err = start(&thread, job);
	if (err)
		return err;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ms / 1000;
	until.tv_nsec += (long)(ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	if (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until)) {
		pthread_detach(thread);
		(void)TAKE_PTR(job); /* the thread still writes to it */
		return -ETIMEDOUT;
	}
	return job->err;
}
