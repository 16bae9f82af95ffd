// SPDX-License-Identifier: BSD-2-Clause
#include "tramp_leftover.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* A server's many descriptors are not all looked at: ours was the lowest that was free. */
#define LOOKS_MAX 65536

static void fd_path(char *buf, size_t len, pid_t pid, int number)
{
	snprintf(buf, len, "/proc/%d/fd/%d", (int)pid, number);
}

static void map_path(char *buf, size_t len, pid_t pid, u64 base)
{
	snprintf(buf, len, "/proc/%d/map_files/%llx-%llx", (int)pid, (unsigned long long)base,
		 (unsigned long long)base + PHT_TRAMP_SIZE);
}

static void path_of(const struct tramp_leftover *l, pid_t pid, char *buf, size_t len)
{
	if (l->number >= 0)
		fd_path(buf, len, pid, l->number);
	else
		map_path(buf, len, pid, l->base);
}

/* A descriptor and a mapping may be of the same file. */
static bool is_locked_by_us(const struct tramp_leftovers *left, const struct tramp_region *region,
			    ino_t ino)
{
	struct stat st;

	for (int i = 0; i < left->n; i++)
		if (left->v[i].ino == ino)
			return true;
	return region->fd >= 0 && !fstat(region->fd, &st) && st.st_ino == ino;
}

/* Whoever is making a page at this moment has locked its file. */
static void add(struct tramp_leftovers *out, pid_t pid, const struct tramp_region *region,
		struct tramp_leftover l)
{
	struct tramp_region file;
	struct stat st;
	char path[96];
	bool ours;

	if (out->n == TRAMP_LEFTOVERS_MAX)
		return;
	path_of(&l, pid, path, sizeof(path));
	file.fd = tramp_memfd_open(path, &st);
	if (file.fd < 0)
		return;
	ours = is_locked_by_us(out, region, st.st_ino);
	if (!ours && !tramp_region_lock(&file, pid)) {
		l.fd = file.fd;
	} else {
		close(file.fd);
		if (!ours)
			return;
		l.fd = -1;
	}
	l.ino = st.st_ino;
	out->v[out->n++] = l;
}

static bool has_our_name(const char *path)
{
	static const char want[] = "/memfd:" PHT_TRAMP_NAME " (deleted)";
	char link[sizeof(want)];

	return readlink(path, link, sizeof(link)) == (ssize_t)sizeof(want) - 1 &&
	       !memcmp(link, want, sizeof(want) - 1);
}

static void find_fds(pid_t pid, const struct tramp_region *region, struct tramp_leftovers *out)
{
	const struct dirent *e;
	char path[96];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	for (int i = 0; dir && i < LOOKS_MAX && (e = readdir(dir)); i++) {
		int number = atoi(e->d_name);

		if (e->d_name[0] < '0' || e->d_name[0] > '9')
			continue;
		fd_path(path, sizeof(path), pid, number);
		if (has_our_name(path))
			add(out, pid, region, (struct tramp_leftover){.number = number});
	}
	if (dir)
		closedir(dir);
}

static void find_maps(pid_t pid, const struct tramp_region *region, struct tramp_leftovers *out)
{
	struct proc_maps maps;

	if (proc_maps_read(pid, &maps))
		return;
	for (size_t i = 0; i < maps.n; i++)
		if (tramp_map_is_partial(&maps.v[i]))
			add(out, pid, region,
			    (struct tramp_leftover){.number = -1, .base = maps.v[i].start});
	proc_maps_free(&maps);
}

void tramp_leftovers_find(pid_t pid, const struct tramp_region *region, struct tramp_leftovers *out)
{
	*out = (struct tramp_leftovers){0};
	find_maps(pid, region, out);
	find_fds(pid, region, out);
}

/* The target's other threads run: is it still what it was? */
static bool is_there(const struct tramp_leftover *l, pid_t tid)
{
	struct stat st;
	char path[96];

	path_of(l, tid, path, sizeof(path));
	return !stat(path, &st) && st.st_ino == l->ino && S_ISREG(st.st_mode) && !st.st_nlink;
}

void tramp_leftovers_clear(const struct tramp_leftovers *left, struct inject *in)
{
	for (int i = 0; i < left->n; i++) {
		const struct tramp_leftover *l = &left->v[i];
		const u64 fd[6] = {(u64)l->number}, map[6] = {l->base, PHT_TRAMP_SIZE};
		s64 ret;

		if (!is_there(l, inject_tid(in)))
			continue;
		if (inject_syscall(in, l->number >= 0 ? SYS_close : SYS_munmap,
				   l->number >= 0 ? fd : map, &ret))
			return;
	}
}

void tramp_leftovers_free(struct tramp_leftovers *left)
{
	for (int i = 0; i < left->n; i++)
		if (left->v[i].fd >= 0)
			close(left->v[i].fd);
	left->n = 0;
}
