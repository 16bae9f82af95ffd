// SPDX-License-Identifier: BSD-2-Clause
#include "flame_live.h"

#include <errno.h>
#include <libgen.h>
#include <string.h>

#include "capture_view.h"
#include "log.h"
#include "trace.h"

struct live {
	const struct opts *opts;
	struct stacks *stacks;
	struct snap_cache *cache;
	struct flame_course course;
};

/* The file is written at the end: that it cannot be is better known before. */
static int check_output(const char *path)
{
	char *copy;
	int err = 0;

	if (!path || !access(path, W_OK))
		return 0;
	if (errno != ENOENT)
		return log_err_r(-errno, "cannot write %s: %s", path, strerror(errno));
	copy = strdup(path);
	if (!copy)
		return log_err_r(-ENOMEM, "out of memory");
	if (access(dirname(copy), W_OK))
		err = log_err_r(-errno, "cannot write %s: %s", path, strerror(errno));
	free(copy);
	return err;
}

static int open_live(void *ctx)
{
	struct live *l = ctx;

	l->stacks = stacks_new();
	l->cache = snap_cache_new();
	if (!l->stacks || !l->cache)
		return log_err_r(-ENOMEM, "out of memory");
	return check_output(l->opts->output);
}

static int report(void *ctx, const struct report *r, const struct drained *d)
{
	struct live *l = ctx;
	struct snapshot s = {0};
	int err = snapshot_from_report(r, l->stacks, l->cache, &s);

	(void)d;
	if (!err)
		err = flame_course_add(&l->course, &s);
	return err ? log_err_r(err, "cannot make a snapshot: %s", strerror(-err)) : 0;
}

static int print(FILE *out, void *ctx)
{
	const struct live *l = ctx;

	return flame_course_write(out, &l->course, l->stacks);
}

int flame_live_main(const struct opts *given)
{
	struct opts opts = *given;
	struct live l = {.opts = &opts};
	struct trace_sink sink = {open_live, report, &l};
	struct view_args view = {.output = opts.output};
	int rc;

	if (opts.npids > 1) {
		log_error("one process per flame graph, please");
		return 2;
	}
	if (!opts.output && isatty(STDOUT_FILENO)) {
		log_error("a flame graph is HTML, not for a terminal (try -o FILE)");
		return 2;
	}
	opts.group_by = GROUP_TRACEBACK;
	opts.by_domain = true;
	rc = trace_to_sink(&opts, &sink);
	if (!rc)
		rc = view_output(&view, print, &l);
	flame_course_free(&l.course);
	snap_cache_free(l.cache);
	stacks_free(l.stacks);
	return rc;
}
