// SPDX-License-Identifier: BSD-2-Clause
#include "log.h"

#include <stdarg.h>
#include <stdio.h>

#include "progress.h"
#include "util.h"

static int level;

void log_set_level(int l)
{
	level = l;
}

int log_level(void)
{
	return level;
}

static struct {
	void (*fn)(void *ctx, const char *line);
	void *ctx;
} divert;

void log_divert(void (*fn)(void *ctx, const char *line), void *ctx)
{
	divert.fn = fn;
	divert.ctx = ctx;
}

/* C1 controls arrive as UTF-8 (c2 80..9f): a terminal obeys those too. */
static void escape_line(FILE *out, const char *line)
{
	for (const unsigned char *p = (const unsigned char *)line; *p; p++) {
		if (*p < 0x20 || *p == 0x7f)
			fprintf(out, "\\x%02x", *p);
		else if (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0)
			fprintf(out, "\\x%02x", *++p);
		else
			fputc(*p, out);
	}
}

static void emit(const char *tag, const char *fmt, va_list ap)
{
	AUTO_FREE char *text = NULL;
	char line[2048];
	size_t len;
	FILE *out = divert.fn ? open_memstream(&text, &len) : stderr;

	vsnprintf(line, sizeof(line), fmt, ap);
	if (!out)
		return;
	if (out == stderr)
		progress_hide();
	fprintf(out, "pyheaptrace: %s", tag);
	escape_line(out, line);
	if (out == stderr) {
		fputc('\n', stderr);
		return;
	}
	if (!fclose(out) && text)
		divert.fn(divert.ctx, text);
}

#define DEFINE_LOG(name, min, tag)                                                                 \
	void name(const char *fmt, ...)                                                            \
	{                                                                                          \
		va_list ap;                                                                        \
		if (level < (min))                                                                 \
			return;                                                                    \
		va_start(ap, fmt);                                                                 \
		emit(tag, fmt, ap);                                                                \
		va_end(ap);                                                                        \
	}

static __thread char *captured;
static __thread size_t captured_len;

void log_capture(char *buf, size_t len)
{
	captured = buf;
	captured_len = len;
	if (buf)
		*buf = '\0';
}

void log_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (captured)
		vsnprintf(captured, captured_len, fmt, ap);
	else
		emit("", fmt, ap);
	va_end(ap);
}

DEFINE_LOG(log_warn, 0, "warning: ")
DEFINE_LOG(log_info, 1, "")
DEFINE_LOG(log_debug, 2, "debug: ")
