/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers as people read them: three digits and a unit. */
#ifndef PHT_REPORT_UNITS_H
#define PHT_REPORT_UNITS_H

#include <stdbool.h>

#include "util.h"

/* Room for any of them, with a sign and "/s". */
#define UNITS_MAX 24

/*
 * "12.4 MiB", at most 8 columns; brief: "12.4M", at most 5.  A minus adds one.
 * What is not finite reads "?".
 */
const char *units_bytes(char buf[UNITS_MAX], double bytes, bool brief);
/* The same with a sign in front, "0" without. */
const char *units_growth(char buf[UNITS_MAX], double bytes, bool brief);
/* "982", "12.8k", "1.28M": at most 5 columns. */
const char *units_count(char buf[UNITS_MAX], double count);
/* "4.2 s", "1 min 05 s", "2 h 03 min" */
const char *units_seconds(char buf[UNITS_MAX], double seconds);
/* The same down to microseconds: "66 us", "4.2 ms". */
const char *units_moment(char buf[UNITS_MAX], double seconds);
/* 0.412 -> "41%" or "41.2%"; never rounded up to 100. */
const char *units_share(char buf[UNITS_MAX], double share, bool brief);

#endif
