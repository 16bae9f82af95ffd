// SPDX-License-Identifier: BSD-2-Clause
#include "freeze.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

#define MAX_THREADS 16384
/* New threads can appear while their siblings are being stopped: look again, so often. */
#define MAX_ROUNDS 64
#define POLL_NS	   50000
#define NS_PER_MS  1000000ull

struct stopped {
	pid_t tid;
	bool stopped;
	int signal; /* that it was about to receive: delivered when it goes on */
};

struct freeze {
	pid_t pid;
	u64 until;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* under the lock */
	bool started, release, expired;
	int err;
	/* the thread's own until it has ended */
	struct stopped *v;
	size_t n, cap;
	u64 first_ns, end_ns;
};

static u64 now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * 1000000000u + (u64)ts.tv_nsec;
}

static bool is_known(const struct freeze *f, pid_t tid)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].tid == tid)
			return true;
	return false;
}

static int reserve(struct freeze *f)
{
	size_t want = f->cap ? f->cap * 2 : 64;
	struct stopped *v;

	if (f->n < f->cap)
		return 0;
	if (f->n >= MAX_THREADS)
		return -E2BIG;
	v = reallocarray(f->v, want, sizeof(*v));
	if (!v)
		return -ENOMEM;
	f->v = v;
	f->cap = want;
	return 0;
}

/* A thread that has ended, though its siblings go on, cannot be seized and need not be. */
static bool has_ended(const struct freeze *f, pid_t tid)
{
	char path[64], line[512], *state;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)f->pid, (int)tid);
	file = fopen(path, "re");
	if (!file)
		return true;
	state = fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
	fclose(file);
	return state && state[1] && (state[2] == 'Z' || state[2] == 'X');
}

/* 1: it will stop, 0: it has ended, or -errno. */
static int interrupt(struct freeze *f, pid_t tid)
{
	int err = reserve(f);

	if (err)
		return err;
	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL))
		return errno == ESRCH || has_ended(f, tid) ? 0 : -EPERM;
	if (!f->first_ns)
		f->first_ns = now_ns();
	if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL))
		return errno == ESRCH ? 0 : -errno;
	f->v[f->n++] = (struct stopped){.tid = tid};
	return 1;
}

/* Interrupt the threads that are new: how many these were, or -errno. */
static int interrupt_new(struct freeze *f)
{
	char path[64];
	struct dirent *entry;
	int n = 0, err = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)f->pid);
	dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? -ESRCH : -errno;
	while (err >= 0 && (entry = readdir(dir))) {
		pid_t tid = (pid_t)atoi(entry->d_name);

		if (tid <= 0 || is_known(f, tid))
			continue;
		err = interrupt(f, tid);
		n += err > 0;
	}
	closedir(dir);
	return err < 0 ? err : n;
}

/* Wait until a thread has stopped, or ended: 0 or -ETIMEDOUT. */
static int await_stop(struct stopped *t, u64 until)
{
	const struct timespec pause = {.tv_nsec = POLL_NS};
	int status;

	for (;;) {
		pid_t got = waitpid(t->tid, &status, WNOHANG | __WALL);

		if ((got < 0 && errno != EINTR) || (got > 0 && !WIFSTOPPED(status)))
			return 0;
		if (got > 0) {
			/* any other stop than ptrace's own holds a signal on its way */
			t->signal = status >> 16 ? 0 : WSTOPSIG(status);
			t->stopped = true;
			return 0;
		}
		if (now_ns() >= until)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
}

/* All at once, then wait: the first ones stand still no longer than they must. */
static int stop_round(struct freeze *f)
{
	size_t from = f->n;
	int n = interrupt_new(f), err = 0;

	for (size_t i = from; n >= 0 && !err && i < f->n; i++)
		err = await_stop(&f->v[i], f->until);
	return err ? err : n;
}

static int stop_all(struct freeze *f)
{
	int n = 1;

	for (int i = 0; n > 0 && i < MAX_ROUNDS; i++)
		n = stop_round(f);
	if (n)
		return n < 0 ? n : -ETIMEDOUT;
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].stopped)
			return 0;
	return -ESRCH;
}

static void hold(struct freeze *f)
{
	struct timespec ts = {(time_t)(f->until / 1000000000u), (long)(f->until % 1000000000u)};
	int err = 0;

	while (!f->release && !err)
		err = pthread_cond_timedwait(&f->changed, &f->lock, &ts);
	f->expired = !f->release;
}

/*
 * Threads that were seized but have not stopped yet cannot be detached; they
 * are let go when this thread ends.
 */
static void *run(void *arg)
{
	struct freeze *f = arg;
	int err = stop_all(f);

	pthread_mutex_lock(&f->lock);
	f->err = err;
	f->started = true;
	pthread_cond_signal(&f->changed);
	if (!err)
		hold(f);
	pthread_mutex_unlock(&f->lock);
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].stopped)
			ptrace(PTRACE_DETACH, f->v[i].tid, NULL, (void *)(intptr_t)f->v[i].signal);
	f->end_ns = now_ns();
	return NULL;
}

static void destroy(struct freeze *f)
{
	pthread_mutex_destroy(&f->lock);
	pthread_cond_destroy(&f->changed);
	free(f->v);
	free(f);
}

static struct freeze *create(pid_t pid, unsigned limit_ms)
{
	struct freeze *f = calloc(1, sizeof(*f));
	pthread_condattr_t attr;

	if (!f)
		return NULL;
	f->pid = pid;
	f->until = now_ns() + limit_ms * NS_PER_MS;
	pthread_mutex_init(&f->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&f->changed, &attr);
	pthread_condattr_destroy(&attr);
	return f;
}

/* Signals are the other threads' business: none may interrupt this one. */
static int start_thread(struct freeze *f)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&f->thread, NULL, run, f);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return err ? -ENOMEM : 0;
}

int freeze_start(pid_t pid, unsigned limit_ms, struct freeze **out)
{
	struct freeze *f = create(pid, limit_ms);
	int err = f ? start_thread(f) : -ENOMEM;

	if (err) {
		if (f)
			destroy(f);
		return err;
	}
	pthread_mutex_lock(&f->lock);
	while (!f->started)
		pthread_cond_wait(&f->changed, &f->lock);
	err = f->err;
	pthread_mutex_unlock(&f->lock);
	if (err) {
		pthread_join(f->thread, NULL);
		destroy(f);
		return err;
	}
	*out = f;
	return 0;
}

bool freeze_holds(struct freeze *f)
{
	bool holds;

	pthread_mutex_lock(&f->lock);
	holds = !f->expired;
	pthread_mutex_unlock(&f->lock);
	return holds;
}

u64 freeze_end(struct freeze *f)
{
	u64 ns;

	pthread_mutex_lock(&f->lock);
	f->release = true;
	pthread_cond_signal(&f->changed);
	pthread_mutex_unlock(&f->lock);
	pthread_join(f->thread, NULL);
	ns = f->end_ns - f->first_ns;
	destroy(f);
	return ns;
}
