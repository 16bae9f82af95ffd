// SPDX-License-Identifier: BSD-2-Clause
#include "tramp_region.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>

#include "procmem.h"

static bool is_ours(const struct proc_map *m)
{
	return m->inode && m->x && !strcmp(m->path, "/memfd:" PHT_TRAMP_NAME);
}

bool tramp_map_is_partial(const struct proc_map *m)
{
	return is_ours(m) && !m->w && !m->shared && !m->offset &&
	       m->end - m->start == PHT_TRAMP_SIZE;
}

/* Looked at through O_PATH first, so that nothing else is ever opened. */
int tramp_memfd_open(const char *path, struct stat *st)
{
	AUTO_CLOSE int path_fd = open(path, O_PATH | O_CLOEXEC);
	struct statfs fs;
	char again[64];
	int fd;

	if (path_fd < 0)
		return -errno;
	if (fstat(path_fd, st) || fstatfs(path_fd, &fs))
		return -errno;
	if (!S_ISREG(st->st_mode) || st->st_nlink || (long)fs.f_type != TMPFS_MAGIC)
		return -EPROTO;
	snprintf(again, sizeof(again), "/proc/self/fd/%d", path_fd);
	fd = open(again, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

static bool data_follows(const struct proc_maps *maps, u64 base)
{
	u64 at = base + PHT_TRAMP_CTL, end = base + PHT_TRAMP_SIZE;

	while (at < end) {
		const struct proc_map *m = proc_maps_find(maps, at);

		if (!m || !m->r || !m->w || m->x || m->shared || m->inode)
			return false;
		at = m->end;
	}
	return true;
}

static bool verify(int mem, const struct proc_maps *maps, const struct proc_map *m,
		   struct tramp_region *out)
{
	AUTO_FREE u8 *image = malloc(PHT_TRAMP_CODE_SIZE);

	if (!image || m->w || m->shared || m->offset || m->end - m->start != PHT_TRAMP_CODE_SIZE ||
	    !data_follows(maps, m->start))
		return false;
	if (procmem_read(mem, m->start, image, PHT_TRAMP_CODE_SIZE))
		return false;
	*out = (struct tramp_region){.base = m->start, .fd = -1};
	return tramp_image_parse(image, &out->spec);
}

int tramp_regions_find(pid_t pid, int mem, const struct proc_maps *maps, struct tramp_regions *out)
{
	(void)pid;
	*out = (struct tramp_regions){0};
	for (size_t i = 0; i < maps->n; i++) {
		if (!is_ours(&maps->v[i]) || tramp_map_is_partial(&maps->v[i]))
			continue;
		out->total++;
		if (out->n < TRAMP_REGIONS_MAX && verify(mem, maps, &maps->v[i], &out->v[out->n]))
			out->n++;
	}
	return 0;
}

int tramp_region_open(pid_t pid, struct tramp_region *region)
{
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", (int)pid,
		 (unsigned long long)region->base,
		 (unsigned long long)region->base + PHT_TRAMP_CODE_SIZE);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* Only a memfd that nobody can change any more: its bytes were verified. */
	if ((fcntl(fd, F_GET_SEALS) & (F_SEAL_WRITE | F_SEAL_SHRINK)) !=
	    (F_SEAL_WRITE | F_SEAL_SHRINK)) {
		close(fd);
		return -EINVAL;
	}
	region->fd = fd;
	return 0;
}

int tramp_region_lock(const struct tramp_region *region, pid_t pid)
{
	/* By byte, because children share the file with their parent. */
	struct flock lock = {
		.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = pid,
		.l_len = 1,
	};

	if (!fcntl(region->fd, F_OFD_SETLK, &lock))
		return 0;
	return errno == EAGAIN || errno == EACCES ? -EBUSY : -errno;
}
