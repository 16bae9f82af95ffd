// SPDX-License-Identifier: BSD-2-Clause
#include "export_text.h"

#include <math.h>
#include <string.h>

#include "escape.h"

static void put_unicode(FILE *out, u32 cp)
{
	if (cp < 0x10000)
		fprintf(out, "\\u%04x", cp);
	else
		fprintf(out, "\\u%04x\\u%04x", 0xd800 + ((cp - 0x10000) >> 10),
			0xdc00 + (cp & 0x3ff));
}

void json_string(FILE *out, const char *text)
{
	fputc('"', out);
	while (*text) {
		u32 cp;
		unsigned int n = utf8_decode(text, &cp);

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
	fputc('"', out);
}

void json_whole(FILE *out, double v)
{
	/* Adding 0 turns -0 into 0. */
	if (isfinite(v))
		fprintf(out, "%.0f", nearbyint(v) + 0.0);
	else
		fputs("null", out);
}

void json_frame(FILE *out, const struct frame *f)
{
	static const char *const kinds[] = {
		[FRAME_PYTHON] = "python",
		[FRAME_NATIVE] = "native",
		[FRAME_OTHER] = "other",
	};

	fputs("{\"function\":", out);
	json_string(out, f->function);
	fputs(",\"file\":", out);
	if (*f->file)
		json_string(out, f->file);
	else
		fputs("null", out);
	if (f->line > 0)
		fprintf(out, ",\"line\":%d", f->line);
	else
		fputs(",\"line\":null", out);
	fprintf(out, ",\"kind\":\"%s\"}", kinds[f->kind]);
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

void frame_label(char *dst, size_t size, const struct frame *f)
{
	const char *function = *f->function ? f->function : "?";

	if (!*f->file)
		snprintf(dst, size, "%s", function);
	else if (f->line > 0)
		snprintf(dst, size, "%s (%s:%d)", function, f->file, f->line);
	else
		snprintf(dst, size, "%s (%s)", function, f->file);
}
