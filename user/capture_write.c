// SPDX-License-Identifier: BSD-2-Clause
/* Appending snapshots to a capture file. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "capture_write.h"
#include "log.h"

static const struct capture_limits default_limits = {CAPTURE_MAX_SNAPSHOTS, CAPTURE_MAX_BYTES};

static int write_full(int fd, const u8 *data, size_t len)
{
	while (len) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		data += n;
		len -= n;
	}
	return 0;
}

/* All of it or nothing; what is no file may be left with a part, and then takes no more. */
static int append_bytes(struct capture_writer *w, const struct outbuf *b)
{
	int err;

	if (b->failed)
		return -ENOMEM;
	if (w->broken)
		return w->broken;
	err = write_full(w->fd, b->data, b->len);
	/* Data that lies in the page cache survives us, but not the machine. */
	if (!err && w->regular && !w->lazy && fdatasync(w->fd) && errno != EINVAL)
		err = -errno;
	if (!err) {
		w->size += b->len;
		return 0;
	}
	if (!w->regular || ftruncate(w->fd, w->size) || lseek(w->fd, w->size, SEEK_SET) < 0)
		w->broken = err;
	return err;
}

int writer_open_fd(int fd, struct stacks *stacks, const struct capture_limits *limits,
		   struct capture_writer **out)
{
	struct capture_writer *w = calloc(1, sizeof(*w));
	struct stat st;
	int err;

	if (!w) {
		close(fd);
		return -ENOMEM;
	}
	w->fd = fd;
	w->regular = !fstat(fd, &st) && S_ISREG(st.st_mode);
	w->stacks = stacks;
	w->limits = limits ? *limits : default_limits;
	if (w->limits.max_snapshots < 8)
		w->limits.max_snapshots = 8;
	encoder_init(&w->encoder, stacks);
	put_head(&w->block, CAPTURE_VERSION);
	err = append_bytes(w, &w->block);
	if (err) {
		capture_writer_free(w);
		return err;
	}
	*out = w;
	return 0;
}

int capture_create(const char *path, struct stacks *stacks, const struct capture_limits *limits,
		   struct capture_writer **out)
{
	bool standard = !strcmp(path, "-");
	int fd = standard ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)
			  : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	struct capture_writer *w = NULL;
	int err;

	if (fd < 0)
		return log_err_r(-errno, "cannot write %s: %s", path, strerror(errno));
	err = writer_open_fd(fd, stacks, limits, &w);
	if (err)
		return log_err_r(err, "cannot write %s: %s", path, strerror(-err));
	if (w->regular && !standard) {
		/* The target of a link is what a thinned file will replace. */
		w->path = realpath(path, NULL);
		if (!w->path) {
			err = log_err_r(-errno, "cannot write %s: %s", path, strerror(errno));
			capture_writer_free(w);
			return err;
		}
	}
	*out = w;
	return 0;
}

static int remember(struct capture_writer *w, const struct snapshot *s)
{
	struct snap_total total;
	struct writer_moment *more;

	if (!(w->snapshots & (w->snapshots - 1))) {
		more = reallocarray(w->moments, w->snapshots ? w->snapshots * 2 : 1, sizeof(*more));
		if (!more)
			return -ENOMEM;
		w->moments = more;
	}
	snapshot_total(s, SNAP_DOMAINS, &total);
	w->moments[w->snapshots] = (struct writer_moment){s->duration, total.live.bytes};
	return 0;
}

int writer_append(struct capture_writer *w, const struct snapshot *s)
{
	int err = remember(w, s) ?: encode_snapshot(&w->encoder, s, &w->payload);

	outbuf_clear(&w->block);
	if (!err)
		err = put_block(&w->block, BLOCK_SNAPSHOT, &w->payload);
	if (!err)
		err = append_bytes(w, &w->block);
	if (err)
		return err;
	w->snapshots++;
	encoder_commit(&w->encoder);
	return 0;
}

static bool over(const struct capture_writer *w, unsigned int times)
{
	return w->path && (w->snapshots > times * w->limits.max_snapshots ||
			   w->size > times * w->limits.max_bytes);
}

int capture_append(struct capture_writer *w, const struct snapshot *s)
{
	int err = 0;

	/* Where thinning fails the file may grow a while, not for ever. */
	if (over(w, 2))
		err = writer_thin(w);
	if (!err)
		err = writer_append(w, s);
	if (err || !over(w, 1))
		return err;
	/* Where rows change all the time, fewer snapshots differ by more: make room for a while. */
	do {
		err = writer_thin(w);
	} while (!err && w->snapshots > 4 && w->size > w->limits.max_bytes / 4 * 3);
	if (err && !w->warned)
		log_warn("cannot thin %s: %s", w->path, strerror(-err));
	w->warned = err != 0;
	return 0;
}

int capture_finish(struct capture_writer *w)
{
	struct outbuf nothing = {0};
	int err;

	outbuf_clear(&w->block);
	err = put_block(&w->block, BLOCK_END, &nothing);
	return err ? err : append_bytes(w, &w->block);
}

void capture_writer_free(struct capture_writer *w)
{
	if (!w)
		return;
	if (w->fd >= 0)
		close(w->fd);
	encoder_free(&w->encoder);
	outbuf_free(&w->payload);
	outbuf_free(&w->block);
	free(w->moments);
	free(w->path);
	free(w);
}

u64 capture_written(const struct capture_writer *w)
{
	return w->size;
}

size_t capture_snapshots(const struct capture_writer *w)
{
	return w->snapshots;
}
