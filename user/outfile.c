// SPDX-License-Identifier: BSD-2-Clause
#include "outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "log.h"

FILE *outfile_open(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");

	if (out)
		return out;
	log_error("cannot write %s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return NULL;
}

void outfile_begin(FILE *out)
{
	/* A device or a pipe cannot be cut, and need not be. */
	if (out != stdout && !ftello(out) && ftruncate(fileno(out), 0) && errno != EINVAL)
		log_warn("what the output file held may stand below the report: %s",
			 strerror(errno));
}
