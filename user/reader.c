// SPDX-License-Identifier: BSD-2-Clause
#include "reader.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

#include "proc.h"

/* The kernel's UIO_MAXIOV. */
#define MAX_PIECES 1024

u64 reader_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * 1000000000u + (u64)ts.tv_nsec;
}

static int process_read(void *ctx, u64 addr, void *buf, size_t len)
{
	return proc_read(*(pid_t *)ctx, addr, buf, len);
}

/* Read pieces from the first on until one fails: how many were read whole, or -errno. */
static ssize_t read_pieces(pid_t pid, const u64 *addrs, size_t n, u8 *buf, size_t len)
{
	struct iovec remote[MAX_PIECES];
	struct iovec local = {.iov_base = buf, .iov_len = n * len};
	ssize_t got;

	for (size_t i = 0; i < n; i++)
		remote[i] = (struct iovec){(void *)(uintptr_t)addrs[i], len};
	got = process_vm_readv(pid, &local, 1, remote, n, 0);
	if (got < 0)
		return errno == ESRCH || errno == EPERM ? -errno : 0;
	return got / (ssize_t)len;
}

static int process_gather(void *ctx, const u64 *addrs, size_t n, u8 *buf, size_t len, bool *ok)
{
	size_t done = 0;

	while (done < n) {
		size_t want = n - done < MAX_PIECES ? n - done : MAX_PIECES;
		ssize_t got = read_pieces(*(pid_t *)ctx, addrs + done, want, buf + done * len, len);

		if (got < 0)
			return (int)got;
		memset(ok + done, true, (size_t)got);
		done += (size_t)got;
		if ((size_t)got < want)
			ok[done++] = false;
	}
	return 0;
}

struct reader reader_proc(pid_t *pid)
{
	return (struct reader){.read = process_read, .gather = process_gather, .ctx = pid};
}

static bool too_late(const struct reader *r)
{
	return r->deadline && reader_now() >= r->deadline;
}

int reader_read(const struct reader *r, u64 addr, void *buf, size_t len)
{
	if (too_late(r))
		return -ETIMEDOUT;
	if (addr > UINT64_MAX - len)
		return -EFAULT;
	return r->read(r->ctx, addr, buf, len);
}

int reader_gather(const struct reader *r, const u64 *addrs, size_t n, void *buf, size_t len,
		  bool *ok)
{
	if (too_late(r))
		return -ETIMEDOUT;
	if (r->gather)
		return r->gather(r->ctx, addrs, n, buf, len, ok);
	for (size_t i = 0; i < n; i++) {
		int err = reader_read(r, addrs[i], (u8 *)buf + i * len, len);

		if (err && err != -EFAULT)
			return err;
		ok[i] = !err;
	}
	return 0;
}
