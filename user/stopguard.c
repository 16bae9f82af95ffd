// SPDX-License-Identifier: BSD-2-Clause
#include "stopguard.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "pht_abi.h"
#include "util.h"

static void let_all_go(int follow_fd)
{
	struct pht_follow f;
	u32 key, next;

	for (u32 *at = NULL; !bpf_map_get_next_key(follow_fd, at, &next); at = &key) {
		key = next;
		if (!bpf_map_lookup_elem(follow_fd, &key, &f) && f.stopped)
			kill((pid_t)key, SIGCONT);
	}
}

/* Keep nothing of the tracer's open: somebody may wait for the end of its output. */
static void keep_only(int a, int b)
{
	int low = a < b ? a : b, high = a < b ? b : a;

	if (low > 0)
		syscall(SYS_close_range, 0, low - 1, 0);
	if (high > low + 1)
		syscall(SYS_close_range, low + 1, high - 1, 0);
	syscall(SYS_close_range, high + 1, ~0u, 0);
}

static _Noreturn void watch_over(int pipe, int follow_fd)
{
	sigset_t all;
	char byte;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	keep_only(pipe, follow_fd);
	while (read(pipe, &byte, 1) < 0 && errno == EINTR)
		;
	let_all_go(follow_fd);
	_exit(0);
}

int stopguard_start(int follow_fd, struct stopguard *g)
{
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (!pid) {
		close(ends[1]);
		watch_over(ends[0], follow_fd);
	}
	close(ends[0]);
	if (pid < 0) {
		int err = -errno;

		close(ends[1]);
		return err;
	}
	*g = (struct stopguard){.pid = pid, .pipe = ends[1]};
	return 0;
}

void stopguard_end(struct stopguard *g)
{
	if (g->pid <= 0)
		return;
	close(g->pipe);
	while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR)
		;
	g->pid = 0;
}
