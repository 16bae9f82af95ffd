// SPDX-License-Identifier: BSD-2-Clause
/* Strings and numbers of a flame graph's data. */
#include <math.h>
#include <string.h>

#include "escape.h"
#include "export.h"
#include "flame_json.h"

bool flame_string(FILE *out, const char *text)
{
	char name[FLAME_NAME_MAX + 1], shown[4 * FLAME_NAME_MAX + 1];
	size_t len = strlen(text);
	bool cut = len > FLAME_NAME_MAX;

	if (cut)
		len = FLAME_NAME_MAX;
	/* Not in the middle of a character. */
	while (cut && len && ((u8)text[len] & 0xc0) == 0x80 && len > FLAME_NAME_MAX - 4)
		len--;
	memcpy(name, text, len);
	name[len] = '\0';
	escape_text(shown, sizeof(shown), name, false);
	putc('"', out);
	for (const char *p = shown; *p; p++) {
		if (*p == '"' || *p == '\\')
			fprintf(out, "\\%c", *p);
		else if (*p == '<' || *p == '>' || *p == '&' || (u8)*p < ' ')
			fprintf(out, "\\u%04x", (u8)*p);
		else
			putc(*p, out);
	}
	fputs(cut ? "\u2026\"" : "\"", out);
	return cut;
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void put_byte(struct flame_column *c, u8 byte)
{
	c->bits = c->bits << 8 | byte;
	if (++c->n < 3)
		return;
	for (int shift = 18; shift >= 0; shift -= 6)
		putc_unlocked(digits[c->bits >> shift & 63], c->out);
	c->bits = c->n = 0;
}

void flame_column_begin(struct flame_column *c, FILE *out, const char *name)
{
	*c = (struct flame_column){.out = out};
	fprintf(out, "\"%s\":\"", name);
}

void flame_column_put(struct flame_column *c, u64 v)
{
	while (v >= 0x80) {
		put_byte(c, (v & 0x7f) | 0x80);
		v >>= 7;
	}
	put_byte(c, v);
}

void flame_column_end(struct flame_column *c)
{
	unsigned int n = c->n;

	if (n) {
		u32 bits = c->bits << (n == 1 ? 16 : 8);

		for (unsigned int i = 0; i < 4; i++)
			putc_unlocked(i <= n ? digits[bits >> (18 - 6 * i) & 63] : '=', c->out);
	}
	putc('"', c->out);
}

u64 flame_coarse(double v)
{
	float narrow = (float)v;
	u32 bits;

	if (isnan(narrow))
		return 0;
	if (isinf(narrow))
		narrow = copysignf(3e38f, narrow);
	memcpy(&bits, &narrow, sizeof(bits));
	/* To nearest; the sign last, so that small numbers stay short. */
	bits = ((bits & 0x7fffffff) + 0x8000) >> 16 << 1 | bits >> 31;
	return bits > 1 ? bits : 0;
}
