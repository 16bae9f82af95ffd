// SPDX-License-Identifier: BSD-2-Clause
#include "trace_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

#include "log.h"
#include "progress.h"
#include "report_style.h"
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

static void on_event(void *ctx, const struct pht_event *ev)
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

/* One process gives one object, unless there could have been more. */
static bool as_array(const struct trace *t)
{
	return !t->opts->merge && (t->nsessions != 1 || trace_may_be_many(t->opts));
}

int trace_print_report(struct trace *t, struct report *r, size_t index)
{
	struct report_style style;

	trace_add_losses(t, r);

	report_style_for(t->out, &style);
	style.clear = t->tty && index == 0;
	/* The last report stays: it may be longer than the screen. */
	if (r->final || t->nsessions > 1)
		style.height = 0;
	if (!t->opts->json)
		return report_text(t->out, r, &style);
	if (as_array(t))
		fputs(index ? ",\n" : "[\n", t->out);
	return report_json(t->out, r);
}

static int sink_reports(struct trace *t, bool final)
{
	struct drained d;
	int err = drain_tables(t->probes, &d);

	if (err)
		return err;
	for (size_t i = 0; i < t->nsessions && !err; i++) {
		struct report r;

		err = session_report(&t->sessions[i], t->probes, &d, t->opts, &r);
		if (err)
			break;
		r.final = final;
		trace_add_losses(t, &r);
		err = t->sink->report(t->sink->ctx, &r, &d);
		free(r.rows);
	}
	drained_free(&d);
	return err;
}

/* The last report is printed like any other: growth and rates are of the whole run. */
static void leave_screen(struct trace *t)
{
	t->screen->close(t->screen->ctx);
	t->opts = t->screen->final;
	t->sink = NULL;
	t->out = stdout;
	for (size_t i = 0; i < t->nsessions; i++) {
		/* The rows of a report that is kept point into it. */
		if (t->sessions[i].last)
			continue;
		aggregate_history_free(&t->sessions[i].history);
		t->sessions[i].history.when = 0;
	}
}

int trace_cannot_write(int err)
{
	/* The reader of a pipe has seen enough: no news. */
	if (err != -EPIPE)
		log_error("cannot write the report: %s", strerror(-err));
	return err;
}

static int print_each(struct trace *t, const struct drained *d, bool final)
{
	int err = 0;

	for (size_t i = 0; i < t->nsessions && !err; i++) {
		struct report r;

		err = session_report(&t->sessions[i], t->probes, d, t->opts, &r);
		if (err)
			break;
		r.final = final;
		err = trace_print_report(t, &r, i);
		free(r.rows);
		if (err)
			trace_cannot_write(err);
	}
	return err ? err : trace_print_refused(t);
}

static int print_reports(struct trace *t, bool final)
{
	struct drained d;
	int err;

	if (final && t->screen)
		leave_screen(t);
	if (t->sink)
		return sink_reports(t, final);
	err = drain_tables(t->probes, &d);
	if (err)
		return err;
	if (t->opts->output && ftruncate(fileno(t->out), 0) && errno != EINVAL)
		err = log_err_r(-errno, "cannot write %s: %s", t->opts->output, strerror(errno));
	if (!err)
		err = t->opts->merge ? trace_print_merged(t, &d, final) : print_each(t, &d, final);
	if (!err && t->opts->json && as_array(t))
		fputs(t->nsessions + t->nrefused ? "]\n" : "[]\n", t->out);
	if (fflush(t->out) && !err)
		err = trace_cannot_write(-errno);
	drained_free(&d);
	return err;
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

/* Soon after attaching, for what costs too much, then every second. */
static void schedule_tick(struct trace *t)
{
	t->next_tick = t->next_tick ? t->next_tick * 2 : FIRST_TICK;
	if (t->next_tick > 1)
		t->next_tick = 1;
	start_timer(t->tick, t->next_tick, 0);
}

static int open_loop(struct trace *t)
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
	session_end(s, t->probes, "the process exited");
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
		return read(fd, &ticks, sizeof(ticks)) > 0 ? print_reports(t, false) : 0;
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
		schedule_tick(t);
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
	return print_reports(t, false);
}

static bool goes_on(const struct trace *t)
{
	return t->screen || t->launch.pid || t->choose || count_ended(t) < t->nsessions ||
	       (t->fleet && fleet_waiting(t->fleet));
}

static int loop(struct trace *t)
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

static int open_sessions(struct trace *t)
{
	int err = 0;

	t->max_sessions = trace_is_dynamic(t->opts) ? SESSIONS_MAX : t->opts->npids;
	if (t->max_sessions < t->opts->npids)
		return log_err_r(-EINVAL, "more than %d processes", SESSIONS_MAX);
	t->sessions = calloc(t->max_sessions, sizeof(*t->sessions));
	if (!t->sessions)
		return log_err_r(-ENOMEM, "out of memory");
	for (size_t i = 0; i < t->opts->npids && !err; i++) {
		err = session_open(&t->sessions[i], t->opts->pids[i]);
		if (!err)
			t->nsessions++;
	}
	return err;
}

