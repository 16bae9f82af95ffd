/* SPDX-License-Identifier: BSD-2-Clause */
/* Capture files of a test: one at a path, or bytes of one.  Include behind cmocka.h. */
#ifndef CAPTURE_FILES_H
#define CAPTURE_FILES_H

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture_sim.h"

static char path[64];

static inline int make_path(void **state)
{
	int fd;

	(void)state;
	strcpy(path, "/tmp/pht-capture-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	return 0;
}

static inline int drop_path(void **state)
{
	(void)state;
	unlink(path);
	return 0;
}

static inline void write_steps(struct sim *s, int steps, const struct capture_limits *limits)
{
	struct capture_writer *w;

	assert_int_equal(capture_create(path, s->stacks, limits, &w), 0);
	for (int i = 0; i < steps; i++) {
		sim_step(s, i < 10 ? 20 : i % 2, 30, 1);
		assert_int_equal(capture_append(w, &s->now), 0);
	}
	assert_int_equal(capture_finish(w), 0);
	capture_writer_free(w);
}

static inline u8 *read_file(size_t *len)
{
	FILE *f = fopen(path, "rb");
	struct stat st;
	u8 *data;

	assert_non_null(f);
	assert_int_equal(fstat(fileno(f), &st), 0);
	data = malloc(st.st_size + 1);
	assert_non_null(data);
	*len = fread(data, 1, st.st_size, f);
	fclose(f);
	return data;
}

static inline int open_bytes(const u8 *data, size_t len, struct stacks *stacks, struct capture **c)
{
	int fd = memfd_create("capture", 0);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), len);
	lseek(fd, 0, SEEK_SET);
	return capture_open_fd(fd, "bytes", stacks, c);
}

/* How many snapshots are read from those bytes; -1: not even opened. */
static inline int count_snapshots(const u8 *data, size_t len, bool *trouble)
{
	struct stacks *stacks = stacks_new();
	struct capture *c;
	int n = 0;

	if (open_bytes(data, len, stacks, &c)) {
		stacks_free(stacks);
		return -1;
	}
	while (capture_next(c) > 0)
		n++;
	*trouble = capture_trouble(c) != NULL;
	capture_close(c);
	stacks_free(stacks);
	return n;
}

#define WITH_FILE(test) cmocka_unit_test_setup_teardown(test, make_path, drop_path)

#endif
