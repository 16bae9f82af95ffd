// SPDX-License-Identifier: BSD-2-Clause
#include "linetable.h"

#include <stdbool.h>

#define NO_LINE_DELTA (-128) /* 3.10: the range has no line */

enum location_kind {
	LOC_ONE_LINE0 = 10, /* kinds 10-12: the line advances by kind - 10 */
	LOC_ONE_LINE2 = 12,
	LOC_NO_COLUMNS = 13,
	LOC_LONG = 14,
	LOC_NONE = 15,
};

struct cursor {
	const u8 *p, *end;
};

/* Lines beyond int, or not positive, come from damage only. */
static s32 line_or_none(s64 line)
{
	return line > 0 && line <= INT32_MAX ? (s32)line : 0;
}

/* Pairs of (bytes, lines), applied up to the instruction. */
static s32 lookup_lnotab(const u8 *table, size_t len, s64 line, s32 addr)
{
	s64 at = 0;

	for (size_t i = 0; i + 1 < len; i += 2) {
		at += table[i];
		if (at > addr)
			break;
		line += (int8_t)table[i + 1];
	}
	return line_or_none(line);
}

/* Pairs of (bytes, lines), each describing the range that it ends. */
static s32 lookup_linetable(const u8 *table, size_t len, s64 line, s32 addr)
{
	s64 end = 0;

	for (size_t i = 0; i + 1 < len; i += 2) {
		int delta = (int8_t)table[i + 1];

		end += table[i];
		if (delta != NO_LINE_DELTA)
			line += delta;
		/* Ranges ascend from 0, so the first that ends beyond addr holds it. */
		if (addr < end)
			return delta == NO_LINE_DELTA ? 0 : line_or_none(line);
	}
	return 0;
}

/* 6-bit groups, least significant first; false when it is cut off or too long. */
static bool read_varint(struct cursor *c, u32 *out)
{
	u64 value = 0;

	for (unsigned shift = 0; shift < 36; shift += 6) {
		if (c->p == c->end || *c->p & 0x80)
			return false;
		value |= (u64)(*c->p & 0x3f) << shift;
		if (!(*c->p++ & 0x40)) {
			*out = (u32)value;
			return value <= UINT32_MAX;
		}
	}
	return false;
}

static bool read_svarint(struct cursor *c, s64 *out)
{
	u32 v;

	if (!read_varint(c, &v))
		return false;
	*out = v & 1 ? -(s64)(v >> 1) : (s64)(v >> 1);
	return true;
}

/* The rest of an entry does not matter: only the first byte of one has bit 7 set. */
static void skip_entry(struct cursor *c)
{
	while (c->p < c->end && !(*c->p & 0x80))
		c->p++;
}

/* Take one entry: its length in code units and its line, 0 for none. */
static bool next_location(struct cursor *c, s64 *line, unsigned *units, s32 *entry_line)
{
	unsigned kind;
	s64 delta = 0;

	if (c->p == c->end || !(*c->p & 0x80))
		return false;
	kind = *c->p >> 3 & 15;
	*units = (*c->p & 7) + 1;
	c->p++;
	if (kind == LOC_NO_COLUMNS || kind == LOC_LONG) {
		if (!read_svarint(c, &delta))
			return false;
	} else if (kind >= LOC_ONE_LINE0 && kind <= LOC_ONE_LINE2) {
		delta = kind - LOC_ONE_LINE0;
	}
	skip_entry(c);
	*line += delta;
	*entry_line = kind == LOC_NONE ? 0 : line_or_none(*line);
	return true;
}

static s32 lookup_locations(const u8 *table, size_t len, s64 line, s32 addr)
{
	struct cursor c = {table, table + len};
	s64 end = 0;
	unsigned units;
	s32 entry_line;

	while (next_location(&c, &line, &units, &entry_line)) {
		end += 2 * units;
		if (addr < end)
			return entry_line;
	}
	return 0;
}

s32 linetable_lookup(enum pht_line_kind kind, const u8 *table, size_t len, s32 firstlineno,
		     s32 addr)
{
	if (addr < 0 || (!table && len))
		return 0;
	switch (kind) {
	case PHT_LINE_LNOTAB:
		return lookup_lnotab(table, len, firstlineno, addr);
	case PHT_LINE_LINETABLE:
		return lookup_linetable(table, len, firstlineno, addr);
	case PHT_LINE_LOCATIONS:
		return lookup_locations(table, len, firstlineno, addr);
	}
	return 0;
}
