// SPDX-License-Identifier: BSD-2-Clause
/* Processes that come and go while tracing: started, forked, found. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "log.h"
#include "merge.h"
#include "trace_priv.h"

#define REFUSED_MAX 256

/* May there be processes other than those given? */
bool trace_is_dynamic(const struct opts *opts)
{
	return opts->argv || opts->follow || choose_any(&opts->choose);
}

/* And more than one at a time? */
bool trace_may_be_many(const struct opts *opts)
{
	return opts->follow || choose_any(&opts->choose);
}

/* Reports of processes that have ended make room for those that live. */
static struct session *new_session(struct trace *t)
{
	struct session *oldest = NULL;

	if (t->nsessions < t->max_sessions)
		return &t->sessions[t->nsessions++];
	for (size_t i = 0; i < t->nsessions; i++) {
		struct session *s = &t->sessions[i];

		if (s->ended != 0 && (!oldest || s->ended < oldest->ended))
			oldest = s;
	}
	if (oldest) {
		session_free(oldest, t->probes);
		t->forgotten++;
	}
	return oldest;
}

static int on_begin(void *ctx, pid_t pid)
{
	struct trace *t = ctx;
	struct session *s = trace_session_of(t, (u32)pid), opened;
	int err = s ? -EEXIST : session_open(&opened, pid);

	if (err)
		return err;
	s = new_session(t);
	if (!s) {
		session_free(&opened, t->probes);
		return -E2BIG;
	}
	*s = opened;
	err = session_attach(s, t->probes, t->opts) ?: trace_watch(t, s->pidfd);
	governor_reset(&t->governor);
	if (!err && t->launch.pid)
		trace_start_duration(t);
	if (!err)
		return 0;
	session_free(s, t->probes);
	/* The last one, or one whose report is forgotten already. */
	if (s == &t->sessions[t->nsessions - 1])
		t->nsessions--;
	else
		*s = t->sessions[--t->nsessions];
	return err;
}

/* A process that came by itself: there may be hundreds of them, which are not worth a line each. */
static int on_followed(void *ctx, pid_t pid)
{
	struct trace *t = ctx;
	int err = on_begin(t, pid);

	if (err == -E2BIG && !t->over++)
		log_warn("process %d is not traced, nor are those after it: %d are already", pid,
			 SESSIONS_MAX);
	return err;
}

static void on_end(void *ctx, pid_t pid, const char *reason, bool alive)
{
	struct trace *t = ctx;
	struct session *s = trace_session_of(t, (u32)pid);

	if (!s)
		return;
	drain_events_consume(t->events);
	s->end_reason = reason;
	if (alive) {
		session_archive(s, t->probes, t->opts);
		session_stop(s, t->probes, reason);
	} else {
		session_end(s, t->probes, reason);
		session_archive(s, t->probes, t->opts);
	}
	epoll_ctl(t->epoll, EPOLL_CTL_DEL, s->pidfd, NULL);
	governor_reset(&t->governor);
}

static void refuse(struct trace *t, pid_t pid, const char *why)
{
	struct refused *r;

	if (t->nrefused == REFUSED_MAX) {
		t->more_refused++;
		return;
	}
	r = reallocarray(t->refused, t->nrefused + 1, sizeof(*r));
	if (!r) {
		t->more_refused++;
		return;
	}
	t->refused = r;
	r = &t->refused[t->nrefused++];
	*r = (struct refused){.pid = pid};
	proc_comm(pid, r->comm, sizeof(r->comm));
	snprintf(r->why, sizeof(r->why), "not traced: %s", why);
	log_info("%s", r->why);
}

static int on_chosen(void *ctx, pid_t pid)
{
	struct trace *t = ctx;
	char why[200];
	u32 word = 0;
	u64 addr;
	int err = pyinfo_find_initialized(pid, &addr);

	if (err == -ESRCH || (err == -ENOEXEC && !t->opts->choose.comm))
		return 0;
	if (!err && !proc_read(pid, addr, &word, sizeof(word)) && !word)
		return -EAGAIN; /* it is just beginning */
	log_capture(why, sizeof(why));
	err = on_begin(t, pid);
	log_capture(NULL, 0);
	if (!err && t->opts->follow)
		err = fleet_adopt(t->fleet, pid);
	else if (err && err != -EEXIST && err != -ESRCH)
		refuse(t, pid,
		       *why	       ? why
		       : err == -E2BIG ? "as many as there can be are traced already"
				       : strerror(-err));
	return 0;
}

