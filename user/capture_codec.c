// SPDX-License-Identifier: BSD-2-Clause
#include "capture_codec.h"

#include <math.h>
#include <string.h>

#define EXACT_MAX 4503599627370496.0 /* 2^52 */

void outbuf_free(struct outbuf *b)
{
	free(b->data);
	*b = (struct outbuf){0};
}

void outbuf_clear(struct outbuf *b)
{
	b->len = 0;
	b->failed = false;
}

void put_bytes(struct outbuf *b, const void *data, size_t len)
{
	if (b->failed || !len)
		return;
	if (len > b->cap - b->len) {
		size_t cap = b->cap ? b->cap : 4096;
		u8 *bigger;

		while (cap < b->len + len)
			cap *= 2;
		bigger = realloc(b->data, cap);
		if (!bigger) {
			b->failed = true;
			return;
		}
		b->data = bigger;
		b->cap = cap;
	}
	memcpy(b->data + b->len, data, len);
	b->len += len;
}

void put_varint(struct outbuf *b, u64 v)
{
	u8 bytes[10];
	size_t n = 0;

	do {
		bytes[n] = (v & 0x7f) | (v > 0x7f ? 0x80 : 0);
		v >>= 7;
		n++;
	} while (v);
	put_bytes(b, bytes, n);
}

static u64 bits_of(double v)
{
	u64 bits;

	memcpy(&bits, &v, sizeof(bits));
	return bits;
}

static double from_bits(u64 bits)
{
	double v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

static bool exact(double v)
{
	return v >= 0 && v <= EXACT_MAX && v == floor(v);
}

/* Upper bits of a number that are kept: the sign, the exponent and of the mantissa the rest. */
#define REAL_BITS   27
#define COARSE_BITS 21

/* The nearest of what that many bits can say. */
static u64 upper_bits(double v, unsigned int bits)
{
	unsigned int drop = 64 - bits;
	u64 all = bits_of(isfinite(v) ? v : 0);
	u64 nearest = (all >> drop) + (all >> (drop - 1) & 1);

	return isfinite(from_bits(nearest << drop)) ? nearest : all >> drop;
}

void put_real(struct outbuf *b, double v)
{
	if (exact(v))
		put_varint(b, (u64)v << 1);
	else
		put_varint(b, upper_bits(v, REAL_BITS) << 1 | 1);
}

double real_kept(double v)
{
	return exact(v) ? v : from_bits(upper_bits(v, REAL_BITS) << (64 - REAL_BITS));
}

void put_coarse(struct outbuf *b, double v)
{
	put_varint(b, upper_bits(v, COARSE_BITS));
}

double coarse_kept(double v)
{
	return from_bits(upper_bits(v, COARSE_BITS) << (64 - COARSE_BITS));
}

void put_double(struct outbuf *b, double v)
{
	u64 bits = bits_of(v);
	u8 bytes[8];

	for (int i = 0; i < 8; i++)
		bytes[i] = bits >> 8 * i;
	put_bytes(b, bytes, sizeof(bytes));
}

void put_section(struct outbuf *b, u32 id, const struct outbuf *part)
{
	put_varint(b, id);
	put_varint(b, part->len);
	put_bytes(b, part->data, part->len);
	b->failed |= part->failed;
}

void put_section_text(struct outbuf *b, u32 id, const char *text)
{
	size_t len = strlen(text);

	put_varint(b, id);
	put_varint(b, len);
	put_bytes(b, text, len);
}

void put_section_varint(struct outbuf *b, u32 id, u64 v)
{
	size_t len = 1;

	for (u64 rest = v >> 7; rest; rest >>= 7)
		len++;
	put_varint(b, id);
	put_varint(b, len);
	put_varint(b, v);
}

void put_section_double(struct outbuf *b, u32 id, double v)
{
	put_varint(b, id);
	put_varint(b, 8);
	put_double(b, v);
}

u64 get_varint(struct inbuf *b)
{
	u64 v = 0;

	for (unsigned int shift = 0; shift < 64 && b->p < b->end; shift += 7) {
		u8 byte = *b->p++;

		if (shift == 63 && byte > 1)
			break;
		v |= (u64)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return v;
	}
	b->failed = true;
	b->p = b->end;
	return 0;
}

/* A number of which these are the upper bits. */
static double from_upper(struct inbuf *b, u64 upper, unsigned int bits)
{
	double v = from_bits(upper << (64 - bits));

	if (!(upper >> bits) && isfinite(v))
		return v;
	b->failed = true;
	return 0;
}

double get_real(struct inbuf *b)
{
	u64 v = get_varint(b);

	return v & 1 ? from_upper(b, v >> 1, REAL_BITS) : (double)(v >> 1);
}

double get_coarse(struct inbuf *b)
{
	return from_upper(b, get_varint(b), COARSE_BITS);
}

const u8 *get_bytes(struct inbuf *b, size_t len)
{
	const u8 *p = b->p;

	if (len > (size_t)(b->end - b->p)) {
		b->failed = true;
		b->p = b->end;
		return NULL;
	}
	b->p += len;
	return p;
}

double get_double(struct inbuf *b)
{
	const u8 *p = get_bytes(b, 8);
	u64 bits = 0;
	double v;

	for (int i = 0; p && i < 8; i++)
		bits |= (u64)p[i] << 8 * i;
	v = from_bits(bits);
	if (isfinite(v))
		return v;
	b->failed = true;
	return 0;
}

bool get_section(struct inbuf *b, u32 *id, struct inbuf *part)
{
	u64 number, len;
	const u8 *p;

	if (b->p == b->end)
		return false;
	number = get_varint(b);
	len = get_varint(b);
	if (number > UINT32_MAX || len > BLOCK_MAX_BYTES)
		b->failed = true;
	p = b->failed ? NULL : get_bytes(b, len);
	if (!p)
		return false;
	*id = number;
	*part = (struct inbuf){.p = p, .end = p + len};
	return true;
}

void get_text(struct inbuf *b, char *dst, size_t size)
{
	size_t len = b->end - b->p;

	if (len > size - 1)
		len = size - 1;
	memcpy(dst, b->p, len);
	dst[len] = '\0';
	b->p = b->end;
}
