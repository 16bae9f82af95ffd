// SPDX-License-Identifier: BSD-2-Clause
#include "session.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "log.h"
#include "pools.h"
#include "progress.h"

double monotonic_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* The pid may have been given to another process while we looked at it. */
static int same_process(const struct session *s)
{
	u64 start;
	int err = proc_start_time(s->info.pid, &start);

	if (err && err != -ESRCH)
		return log_err_r(err, "cannot examine process %d: %s", s->info.pid, strerror(-err));
	if (err || start != s->info.start_time)
		return log_err_r(-ESRCH, "process %d exited while attaching", s->info.pid);
	return 0;
}

int session_open(struct session *s, pid_t pid)
{
	int err;

	*s = (struct session){.pidfd = syscall(SYS_pidfd_open, pid, 0)};
	if (s->pidfd < 0 && errno == ESRCH)
		return log_err_r(-ESRCH, "no process with pid %d", pid);
	if (s->pidfd < 0)
		return log_err_r(-errno, "no process with pid %d: %s", pid, strerror(errno));
	err = pyinfo_examine(pid, &s->info);
	if (err)
		goto fail;
	s->sym = symbolizer_new();
	if (!s->sym) {
		err = log_err_r(-ENOMEM, "out of memory");
		goto fail;
	}
	proc_comm(pid, s->comm, sizeof(s->comm));
	proc_rss(pid, &s->rss);
	return 0;
fail:
	session_free(s, NULL);
	return err;
}

static void detach(struct session *s, struct probes *probes, bool alive)
{
	if (s->collector)
		s->collector->detach(s, probes, alive);
	s->collector = NULL;
	s->state = NULL;
}

/* Best first; later ones are tried where an earlier one is not possible. */
static const struct collector *const choices[][3] = {
	[COLLECT_AUTO] = {&collector_trampoline, &collector_probe},
	[COLLECT_PROBE] = {&collector_probe},
	[COLLECT_TRAMPOLINE] = {&collector_trampoline},
	[COLLECT_GROWTH] = {&collector_growth},
};

int session_attach(struct session *s, struct probes *probes, const struct opts *opts)
{
	const struct collector *const *c = choices[opts->collector];
	int err = same_process(s);

	if (err)
		return err;
	detach(s, probes, true);
	do {
		err = (*c)->attach(s, probes, opts);
	} while (err && err != -ESRCH && *++c);
	if (err)
		return err;
	s->collector = *c;
	s->collector_name = (*c)->name;
	err = same_process(s);
	if (err)
		return err;
	if (!s->before)
		s->before = before_start(&s->info);
	s->started = monotonic_seconds();
	s->interval = s->interval_asked = opts->sample_interval;
	s->overhead = -1;
	log_info("attached to %d (%s, Python %s, %s) by %s: %s", s->info.pid, s->comm,
		 s->info.version_str, py_alloc_mode_name(s->info.alloc_mode), s->collector_name,
		 s->coverage);
	return 0;
}

/* A first thread that has ended has no memory any more. */
static void look_at_rss(struct session *s)
{
	proc_rss(s->anchor ? s->anchor : s->info.pid, &s->rss);
}

void session_tick(struct session *s, struct probes *probes)
{
	/* When it has exited it is too late to ask. */
	if (s->ended == 0)
		look_at_rss(s);
	if (s->collector && s->collector->tick)
		s->collector->tick(s, probes);
}

static void end(struct session *s, struct probes *probes, const char *reason, bool alive)
{
	if (s->ended != 0)
		return;
	s->ended = monotonic_seconds();
	s->end_reason = reason;
	detach(s, probes, alive);
}

void session_end(struct session *s, struct probes *probes, const char *reason)
{
	end(s, probes, reason, false);
}

void session_exited(struct session *s, struct probes *probes)
{
	int signal = probes_exit_signal(probes, s->info.pid);
	const char *name = signal ? sigabbrev_np(signal) : NULL;

	if (s->ended != 0)
		return;
	if (name)
		snprintf(s->killed, sizeof(s->killed), "the process was ended by SIG%s", name);
	else if (signal)
		snprintf(s->killed, sizeof(s->killed), "the process was ended by signal %d",
			 signal);
	session_end(s, probes, signal ? s->killed : "the process exited");
}

void session_stop(struct session *s, struct probes *probes, const char *reason)
{
	end(s, probes, reason, true);
}

/* The thread chosen may end before its end would be told. */
#define ANCHOR_TRIES 16

void session_anchor(struct session *s, struct probes *probes, u32 ended)
{
	u32 tid, again;
	int err;

	if (!s->collector || !s->collector->anchor)
		return;
	for (int i = 0; i < ANCHOR_TRIES; i++) {
		err = proc_oldest_thread(s->info.pid, ended, &tid)
			      ?: probes_set_anchor(probes, s->info.pid, tid)
			      ?: s->collector->anchor(s, probes, (pid_t)tid);
		if (err)
			break;
		s->anchor = (pid_t)tid;
		s->anchor_gaps += !i;
		if (proc_oldest_thread(s->info.pid, ended, &again) || again != tid)
			continue;
		log_info("process %d: a thread that probes hung on has ended; they are placed anew",
			 s->info.pid);
		return;
	}
	if (err == -ENOTSUP) {
		session_stop(s, probes, "its first thread has ended, which probes hung on");
	} else if (err && err != -ESRCH) { /* that: it was the process that ended */
		s->anchor_gaps++;
		log_warn("process %d: a thread that probes hung on has ended, and placing them "
			 "anew failed (%s); nothing is seen from here on",
			 s->info.pid, strerror(-err));
	}
}

