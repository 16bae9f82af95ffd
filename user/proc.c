// SPDX-License-Identifier: BSD-2-Clause
#include "proc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>

/* The kernel's own default limit is 65530 mappings; allow hosts that raised it. */
#define MAPS_MAX (1u << 20)

/* What open() of a /proc/PID file failed with, in the words of our headers. */
static int proc_errno(int err)
{
	switch (err) {
	case ENOENT:
	case ESRCH:
		return -ESRCH;
	case EACCES:
		return -EPERM;
	default:
		return -err;
	}
}

static FILE *proc_fopen(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return fopen(path, "re");
}

/* A whole small /proc file into buf, NUL-terminated. */
static int proc_slurp(pid_t pid, const char *name, char *buf, size_t len)
{
	AUTO_FCLOSE FILE *f = proc_fopen(pid, name);
	size_t n;

	if (!f)
		return proc_errno(errno);
	errno = 0;
	n = fread(buf, 1, len - 1, f);
	if (ferror(f))
		return proc_errno(errno);
	buf[n] = '\0';
	return n ? 0 : -ESRCH;
}

/* The kernel writes a newline in a path as \012, and escapes nothing else. */
static void unescape_newlines(char *s)
{
	char *out = s;

	while (*s) {
		if (!strncmp(s, "\\012", 4)) {
			*out++ = '\n';
			s += 4;
		} else {
			*out++ = *s++;
		}
	}
	*out = '\0';
}

/* Cut the kernel's mark off the path of an unlinked file. */
static bool strip_deleted(char *path)
{
	static const char mark[] = " (deleted)";
	size_t len = strlen(path), n = sizeof(mark) - 1;

	if (len < n || strcmp(path + len - n, mark))
		return false;
	path[len - n] = '\0';
	return true;
}

static int parse_map_line(char *line, struct proc_map *m)
{
	char perms[5] = "";
	int path_at = 0;
	char *path;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &m->start,
		   &m->end, perms, &m->offset, &m->dev_major, &m->dev_minor, &m->inode,
		   &path_at) != 7 ||
	    strlen(perms) != 4 || m->start >= m->end)
		return -EINVAL;
	m->r = perms[0] == 'r';
	m->w = perms[1] == 'w';
	m->x = perms[2] == 'x';
	m->shared = perms[3] == 's';
	path = path_at ? line + path_at : line + strlen(line);
	m->deleted = m->inode && strip_deleted(path);
	unescape_newlines(path);
	m->path = strdup(path);
	return m->path ? 0 : -ENOMEM;
}

static int maps_append(struct proc_maps *maps, size_t *cap, char *line)
{
	if (maps->n == *cap) {
		size_t want = *cap ? *cap * 2 : 64;
		struct proc_map *v = reallocarray(maps->v, want, sizeof(*v));

		if (!v)
			return -ENOMEM;
		maps->v = v;
		*cap = want;
	}
	int err = parse_map_line(line, &maps->v[maps->n]);

	if (!err)
		maps->n++;
	return err;
}

int proc_maps_read(pid_t pid, struct proc_maps *out)
{
	AUTO_FCLOSE FILE *f = proc_fopen(pid, "maps");
	struct proc_maps maps = {0};
	AUTO_FREE char *line = NULL;
	size_t line_cap = 0, cap = 0;
	ssize_t len;
	int err = 0;

	if (!f)
		return proc_errno(errno);
	errno = 0;
	while (!err && (len = getline(&line, &line_cap, f)) > 0) {
		if (line[len - 1] == '\n')
			line[len - 1] = '\0';
		err = maps.n < MAPS_MAX ? maps_append(&maps, &cap, line) : -E2BIG;
	}
	if (!err && ferror(f))
		err = proc_errno(errno ? errno : EIO);
	if (err) {
		proc_maps_free(&maps);
		return err;
	}
	*out = maps;
	return 0;
}

void proc_maps_free(struct proc_maps *maps)
{
	for (size_t i = 0; i < maps->n; i++)
		free(maps->v[i].path);
	free(maps->v);
	*maps = (struct proc_maps){0};
}

const struct proc_map *proc_maps_find(const struct proc_maps *maps, u64 addr)
{
	size_t lo = 0, hi = maps->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct proc_map *m = &maps->v[mid];

		if (addr < m->start)
			hi = mid;
		else if (addr >= m->end)
			lo = mid + 1;
		else
			return m;
	}
	return NULL;
}

