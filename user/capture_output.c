// SPDX-License-Identifier: BSD-2-Clause
/* Where reports and exports of captures go. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "capture_view.h"
#include "log.h"

/* Exports can be hundreds of megabytes: not in pages of four kilobytes. */
#define OUTPUT_BUFFER (256u << 10)

static int failed(const struct view_args *args, int err)
{
	log_error("cannot write %s: %s", args->output ? args->output : "standard output",
		  strerror(-err));
	return 1;
}

/* Devices and pipes are written to; a file is replaced when the new one is whole. */
static bool replaceable(const char *path)
{
	struct stat st;

	return lstat(path, &st) || S_ISREG(st.st_mode);
}

/* What is printed is buffered: that it cannot be written is noticed anywhere. */
static int print_and_flush(FILE *out, int (*print)(FILE *out, void *ctx), void *ctx)
{
	int err;

	errno = 0;
	err = print(out, ctx);
	if (!err && (fflush(out) || ferror(out)))
		err = -EIO;
	return err == -EIO && errno ? -errno : err;
}

static int print_to_file(const struct view_args *args, int (*print)(FILE *out, void *ctx),
			 void *ctx)
{
	bool replace = replaceable(args->output);
	AUTO_FREE char *part = NULL;
	FILE *out;
	int err;

	if (asprintf(&part, replace ? "%s.part" : "%s", args->output) < 0) {
		part = NULL;
		return failed(args, -ENOMEM);
	}
	if (replace)
		unlink(part);
	out = fopen(part, replace ? "wxe" : "we");
	if (!out)
		return failed(args, -errno);
	setvbuf(out, NULL, _IOFBF, OUTPUT_BUFFER);
	err = print_and_flush(out, print, ctx);
	if (fclose(out) && !err)
		err = -errno;
	if (!err && replace && rename(part, args->output))
		err = -errno;
	if (err && replace)
		unlink(part);
	return err ? failed(args, err) : 0;
}

int view_output(const struct view_args *args, int (*print)(FILE *out, void *ctx), void *ctx)
{
	int err;

	if (args->output)
		return print_to_file(args, print, ctx);
	if (!isatty(STDOUT_FILENO))
		setvbuf(stdout, NULL, _IOFBF, OUTPUT_BUFFER);
	err = print_and_flush(stdout, print, ctx);
	/* The reader of a pipe has seen enough: no news. */
	return !err ? 0 : err == -EPIPE ? 1 : failed(args, err);
}
