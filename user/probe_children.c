// SPDX-License-Identifier: BSD-2-Clause
#include "probe_children.h"

#include <unistd.h>

#include "bpfsys.h"

static void sweep_object(const struct plan *plan, int object, int prog_fd, u32 attach_type)
{
	u64 offsets[PLAN_MAX_PROBES];
	char path[32];
	u32 n = 0;
	int fd;

	for (size_t i = 0; i < plan->nprobes; i++)
		if (plan->probes[i].object == object)
			offsets[n++] = plan->probes[i].offset;
	if (!n)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", plan->fds[object]);
	/* What it would see of this process, which is not traced, is ignored. */
	fd = bpfsys_uprobe_multi(prog_fd, attach_type, path, offsets, NULL, n, getpid(), false);
	if (fd >= 0)
		close(fd);
}

void probe_children_sweep(const struct plan *plan, int prog_fd, u32 attach_type)
{
	for (int object = 0; object < (int)ARRAY_SIZE(plan->fds); object++)
		sweep_object(plan, object, prog_fd, attach_type);
}
