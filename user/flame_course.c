// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <string.h>

#include "flame.h"
#include "flame_live.h"

static void thin(struct flame_course *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->npoints; i += 2)
		c->points[n++] = c->points[i];
	c->npoints = n;
	c->step *= 2;
}

static int add_point(struct flame_course *c, const struct snapshot *s)
{
	if (!c->points) {
		/* Even, so that those which stay are evenly spaced. */
		c->max_points = c->max_points ?: FLAME_MAX_POINTS;
		c->points = calloc(c->max_points, sizeof(*c->points));
		c->step = 1;
		if (!c->points)
			return -ENOMEM;
	}
	c->npoints -= c->passing;
	if (c->npoints == c->max_points)
		thin(c);
	capture_point_of(s, &c->points[c->npoints++]);
	c->passing = c->seen++ % c->step != 0;
	return 0;
}

int flame_course_add(struct flame_course *c, struct snapshot *s)
{
	struct snap_total total;
	int err;

	snapshot_total(s, SNAP_DOMAINS, &total);
	snapshot_free(&c->now);
	c->now = *s;
	*s = (struct snapshot){0};
	err = add_point(c, &c->now);
	if (!err && !c->any)
		err = snapshot_copy(&c->now, &c->first);
	if (!err && (!c->any || total.live.bytes > c->peak_bytes)) {
		snapshot_free(&c->peak);
		c->peak = (struct snapshot){0};
		err = snapshot_copy(&c->now, &c->peak);
		c->peak_bytes = total.live.bytes;
	}
	c->any = true;
	return err;
}

int flame_course_write(FILE *out, const struct flame_course *c, const struct stacks *stacks)
{
	static const struct snap_filter all = {0};
	struct flame_input in = {
		.stacks = stacks,
		.now = &c->now,
		.same_run = true,
		.filter = &all,
		.points = c->points,
		.npoints = c->npoints,
	};
	struct snapshot peak;
	int err;

	if (c->first.duration < c->now.duration)
		in.first = &c->first;
	if (c->peak.duration != c->now.duration)
		in.peak = &c->peak;
	err = snapshot_copy(&c->now, &peak);
	if (err)
		return err;
	/* As recorded, else the best that was seen. */
	if (!snapshot_select(&peak, METRIC_PEAK))
		in.peak = &peak;
	err = flame_write(out, &in);
	snapshot_free(&peak);
	return err;
}

void flame_course_free(struct flame_course *c)
{
	snapshot_free(&c->first);
	snapshot_free(&c->peak);
	snapshot_free(&c->now);
	free(c->points);
	*c = (struct flame_course){0};
}
