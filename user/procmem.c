// SPDX-License-Identifier: BSD-2-Clause
#include "procmem.h"

#include <errno.h>
#include <fcntl.h>

#define USER_END (1ull << 47)

int procmem_open(pid_t pid)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	return errno == ENOENT ? -ESRCH : -errno;
}

static int result(ssize_t n)
{
	if (n < 0)
		return errno == EIO ? -EFAULT : -errno;
	/* The kernel says 0, not an error, once the last user of the address space is gone. */
	return n ? 0 : -ESRCH;
}

int procmem_read(int fd, u64 addr, void *buf, size_t len)
{
	size_t done = 0;

	if (addr >= USER_END || len > USER_END - addr)
		return -EFAULT;
	while (done < len) {
		ssize_t n = pread(fd, (u8 *)buf + done, len - done, (off_t)(addr + done));
		int err = result(n);

		if (err)
			return err;
		done += (size_t)n;
	}
	return 0;
}

int procmem_write(int fd, u64 addr, const void *buf, size_t len)
{
	size_t done = 0;

	if (addr >= USER_END || len > USER_END - addr)
		return -EFAULT;
	while (done < len) {
		ssize_t n = pwrite(fd, (const u8 *)buf + done, len - done, (off_t)(addr + done));
		int err = result(n);

		if (err)
			return err;
		done += (size_t)n;
	}
	return 0;
}