static int start_choosing(struct trace *t)
{
	if (!choose_any(&t->opts->choose))
		return 0;
	t->choose = choose_new(&t->opts->choose);
	if (!t->choose)
		return log_err_r(-ENOMEM, "out of memory");
	return choose_scan(t->choose, on_chosen, t);
}

int trace_start_fleet(struct trace *t)
{
	const struct fleet_hooks hooks = {on_followed, on_end, t};
	int err;

	if (!trace_is_dynamic(t->opts))
		return 0;
	err = fleet_open(t->probes, &hooks, &t->fleet) ?: trace_watch(t, fleet_fd(t->fleet));
	if (!err && t->launch.pid)
		err = fleet_expect(t->fleet, t->launch.pid, t->opts->follow) ?:
		      trace_watch(t, t->launch.pidfd) ?: launch_go(&t->launch);
	for (size_t i = 0; t->opts->follow && i < t->opts->npids && !err; i++)
		err = fleet_adopt(t->fleet, t->opts->pids[i]);
	return err ? err : start_choosing(t);
}

int trace_look_around(struct trace *t)
{
	if (t->fleet)
		fleet_tick(t->fleet);
	return t->choose ? choose_scan(t->choose, on_chosen, t) : 0;
}

/* In JSON they are processes like the others, with an end and nothing before it. */
int trace_print_refused(struct trace *t)
{
	int err = 0;

	if (t->nrefused && !t->opts->json)
		fputs("\nNot traced:\n", t->out);
	for (size_t i = 0; i < t->nrefused && !err; i++) {
		struct report r = {
			.pid = t->refused[i].pid,
			.end_reason = t->refused[i].why,
			.overhead = -1,
			.coverage_share = -1,
			.peak_seconds = -1,
			.group_by = t->opts->group_by,
		};

		memcpy(r.comm, t->refused[i].comm, sizeof(r.comm));
		if (t->opts->json)
			err = trace_print_report(t, &r, t->nsessions + i);
		else
			err = report_text_reason(t->out, &r);
	}
	return err;
}

void trace_add_losses(const struct trace *t, struct report *r)
{
	struct fleet_counts counts;

	if (!t->fleet)
		return;
	counts = fleet_counts(t->fleet);
	r->losses[PHT_LOSS_process_missed] += counts.missed;
	r->losses[PHT_LOSS_process_over] += counts.over + t->forgotten + t->more_refused + t->over;
}

void trace_conclude(const struct trace *t)
{
	struct fleet_counts counts;

	if (!t->fleet || t->nsessions)
		return;
	counts = fleet_counts(t->fleet);
	if (t->opts->argv && !counts.failed && !counts.missed)
		log_warn("%s ran no Python that could be traced", t->opts->argv[0]);
	else if (counts.missed)
		log_warn("%llu processes ended before they could be traced",
			 (unsigned long long)counts.missed);
	else if (t->choose && !t->nrefused)
		log_warn("no process was found that fits");
}

int trace_print_merged(struct trace *t, const struct drained *d, bool final)
{
	AUTO_FREE struct report *list = calloc(t->nsessions + 1, sizeof(*list));
	struct report merged;
	size_t n = 0;
	int err = list ? 0 : log_err_r(-ENOMEM, "out of memory");

	while (!err && n < t->nsessions) {
		err = session_report(&t->sessions[n], t->probes, d, t->opts, &list[n]);
		if (!err)
			list[n++].final = final;
	}
	if (!err)
		err = merge_reports(list, n, &merged);
	if (!err) {
		merged.final = final;
		err = trace_print_report(t, &merged, 0);
		if (err)
			trace_cannot_write(err);
		merge_free(&merged);
	}
	for (size_t i = 0; i < n; i++)
		free(list[i].rows);
	return err;
}

int trace_end_launch(struct trace *t)
{
	int rc = LAUNCH_OUR_FAULT;

	if (t->launch.pid && t->launch.go < 0) {
		launch_wait(&t->launch, t->signals);
		rc = launch_exit_status(&t->launch);
	}
	launch_cancel(&t->launch);
	return rc;
}
