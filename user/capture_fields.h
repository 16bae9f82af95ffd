/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers of the sections of a snapshot block, shared by writer and reader. */
#ifndef PHT_CAPTURE_FIELDS_H
#define PHT_CAPTURE_FIELDS_H

#include "snapshot.h"

enum capture_section {
	SECT_HEAD = 1, /* sections of enum capture_field */
	SECT_STRINGS,  /* new strings: length, bytes, ... */
	SECT_FRAMES,   /* new frames: function, file, line, kind, ... */
	SECT_STACKS,   /* new stacks: parent, frame, ... */
	SECT_ROWS,     /* their number, then one section per column */
	SECT_SIZES,    /* bins: domain, log2, bytes, blocks, samples, ... */
	SECT_AGES,
	SECT_LIVES,
};

enum capture_field {
	FIELD_PID = 1,
	FIELD_COMM,
	FIELD_PYTHON_VERSION,
	FIELD_COLLECTOR,
	FIELD_COVERAGE,
	FIELD_WROTE,
	FIELD_END_REASON,
	FIELD_COVERAGE_SHARE,
	FIELD_COVERAGE_COMPLETE,
	FIELD_FINAL,
	FIELD_DURATION,
	FIELD_WALL_NS,
	FIELD_RSS,
	FIELD_OVERHEAD,
	FIELD_INTERVAL,
	FIELD_CALLS,
	FIELD_FREES,
	FIELD_LOSS,	    /* once per loss that is not 0: its count, then its name */
	FIELD_PEAK_SECONDS, /* not there: the peak is not known */
	FIELD_TEMPORARY_NS,
};

/* Columns of rows that are neither stack nor domain. */
enum capture_column_type { COLUMN_REAL, COLUMN_COARSE, COLUMN_INTEGER };

struct capture_column {
	u32 id; /* section in SECT_ROWS; the first two are the stacks and the domains */
	enum capture_column_type type;
	size_t offset; /* in struct snap_row */
};

#define COLUMN_STACK	1
#define COLUMN_DOMAIN	2
#define CAPTURE_COLUMNS 27

extern const struct capture_column capture_columns[CAPTURE_COLUMNS];

/* Text fields of the head, and where they go. */
struct capture_text {
	u32 id;
	size_t offset, size; /* in struct snapshot */
};

#define CAPTURE_TEXTS 6

extern const struct capture_text capture_texts[CAPTURE_TEXTS];

/* Whole numbers of the head. */
struct capture_number {
	u32 id;
	size_t offset; /* of a u64 in struct snapshot */
};

#define CAPTURE_NUMBERS 6

extern const struct capture_number capture_numbers[CAPTURE_NUMBERS];

static inline void *field_at(void *base, size_t offset)
{
	return (char *)base + offset;
}

static inline const void *field_of(const void *base, size_t offset)
{
	return (const char *)base + offset;
}

#endif
