/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bytes of a capture: numbers, sections and checksummed blocks.  Pure but
 * for block_read(); docs/capture-format.md describes all of it.
 */
#ifndef PHT_CAPTURE_CODEC_H
#define PHT_CAPTURE_CODEC_H

#include <stdbool.h>

#include "util.h"

#define CAPTURE_MAGIC	  "\x89PHTCAP\n"
#define CAPTURE_HEAD_SIZE 16u
#define BLOCK_HEAD_SIZE	  20u
#define BLOCK_MAX_BYTES	  (64u << 20) /* a block's payload, compressed or not */

/* ---- writing into memory; a failed allocation sticks */

struct outbuf {
	u8 *data; /* owned */
	size_t len, cap;
	bool failed;
};

void outbuf_free(struct outbuf *b);
void outbuf_clear(struct outbuf *b); /* keeps the memory */
void put_bytes(struct outbuf *b, const void *data, size_t len);
void put_varint(struct outbuf *b, u64 v);
/* Whole numbers from 0 to 2^52 exactly, anything else to about 1 in 60,000, in 4 bytes. */
void put_real(struct outbuf *b, double v);
/* About 1 in 1,000, in 3 bytes; 0 exactly, in 1: for moments that only make intervals. */
void put_coarse(struct outbuf *b, double v);
/* All 64 bits. */
void put_double(struct outbuf *b, double v);
/* What put_real() and put_coarse() keep of v. */
double real_kept(double v);
double coarse_kept(double v);

/* A section is its number, its length and its content, which is taken from part. */
void put_section(struct outbuf *b, u32 id, const struct outbuf *part);
void put_section_text(struct outbuf *b, u32 id, const char *text);
void put_section_varint(struct outbuf *b, u32 id, u64 v);
void put_section_double(struct outbuf *b, u32 id, double v);

/* ---- reading from memory; running off the end sticks */

struct inbuf {
	const u8 *p, *end;
	bool failed;
};

u64 get_varint(struct inbuf *b);
double get_real(struct inbuf *b);   /* never NaN or infinite: that fails */
double get_coarse(struct inbuf *b); /* the same */
double get_double(struct inbuf *b);
/* len bytes, or NULL (and failed). */
const u8 *get_bytes(struct inbuf *b, size_t len);
/* The next section: its number, content in *part.  False at the end or when failed. */
bool get_section(struct inbuf *b, u32 *id, struct inbuf *part);
/* The rest of b as text, cut to fit, NUL-terminated. */
void get_text(struct inbuf *b, char *dst, size_t size);

/* ---- files */

enum block_type {
	BLOCK_SNAPSHOT = 1,
	BLOCK_END = 2, /* the recording ended as it should */
};

/* The file's first CAPTURE_HEAD_SIZE bytes. */
void put_head(struct outbuf *b, u32 version);
/* 0 and the version, -EINVAL (not a capture) or -EBADMSG (damaged). */
int get_head(const u8 head[CAPTURE_HEAD_SIZE], u32 *version);

/* Frame a payload, compressed where that helps.  -E2BIG beyond BLOCK_MAX_BYTES, -ENOMEM. */
int put_block(struct outbuf *b, enum block_type type, const struct outbuf *payload);

/* Reads exactly len bytes; returns how many there were, or -errno. */
ssize_t read_full(int fd, void *buf, size_t len);

/*
 * Read and check the next block; *payload (owned by the caller's outbuf) is
 * its content.  1: there is one.  0: the file ends here.  -ENODATA: it ends
 * within a block; -EBADMSG: a block is damaged; -ENOMEM or another -errno.
 */
int block_read(int fd, u32 *type, struct outbuf *payload);

#endif
