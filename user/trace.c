// SPDX-License-Identifier: BSD-2-Clause
#include "trace_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>

#include "log.h"
#include "progress.h"

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
		err = probes_open(&config, &t->probes) ?: trace_open_loop(t) ?:
		      drain_events_open(t->probes, trace_on_event, t, &t->events);
	if (!err)
		governor_open(&t->governor, t->probes, t->opts->max_overhead);
	if (!err)
		err = trace_watch(t, drain_events_fd(t->events)) ?: attach_sessions(t) ?:
		      trace_start_fleet(t);
	if (!err) {
		if (!t->launch.pid)
			trace_start_duration(t);
		trace_schedule_tick(t);
		err = trace_loop(t);
		progress_end();
	}
	if (!err)
		err = trace_print_reports(t, true);
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
