// SPDX-License-Identifier: BSD-2-Clause
/*
 * The trampoline without BPF: attach to a process, do as told on stdin, detach.
 *
 *	tramp_smoke PID INTERVAL [cycles=N] [pause=SECONDS] [fork] [slots] [hold]
 *
 * Without hold: N times attach, wait, detach; a line of key=value each time.
 * slots: as if the target had no glibc.  With hold: after "enabled", each line of stdin is a
 *command, answered by one line of key=value: stats, recheck, heartbeat, interval N; end of file
 * detaches.  Exit status 0, or 1 and the reason on stderr.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tramp.h"

struct choice {
	pid_t pid;
	struct tramp_params params;
	double pause;
	int cycles;
	bool hold, slots;
};

static int parse(int argc, char **argv, struct choice *c)
{
	if (argc < 3)
		return -1;
	*c = (struct choice){.pid = atoi(argv[1]), .cycles = 1};
	c->params.interval = strtoull(argv[2], NULL, 10);
	c->params.seed = 1;
	for (int i = 3; i < argc; i++) {
		if (!strncmp(argv[i], "cycles=", 7))
			c->cycles = atoi(argv[i] + 7);
		else if (!strncmp(argv[i], "pause=", 6))
			c->pause = atof(argv[i] + 6);
		else if (!strcmp(argv[i], "fork"))
			c->params.follow_fork = true;
		else if (!strcmp(argv[i], "slots"))
			c->slots = true;
		else if (!strcmp(argv[i], "hold"))
			c->hold = true;
		else
			return -1;
	}
	return 0;
}

static void nap(double seconds)
{
	struct timespec ts = {.tv_sec = (time_t)seconds};

	ts.tv_nsec = (long)((seconds - (double)ts.tv_sec) * 1e9);
	nanosleep(&ts, NULL);
}

static void print(struct tramp *t, int err, bool gap)
{
	struct tramp_stops stops = tramp_stops(t);
	struct tramp_view v = tramp_view(t);
	struct tramp_stats s = {0};
	int bad = tramp_read_stats(t, &s);

	printf("err=%d gap=%d base=%#llx ours=%d chained=%d absent=%d reused=%d ", err ? err : bad,
	       gap, (unsigned long long)tramp_base(t), v.ours, v.chained, v.absent, v.reused);
	printf("samples=%llu frees=%llu lost=%llu false=%llu idle=%llu failed=%llu undone=%llu ",
	       (unsigned long long)s.samples, (unsigned long long)s.frees,
	       (unsigned long long)s.lost, (unsigned long long)s.false_pos,
	       (unsigned long long)s.idle, (unsigned long long)s.failed,
	       (unsigned long long)s.undone);
	printf("stop_attach=%llu stop_enable=%llu stop_disable=%llu\n",
	       (unsigned long long)stops.attach, (unsigned long long)stops.enable,
	       (unsigned long long)stops.disable);
	fflush(stdout);
}

static void obey(struct tramp *t)
{
	char line[128];

	puts("enabled");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		bool gap = false;
		int err = 0;

		if (!strncmp(line, "recheck", 7))
			err = tramp_recheck(t, &gap);
		else if (!strncmp(line, "heartbeat", 9))
			err = tramp_heartbeat(t);
		else if (!strncmp(line, "interval ", 9))
			err = tramp_set_interval(t, strtoull(line + 9, NULL, 10));
		else if (strncmp(line, "stats", 5))
			err = -1;
		print(t, err, gap);
	}
}

static int cycle(const struct pyinfo *info, const struct choice *c)
{
	struct tramp *t;
	const char *why;
	int err = tramp_attach(info, &c->params, &t, &why);

	if (err) {
		fprintf(stderr, "attach: %s (%s)\n", why, strerror(-err));
		return err;
	}
	err = tramp_enable(t);
	if (err) {
		fprintf(stderr, "enable: %s\n", strerror(-err));
		tramp_free(t);
		return err;
	}
	if (c->hold)
		obey(t);
	else
		nap(c->pause);
	err = tramp_disable(t);
	if (err)
		fprintf(stderr, "disable: %s\n", strerror(-err));
	print(t, err, false);
	tramp_free(t);
	return err;
}

int main(int argc, char **argv)
{
	struct pyinfo info = {0};
	struct choice c;
	int err = 0;

	if (parse(argc, argv, &c)) {
		fprintf(stderr, "usage: tramp_smoke PID INTERVAL [option...]\n");
		return 2;
	}
	if (pyinfo_examine(c.pid, &info))
		return 1;
	info.musl |= c.slots;
	for (int i = 0; i < c.cycles && !err; i++)
		err = cycle(&info, &c);
	pyinfo_free(&info);
	return err ? 1 : 0;
}
