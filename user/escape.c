// SPDX-License-Identifier: BSD-2-Clause
#include "escape.h"

#include <locale.h>
#include <string.h>
#include <wchar.h>

/* Longest form of one character: four bytes as \xNN. */
#define UNIT_MAX 17

unsigned int utf8_decode(const char *s, u32 *cp)
{
	static const u32 least[] = {0, 0, 0x80, 0x800, 0x10000};
	const u8 *p = (const u8 *)s;
	unsigned int len;
	u32 c;

	if (p[0] < 0x80) {
		*cp = p[0];
		return 1;
	}
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	c = p[0] & (0x7f >> len);
	for (unsigned int i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80) /* a NUL stops here too */
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	*cp = c;
	return len;
}

/*
 * Columns of a character, -1 if it cannot be shown.  The width of a character
 * is asked in a UTF-8 locale whatever the user's is; where even C.UTF-8 is
 * missing, every character counts as one column.
 */
static int char_width(u32 cp)
{
	static locale_t utf8;
	static bool tried;
	locale_t before;
	int width;

	if (cp < 0x7f)
		return cp >= 0x20 ? 1 : -1;
	if (!tried) {
		utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
		tried = true;
	}
	if (!utf8)
		return 1;
	before = uselocale(utf8);
	width = wcwidth((wchar_t)cp);
	uselocale(before);
	return width;
}

bool escape_unsafe(u32 cp)
{
	static const struct {
		u32 first, last;
	} ranges[] = {
		{0x00, 0x1f},	  {0x7f, 0x9f},	    {0xad, 0xad}, /* soft hyphen */
		{0x61c, 0x61c},	  {0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e},
		{0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff0, 0xfffb}, {0xe0000, 0xe0fff},
	};

	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
		if (cp >= ranges[i].first && cp <= ranges[i].last)
			return true;
	return char_width(cp) < 0;
}

size_t escape_plain(const char *s)
{
	size_t n = 0;

	while (s[n] >= 0x20 && s[n] < 0x7f)
		n++;
	return n;
}

/* One character of src as it is to be shown; returns the bytes of src used. */
static unsigned int next_unit(char unit[UNIT_MAX], const char *src, bool ascii_only)
{
	unsigned int len;
	u32 cp;

	len = utf8_decode(src, &cp);
	if (len && !escape_unsafe(cp) && !(ascii_only && cp > 0x7e)) {
		memcpy(unit, src, len);
		unit[len] = '\0';
		return len;
	}
	if (!len)
		len = 1;
	for (unsigned int i = 0; i < len; i++)
		snprintf(unit + 4 * i, 5, "\\x%02x", (u8)src[i]);
	return len;
}

size_t escape_text(char *dst, size_t size, const char *src, bool ascii_only)
{
	size_t used = 0;

	if (!size)
		return 0;
	while (*src) {
		char unit[UNIT_MAX];
		size_t len = escape_plain(src);

		/* Nearly all names are nothing else. */
		if (len) {
			len = len < size - used ? len : size - used - 1;
			memcpy(dst + used, src, len);
			used += len;
			src += len;
			if (used + 1 == size)
				break;
			continue;
		}
		src += next_unit(unit, src, ascii_only);
		len = strlen(unit);
		if (len >= size - used)
			break;
		memcpy(dst + used, unit, len);
		used += len;
	}
	dst[used] = '\0';
	return used;
}

/* Bytes and columns of the character at text, which is valid UTF-8. */
static unsigned int step(const char *text, int *width)
{
	unsigned int len;
	u32 cp;

	len = utf8_decode(text, &cp);
	*width = len ? char_width(cp) : 1;
	if (*width < 0)
		*width = 0;
	return len ? len : 1;
}

int escape_width(const char *text)
{
	int total = 0;

	while (*text) {
		int width;

		text += step(text, &width);
		total += width;
	}
	return total;
}

/* Length in bytes of the longest beginning of text with at most columns. */
static size_t prefix(const char *text, int columns)
{
	const char *p = text;
	int used = 0;

	while (*p) {
		int width;
		unsigned int len = step(p, &width);

		if (width > columns - used)
			break;
		used += width;
		p += len;
	}
	return (size_t)(p - text);
}

/* Where the longest end of text with at most columns begins. */
static const char *suffix(const char *text, int columns)
{
	int drop = escape_width(text) - columns;

	while (*text) {
		int width;
		unsigned int len = step(text, &width);

		/* No combining mark without the character it belongs to. */
		if (drop <= 0 && width)
			break;
		drop -= width;
		text += len;
	}
	return text;
}

static void put(char *dst, size_t size, size_t *used, const char *text, size_t len)
{
	/* Whole characters only, should dst be short. */
	while (len) {
		int width;
		unsigned int n = step(text, &width);

		if (n >= size - *used)
			break;
		memcpy(dst + *used, text, n);
		*used += n;
		text += n;
		len -= n;
	}
	dst[*used] = '\0';
}

int escape_clip(char *dst, size_t size, const char *text, int columns, enum clip_side side,
		const char *ellipsis)
{
	int mark = escape_width(ellipsis);
	size_t used = 0;

	if (!size)
		return 0;
	dst[0] = '\0';
	if (columns <= 0)
		return 0;
	if (escape_width(text) <= columns) {
		put(dst, size, &used, text, strlen(text));
		return escape_width(dst);
	}
	if (mark > columns) {
		ellipsis = "";
		mark = 0;
	}
	if (side == CLIP_RIGHT) {
		put(dst, size, &used, text, prefix(text, columns - mark));
		put(dst, size, &used, ellipsis, strlen(ellipsis));
	} else {
		text = suffix(text, columns - mark);
		put(dst, size, &used, ellipsis, strlen(ellipsis));
		put(dst, size, &used, text, strlen(text));
	}
	return escape_width(dst);
}
