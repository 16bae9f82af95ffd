// SPDX-License-Identifier: BSD-2-Clause
/* Machines that the trampoline's code is not written for. */
#ifndef __x86_64__
#include <errno.h>

#include "collector.h"
#include "log.h"
#include "session.h"

static int attach(struct session *s, struct probes *probes, const struct opts *opts)
{
	(void)s;
	(void)probes;
	if (opts->collector == COLLECT_TRAMPOLINE)
		log_error("the trampoline is written for x86-64 only; use --collector=probe");
	else
		log_info("no trampoline: it is written for x86-64 only");
	return -ENOTSUP;
}

/* Never called: nothing attaches. */
static void detach(struct session *s, struct probes *probes, bool alive)
{
	(void)s;
	(void)probes;
	(void)alive;
}

const struct collector collector_trampoline = {
	.name = "trampoline",
	.attach = attach,
	.detach = detach,
};
#endif
