// SPDX-License-Identifier: BSD-2-Clause
/*
 * Keeping a capture bounded.  Snapshots hold sums since attach and what is
 * live, so leaving one out loses resolution and nothing else.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "capture_write.h"

void thin_choose(const struct writer_moment *moments, size_t count, size_t n, u8 *keep)
{
	double first = count ? moments[0].duration : 0;
	double span = count ? moments[count - 1].duration - first : 0;
	size_t at = 0, peak = 0;

	memset(keep, 0, count);
	for (size_t i = 0; i < count; i++)
		if (moments[i].live_bytes > moments[peak].live_bytes)
			peak = i;
	for (size_t k = 0; k < n && count; k++) {
		double want = first + (n > 1 ? span * k / (n - 1) : 0);

		while (at + 1 < count &&
		       fabs(moments[at + 1].duration - want) <= fabs(moments[at].duration - want))
			at++;
		keep[at] = 1;
	}
	if (count)
		keep[0] = keep[count - 1] = keep[peak] = 1;
}

static int copy_kept(const struct capture_writer *from, const u8 *keep, struct capture_writer *to)
{
	struct capture *c;
	int err = capture_open(from->path, from->stacks, &c);

	if (err)
		return err;
	while ((err = capture_next(c)) > 0) {
		if (capture_index(c) < from->snapshots && !keep[capture_index(c)])
			continue;
		err = writer_append(to, capture_snapshot(c));
		if (err)
			break;
	}
	capture_close(c);
	return err;
}

/* Beside the file, so that it can take its place; with its owner and mode. */
static int create_beside(const struct capture_writer *w, const char *path)
{
	struct stat st;
	int fd;

	if (fstat(w->fd, &st))
		return -errno;
	/* What a killed tracer left; never through a link that somebody put there. */
	unlink(path);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (fchown(fd, st.st_uid, st.st_gid) || fchmod(fd, st.st_mode & 0777)) {
		int err = -errno;

		close(fd);
		unlink(path);
		return err;
	}
	return fd;
}

static void take_over(struct capture_writer *w, struct capture_writer *from)
{
	struct capture_writer old = *w;

	*w = *from;
	w->path = old.path;
	old.path = NULL;
	*from = old;
}

int writer_thin(struct capture_writer *w)
{
	AUTO_FREE char *path = NULL;
	AUTO_FREE u8 *keep = calloc(w->snapshots + 1, 1);
	struct capture_writer *thin = NULL;
	int err, fd;

	if (!keep || asprintf(&path, "%s.thin", w->path) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	thin_choose(w->moments, w->snapshots, w->snapshots > 4 ? w->snapshots / 2 : 2, keep);
	fd = create_beside(w, path);
	if (fd < 0)
		return fd;
	err = writer_open_fd(fd, w->stacks, &w->limits, &thin);
	if (!err) {
		thin->lazy = true;
		err = copy_kept(w, keep, thin);
		thin->lazy = false;
	}
	if (!err && (fdatasync(thin->fd) || rename(path, w->path)))
		err = -errno;
	if (err)
		unlink(path);
	else
		take_over(w, thin);
	capture_writer_free(thin);
	return err;
}
