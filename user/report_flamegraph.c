// SPDX-License-Identifier: BSD-2-Clause
/* A capture as a flame graph. */
#include "capture_report.h"
#include "flame.h"

int report_capture_flamegraph(FILE *out, const struct capture_report *r)
{
	struct flame_input in = {
		.stacks = r->stacks,
		.now = &r->now,
		.same_run = true,
		.filter = &r->args->view.filter,
		.points = r->points,
		.npoints = r->npoints,
	};

	/* Moments are told apart by their time: a view of the same moment would say nothing. */
	if (r->first.duration < r->now.duration)
		in.first = &r->first;
	if (r->peak.duration != r->now.duration)
		in.peak = &r->peak;
	return flame_write(out, &in);
}