void session_free(struct session *s, struct probes *probes)
{
	detach(s, probes, true);
	if (s->pidfd >= 0)
		close(s->pidfd);
	before_end(s->before);
	symbolizer_free(s->sym);
	aggregate_history_free(&s->history);
	pyinfo_free(&s->info);
	if (s->last)
		free(s->last->rows);
	free(s->last);
	*s = (struct session){.pidfd = -1};
}

void session_on_stack(struct session *s, const struct probes *probes, u64 stack_id)
{
	struct pht_stack stack;

	if (!symbolizer_get(s->sym, stack_id) && !drain_stack(probes, stack_id, &stack))
		symbolize_stack(s->sym, &s->info, stack_id, &stack);
}

/* Stacks whose event was lost are resolved late rather than never. */
static void resolve_missing(struct session *s, const struct probes *probes, const struct drained *d)
{
	for (size_t i = 0; i < d->nsites; i++) {
		if (d->sites[i].key.tgid != (u32)s->info.pid)
			continue;
		progress_at("naming stacks", i, d->nsites);
		session_on_stack(s, probes, d->sites[i].key.stack_id);
	}
}

static int make_report(struct session *s, const struct probes *probes, const struct drained *d,
		       const struct opts *opts, bool alive, struct report *r)
{
	AUTO_FREE struct live_use *uses = calloc(d->nlive + 1, sizeof(*uses));
	struct pht_peak peak;
	bool has_peak;
	int err;

	if (!uses)
		return log_err_r(-ENOMEM, "out of memory");
	resolve_missing(s, probes, d);
	if (alive)
		symbolizer_refresh(s->sym, &s->info);
	if (alive)
		look_at_rss(s);
	pools_examine(probes, &s->info, alive, d, uses);
	/* Where pools are counted their end is not seen: what is live is known only now. */
	has_peak = !drain_peak(probes, s->info.pid, &peak) && !peak.pools;
	*r = (struct report){
		.pid = s->info.pid,
		.collector = s->collector_name,
		.coverage = s->coverage,
		.coverage_complete = s->complete,
		.sample_interval = s->interval,
		.interval_asked = s->interval_asked,
		.overhead = s->overhead,
		.overhead_core = s->overhead_core,
		.wrote = s->wrote,
		.before = before_get(s->before),
		.duration = (alive ? monotonic_seconds() : s->ended) - s->started,
		.rss = s->rss,
		.peak_seconds = has_peak ? fmax(peak.time_ns / 1e9 - s->started, 0) : -1,
		.temporary_seconds = opts->temporary,
		.end_reason = s->end_reason,
		.calls = d->stats[PHT_STAT_CALLS],
		.frees = d->stats[PHT_STAT_FREES],
		.group_by = opts->group_by,
		.by_domain = opts->by_domain,
		.top = opts->top,
		.symbols = s->sym,
	};
	memcpy(r->comm, s->comm, sizeof(r->comm));
	memcpy(r->python_version, s->info.version_str, sizeof(r->python_version));
	symbolizer_losses(s->sym, r->own_losses);
	r->own_losses[PHT_LOSS_anchor_gap] = s->anchor_gaps;
	if (s->collector && s->collector->losses)
		s->collector->losses(s, r->own_losses);
	for (int i = 0; i < PHT_LOSS_NR; i++)
		r->losses[i] = d->losses[i] + r->own_losses[i];
	err = aggregate(d, uses, s->info.pid, has_peak ? &peak : NULL, s->sym, &s->history, r);
	if (err)
		return log_err_r(err, "out of memory");
	if (report_select(r, opts->metric) && !s->metric_missed) {
		log_warn("process %d: the peak is not known (yet), this is what is live now",
			 s->info.pid);
		s->metric_missed = true;
	}
	return 0;
}

/* Its own copy of the rows: they are freed with each report. */
static int repeat_last(const struct session *s, struct report *r)
{
	size_t size = s->last->nrows * sizeof(*s->last->rows);
	struct row *rows = malloc(size ? size : 1);

	if (!rows)
		return log_err_r(-ENOMEM, "out of memory");
	if (size)
		memcpy(rows, s->last->rows, size);
	*r = *s->last;
	r->rows = rows;
	r->coverage = s->coverage;
	r->wrote = s->wrote;
	return 0;
}

int session_report(struct session *s, const struct probes *probes, const struct drained *d,
		   const struct opts *opts, struct report *r)
{
	bool alive = s->ended == 0;

	if (s->last)
		return repeat_last(s, r);
	return make_report(s, probes, d, opts, alive, r);
}

int session_archive(struct session *s, const struct probes *probes, const struct opts *opts)
{
	AUTO_FREE struct report *r = calloc(1, sizeof(*r));
	struct drained d;
	int err;

	if (s->last)
		return 0;
	if (!r)
		return log_err_r(-ENOMEM, "out of memory");
	err = drain_tables(probes, &d);
	if (err)
		return err;
	err = session_report(s, probes, &d, opts, r);
	if (!err) {
		drain_forget(probes, &d, s->info.pid);
		r->final = true;
		s->last = TAKE_PTR(r);
	}
	drained_free(&d);
	return err;
}
