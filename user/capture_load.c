// SPDX-License-Identifier: BSD-2-Clause
/* Whole captures in one go: the time series, or some of their snapshots. */
#include <errno.h>
#include <string.h>

#include "capture.h"
#include "log.h"

static void warn_of_trouble(const char *path, const struct capture *c)
{
	if (capture_trouble(c))
		log_warn("%s: %s", path, capture_trouble(c));
}

void capture_point_of(const struct snapshot *s, struct capture_point *out)
{
	struct snap_total total;

	snapshot_total(s, SNAP_DOMAINS, &total);
	*out = (struct capture_point){
		.duration = s->duration,
		.wall_ns = s->wall_ns,
		.rss = s->rss,
		.live_bytes = snap_interval(&total.live, s->sample_interval),
		.live_blocks = total.live.blocks,
		.allocated_bytes = total.allocated_bytes,
		.nrows = s->nrows,
	};
}

static int add_point(struct capture_point **points, size_t *n, const struct snapshot *s)
{
	struct capture_point *more = *points;

	/* Room doubles at powers of two. */
	if (!(*n & (*n - 1))) {
		more = reallocarray(*points, *n ? *n * 2 : 1, sizeof(*more));
		if (!more)
			return -ENOMEM;
		*points = more;
	}
	capture_point_of(s, &more[(*n)++]);
	return 0;
}

int capture_series(const char *path, struct capture_point **out, size_t *n)
{
	struct stacks *stacks = stacks_new();
	struct capture_point *points = NULL;
	struct capture *c = NULL;
	size_t count = 0;
	int err = stacks ? capture_open(path, stacks, &c) : log_err_r(-ENOMEM, "out of memory");

	while (!err && (err = capture_next(c)) > 0)
		err = add_point(&points, &count, capture_snapshot(c));
	if (err == -ENOMEM)
		log_error("out of memory");
	capture_close(c);
	stacks_free(stacks);
	if (err) {
		free(points);
		return err;
	}
	*out = points;
	*n = count;
	return 0;
}

/* Candidates for what was asked for, replaced as better ones come by. */
struct pick {
	long which;
	bool found;
	double live;
	struct snapshot snapshot;
};

static int offer(struct pick *p, const struct snapshot *s, long index, double live)
{
	bool wanted = p->which == CAPTURE_PEAK ? !p->found || live > p->live : p->which == index;
	struct snapshot copy;
	int err;

	if (!wanted)
		return 0;
	err = snapshot_copy(s, &copy);
	if (err)
		return err;
	snapshot_free(&p->snapshot);
	p->snapshot = copy;
	p->found = true;
	p->live = live;
	return 0;
}

static int offer_all(struct pick *picks, size_t n, const struct capture *c)
{
	const struct snapshot *s = capture_snapshot(c);
	struct snap_total total;
	int err = 0;

	snapshot_total(s, SNAP_DOMAINS, &total);
	for (size_t i = 0; i < n && !err; i++)
		err = offer(&picks[i], s, (long)capture_index(c), total.live.bytes);
	return err;
}

/*
 * Each snapshot has what its run's peak up to then consisted of, so the last
 * one knows best; where none was recorded the best of the snapshots has to do.
 */
static int offer_peak(struct pick *p, const struct snapshot *last)
{
	struct snapshot peak;
	int err = snapshot_copy(last, &peak);

	if (err)
		return err;
	if (snapshot_select(&peak, METRIC_PEAK)) {
		snapshot_free(&peak);
		return 0;
	}
	snapshot_free(&p->snapshot);
	p->snapshot = peak;
	return 0;
}

/* Which was the last is known only now. */
static int offer_last(struct pick *picks, size_t n, const struct capture *c)
{
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		if (picks[i].which == CAPTURE_LAST)
			err = offer(&picks[i], capture_snapshot(c), CAPTURE_LAST, 0);
		else if (picks[i].which == CAPTURE_PEAK)
			err = offer_peak(&picks[i], capture_snapshot(c));
	}
	return err;
}

static int check_found(const char *path, const struct pick *picks, size_t n, size_t snapshots)
{
	for (size_t i = 0; i < n; i++) {
		if (picks[i].found)
			continue;
		if (!snapshots)
			return log_err_r(-ENOENT, "%s has no snapshot in it", path);
		return log_err_r(-ENOENT, "%s has no snapshot %ld: it has 0 to %zu", path,
				 picks[i].which, snapshots - 1);
	}
	return 0;
}

/* The time series too, unless points is NULL. */
static int load(const char *path, struct stacks *stacks, struct pick *picks, size_t n,
		struct capture_point **points, size_t *npoints)
{
	struct capture *c;
	size_t snapshots = 0;
	int err = capture_open(path, stacks, &c);

	if (err)
		return err;
	while ((err = capture_next(c)) > 0) {
		snapshots++;
		err = offer_all(picks, n, c);
		if (!err && points)
			err = add_point(points, npoints, capture_snapshot(c));
		if (err)
			break;
	}
	if (!err && snapshots)
		err = offer_last(picks, n, c);
	if (err)
		log_error("out of memory");
	else
		warn_of_trouble(path, c);
	capture_close(c);
	return err ? err : check_found(path, picks, n, snapshots);
}

int capture_load_all(const char *path, struct stacks *stacks, const long *which, size_t n,
		     struct snapshot *out, struct capture_point **points, size_t *npoints)
{
	AUTO_FREE struct pick *picks = calloc(n + 1, sizeof(*picks));
	AUTO_FREE struct capture_point *series = NULL;
	size_t count = 0;
	int err;

	if (!picks)
		return log_err_r(-ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		picks[i].which = which[i];
	err = load(path, stacks, picks, n, points ? &series : NULL, &count);
	for (size_t i = 0; i < n; i++) {
		if (err)
			snapshot_free(&picks[i].snapshot);
		else
			out[i] = picks[i].snapshot;
	}
	if (!err && points) {
		*points = TAKE_PTR(series);
		*npoints = count;
	}
	return err;
}

int capture_load_many(const char *path, struct stacks *stacks, const long *which, size_t n,
		      struct snapshot *out)
{
	return capture_load_all(path, stacks, which, n, out, NULL, NULL);
}

int capture_load(const char *path, struct stacks *stacks, long which, struct snapshot *out)
{
	return capture_load_many(path, stacks, &which, 1, out);
}
