// SPDX-License-Identifier: BSD-2-Clause
#include "pycode.h"

#include <errno.h>
#include <string.h>

#include "proc.h"

#define LENGTH_MAX  (1ll << 40) /* more code points than this is no string */
#define REPLACEMENT 0xfffd

struct str_header {
	u64 data; /* address */
	u64 length;
	unsigned kind; /* bytes per code point */
};

/* Appends whole sequences only; the room for the NUL is not part of max. */
struct utf8 {
	char *buf;
	size_t len, max;
};

static bool utf8_append(struct utf8 *out, const char *bytes, size_t n)
{
	if (n > out->max - out->len)
		return false;
	memcpy(out->buf + out->len, bytes, n);
	out->len += n;
	return true;
}

static bool utf8_escape(struct utf8 *out, unsigned byte)
{
	char text[5];

	snprintf(text, sizeof(text), "\\x%02x", byte & 0xff);
	return utf8_append(out, text, 4);
}

static bool utf8_encode(struct utf8 *out, u32 c)
{
	char b[4] = {(char)c};
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	for (size_t i = n - 1; n > 1 && i > 0; i--, c >>= 6)
		b[i] = (char)(0x80 | (c & 0x3f));
	if (n > 1)
		b[0] = (char)(0xf00 >> n | c);
	return utf8_append(out, b, n);
}

static bool utf8_put(struct utf8 *out, u32 c)
{
	if (!c)
		return utf8_escape(out, 0);
	/* surrogateescape: a byte of a file name that did not decode */
	if (c >= 0xdc80 && c <= 0xdcff)
		return utf8_escape(out, c);
	if ((c >= 0xd800 && c <= 0xdfff) || c > 0x10ffff)
		c = REPLACEMENT;
	return utf8_encode(out, c);
}

static u32 code_point(const u8 *raw, unsigned kind, size_t i)
{
	u16 c2;
	u32 c4;

	switch (kind) {
	case 1:
		return raw[i];
	case 2:
		memcpy(&c2, raw + 2 * i, 2);
		return c2;
	default:
		memcpy(&c4, raw + 4 * i, 4);
		return c4;
	}
}

static int read_header(pid_t pid, const struct pht_pyoffsets *off, u64 addr, struct str_header *h)
{
	bool compact, ascii;
	s64 length;
	u32 state;
	int err;

	err = proc_read(pid, addr + off->str_length, &length, sizeof(length));
	if (!err)
		err = proc_read(pid, addr + off->str_state, &state, sizeof(state));
	if (err)
		return err;
	h->kind = state >> (off->str_kind_shift & 31) & 7;
	compact = state >> (off->str_compact_bit & 31) & 1;
	ascii = state >> (off->str_ascii_bit & 31) & 1;
	if (length < 0 || length > LENGTH_MAX || (h->kind != 1 && h->kind != 2 && h->kind != 4) ||
	    (ascii && h->kind != 1))
		return -EINVAL;
	h->length = length;
	h->data = addr + (compact && ascii ? off->str_data_ascii : off->str_data_compact);
	/* The legacy form holds a pointer where the compact one starts its data. */
	return compact ? 0 : proc_read(pid, h->data, &h->data, sizeof(h->data));
}

int pystr_decode(const u8 *raw, size_t n, unsigned kind, size_t max, char **out)
{
	struct utf8 text = {.buf = malloc(max + 1), .max = max};

	if (!text.buf)
		return -ENOMEM;
	for (size_t i = 0; i < n / kind; i++)
		if (!utf8_put(&text, code_point(raw, kind, i)))
			break;
	text.buf[text.len] = '\0';
	*out = text.buf;
	return 0;
}

int pystr_read(pid_t pid, const struct pht_pyoffsets *off, u64 addr, size_t max, char **out)
{
	AUTO_FREE u8 *raw = NULL;
	struct str_header h;
	size_t n;
	int err;

	if (!addr)
		return -EINVAL;
	err = read_header(pid, off, addr, &h);
	if (err)
		return err;
	/* Every code point yields a byte at least. */
	n = (h.length < max ? h.length : max) * h.kind;
	raw = malloc(n + 1);
	if (!raw)
		return -ENOMEM;
	err = n ? proc_read(pid, h.data, raw, n) : 0;
	return err ? err : pystr_decode(raw, n, h.kind, max, out);
}
