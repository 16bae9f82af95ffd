// SPDX-License-Identifier: BSD-2-Clause
/* Reading a capture from its beginning, up to its end or its damage. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "capture.h"
#include "capture_decode.h"
#include "log.h"
#include "progress.h"

struct capture {
	int fd;
	struct decoder decoder;
	struct outbuf payload;
	size_t snapshots; /* read so far */
	off_t size;	  /* of the file; 0 = not known */
	bool over, finished;
	char trouble[128];
};

/* 0 or -errno after one line. */
static int read_head(int fd, const char *name)
{
	u8 head[CAPTURE_HEAD_SIZE];
	ssize_t n = read_full(fd, head, sizeof(head));
	u32 version;
	int err;

	if (n < 0)
		return log_err_r((int)n, "cannot read %s: %s", name, strerror(-n));
	if ((size_t)n < sizeof(head) || get_head(head, &version) == -EINVAL)
		return log_err_r(-EINVAL, "%s is not a pyheaptrace capture", name);
	err = get_head(head, &version);
	if (err)
		return log_err_r(err, "%s: the head of the capture is damaged", name);
	if (version > CAPTURE_VERSION)
		return log_err_r(-EPROTONOSUPPORT,
				 "%s was recorded by a newer pyheaptrace (format %u; this one "
				 "reads up to %d)",
				 name, version, CAPTURE_VERSION);
	if (!version)
		return log_err_r(-EBADMSG, "%s: format 0 does not exist", name);
	return 0;
}

int capture_open_fd(int fd, const char *name, struct stacks *stacks, struct capture **out)
{
	struct capture *c;
	struct stat st;
	int err = read_head(fd, name);

	if (err) {
		close(fd);
		return err;
	}
	c = calloc(1, sizeof(*c));
	if (!c) {
		close(fd);
		return log_err_r(-ENOMEM, "out of memory");
	}
	c->fd = fd;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		c->size = st.st_size;
	if (decoder_init(&c->decoder, stacks)) {
		capture_close(c);
		return log_err_r(-ENOMEM, "out of memory");
	}
	*out = c;
	return 0;
}

int capture_open(const char *path, struct stacks *stacks, struct capture **out)
{
	bool standard = !strcmp(path, "-");
	int fd = standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
			  : open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return log_err_r(-errno, "cannot read %s: %s", path, strerror(errno));
	return capture_open_fd(fd, standard ? "standard input" : path, stacks, out);
}

void capture_close(struct capture *c)
{
	if (!c)
		return;
	progress_end();
	close(c->fd);
	decoder_free(&c->decoder);
	outbuf_free(&c->payload);
	free(c);
}

static int stop(struct capture *c, const char *why)
{
	c->over = true;
	progress_end();
	if (why)
		snprintf(c->trouble, sizeof(c->trouble), "%s after %zu snapshot%s", why,
			 c->snapshots, c->snapshots == 1 ? "" : "s");
	return 0;
}

/* The end of the file, or what a block could not be read for. */
static int stop_for(struct capture *c, int err)
{
	if (!err)
		return stop(c, "the recording was not finished (killed, or still going on)");
	if (err == -ENODATA)
		return stop(c, "the file is cut off");
	if (err == -ENOMEM) {
		c->over = true;
		return err;
	}
	return stop(c, err == -EBADMSG ? "the file is damaged" : strerror(-err));
}

static void show_progress(const struct capture *c)
{
	off_t at = c->size > 0 ? lseek(c->fd, 0, SEEK_CUR) : -1;

	if (at >= 0)
		progress_at("reading the capture", (u64)at, (u64)c->size);
	else
		progress_at("reading the capture, snapshots", c->snapshots, 0);
}

int capture_next(struct capture *c)
{
	while (!c->over) {
		u32 type;
		int err;

		show_progress(c);
		err = block_read(c->fd, &type, &c->payload);
		if (err <= 0)
			return stop_for(c, err);
		if (type == BLOCK_END)
			return stop(c, NULL);
		if (type != BLOCK_SNAPSHOT)
			continue;
		err = decode_snapshot(&c->decoder, c->payload.data, c->payload.len);
		if (err)
			return stop_for(c, err);
		c->snapshots++;
		return 1;
	}
	return 0;
}

const struct snapshot *capture_snapshot(const struct capture *c)
{
	return &c->decoder.now;
}

size_t capture_index(const struct capture *c)
{
	return c->snapshots - 1;
}

const char *capture_trouble(const struct capture *c)
{
	return c->over && *c->trouble ? c->trouble : NULL;
}
