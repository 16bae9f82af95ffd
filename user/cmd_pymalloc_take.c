// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <string.h>
#include <time.h>

#include "bounded.h"
#include "cmd_pymalloc.h"
#include "escape.h"
#include "freeze.h"
#include "log.h"
#include "obmalloc_find.h"
#include "proc.h"

/* Reads fail after the first; a read that hangs (memory served by the target) is left behind. */
#define DEADLINE_NS 8000000000ull
#define BOUND_MS    10000

/* Lives on when a read hangs: it then belongs to nobody. */
struct job {
	pid_t pid;
	struct pyinfo info; /* borrowed strings */
	unsigned freeze_ms;
	struct pymalloc_moment *m; /* owned */
	const char *what;	   /* failed */
};

static int read_states(struct job *job, const struct obmalloc *ob, const struct reader *r)
{
	struct pymalloc_moment *m = job->m;
	int err = 0;

	m->layout = ob->layout;
	m->more_states = ob->more;
	for (size_t i = 0; !err && i < ob->n; i++) {
		err = obmalloc_stats_read(ob, &ob->state[i], r, &m->state[i]);
		/* a sub-interpreter may end at any moment */
		if (i && (err == -EFAULT || err == -EINVAL)) {
			err = 0;
			continue;
		}
		if (err)
			break;
		m->state[m->nstates++] = m->state[i];
		obmalloc_stats_add(&m->total, &m->state[m->nstates - 1]);
	}
	m->found = !err;
	return err;
}

static int read_lists(struct job *job, const struct freelists_where *where, const struct reader *r)
{
	struct interp interps[OBMALLOC_STATES_MAX];
	struct pymalloc_moment *m = job->m;
	bool more;
	int n = interps_read(&job->info, r, interps, ARRAY_SIZE(interps), &more);
	int err;

	if (n <= 0)
		return n;
	err = freelists_read(where, r, interps[0].addr, &m->main_lists);
	m->lists = m->main_lists;
	for (int i = 1; !err && where->per_interpreter && i < n; i++) {
		struct freelists other;

		err = freelists_read(where, r, interps[i].addr, &other);
		if (!err)
			freelists_add(&m->lists, &other);
	}
	return err;
}

static int read_all(struct job *job, const struct obmalloc *ob, const struct freelists_where *where,
		    const struct reader *r)
{
	int err = ob ? read_states(job, ob, r) : 0;

	job->what = "its pymalloc";
	return err ? err : read_lists(job, where, r);
}

static int read_frozen(struct job *job, const struct obmalloc *ob,
		       const struct freelists_where *where, const struct reader *r)
{
	struct freeze *freeze;
	int err;

	job->what = "stop it";
	err = freeze_start(job->pid, job->freeze_ms, &freeze);
	if (err)
		return err;
	err = read_all(job, ob, where, r);
	job->m->thawed_early = !freeze_holds(freeze);
	job->m->frozen_ns = freeze_end(freeze);
	return err;
}

static int run(void *arg)
{
	struct job *job = arg;
	struct reader r = reader_proc(&job->pid);
	struct freelists_where where;
	struct obmalloc ob;
	bool found;
	int err;

	r.deadline = reader_now() + DEADLINE_NS;
	job->what = "find its pymalloc";
	err = obmalloc_find(&job->info, &r, &ob);
	found = !err;
	/* not there when another allocator serves: that is an answer */
	if (err == -ENOENT && !job->m->prints)
		err = 0;
	if (!err)
		err = freelists_find(&job->info, found ? &ob : NULL, &where);
	if (err)
		return err;
	if (job->freeze_ms)
		return read_frozen(job, found ? &ob : NULL, &where, &r);
	return read_all(job, found ? &ob : NULL, &where, &r);
}

static int explain(const struct pymalloc_target *t, const char *what, int err)
{
	int pid = (int)t->info.pid;

	if (t->info.free_threaded && err == -ENOTSUP)
		return log_err_r(
			err,
			"process %d runs a free-threaded Python: its memory is mimalloc's, "
			"which pymalloc does not read",
			pid);
	switch (err) {
	case -ESRCH:
		return log_err_r(err, "process %d went away", pid);
	case -EPERM:
		return log_err_r(err,
				 "process %d: no permission to %s (another tracer may hold it)",
				 pid, what);
	case -ENOENT:
		return log_err_r(err,
				 "process %d: cannot find pymalloc's state in Python %s: not "
				 "initialised yet, or a build whose structures differ",
				 pid, t->info.version_str);
	case -EFAULT:
	case -EINVAL:
		return log_err_r(err,
				 "process %d: pymalloc's table of arenas makes no sense, or never "
				 "stood still: try --freeze",
				 pid);
	case -ETIMEDOUT:
		return log_err_r(err, "process %d: could not %s in time", pid, what);
	default:
		return log_err_r(err, "process %d: cannot %s: %s", pid, what, strerror(-err));
	}
}

/* Does sys._debugmallocstats() take pymalloc to be in use? */
static bool prints_pymalloc(enum py_alloc_mode mode)
{
	return mode == PY_ALLOC_PYMALLOC || mode == PY_ALLOC_DEBUG || mode == PY_ALLOC_UNKNOWN;
}

static void describe(const struct pymalloc_target *t, struct pymalloc_moment *m)
{
	struct timespec now;
	char comm[32];

	clock_gettime(CLOCK_REALTIME, &now);
	m->time = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
	m->pid = t->info.pid;
	m->start_time = t->info.start_time;
	m->prints = prints_pymalloc(t->info.alloc_mode);
	snprintf(m->version, sizeof(m->version), "%s", t->info.version_str);
	snprintf(m->allocator, sizeof(m->allocator), "%s", py_alloc_mode_name(t->info.alloc_mode));
	if (proc_comm(m->pid, comm, sizeof(comm)))
		comm[0] = '\0';
	escape_text(m->comm, sizeof(m->comm), comm, true);
}

static int same_process(struct pymalloc_target *t)
{
	u64 start_time;
	int err = proc_start_time(t->info.pid, &start_time);

	if (!err && start_time != t->info.start_time)
		err = -ESRCH;
	return err ? err : pyinfo_reread_allocators(&t->info);
}

int pymalloc_take(struct pymalloc_target *t, struct pymalloc_moment *out)
{
	struct job *job;
	int err = same_process(t);

	if (err)
		return explain(t, "read its memory", err);
	job = calloc(1, sizeof(*job));
	if (!job || !(job->m = calloc(1, sizeof(*job->m)))) {
		free(job);
		return explain(t, "read its memory", -ENOMEM);
	}
	job->pid = t->info.pid;
	job->info = t->info;
	job->freeze_ms = t->freeze_ms;
	job->what = "read its memory";
	describe(t, job->m);
	err = bounded_call(run, job, BOUND_MS);
	if (err == -ETIMEDOUT) /* it may still run, with all that it points to */
		return explain(t, "read its memory", err);
	if (err)
		explain(t, job->what, err);
	else
		*out = *job->m;
	free(job->m);
	free(job);
	return err;
}
