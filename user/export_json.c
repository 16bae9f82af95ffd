// SPDX-License-Identifier: BSD-2-Clause
/* The JSON of a live report by traceback: docs/json.md. */
#include <errno.h>
#include <string.h>

#include "export.h"

static int export(FILE *out, const struct export_input *in)
{
	struct snap_view view = *in->view;
	AUTO_FREE struct frame *frames = NULL;
	struct snap_groups groups;
	struct report report;
	int err;

	view.group_by = GROUP_TRACEBACK;
	view.cumulative = SNAP_SELF;
	err = snapshot_group(in->s, in->stacks, &view, &groups);
	if (err)
		return err;
	snap_groups_sort(&groups, in->stacks, &view, SNAP_SORT_SIZE);
	err = snapshot_to_report(in->s, in->stacks, &view, &groups, NULL, in->s->duration, SIZE_MAX,
				 &report, &frames);
	if (!err) {
		err = report_json(out, &report);
		free(report.rows);
	}
	snap_groups_free(&groups);
	return err;
}

const struct exporter export_json = {"json", "pyheaptrace's own, by traceback", export, false};
