// SPDX-License-Identifier: BSD-2-Clause
#include "choose.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>

#include "hashmap.h"
#include "log.h"
#include "proc.h"

#define CGROUP_MOUNT "/sys/fs/cgroup"
#define MIXED_MOUNT  "unified"

struct choose {
	struct choose_rule rule;
	struct hashmap seen; /* of the last look: who it was, to a mark */
};

static char mark; /* what the table holds: it only matters that it is there */

struct choose *choose_new(const struct choose_rule *rule)
{
	struct choose *c = calloc(1, sizeof(*c));

	if (c)
		c->rule = *rule;
	return c;
}

void choose_free(struct choose *c)
{
	if (!c)
		return;
	hashmap_clear(&c->seen, NULL);
	free(c);
}

/* "/a/b" out of "/sys/fs/cgroup/a/b/", "a/b/" or "/a/b"; its length, without slashes around it. */
static const char *group_path(const char *wanted, size_t *len)
{
	size_t mount = strlen(CGROUP_MOUNT);

	if (!strncmp(wanted, CGROUP_MOUNT, mount) && (wanted[mount] == '/' || !wanted[mount]))
		wanted += mount;
	wanted += strspn(wanted, "/");
	*len = strlen(wanted);
	while (*len && wanted[*len - 1] == '/')
		--*len;
	return wanted;
}

static bool within(const char *line, const char *path, size_t len)
{
	return !len ||
	       (!strncmp(line, path, len) && (!line[len] || line[len] == '/' || line[len] == '\n'));
}

bool choose_in_cgroup(const char *text, const char *wanted)
{
	size_t len, mixed = sizeof(MIXED_MOUNT) - 1;
	const char *path = group_path(wanted, &len);
	/* Where both versions are mounted, version 2 is one deeper. */
	bool deeper =
		!strncmp(wanted, CGROUP_MOUNT "/" MIXED_MOUNT, sizeof(CGROUP_MOUNT) + mixed) &&
		(len == mixed || path[mixed] == '/');

	/* The line of version 2 is the one without a number and controllers. */
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, "0::/", 4))
			continue;
		line += 4;
		if (within(line, path, len))
			return true;
		return deeper && (len == mixed || within(line, path + mixed + 1, len - mixed - 1));
	}
	return false;
}

static bool in_cgroup(pid_t pid, const char *wanted)
{
	char path[32], text[8192];
	AUTO_CLOSE int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return false;
	text[n] = '\0';
	return choose_in_cgroup(text, wanted);
}

static bool fits(const struct choose_rule *rule, pid_t pid)
{
	char comm[64];

	if (rule->comm && (proc_comm(pid, comm, sizeof(comm)) || fnmatch(rule->comm, comm, 0)))
		return false;
	return !rule->cgroup || in_cgroup(pid, rule->cgroup);
}

/* A pid with what makes it another process, or another program. */
static int identify(pid_t pid, u64 *who)
{
	char path[32];
	struct stat st;
	u64 start;
	int err = proc_start_time(pid, &start);

	if (err)
		return err;
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (stat(path, &st)) /* a kernel thread, mostly */
		return -errno;
	*who = hashmap_mix(hashmap_mix(hashmap_mix(1, start), st.st_ino), st.st_dev);
	return 0;
}

static int look_at(struct choose *c, struct hashmap *seen, pid_t pid, choose_fn fn, void *ctx)
{
	u64 who = 0;

	if (identify(pid, &who))
		return 0;
	if (!hashmap_get(&c->seen, (u64)pid, who)) {
		/* Names and groups may change yet: nothing is remembered of what does not fit. */
		if (!fits(&c->rule, pid) || fn(ctx, pid) == -EAGAIN)
			return 0;
	}
	return hashmap_put(seen, (u64)pid, who, &mark);
}

int choose_scan(struct choose *c, choose_fn fn, void *ctx)
{
	DIR *dir = opendir("/proc");
	struct hashmap seen = {0};
	struct dirent *de;
	int err = 0;

	if (!dir)
		return log_err_r(-errno, "cannot read /proc: %s", strerror(errno));
	while (!err && (de = readdir(dir))) {
		long pid = strtol(de->d_name, NULL, 10);

		if (pid > 0 && pid != getpid())
			err = look_at(c, &seen, (pid_t)pid, fn, ctx);
	}
	closedir(dir);
	if (err) {
		hashmap_clear(&seen, NULL);
		return log_err_r(err, "out of memory");
	}
	hashmap_clear(&c->seen, NULL);
	c->seen = seen;
	return 0;
}
