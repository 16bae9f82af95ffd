// SPDX-License-Identifier: BSD-2-Clause
/* A str of another process as UTF-8, through a reader. */
#include <errno.h>
#include <string.h>

#include "pytypes.h"

#define STATE	    32
#define LENGTH	    16
#define KIND_SHIFT  2
#define COMPACT	    (1u << 5)
#define ASCII	    (1u << 6)
#define CLIP	    1024
#define REPLACEMENT 0xfffd

static u32 code_point(const u8 *p, u32 kind, size_t i)
{
	u16 c2;
	u32 c4;

	if (kind == 1)
		return p[i];
	if (kind == 2) {
		memcpy(&c2, p + 2 * i, 2);
		return c2;
	}
	memcpy(&c4, p + 4 * i, 4);
	return c4;
}

/* NUL counts as no character of a name. */
static size_t encode(u32 c, char b[4])
{
	size_t n;

	if (!c || (c >= 0xd800 && c <= 0xdfff) || c > 0x10ffff)
		c = REPLACEMENT;
	n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	if (n == 1) {
		b[0] = (char)c;
		return 1;
	}
	for (size_t i = n - 1; i > 0; i--, c >>= 6)
		b[i] = (char)(0x80 | (c & 0x3f));
	b[0] = (char)(0xf00 >> n | c);
	return n;
}

int pytypes_str(const struct pylayout *l, const struct reader *r, u64 addr, char *buf, size_t max)
{
	u8 head[40], raw[CLIP * 4];
	u64 length, data;
	u32 state, kind;
	size_t out = 0;

	buf[0] = '\0';
	if (addr & 7 || reader_read(r, addr, head, sizeof(head)))
		return -EFAULT;
	memcpy(&length, head + LENGTH, 8);
	memcpy(&state, head + STATE, 4);
	kind = state >> KIND_SHIFT & 7;
	if (!(state & COMPACT) || (kind != 1 && kind != 2 && kind != 4) || length > 1ull << 40)
		return -EINVAL;
	data = addr + (state & ASCII ? l->str_ascii : l->str_compact);
	if (length > CLIP)
		length = CLIP;
	if (length > max)
		length = max;
	if (length && reader_read(r, data, raw, length * kind))
		return -EFAULT;
	for (u64 i = 0; i < length; i++) {
		char b[4];
		size_t n = encode(code_point(raw, kind, i), b);

		if (n > max - 1 - out)
			break;
		memcpy(buf + out, b, n);
		out += n;
	}
	buf[out] = '\0';
	return 0;
}
