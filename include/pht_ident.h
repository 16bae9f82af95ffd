/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Identity of a code object; the unwinder and the name reader must agree on it.
 *
 * A code object's address, and those of its names, are used again as soon as
 * it is freed, in the same order even, so pointers alone do not tell a
 * function from its successor.  What the pointers lead to is a part of the
 * identity too: the end of the names, where they differ, and the beginning of
 * the line table.
 */
#ifndef PHT_IDENT_H
#define PHT_IDENT_H

#include "pht_pyoffsets.h"

#define PHT_INLINE static inline __attribute__((always_inline))

/* Bytes of a string or table that are looked at. */
#define PHT_ID_WINDOW 64
/* Bytes from a str object's length on that hold all of its header. */
#define PHT_STR_HEAD 24
/* Room for it, however wrong its offsets may be. */
#define PHT_STR_BUF 40
/* Longer names and tables are no names and tables. */
#define PHT_SPAN_MAX (1u << 24)

/* Pointers of co_name and co_filename, and co_firstlineno -> 32 bits, bit 0 clear. */
PHT_INLINE __u32 pht_ident(__u64 name, __u64 filename, __u32 firstlineno)
{
	__u64 h = name * 0x9e3779b97f4a7c15ull;

	h ^= filename + 0x7f4a7c159e3779b9ull + (h << 6) + (h >> 2);
	h *= 0xff51afd7ed558ccdull;
	h ^= firstlineno + (h >> 29);
	h *= 0xc4ceb9fe1a85ec53ull;
	/* 0 stands for "unreadable". */
	h = (h >> 32) & ~1u;
	return h ? h : 2;
}

/* The parts of the contents; one that could not be read counts as 0. */
enum pht_ident_part { PHT_PART_NAME, PHT_PART_FILE, PHT_PART_TABLE, PHT_PART_NR };

/* Add the hash of a part to an identity. */
PHT_INLINE __u32 pht_ident_add(__u32 ident, enum pht_ident_part part, __u64 hash)
{
	/* Which part it is must matter: a name may be the same as its file's. */
	ident ^= (__u32)(hash >> (8 * (__u32)part)) & ~1u;
	return ident ? ident : 2;
}

/* Where the contents of a str or bytes object are. */
struct pht_span {
	__u64 at;
	__u32 size; /* bytes */
	__u32 kind; /* bytes per code point; 0 = no compact str object */
};

PHT_INLINE __attribute__((no_sanitize("alignment"))) __u32 pht_load_u32(const __u8 *p)
{
	return *(const __u32 *)p;
}

PHT_INLINE __attribute__((no_sanitize("alignment"))) __u64 pht_load_u64(const __u8 *p)
{
	return *(const __u64 *)p;
}

/* head: PHT_STR_BUF bytes, the first PHT_STR_HEAD from the length of the str at addr on. */
PHT_INLINE struct pht_span pht_str_span(const struct pht_pyoffsets *off, const __u8 *head,
					__u64 addr)
{
	__u32 state = pht_load_u32(head + ((off->str_state - off->str_length) & 31));
	__u64 length = pht_load_u64(head);
	__u32 kind = state >> (off->str_kind_shift & 31) & 7;
	__u32 compact = state >> (off->str_compact_bit & 31) & 1;
	__u32 ascii = state >> (off->str_ascii_bit & 31) & 1;
	struct pht_span span = {0};

	if (length > PHT_SPAN_MAX || !compact || (kind != 1 && kind != 2 && kind != 4) ||
	    (ascii && kind != 1))
		return span;
	span.at = addr + (ascii ? off->str_data_ascii : off->str_data_compact);
	span.size = (__u32)length * kind;
	span.kind = kind;
	return span;
}

/* How much of a span is looked at, and which part of it. */
PHT_INLINE __u32 pht_window_size(const struct pht_span *span)
{
	return span->size < PHT_ID_WINDOW ? span->size : PHT_ID_WINDOW;
}

PHT_INLINE __u64 pht_window_at(const struct pht_span *span)
{
	return span->kind ? span->at + (span->size - pht_window_size(span)) : span->at;
}

/* window: the span's bytes that are looked at, and more up to PHT_ID_WINDOW.  Never 0. */
PHT_INLINE __u64 pht_window_hash(const struct pht_span *span, const __u8 *window)
{
	__u64 h = 0x27d4eb2f165667c5ull ^ ((__u64)span->size << 3 | span->kind);
	__u32 n = pht_window_size(span);

	for (__u32 i = 0; i < PHT_ID_WINDOW / 8; i++) {
		__u64 word;

		if (8 * i >= n)
			break;
		word = pht_load_u64(window + 8 * i);
		if (n < 8 * i + 8)
			word &= ~0ull >> (8 * (8 * i + 8 - n) & 63);
		h = (h ^ word) * 0x9fb21c651e98df25ull;
		h ^= h >> 29;
	}
	return h ? h : 1;
}

#endif
