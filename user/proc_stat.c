// SPDX-License-Identifier: BSD-2-Clause
/* The stat files of processes and of their threads. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "proc.h"

#define START_FIELD 22

struct stat_file {
	char text[1024];
	const char *comm, *comm_end; /* into the text */
	char state;
	u64 start; /* ticks */
};

/* comm is in parentheses and may itself hold spaces and parentheses. */
static int parse(struct stat_file *f)
{
	const char *p;

	f->comm = strchr(f->text, '(');
	f->comm_end = p = strrchr(f->text, ')');
	if (!f->comm || !p || f->comm++ > p || p[1] != ' ')
		return -EINVAL;
	f->state = p[2];
	for (int field = 2; p && field < START_FIELD; field++) {
		p = strchr(p, ' ');
		if (p)
			p++;
	}
	return p && sscanf(p, "%" SCNu64, &f->start) == 1 ? 0 : -EINVAL;
}

/* tid 0: of the process. */
static int read_stat(pid_t pid, u32 tid, struct stat_file *f)
{
	AUTO_CLOSE int fd = -1;
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), tid ? "/proc/%d/task/%u/stat" : "/proc/%d/stat", (int)pid,
		 tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : errno == EACCES ? -EPERM : -errno;
	n = read(fd, f->text, sizeof(f->text) - 1);
	if (n <= 0)
		return n ? -errno : -ESRCH;
	f->text[n] = '\0';
	return parse(f);
}

int proc_start_time(pid_t pid, u64 *ticks)
{
	struct stat_file f;
	int err = read_stat(pid, 0, &f);

	if (!err)
		*ticks = f.start;
	return err;
}

static bool has_ended(char state)
{
	return state == 'Z' || state == 'X';
}

int proc_thread(pid_t pid, u32 tid, u64 *ticks, char *comm, size_t len)
{
	struct stat_file f;
	int err = read_stat(pid, tid, &f);

	if (err || has_ended(f.state))
		return err ?: -ESRCH;
	*ticks = f.start;
	snprintf(comm, len, "%.*s", (int)(f.comm_end - f.comm), f.comm);
	return 0;
}

/* Call fn for each thread that can be read, until it returns false; -errno of the process. */
static int each_thread(pid_t pid, bool (*fn)(void *ctx, u32 tid, const struct stat_file *f),
		       void *ctx)
{
	struct stat_file f;
	struct dirent *e;
	char path[32];
	bool more = true;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? -ESRCH : -errno;
	while (more && (e = readdir(dir))) {
		u32 tid = (u32)strtoul(e->d_name, NULL, 10);

		if (tid && !read_stat(pid, tid, &f))
			more = fn(ctx, tid, &f);
	}
	closedir(dir);
	return 0;
}

struct states {
	bool running, stopped;
};

static bool look_at_state(void *ctx, u32 tid, const struct stat_file *f)
{
	struct states *s = ctx;

	(void)tid;
	s->stopped = f->state == 'T' || f->state == 't';
	s->running |= !s->stopped && !has_ended(f->state);
	return !s->stopped;
}

bool proc_is_stopped(pid_t pid)
{
	struct states s = {0};

	return each_thread(pid, look_at_state, &s) || s.stopped || !s.running;
}

struct oldest {
	u32 but, tid;
	u64 start;
};

static bool look_at_age(void *ctx, u32 tid, const struct stat_file *f)
{
	struct oldest *o = ctx;

	if (tid == o->but || has_ended(f->state) || (o->tid && f->start >= o->start))
		return true;
	o->tid = tid;
	o->start = f->start;
	return true;
}

int proc_oldest_thread(pid_t pid, u32 but, u32 *tid)
{
	struct oldest o = {.but = but};
	int err = each_thread(pid, look_at_age, &o);

	if (err || !o.tid)
		return err ?: -ESRCH;
	*tid = o.tid;
	return 0;
}
