// SPDX-License-Identifier: BSD-2-Clause
#include "log.h"

#include <stdarg.h>
#include <stdio.h>

static int level;

void log_set_level(int l)
{
	level = l;
}

int log_level(void)
{
	return level;
}

static void emit(const char *tag, const char *fmt, va_list ap)
{
	char line[2048];

	vsnprintf(line, sizeof(line), fmt, ap);
	fprintf(stderr, "pyheaptrace: %s", tag);
	for (const unsigned char *p = (const unsigned char *)line; *p; p++) {
		/* C1 controls arrive as UTF-8 (c2 80..9f): a terminal obeys those too. */
		if (*p < 0x20 || *p == 0x7f)
			fprintf(stderr, "\\x%02x", *p);
		else if (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0)
			fprintf(stderr, "\\x%02x", *++p);
		else
			fputc(*p, stderr);
	}
	fputc('\n', stderr);
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

DEFINE_LOG(log_error, 0, "")
DEFINE_LOG(log_warn, 0, "warning: ")
DEFINE_LOG(log_info, 1, "")
DEFINE_LOG(log_debug, 2, "debug: ")
