// SPDX-License-Identifier: BSD-2-Clause
#include "export_text.h"

#include <math.h>
#include <string.h>

#include "escape.h"
#include "threads.h"

static void put_unicode(FILE *out, u32 cp)
{
	if (cp < 0x10000)
		fprintf(out, "\\u%04x", cp);
	else
		fprintf(out, "\\u%04x\\u%04x", 0xd800 + ((cp - 0x10000) >> 10),
			0xdc00 + (cp & 0x3ff));
}

/* Bytes that stand in a string as they are; nearly all do. */
static size_t json_plain(const char *s)
{
	size_t n = 0;

	while (s[n] >= 0x20 && s[n] < 0x7f && s[n] != '"' && s[n] != '\\')
		n++;
	return n;
}

void json_string(FILE *out, const char *text)
{
	putc_unlocked('"', out);
	while (*text) {
		size_t plain = json_plain(text);
		unsigned int n;
		u32 cp;

		if (plain) {
			fwrite_unlocked(text, 1, plain, out);
			text += plain;
			continue;
		}
		n = utf8_decode(text, &cp);
		if (!n)
			put_unicode(out, 0xfffd);
		else if (cp == '"' || cp == '\\')
			fprintf(out, "\\%c", (char)cp);
		else if (escape_unsafe(cp))
			put_unicode(out, cp);
		else
			fwrite(text, 1, n, out);
		text += n ? n : 1;
	}
	putc_unlocked('"', out);
}

void json_whole(FILE *out, double v)
{
	if (!isfinite(v)) {
		fputs("null", out);
	} else if (fabs(v) < 1e15) {
		s64 whole = (s64)nearbyint(v);

		if (whole < 0)
			putc_unlocked('-', out);
		put_decimal(out, whole < 0 ? -(u64)whole : (u64)whole);
	} else {
		fprintf(out, "%.0f", nearbyint(v));
	}
}

void put_decimal(FILE *out, u64 v)
{
	char digits[20];
	int n = 0;

	do
		digits[n++] = '0' + v % 10;
	while (v /= 10);
	while (n-- > 0)
		putc_unlocked(digits[n], out);
}

void json_frame(FILE *out, const struct frame *f)
{
	static const char *const kinds[] = {
		[FRAME_PYTHON] = "python",
		[FRAME_NATIVE] = "native",
		[FRAME_OTHER] = "other",
		[FRAME_THREAD] = "thread",
	};

	fputs_unlocked("{\"function\":", out);
	json_string(out, f->function);
	fputs_unlocked(",\"file\":", out);
	if (*f->file && f->kind != FRAME_THREAD)
		json_string(out, f->file);
	else
		fputs_unlocked("null", out);
	fputs_unlocked(",\"line\":", out);
	if (f->line > 0)
		put_decimal(out, (u64)f->line);
	else
		fputs_unlocked("null", out);
	fputs_unlocked(",\"kind\":\"", out);
	fputs_unlocked(kinds[f->kind], out);
	putc_unlocked('"', out);
	if (f->kind == FRAME_THREAD) {
		fputs_unlocked(",\"tid\":", out);
		put_decimal(out, thread_frame_tid(f));
	}
	putc_unlocked('}', out);
}

size_t valid_utf8(char *dst, size_t size, const char *text)
{
	size_t len = 0;

	while (*text) {
		u32 cp;
		unsigned int n = utf8_decode(text, &cp);
		const char *from = n ? text : "\xef\xbf\xbd";
		unsigned int bytes = n ? n : 3;

		if (len + bytes + 1 > size)
			break;
		memcpy(dst + len, from, bytes);
		len += bytes;
		text += n ? n : 1;
	}
	dst[len] = '\0';
	return len;
}

/* Add to a string of n bytes, as much as fits; returns its new length. */
static size_t append(char *dst, size_t size, size_t n, const char *text)
{
	size_t len = strnlen(text, size - n - 1);

	memcpy(dst + n, text, len);
	dst[n + len] = '\0';
	return n + len;
}

void frame_label(char *dst, size_t size, const struct frame *f)
{
	const char *function = *f->function ? f->function : "?";

	size_t n = append(dst, size, 0, function);

	if (!*f->file)
		return;
	n = append(dst, size, n, " (");
	n = append(dst, size, n, f->file);
	if (f->line > 0)
		snprintf(dst + n, size - n, ":%d)", f->line);
	else
		append(dst, size, n, ")");
}
