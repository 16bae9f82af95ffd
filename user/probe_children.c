// SPDX-License-Identifier: BSD-2-Clause
#include "probe_children.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "bpfsys.h"

struct probe_places {
	int fds[ARRAY_SIZE(((struct plan *)0)->fds)]; /* owned; -1 = none */
	u64 offsets[ARRAY_SIZE(((struct plan *)0)->fds)][PLAN_MAX_PROBES];
	u32 n[ARRAY_SIZE(((struct plan *)0)->fds)];
};

static int keep_files(const int *fds, struct probe_places *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(p->fds); i++)
		p->fds[i] = -1;
	for (size_t i = 0; i < ARRAY_SIZE(p->fds); i++) {
		p->fds[i] = p->n[i] ? fcntl(fds[i], F_DUPFD_CLOEXEC, 3) : -1;
		if (p->n[i] && p->fds[i] < 0)
			return -1;
	}
	return 0;
}

struct probe_places *probe_places_new(const struct plan *plan)
{
	struct probe_places *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	for (size_t i = 0; i < plan->nprobes; i++) {
		int object = plan->probes[i].object;

		p->offsets[object][p->n[object]++] = plan->probes[i].offset;
	}
	if (!keep_files(plan->fds, p))
		return p;
	probe_places_free(p);
	return NULL;
}

struct probe_places *probe_places_copy(const struct probe_places *from)
{
	struct probe_places *p = malloc(sizeof(*p));

	if (!p)
		return NULL;
	*p = *from;
	if (!keep_files(from->fds, p))
		return p;
	probe_places_free(p);
	return NULL;
}

void probe_places_free(struct probe_places *p)
{
	for (size_t i = 0; p && i < ARRAY_SIZE(p->fds); i++)
		if (p->fds[i] >= 0)
			close(p->fds[i]);
	free(p);
}

void probe_places_sweep(const struct probe_places *p, int prog_fd, u32 attach_type)
{
	for (size_t i = 0; i < ARRAY_SIZE(p->fds); i++) {
		char path[32];
		int fd;

		if (!p->n[i])
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", p->fds[i]);
		/* What it would see of this process, which is not traced, is ignored. */
		fd = bpfsys_uprobe_multi(prog_fd, attach_type, path, p->offsets[i], NULL, p->n[i],
					 getpid(), false);
		if (fd >= 0)
			close(fd);
	}
}
