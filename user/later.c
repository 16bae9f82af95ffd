// SPDX-License-Identifier: BSD-2-Clause
#include "later.h"

#include <pthread.h>
#include <stdlib.h>

#define THREADS_MAX 32

struct later {
	pthread_mutex_t lock;
	pthread_cond_t ended;
	int running;
};

struct work {
	struct later *later;
	void (*fn)(void *arg);
	void *arg;
};

struct later *later_new(void)
{
	struct later *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->ended, NULL);
	return l;
}

static void *work(void *arg)
{
	struct work *w = arg;
	struct later *l = w->later;

	w->fn(w->arg);
	free(w);
	pthread_mutex_lock(&l->lock);
	l->running--;
	pthread_cond_signal(&l->ended);
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

static int start(struct later *l, void (*fn)(void *arg), void *arg)
{
	struct work *w = malloc(sizeof(*w));
	pthread_t thread;

	if (!w)
		return -1;
	*w = (struct work){l, fn, arg};
	if (pthread_create(&thread, NULL, work, w)) {
		free(w);
		return -1;
	}
	pthread_detach(thread);
	return 0;
}

void later_do(struct later *l, void (*fn)(void *arg), void *arg)
{
	int err = -1;

	if (l) {
		pthread_mutex_lock(&l->lock);
		if (l->running < THREADS_MAX) {
			err = start(l, fn, arg);
			l->running += !err;
		}
		pthread_mutex_unlock(&l->lock);
	}
	if (err)
		fn(arg);
}

void later_free(struct later *l)
{
	if (!l)
		return;
	pthread_mutex_lock(&l->lock);
	while (l->running)
		pthread_cond_wait(&l->ended, &l->lock);
	pthread_mutex_unlock(&l->lock);
	pthread_cond_destroy(&l->ended);
	pthread_mutex_destroy(&l->lock);
	free(l);
}
