// SPDX-License-Identifier: BSD-2-Clause
#include "capture_fields.h"

#define COLUMN(number, kind, field)                                                                \
	{                                                                                          \
		number, COLUMN_##kind, offsetof(struct snap_row, field)                            \
	}

const struct capture_column capture_columns[CAPTURE_COLUMNS] = {
	COLUMN(3, REAL, live.bytes),
	COLUMN(4, REAL, live.blocks),
	COLUMN(5, COARSE, live.var),
	COLUMN(6, REAL, live.seen),
	COLUMN(7, COARSE, live.skew),
	COLUMN(8, COARSE, live.covar),
	COLUMN(9, INTEGER, live.samples),
	COLUMN(10, REAL, allocated_bytes),
	COLUMN(11, REAL, allocated_blocks),
	COLUMN(12, INTEGER, samples),
	COLUMN(13, REAL, freed_bytes),
	COLUMN(14, REAL, freed_blocks),
	COLUMN(15, INTEGER, freed_samples),
	COLUMN(16, COARSE, live.blocks_var),
	COLUMN(17, COARSE, live.blocks_covar),
	COLUMN(18, REAL, peak.bytes),
	COLUMN(19, REAL, peak.blocks),
	COLUMN(20, COARSE, peak.var),
	COLUMN(21, INTEGER, peak.samples),
	COLUMN(22, REAL, peak_allocated_bytes),
	COLUMN(23, REAL, peak_allocated_blocks),
	COLUMN(24, INTEGER, peak_samples),
	COLUMN(25, REAL, temporary.bytes),
	COLUMN(26, REAL, temporary.blocks),
	COLUMN(27, COARSE, temporary.var),
	COLUMN(28, INTEGER, temporary.samples),
	COLUMN(29, INTEGER, peak_is_now),
	/* 30 and up are free; an older reader leaves out what it does not know. */
};

#define TEXT(number, field)                                                                        \
	{                                                                                          \
		FIELD_##number, offsetof(struct snapshot, field),                                  \
			sizeof(((struct snapshot *)0)->field)                                      \
	}

const struct capture_text capture_texts[CAPTURE_TEXTS] = {
	TEXT(COMM, comm),	    TEXT(PYTHON_VERSION, python_version),
	TEXT(COLLECTOR, collector), TEXT(COVERAGE, coverage),
	TEXT(WROTE, wrote),	    TEXT(END_REASON, end_reason),
};

#define NUMBER(number, field)                                                                      \
	{                                                                                          \
		FIELD_##number, offsetof(struct snapshot, field)                                   \
	}

const struct capture_number capture_numbers[CAPTURE_NUMBERS] = {
	NUMBER(WALL_NS, wall_ns), NUMBER(RSS, rss),	NUMBER(INTERVAL, sample_interval),
	NUMBER(CALLS, calls),	  NUMBER(FREES, frees), NUMBER(TEMPORARY_NS, temporary_ns),
};
