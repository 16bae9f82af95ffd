// SPDX-License-Identifier: BSD-2-Clause
#include "fleet_priv.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>

#include "breakpoint.h"
#include "log.h"
#include "pyinfo.h"
#include "session.h"

/* A child that is going to execute another program mostly does so within this time. */
#define FORK_GRACE 0.02

int fleet_open(struct probes *probes, const struct fleet_hooks *hooks, struct fleet **out)
{
	struct fleet *f = calloc(1, sizeof(*f));
	int err = 0;

	if (!f)
		return log_err_r(-ENOMEM, "out of memory");
	f->probes = probes;
	f->hooks = *hooks;
	f->map = probes_map_fd(probes, MAP_FOLLOW);
	f->members = calloc(FLEET_MAX, sizeof(*f->members));
	f->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (!f->members || f->timer < 0)
		err = -ENOMEM;
	if (!err)
		err = stopguard_start(f->map, &f->guard);
	if (err) {
		fleet_close(f);
		return log_err_r(err, "cannot follow processes: %s", strerror(-err));
	}
	*out = f;
	return 0;
}

void fleet_close(struct fleet *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->n; i++)
		breakpoint_remove(f->members[i].link);
	breakpoint_remove(f->births);
	stopguard_end(&f->guard);
	if (f->timer >= 0)
		close(f->timer);
	free(f->members);
	free(f->queue);
	free(f);
}

int fleet_fd(const struct fleet *f)
{
	return f->timer;
}

struct fleet_counts fleet_counts(const struct fleet *f)
{
	return f->counts;
}

/* ---- members ---- */

static struct member *member_of(struct fleet *f, pid_t pid)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->members[i].pid == pid)
			return &f->members[i];
	return NULL;
}

static bool gone(const struct member *m)
{
	u64 start;

	return proc_start_time(m->pid, &start) || start != m->start_time;
}

static void drop(struct fleet *f, struct member *m)
{
	breakpoint_remove(m->link);
	*m = f->members[--f->n];
}

static struct member *add(struct fleet *f, pid_t pid, enum stage stage)
{
	struct member *m = member_of(f, pid);
	u64 start;

	if (m && !gone(m))
		return m;
	if (m)
		drop(f, m);
	if (proc_start_time(pid, &start)) {
		f->counts.missed++;
		return NULL;
	}
	if (f->n == FLEET_MAX) {
		f->counts.over++;
		return NULL;
	}
	m = &f->members[f->n++];
	*m = (struct member){.pid = pid, .start_time = start, .stage = stage};
	return m;
}

bool fleet_waiting(const struct fleet *f)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->members[i].stage < TRACED && !gone(&f->members[i]))
			return true;
	return f->nqueue > 0;
}

/* ---- events ---- */

static bool is_followed(const struct fleet *f, pid_t pid)
{
	struct pht_follow e;
	u32 key = pid;

	return !bpf_map_lookup_elem(f->map, &key, &e);
}

static void on_exec(struct fleet *f, pid_t pid)
{
	struct member *m;

	f->hooks.end(f->hooks.ctx, pid, "the process executed another program", false);
	if (!is_followed(f, pid))
		return;
	m = add(f, pid, AT_EXEC);
	if (!m) {
		fleet_resume(f, pid);
		return;
	}
	fleet_remove_breakpoint(m);
	m->stage = AT_EXEC;
	m->wait = 0;
	fleet_await_loader(f, m);
	fleet_resume(f, pid);
}

static void on_fork(struct fleet *f, pid_t child)
{
	struct member *m;

	if (!is_followed(f, child) || member_of(f, child))
		return;
	m = add(f, child, AT_FORK);
	if (m)
		m->due = monotonic_seconds() + FORK_GRACE;
}

static void handle(struct fleet *f, const struct pht_event *ev)
{
	struct member *m = member_of(f, (pid_t)ev->tgid);

	log_debug("process %u: event %u, %llu", ev->tgid, ev->type, (unsigned long long)ev->value);
	switch (ev->type) {
	case PHT_EV_EXEC:
		on_exec(f, (pid_t)ev->tgid);
		return;
	case PHT_EV_FORK:
		on_fork(f, (pid_t)ev->value);
		return;
	case PHT_EV_BORN:
		m = add(f, (pid_t)ev->tgid, AT_FORK);
		if (m)
			fleet_look(f, m);
		break;
	case PHT_EV_ENTRY:
		if (m && m->stage == AT_EXEC) {
			fleet_remove_breakpoint(m);
			fleet_look(f, m);
		}
		break;
	case PHT_EV_READY:
		if (m && m->stage != TRACED)
			fleet_begin(f, m);
		break;
	case PHT_EV_FINI:
		f->hooks.end(f->hooks.ctx, (pid_t)ev->tgid, "the interpreter began to shut down",
			     true);
		if (m)
			m->stage = DONE;
		break;
	}
	fleet_resume(f, (pid_t)ev->tgid);
}

