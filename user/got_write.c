// SPDX-License-Identifier: BSD-2-Clause
#include "got.h"

#include <errno.h>
#include <fcntl.h>

/* Is the object that the slot was found in still there? */
static int check_place(pid_t pid, const struct got_slot *s)
{
	const struct proc_map *m;
	struct proc_maps maps;
	bool same;
	int err;

	if (s->addr % sizeof(u64) || s->addr < s->seg_start || s->seg_end < sizeof(u64) ||
	    s->addr > s->seg_end - sizeof(u64))
		return -ESTALE;
	err = proc_maps_read(pid, &maps);
	if (err)
		return err;
	m = proc_maps_find(&maps, s->addr);
	same = m && m->r && !m->x && !m->shared && m->inode && m->inode == s->inode &&
	       m->dev_major == s->dev_major && m->dev_minor == s->dev_minor;
	proc_maps_free(&maps);
	return same ? 0 : -ESTALE;
}

static int open_mem(pid_t pid)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	return errno == ENOENT ? -ESRCH : -EPERM;
}

/* 0, -ESRCH (read or wrote nothing: the address space is gone), -ESTALE (no memory there). */
static int read_word(int fd, u64 addr, u64 *value)
{
	ssize_t n = pread(fd, value, sizeof(*value), (off_t)addr);

	if (n == (ssize_t)sizeof(*value))
		return 0;
	return n == 0 ? -ESRCH : -ESTALE;
}

int got_write(pid_t pid, const struct got_slot *slot, u64 expect, u64 value)
{
	AUTO_CLOSE int fd = -1;
	u64 now = 0;
	ssize_t n;
	int err = check_place(pid, slot);

	if (err)
		return err;
	fd = open_mem(pid);
	if (fd < 0)
		return fd;
	err = read_word(fd, slot->addr, &now);
	if (err)
		return err;
	if (now != expect)
		return -EAGAIN;
	n = pwrite(fd, &value, sizeof(value), (off_t)slot->addr);
	if (n != (ssize_t)sizeof(value))
		return n == 0 ? -ESRCH : -EPERM;
	err = read_word(fd, slot->addr, &now);
	if (err)
		return err;
	return now == value ? 0 : -EIO;
}
