/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Text that a target chose, made harmless for a UTF-8 terminal and measured.
 * Shown as \xNN, byte by byte: C0, DEL, C1 (also as UTF-8), invalid UTF-8,
 * direction overrides and marks, line separators, invisible and unassigned
 * characters.
 */
#ifndef PHT_ESCAPE_H
#define PHT_ESCAPE_H

#include <stdbool.h>

#include "util.h"

enum clip_side {
	CLIP_LEFT,  /* the end survives */
	CLIP_RIGHT, /* the beginning survives */
};

/* Bytes of the valid UTF-8 sequence at s (1-4), *cp set; 0: none is there. */
unsigned int utf8_decode(const char *s, u32 *cp);

/* How many bytes from s on are printable ASCII, and so safe as they are. */
size_t escape_plain(const char *s);

/* A terminal must not be shown this character. */
bool escape_unsafe(u32 cp);

/*
 * Escape src into dst, NUL-terminated; what does not fit in size is left
 * off, never half a character.  ascii_only: escape everything above 0x7e, for
 * a terminal that is not UTF-8.  Returns the bytes written.
 */
size_t escape_text(char *dst, size_t size, const char *src, bool ascii_only);

/* Columns of text that escape_text() made. */
int escape_width(const char *text);

/*
 * Copy text that escape_text() made, cut to at most columns; the cut is marked with
 * ellipsis (whose width counts; left out where it does not fit).  Returns the columns used.
 */
int escape_clip(char *dst, size_t size, const char *text, int columns, enum clip_side side,
		const char *ellipsis);

#endif
