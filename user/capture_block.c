// SPDX-License-Identifier: BSD-2-Clause
/* The head of a capture file and its checksummed, compressed blocks. */
#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "capture_codec.h"

enum { CODEC_PLAIN, CODEC_ZLIB };

static const u8 magic[8] = {0x89, 'P', 'H', 'T', 'C', 'A', 'P', '\n'};

static void store32(u8 *p, u32 v)
{
	for (int i = 0; i < 4; i++)
		p[i] = v >> 8 * i;
}

static u32 load32(const u8 *p)
{
	return p[0] | p[1] << 8 | p[2] << 16 | (u32)p[3] << 24;
}

static u32 checksum(const u8 *a, size_t alen, const u8 *b, size_t blen)
{
	u32 crc = crc32(crc32(0, NULL, 0), a, alen);

	return blen ? crc32(crc, b, blen) : crc;
}

void put_head(struct outbuf *b, u32 version)
{
	u8 head[CAPTURE_HEAD_SIZE];

	memcpy(head, magic, sizeof(magic));
	store32(head + 8, version);
	store32(head + 12, checksum(head, 12, NULL, 0));
	put_bytes(b, head, sizeof(head));
}

int get_head(const u8 head[CAPTURE_HEAD_SIZE], u32 *version)
{
	if (memcmp(head, magic, sizeof(magic)))
		return -EINVAL;
	if (load32(head + 12) != checksum(head, 12, NULL, 0))
		return -EBADMSG;
	*version = load32(head + 8);
	return 0;
}

/* Head of a block: type, codec, payload's size in the file, its size, checksum of all of it. */
int put_block(struct outbuf *b, enum block_type type, const struct outbuf *payload)
{
	uLongf stored = compressBound(payload->len);
	u8 head[BLOCK_HEAD_SIZE];
	AUTO_FREE u8 *packed = NULL;
	const u8 *content = payload->data;
	u32 codec = CODEC_PLAIN;

	if (payload->failed)
		return -ENOMEM;
	if (payload->len > BLOCK_MAX_BYTES)
		return -E2BIG;
	packed = malloc(stored);
	if (!packed)
		return -ENOMEM;
	/* Varints in columns: the highest level saves 4 % and takes ten times as long. */
	if (payload->len &&
	    compress2(packed, &stored, payload->data, payload->len, Z_BEST_SPEED) == Z_OK &&
	    stored < payload->len) {
		content = packed;
		codec = CODEC_ZLIB;
	} else {
		stored = payload->len;
	}
	store32(head, type);
	store32(head + 4, codec);
	store32(head + 8, stored);
	store32(head + 12, payload->len);
	store32(head + 16, checksum(head, 16, content, stored));
	put_bytes(b, head, sizeof(head));
	put_bytes(b, content, stored);
	return b->failed ? -ENOMEM : 0;
}

ssize_t read_full(int fd, void *buf, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = read(fd, (char *)buf + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		done += n;
	}
	return done;
}

/* Room for exactly len bytes, none of which is set. */
static int room(struct outbuf *b, size_t len)
{
	outbuf_clear(b);
	if (len + 1 > b->cap) {
		free(b->data);
		b->cap = 0;
		b->data = malloc(len + 1);
		if (!b->data)
			return -ENOMEM;
		b->cap = len + 1;
	}
	b->len = len;
	return 0;
}

/* A damaged length must not cost memory that the file does not back: read in steps. */
static int read_content(int fd, struct outbuf *b, size_t len)
{
	u8 step[64 << 10];

	outbuf_clear(b);
	while (b->len < len) {
		size_t want = len - b->len < sizeof(step) ? len - b->len : sizeof(step);
		ssize_t n = read_full(fd, step, want);

		if (n < 0)
			return n;
		put_bytes(b, step, n);
		if (b->failed)
			return -ENOMEM;
		if ((size_t)n < want)
			return -ENODATA;
	}
	return 0;
}

static int unpack(struct outbuf *packed, u32 codec, u32 raw, struct outbuf *payload)
{
	uLongf len = raw;
	int err;

	if (codec == CODEC_PLAIN) {
		struct outbuf swap = *payload;

		*payload = *packed;
		*packed = swap;
		return payload->len == raw ? 0 : -EBADMSG;
	}
	if (codec != CODEC_ZLIB)
		return -EBADMSG;
	err = room(payload, raw);
	if (err)
		return err;
	if (uncompress(payload->data, &len, packed->data, packed->len) != Z_OK || len != raw)
		return -EBADMSG;
	return 0;
}

int block_read(int fd, u32 *type, struct outbuf *payload)
{
	u8 head[BLOCK_HEAD_SIZE];
	struct outbuf packed = {0};
	ssize_t n = read_full(fd, head, sizeof(head));
	u32 stored, raw;
	int err;

	if (n <= 0)
		return n;
	if ((size_t)n < sizeof(head))
		return -ENODATA;
	stored = load32(head + 8);
	raw = load32(head + 12);
	if (stored > BLOCK_MAX_BYTES || raw > BLOCK_MAX_BYTES)
		return -EBADMSG;
	err = read_content(fd, &packed, stored);
	if (!err && checksum(head, 16, packed.data, packed.len) != load32(head + 16))
		err = -EBADMSG;
	if (!err)
		err = unpack(&packed, load32(head + 4), raw, payload);
	outbuf_free(&packed);
	*type = load32(head);
	return err ? err : 1;
}
