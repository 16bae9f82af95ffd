// SPDX-License-Identifier: BSD-2-Clause
/*
 * Page faults by the line that caused them: where resident memory grew, be it
 * the heap (brk), a mapping, a pymalloc arena or a pool.  Nothing is written
 * into the target and no instruction of it is probed.
 */
#include "collector.h"

#include "log.h"
#include "plan.h"
#include "session.h"

static int attach(struct session *s, struct probes *probes, const struct opts *opts)
{
	struct pht_proc proc;
	int err;

	plan_proc(&s->info, opts->sample_interval, &proc);
	proc.flags |= PHT_PROC_FAULTS;
	err = probes_attach_faults(probes, s->info.pid, &proc);
	if (err)
		return err;
	s->complete = false;
	snprintf(s->coverage, sizeof(s->coverage),
		 "private memory by the line that first wrote to its page, 4 KiB at a time; memory "
		 "that is used again without growth is not seen");
	return 0;
}

static void detach(struct session *s, struct probes *probes, bool alive)
{
	(void)alive;
	probes_detach(probes, s->info.pid, NULL);
}

const struct collector collector_growth = {
	.name = "growth",
	.no_probes = true,
	.attach = attach,
	.detach = detach,
};
