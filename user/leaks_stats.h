/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of significance, pure. */
#ifndef PHT_LEAKS_STATS_H
#define PHT_LEAKS_STATS_H

#include <stdbool.h>

#include "util.h"

/* Upper tails: the chance of more than x. */
double stats_normal_tail(double x);
double stats_student_tail(double t, double freedom); /* freedom >= 1 */
/* The chance of n or more where mean are expected. */
double stats_poisson_tail(u64 n, double mean);
/* The t that is exceeded with chance 0.025: 95 % lie within -t and t. */
double stats_student_95(double freedom);

struct stats_mean {
	double mean;
	double error;	/* standard error of it, from the scatter */
	double freedom; /* n - 1; 0 where there are fewer than two */
};

struct stats_mean stats_mean_of(const double *x, size_t n);
/* The chance of such a mean, or a larger one, where the truth is 0; 1 if it cannot be told. */
double stats_mean_above_zero(const struct stats_mean *m);
/* value / error, also where the error is 0: then an infinity, or 0 for 0. */
double stats_ratio(double value, double error);

#endif
