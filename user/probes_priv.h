/* SPDX-License-Identifier: BSD-2-Clause */
/* What probes.c and probe_links.c share.  For those two only. */
#ifndef PHT_PROBES_PRIV_H
#define PHT_PROBES_PRIV_H

#include <bpf/libbpf.h>

#include "later.h"
#include "probe_style.h"
#include "probes.h"
#include "pyheaptrace.skel.h"

struct probes {
	struct pyheaptrace_bpf *skel;
	enum attach_style style;
	struct later *later; /* removes probes */
};

struct probes_links {
	int fds[8]; /* multi links */
	size_t nfds;
	struct bpf_link *perf[2 * PLAN_MAX_PROBES];
	size_t nperf;
	struct bpf_link *sites[2]; /* the trampoline's: alloc, free */
	struct plan *plan; /* of what is to be placed again, or taken out of children; or NULL */
};

#endif