static int attach_sessions(struct trace *t)
{
	bool automatic = t->opts->collector == COLLECT_AUTO;
	struct opts narrow = *t->opts;
	int err = 0;

	for (size_t i = 0; i < t->nsessions && !err; i++)
		err = session_attach(&t->sessions[i], t->probes, t->opts)
			      ?: trace_watch(t, t->sessions[i].pidfd);
	if (!err)
		err = governor_admit(&t->governor, t->probes, t->sessions, t->nsessions, automatic);
	if (err != -E2BIG || !automatic)
		return err;
	narrow.collector = COLLECT_GROWTH;
	err = 0;
	for (size_t i = 0; i < t->nsessions && !err; i++)
		if (!t->sessions[i].collector->throttle)
			err = session_attach(&t->sessions[i], t->probes, &narrow);
	return err;
}

/* Opened now, to fail early; emptied only when there is something to write. */
static int open_output(struct trace *t)
{
	int fd;

	if (t->sink)
		return t->sink->open(t->sink->ctx);
	if (!t->opts->output) {
		t->out = t->opts->argv ? stderr : stdout;
	} else {
		fd = open(t->opts->output, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
		t->out = fd < 0 ? NULL : fdopen(fd, "w");
	}
	if (!t->out)
		return log_err_r(-errno, "cannot write %s: %s", t->opts->output, strerror(errno));
	t->tty = isatty(fileno(t->out));
	return 0;
}

static int check_pids(const struct opts *opts)
{
	for (size_t i = 0; i < opts->npids; i++) {
		u64 start;

		if (proc_start_time(opts->pids[i], &start))
			return log_err_r(-ESRCH, "no process with pid %d", opts->pids[i]);
	}
	return 0;
}

static int run(struct trace *t)
{
	struct host_features host;
	struct probes_config config = {
		.seed = t->opts->seed,
		.interval = t->opts->sample_interval,
		.temporary_ns = (u64)(t->opts->temporary * 1e9),
		.threads = t->opts->threads,
		.host = &host,
	};
	int err;

	/* What is wrong with the request is said before the slow work begins. */
	err = check_pids(t->opts) ?: check_require(&host) ?: open_sessions(t) ?: open_output(t);
	/* Before anything that the program would inherit. */
	if (!err && t->opts->argv)
		err = launch_prepare(&t->launch, t->opts->argv);
	if (!err)
		err = probes_open(&config, &t->probes) ?: open_loop(t) ?:
		      drain_events_open(t->probes, on_event, t, &t->events);
	if (!err)
		governor_open(&t->governor, t->probes, t->opts->max_overhead);
	if (!err)
		err = trace_watch(t, drain_events_fd(t->events)) ?: attach_sessions(t) ?:
		      trace_start_fleet(t);
	if (!err) {
		if (!t->launch.pid)
			trace_start_duration(t);
		schedule_tick(t);
		err = loop(t);
		progress_end();
	}
	if (!err)
		err = print_reports(t, true);
	if (!err)
		trace_conclude(t);
	return err;
}

int trace_main(const struct opts *opts)
{
	return trace_to_sink(opts, NULL);
}

int trace_to_sink(const struct opts *opts, const struct trace_sink *sink)
{
	return trace_on_screen(opts, sink, NULL);
}

int trace_on_screen(const struct opts *given, const struct trace_sink *sink,
		    const struct trace_screen *screen)
{
	struct opts resolved = *given;
	const struct opts *opts = &resolved;
	struct trace t = {.opts = opts,
			  .sink = sink,
			  .screen = screen,
			  .launch = {.pidfd = -1, .go = -1, .failed = -1},
			  .governor.guard.stats_fd = -1,
			  .epoll = -1,
			  .signals = -1,
			  .refresh = -1,
			  .deadline = -1,
			  .tick = -1};
	int fds[5], err, rc;

	if (!resolved.seed_given && getrandom(&resolved.seed, sizeof(resolved.seed), 0) < 0)
		resolved.seed = (u64)(monotonic_seconds() * 1e9);
	err = run(&t);
	rc = err ? 1 : 0;
	if (screen)
		screen->close(screen->ctx);

	for (size_t i = 0; i < t.nsessions; i++)
		session_free(&t.sessions[i], t.probes);
	free(t.sessions);
	fleet_close(t.fleet);
	choose_free(t.choose);
	free(t.refused);
	if (opts->argv)
		rc = trace_end_launch(&t);
	governor_close(&t.governor);
	drain_events_close(t.events);
	probes_close(t.probes);
	memcpy(fds, (int[]){t.epoll, t.signals, t.refresh, t.deadline, t.tick}, sizeof(fds));
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (t.out && opts->output && !sink && fclose(t.out) && !err) {
		log_error("cannot write %s: %s", opts->output, strerror(errno));
		rc = rc ? rc : 1;
	}
	return rc;
}
