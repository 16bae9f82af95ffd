// SPDX-License-Identifier: BSD-2-Clause
/* What wakes a run: events from the kernel, timers, signals, ends of processes, keys. */
#include "trace_priv.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

#include "log.h"
#include "progress.h"
#include "report_units.h"

#define FIRST_TICK 0.1

struct session *trace_session_of(struct trace *t, u32 tgid)
{
	/* A pid may come twice: for what a process was before it executed another program. */
	for (size_t i = 0; i < t->nsessions; i++)
		if ((u32)t->sessions[i].info.pid == tgid && t->sessions[i].ended == 0)
			return &t->sessions[i];
	return NULL;
}

/* Of a child that was stopped at its birth the parent is not told. */
static void note_fork(struct trace *t, struct session *parent)
{
	for (size_t i = 0; i < t->nsessions; i++)
		t->sessions[i].forked |= !parent || parent == &t->sessions[i];
}

static void anchor_ended(struct trace *t, struct session *s, u32 tid)
{
	session_anchor(s, t->probes, tid);
	if (s->ended != 0)
		governor_reset(&t->governor);
}

void trace_on_event(void *ctx, const struct pht_event *ev)
{
	struct trace *t = ctx;
	struct session *s = trace_session_of(t, ev->tgid);

	if (ev->type == PHT_EV_FORK || ev->type == PHT_EV_BORN)
		note_fork(t, s);
	if (t->fleet && fleet_wants(ev)) {
		fleet_on_event(t->fleet, ev);
		return;
	}
	if (!s)
		return;
	if (ev->type == PHT_EV_STACK)
		session_on_stack(s, t->probes, ev->value);
	else if (ev->type == PHT_EV_CODE)
		symbolize_code(s->sym, &s->info, (const struct pht_code_head *)ev);
	else if (ev->type == PHT_EV_ANCHOR)
		anchor_ended(t, s, (u32)ev->value);
	else if (ev->type == PHT_EV_EXEC)
		session_end(s, t->probes, "the process executed another program");
	else if (ev->type == PHT_EV_FORK)
		log_info("process %u forked %u, which is not traced", ev->tgid, (u32)ev->value);
}

