/* SPDX-License-Identifier: BSD-2-Clause */
/* Two censuses compared, type by type. */
#ifndef PHT_CENSUS_DIFF_H
#define PHT_CENSUS_DIFF_H

#include "census.h"

/* The types of a census, without the rest. */
struct census_rows {
	struct census_row *v; /* owned */
	size_t n;
};

/* From a JSON report in a file.  0, or -errno after one clear line. */
int census_rows_load(const char *path, struct census_rows *out);
/* The same from memory; -EINVAL: that is no census. */
int census_rows_parse(const char *text, size_t len, struct census_rows *out);
void census_rows_clear(struct census_rows *rows);
/* A copy of a census's. 0 or -ENOMEM. */
int census_rows_copy(const struct census *c, struct census_rows *out);

struct census_delta {
	const char *module, *name; /* belong to one of the two */
	u64 count[2], bytes[2];	   /* before, after */
};

/* What changed, the largest change in bytes first.  *out is the caller's to free. */
int census_compare(const struct census_rows *before, const struct census_rows *after,
		   struct census_delta **out, size_t *n);

int census_diff_text(const struct census_delta *v, size_t n, size_t top, FILE *out);
int census_diff_json(const struct census_delta *v, size_t n, FILE *out);

#endif
