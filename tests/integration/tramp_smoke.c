// SPDX-License-Identifier: BSD-2-Clause
/*
 * The trampoline without BPF: attach to a process, let it run, read the
 * page's own counters, detach.
 *
 *	tramp_smoke PID INTERVAL SECONDS [cycles=N] [fork] [keep] [recheck]
 *
 * Prints one line of key=value per cycle.  keep: exit without detaching, as a
 * tracer that was killed.  Exit status 0, or 1 and the reason on stderr.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tramp.h"

struct choice {
	pid_t pid;
	struct tramp_params params;
	double seconds;
	int cycles;
	bool keep, recheck;
};

static int parse(int argc, char **argv, struct choice *c)
{
	if (argc < 4)
		return -1;
	*c = (struct choice){ .pid = atoi(argv[1]), .seconds = atof(argv[3]), .cycles = 1 };
	c->params.interval = strtoull(argv[2], NULL, 10);
	c->params.seed = 1;
	for (int i = 4; i < argc; i++) {
		if (!strncmp(argv[i], "cycles=", 7))
			c->cycles = atoi(argv[i] + 7);
		else if (!strcmp(argv[i], "fork"))
			c->params.follow_fork = true;
		else if (!strcmp(argv[i], "keep"))
			c->keep = true;
		else if (!strcmp(argv[i], "recheck"))
			c->recheck = true;
		else
			return -1;
	}
	return 0;
}

static void nap(double seconds)
{
	struct timespec ts = { .tv_sec = (time_t)seconds };

	ts.tv_nsec = (long)((seconds - (double)ts.tv_sec) * 1e9);
	nanosleep(&ts, NULL);
}

static int watch(struct tramp *t, const struct choice *c, int *gaps)
{
	double left = c->seconds;

	while (left > 0) {
		double step = c->recheck && left > 0.2 ? 0.2 : left;
		bool gap = false;
		int err;

		nap(step);
		left -= step;
		if (!c->recheck)
			continue;
		err = tramp_recheck(t, &gap);
		*gaps += gap;
		if (!err)
			err = tramp_heartbeat(t);
		if (err)
			return err;
	}
	return 0;
}

static void print(struct tramp *t, const struct tramp_stats *s, const struct tramp_view *v,
		  int gaps)
{
	struct tramp_stops stops = tramp_stops(t);

	printf("base=%#llx ours=%d chained=%d absent=%d reused=%d gaps=%d samples=%llu frees=%llu "
	       "lost=%llu false=%llu idle=%llu failed=%llu undone=%llu stop_attach=%llu "
	       "stop_enable=%llu stop_disable=%llu\n",
	       (unsigned long long)tramp_base(t), v->ours, v->chained, v->absent, v->reused, gaps,
	       (unsigned long long)s->samples, (unsigned long long)s->frees,
	       (unsigned long long)s->lost, (unsigned long long)s->false_pos,
	       (unsigned long long)s->idle, (unsigned long long)s->failed,
	       (unsigned long long)s->undone, (unsigned long long)stops.attach,
	       (unsigned long long)stops.enable, (unsigned long long)stops.disable);
	fflush(stdout);
}

static int cycle(const struct pyinfo *info, const struct choice *c)
{
	struct tramp_stats before = { 0 }, s = { 0 };
	struct tramp_view view;
	struct tramp *t;
	const char *why;
	int gaps = 0, err = tramp_attach(info, &c->params, &t, &why);

	if (err) {
		fprintf(stderr, "attach: %s (%s)\n", why, strerror(-err));
		return err;
	}
	err = tramp_read_stats(t, &before);
	if (!err)
		err = tramp_enable(t);
	if (err) {
		fprintf(stderr, "enable: %s\n", strerror(-err));
		tramp_free(t);
		return err;
	}
	err = watch(t, c, &gaps);
	view = tramp_view(t);
	if (!err)
		err = tramp_read_stats(t, &s);
	if (!err && !c->keep)
		err = tramp_disable(t);
	if (err)
		fprintf(stderr, "run: %s\n", strerror(-err));
	s.samples -= before.samples;
	s.frees -= before.frees;
	s.lost -= before.lost;
	print(t, &s, &view, gaps);
	tramp_free(t);
	return err;
}

int main(int argc, char **argv)
{
	struct pyinfo info = { 0 };
	struct choice c;
	int err = 0;

	if (parse(argc, argv, &c)) {
		fprintf(stderr, "usage: tramp_smoke PID INTERVAL SECONDS [option...]\n");
		return 2;
	}
	if (pyinfo_examine(c.pid, &info))
		return 1;
	printf("version=%s mode=%s\n", info.version_str, py_alloc_mode_name(info.alloc_mode));
	for (int i = 0; i < c.cycles && !err; i++)
		err = cycle(&info, &c);
	pyinfo_free(&info);
	return err ? 1 : 0;
}