int trace_watch(struct trace *t, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

	return fd < 0 || epoll_ctl(t->epoll, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

/* 0 = never. */
static void start_timer(int fd, double first, double every)
{
	struct itimerspec spec = {
		.it_value = {first, (first - (time_t)first) * 1e9},
		.it_interval = {every, (every - (time_t)every) * 1e9},
	};

	timerfd_settime(fd, 0, &spec, NULL);
}

void trace_start_duration(struct trace *t)
{
	if (t->timed)
		return;
	start_timer(t->deadline, t->opts->duration, 0);
	t->end = monotonic_seconds() + t->opts->duration;
	t->timed = true;
}

static int timer(double first, double every)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	if (fd >= 0)
		start_timer(fd, first, every);
	return fd;
}

void trace_schedule_tick(struct trace *t)
{
	t->next_tick = t->next_tick ? t->next_tick * 2 : FIRST_TICK;
	if (t->next_tick > 1)
		t->next_tick = 1;
	start_timer(t->tick, t->next_tick, 0);
}

int trace_open_loop(struct trace *t)
{
	double first = t->opts->interval < 1 ? t->opts->interval : 1;
	sigset_t set;
	int err;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	if (t->launch.pid)
		launch_signals(&set);
	if (t->screen)
		sigaddset(&set, SIGWINCH);
	sigprocmask(SIG_BLOCK, &set, NULL);
	/* Said by write(), and what was changed in a process is put back. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	t->epoll = epoll_create1(EPOLL_CLOEXEC);
	t->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	t->refresh = timer(t->sink || (t->tty && !t->opts->json && !t->launch.pid) ? first : 0,
			   t->opts->interval);
	t->deadline = timer(0, 0);
	t->tick = timer(0, 0);
	err = trace_watch(t, t->signals) ?: trace_watch(t, t->refresh) ?: trace_watch(t, t->deadline) ?:
	      trace_watch(t, t->tick);
	if (!err && t->screen)
		err = trace_watch(t, t->screen->input);
	return err ? log_err_r(err, "cannot set up the event loop: %s", strerror(-err)) : 0;
}

static void target_exited(struct trace *t, struct session *s)
{
	/* Its last events may still be in the ring. */
	drain_events_consume(t->events);
	epoll_ctl(t->epoll, EPOLL_CTL_DEL, s->pidfd, NULL);
	if (s->ended != 0)
		return;
	session_exited(s, t->probes);
	governor_reset(&t->governor);
	if (!t->sink)
		session_archive(s, t->probes, t->opts);
}

/* Where nothing else moves on the terminal, say how long it will be. */
static void count_down(const struct trace *t)
{
	double left = t->end - monotonic_seconds();
	char text[64], seconds[UNITS_MAX];

	if (!(t->opts->duration > 0) || t->launch.pid ||
	    !(t->opts->countdown || (t->out && !t->tty)) || left < 0)
		return;
	snprintf(text, sizeof(text), "watching, %s to go (Ctrl-C ends it now)",
		 units_seconds(seconds, left));
	progress_say(text);
}

static int on_signal(struct trace *t)
{
	struct signalfd_siginfo info;

	if (!(t->screen || t->launch.pid) ||
	    read(t->signals, &info, sizeof(info)) != sizeof(info)) {
		t->stop = true;
		return 0;
	}
	if (t->screen && info.ssi_signo == SIGWINCH)
		return t->screen->resized(t->screen->ctx);
	if (t->launch.pid)
		launch_forward(&t->launch, &info);
	else
		t->stop = true;
	return 0;
}

static int on_input(struct trace *t)
{
	int ret = t->screen->typed(t->screen->ctx);

	if (ret > 0)
		t->stop = true;
	return ret < 0 ? ret : 0;
}

/* What the program left behind is not waited for. */
static void launch_ended(struct trace *t)
{
	struct session *s = trace_session_of(t, (u32)t->launch.pid);

	if (s)
		target_exited(t, s);
	t->stop = true;
}

static int handle(struct trace *t, int fd)
{
	u64 ticks;

	if (fd == t->signals)
		return on_signal(t);
	if (t->screen && fd == t->screen->input)
		return on_input(t);
	if (fd == t->deadline) {
		t->stop = true;
		return 0;
	}
	if (t->launch.pid && fd == t->launch.pidfd)
		launch_ended(t);
	if (fd == drain_events_fd(t->events)) {
		drain_events_consume(t->events);
		return 0;
	}
	if (fd == t->refresh)
		return read(fd, &ticks, sizeof(ticks)) > 0 ? trace_print_reports(t, false) : 0;
	if (fd == t->tick && read(fd, &ticks, sizeof(ticks)) < 0)
		return 0;
	for (size_t i = 0; i < t->nsessions; i++) {
		if (t->sessions[i].pidfd == fd)
			target_exited(t, &t->sessions[i]);
		else if (fd == t->tick)
			session_tick(&t->sessions[i], t->probes);
	}
	if (fd == t->tick) {
		governor_tick(&t->governor, t->probes, t->sessions, t->nsessions);
		trace_schedule_tick(t);
		count_down(t);
		return trace_look_around(t);
	}
	return 0;
}

static size_t count_ended(const struct trace *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->nsessions; i++)
		n += t->sessions[i].ended != 0;
	return n;
}

/* Who looks at the screen sees at once that a process is gone, and reads on. */
static int show_ends(struct trace *t)
{
	size_t ended = count_ended(t);

	if (!t->screen || ended == t->ended)
		return 0;
	t->ended = ended;
	return trace_print_reports(t, false);
}

static bool goes_on(const struct trace *t)
{
	return t->screen || t->launch.pid || t->choose || count_ended(t) < t->nsessions ||
	       (t->fleet && fleet_waiting(t->fleet));
}

int trace_loop(struct trace *t)
{
	int err = 0;

	while (!t->stop && !err && goes_on(t)) {
		struct epoll_event evs[16];
		int n = epoll_wait(t->epoll, evs, ARRAY_SIZE(evs), -1);

		if (n < 0 && errno != EINTR)
			return log_err_r(-errno, "epoll: %s", strerror(errno));
		for (int i = 0; i < n && !err; i++)
			err = handle(t, evs[i].data.fd);
		if (t->fleet)
			fleet_run(t->fleet);
		if (!err)
			err = show_ends(t);
	}
	drain_events_consume(t->events);
	return err;
}