int proc_read(pid_t pid, u64 addr, void *buf, size_t len)
{
	u8 *dst = buf;

	if (len && addr > UINT64_MAX - (len - 1))
		return -EFAULT;
	/* One call moves at most about 2 GiB, and may stop short of a hole. */
	while (len) {
		struct iovec local = {.iov_base = dst, .iov_len = len};
		struct iovec remote = {.iov_base = (void *)(uintptr_t)addr, .iov_len = len};
		ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);

		if (n < 0)
			return errno == ESRCH || errno == EPERM ? -errno : -EFAULT;
		if (!n)
			return -EFAULT;
		dst += n;
		addr += (u64)n;
		len -= (size_t)n;
	}
	return 0;
}

int proc_rss(pid_t pid, u64 *bytes)
{
	char buf[256];
	int err = proc_slurp(pid, "statm", buf, sizeof(buf));
	u64 pages;

	if (err)
		return err;
	if (sscanf(buf, "%*u %" SCNu64, &pages) != 1)
		return -EINVAL;
	*bytes = pages * (u64)sysconf(_SC_PAGESIZE);
	return 0;
}

int proc_comm(pid_t pid, char *buf, size_t len)
{
	char comm[64];
	int err = proc_slurp(pid, "comm", comm, sizeof(comm));
	size_t n;

	if (err)
		return err;
	if (!len)
		return -EINVAL;
	n = strlen(comm);
	if (n && comm[n - 1] == '\n')
		comm[n - 1] = '\0';
	snprintf(buf, len, "%s", comm);
	return 0;
}

int proc_status(pid_t pid, const char *key, char *buf, size_t len)
{
	AUTO_FCLOSE FILE *f = proc_fopen(pid, "status");
	AUTO_FREE char *line = NULL;
	size_t cap = 0, n = strlen(key);

	if (!f)
		return proc_errno(errno);
	while (getline(&line, &cap, f) > 0) {
		if (strncmp(line, key, n) || line[n] != ':')
			continue;
		line[strcspn(line, "\n")] = '\0';
		snprintf(buf, len, "%s", line + n + 1 + strspn(line + n + 1, " \t"));
		return 0;
	}
	return -ENOENT;
}

int proc_exe(pid_t pid, char *buf, size_t len)
{
	char link[64], target[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
	n = readlink(link, target, sizeof(target) - 1);
	if (n < 0)
		return errno == EACCES ? -EPERM : -errno;
	target[n] = '\0';
	strip_deleted(target);
	snprintf(buf, len, "%s", target);
	return 0;
}

/* Opening a FIFO or a device can block or act: look before opening. */
static int reopen_regular(int path_fd)
{
	char path[64];
	struct stat st;
	int fd;

	if (fstat(path_fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/*
 * path below dir, with symlinks resolved inside dir: the tree belongs to the
 * target, which must not lead us to files of ours.
 */
static int open_in_root(const char *dir, const char *path)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	AUTO_CLOSE int root = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO_CLOSE int fd = -1;

	if (root < 0)
		return -errno;
	fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	if (fd < 0)
		return -errno;
	return reopen_regular(fd);
}

static bool same_inode(int fd, const struct proc_map *map)
{
	struct stat st;

	return !fstat(fd, &st) && st.st_ino == map->inode;
}

int proc_open_map(pid_t pid, const struct proc_map *map)
{
	char path[96];
	AUTO_CLOSE int link = -1, inside = -1, outside = -1;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)pid,
		 map->start, map->end);
	link = open(path, O_PATH | O_CLOEXEC);
	if (link >= 0)
		return reopen_regular(link);
	if (map->deleted || map->path[0] != '/')
		return proc_errno(errno) == -EPERM ? -EPERM : -ENOENT;
	snprintf(path, sizeof(path), "/proc/%d/root", (int)pid);
	inside = open_in_root(path, map->path);
	if (inside >= 0 && same_inode(inside, map))
		return TAKE_FD(inside);
	/* A chrooted target in our mount namespace shows the path as we see it. */
	outside = open_in_root("/", map->path);
	if (outside >= 0 && same_inode(outside, map))
		return TAKE_FD(outside);
	/* overlayfs shows other inode numbers in maps than in stat. */
	return TAKE_FD(inside);
}