void fleet_on_event(struct fleet *f, const struct pht_event *ev)
{
	if (f->nqueue == f->queue_cap) {
		size_t cap = f->queue_cap ? 2 * f->queue_cap : 64;
		struct pht_event *v = reallocarray(f->queue, cap, sizeof(*v));

		if (!v) {
			log_error("out of memory");
			fleet_resume(f, (pid_t)ev->tgid);
			return;
		}
		f->queue = v;
		f->queue_cap = cap;
	}
	f->queue[f->nqueue++] = *ev;
}

/* ---- the clock ---- */

static bool initialised(const struct member *m)
{
	u32 word = 0;

	return !proc_read(m->pid, m->word, &word, sizeof(word)) && word;
}

static void set_timer(const struct fleet *f)
{
	double now = monotonic_seconds(), next = 0;
	struct itimerspec spec = {0};

	for (size_t i = 0; i < f->n; i++) {
		const struct member *m = &f->members[i];
		double due = m->stage == POLLED				    ? now + POLL_EVERY
			     : m->stage == AT_FORK || m->stage == NO_PYTHON ? m->due
									    : 0;

		if (due > 0 && (next <= 0 || due < next))
			next = due;
	}
	if (next > 0) {
		double in = next > now + POLL_EVERY ? next - now : POLL_EVERY;

		spec.it_value.tv_sec = (time_t)in;
		spec.it_value.tv_nsec = (long)((in - (time_t)in) * 1e9);
	}
	timerfd_settime(f->timer, 0, &spec, NULL);
}

void fleet_run(struct fleet *f)
{
	double now;
	u64 ticks;

	/* More may be queued meanwhile. */
	for (size_t i = 0; i < f->nqueue; i++) {
		struct pht_event ev = f->queue[i];

		handle(f, &ev);
	}
	f->nqueue = 0;
	if (read(f->timer, &ticks, sizeof(ticks)) < 0)
		ticks = 0;
	now = monotonic_seconds();
	for (size_t i = 0; i < f->n; i++) {
		struct member *m = &f->members[i];

		if (m->stage == POLLED && initialised(m))
			fleet_begin(f, m);
		else if ((m->stage == AT_FORK || m->stage == NO_PYTHON) && now >= m->due)
			fleet_look(f, m);
	}
	set_timer(f);
}

void fleet_tick(struct fleet *f)
{
	for (size_t i = f->n; i-- > 0;) {
		struct member *m = &f->members[i];

		if (!gone(m))
			continue;
		if (m->stage == AT_FORK || m->stage == AWAITED || m->stage == POLLED)
			f->counts.missed++;
		drop(f, m);
	}
}

static int follow(struct fleet *f, pid_t pid, u32 flags)
{
	struct pht_follow e = {.flags = flags};
	u32 key = pid;
	int err = bpf_map_update_elem(f->map, &key, &e, BPF_ANY);

	return err ? log_err_r(err, "cannot follow process %d: %s", pid, strerror(-err)) : 0;
}

int fleet_expect(struct fleet *f, pid_t pid, bool children)
{
	u32 flags = PHT_FOLLOW_STOP;
	int err;

	if (children) {
		err = breakpoint_births(f->probes, pid, &f->births);
		flags |= PHT_FOLLOW_FORK | (err ? 0 : PHT_FOLLOW_BIRTH);
		if (err)
			log_info("children will be seen a moment after they begin: %s",
				 strerror(-err));
	}
	return follow(f, pid, flags);
}

/* Its children are not stopped: this may be a server in production. */
int fleet_adopt(struct fleet *f, pid_t pid)
{
	int err = follow(f, pid, PHT_FOLLOW_STOP | PHT_FOLLOW_FORK);
	struct member *m = err ? NULL : add(f, pid, TRACED);
	u64 word;

	if (!m)
		return err ?: -ESRCH;
	if (!pyinfo_find_initialized(pid, &word) && !fleet_set_entry(f, pid, word, 0, true)) {
		m->word = word;
		if (breakpoint_set(f->probes, pid, word, BREAK_WRITE, &m->link))
			log_info("process %d: no hardware breakpoint", pid);
	}
	log_info("follows process %d", pid);
	return 0;
}
