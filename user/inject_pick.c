// SPDX-License-Identifier: BSD-2-Clause
#include "inject_pick.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

/* Reading /proc for each of thousands of threads would take longer than the attach. */
#define LOOK_AT 256

enum rank {
	RANK_RESTARTS, /* waits in a call that the kernel restarts by itself */
	RANK_RUNNING,
	RANK_EINTR, /* waits in a call that we must restart */
	RANK_UNFIT,
};

#ifdef __x86_64__
/* Interrupted without a signal handler, these go on as if nothing had been. */
static const short restarts[] = {
	SYS_poll,
	SYS_select,
	SYS_pause,
	SYS_nanosleep,
	SYS_wait4,
	SYS_flock,
	SYS_futex,
	SYS_waitid,
	SYS_pselect6,
	SYS_ppoll,
	SYS_clock_nanosleep,
	449 /* futex_waitv */,
	455 /* futex_wait */,
};

/* read, write and their kin: on a socket with a timeout, EINTR (nothing was transferred). */
static const short eintr[] = {
	SYS_read,
	SYS_write,
	SYS_readv,
	SYS_writev,
	SYS_accept,
	SYS_accept4,
	SYS_recvfrom,
	SYS_recvmsg,
	SYS_recvmmsg,
	SYS_sendto,
	SYS_sendmsg,
	SYS_sendmmsg,
	SYS_semop,
	SYS_semtimedop,
	SYS_rt_sigtimedwait,
	SYS_epoll_wait,
	SYS_epoll_pwait,
	441 /* epoll_pwait2 */,
	SYS_io_getevents,
	333 /* io_pgetevents */,
};
#else
static const short restarts[] = {-1}, eintr[] = {-1};
#endif

static bool among(const short *list, size_t n, long nr)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == nr)
			return true;
	return false;
}

bool inject_eintr_restartable(long nr)
{
	return nr >= 0 && among(eintr, ARRAY_SIZE(eintr), nr);
}

static int read_small(int dir, const char *tid, const char *name, char *buf, size_t len)
{
	char path[300];
	AUTO_CLOSE int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%s", tid, name);
	fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, buf, len - 1);
	if (n < 0)
		return -errno;
	buf[n] = 0;
	return 0;
}

/* The state letter follows the last parenthesis: comm may hold anything. */
static bool can_stop(int dir, const char *tid)
{
	char buf[1024];
	const char *p;

	if (read_small(dir, tid, "stat", buf, sizeof(buf)))
		return false;
	p = strrchr(buf, ')');
	return p && p[1] == ' ' && p[2] && !strchr("DZXxt", p[2]);
}

static enum rank rank_of(int dir, const char *tid)
{
	char buf[256];
	char *end;
	long nr;

	if (read_small(dir, tid, "syscall", buf, sizeof(buf)))
		return RANK_UNFIT;
	if (!strncmp(buf, "running", 7))
		return RANK_RUNNING;
	nr = strtol(buf, &end, 10);
	if (end == buf)
		return RANK_UNFIT;
	if (!can_stop(dir, tid))
		return RANK_UNFIT;
	if (nr < 0) /* stopped or preempted, not in a system call */
		return RANK_RUNNING;
	if (among(restarts, ARRAY_SIZE(restarts), nr))
		return RANK_RESTARTS;
	return inject_eintr_restartable(nr) ? RANK_EINTR : RANK_UNFIT;
}

struct pick {
	pid_t tids[RANK_UNFIT][8];
	int n[RANK_UNFIT];
};

static void look(DIR *dir, struct pick *pick, int max)
{
	struct dirent *de;
	int seen = 0;

	while (seen < LOOK_AT && pick->n[RANK_RESTARTS] < max && (de = readdir(dir))) {
		long tid = strtol(de->d_name, NULL, 10);
		enum rank rank;

		if (tid <= 0)
			continue;
		seen++;
		rank = rank_of(dirfd(dir), de->d_name);
		if (rank < RANK_UNFIT && pick->n[rank] < max)
			pick->tids[rank][pick->n[rank]++] = (pid_t)tid;
	}
}

int inject_pick(pid_t pid, pid_t *tids, int max)
{
	struct pick pick = {0};
	char path[64];
	int n = 0;
	DIR *dir;

	if (max > (int)ARRAY_SIZE(pick.tids[0]))
		max = ARRAY_SIZE(pick.tids[0]);
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? -ESRCH : -errno;
	look(dir, &pick, max);
	closedir(dir);
	for (int rank = 0; rank < RANK_UNFIT; rank++)
		for (int i = 0; i < pick.n[rank] && n < max; i++)
			tids[n++] = pick.tids[rank][i];
	return n;
}
