/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Values of options.  Each parser takes the option's name for its message;
 * a bad value logs one line that says what is wrong and what would be right.
 * 0 or -EINVAL; *out is untouched on failure.
 */
#ifndef PHT_OPTS_VALUE_H
#define PHT_OPTS_VALUE_H

#include "opts.h"

/* Seconds between refreshes below this would cost more than they tell. */
#define OPTS_MIN_SECONDS      0.1
#define OPTS_MAX_SECONDS      (365.0 * 24 * 3600)
#define OPTS_MAX_SIZE	      (1ull << 40)
#define OPTS_MAX_MILLISECONDS 3.6e6
#define OPTS_MAX_TOP	      100000
#define OPTS_MAX_OVERHEAD     1e6
#define OPTS_MAX_PID	      4194304 /* the kernel's PID_MAX_LIMIT */
#define OPTS_MAX_PIDS	      1024

int opts_value_seconds(const char *option, const char *text, double *out);
int opts_value_size(const char *option, const char *text, u64 *out);
int opts_value_count(const char *option, const char *text, u64 max, size_t *out);
int opts_value_seed(const char *option, const char *text, u64 *out);
/* Milliseconds as text, seconds out. */
int opts_value_milliseconds(const char *option, const char *text, double *out);
int opts_value_percent(const char *option, const char *text, double *out);

struct opts_choice {
	const char *name;
	int value;
};

/* choices end with a NULL name. */
int opts_value_choice(const char *option, const char *text, const struct opts_choice *choices,
		      int *out);

/* One pid or a comma list; appends those that are not there yet. */
int opts_value_pids(const char *option, const char *text, struct opts *opts);

#endif
