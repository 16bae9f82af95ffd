// SPDX-License-Identifier: BSD-2-Clause
/* Kernel probes on the allocators' functions: nothing is written into the target. */
#include "collector.h"

#include <string.h>

#include "plan.h"
#include "session.h"

static int attach(struct session *s, struct probes *probes, const struct opts *opts)
{
	struct probes_links *links;
	struct plan plan;
	int err = plan_make(&s->info, opts->sample_interval, &plan);

	if (err)
		return err;
	err = probes_attach(probes, s->info.pid, &plan, &links);
	if (!err) {
		memcpy(s->coverage, plan.coverage, sizeof(s->coverage));
		s->complete = plan.complete;
		s->state = links;
	}
	plan_free(&plan);
	return err;
}

static void tick(struct session *s, struct probes *probes)
{
	if (s->forked)
		probes_leave_children(probes, s->info.pid, s->state);
	s->forked = false;
}

static int anchor(struct session *s, struct probes *probes, pid_t tid)
{
	return probes_move(probes, s->state, tid);
}

static void detach(struct session *s, struct probes *probes, bool alive)
{
	(void)alive;
	probes_detach(probes, s->info.pid, s->state);
}

const struct collector collector_probe = {
	.name = "probe",
	.attach = attach,
	.tick = tick,
	.anchor = anchor,
	.detach = detach,
};
