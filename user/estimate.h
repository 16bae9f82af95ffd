/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Horvitz-Thompson estimation over sampled blocks, pure.  A block of x bytes
 * is sampled with p = 1 - exp(-x / R) and stands for 1 / p blocks.
 */
#ifndef PHT_ESTIMATE_H
#define PHT_ESTIMATE_H

#include "report.h"

struct estimator {
	double bytes;  /* sum of x / p */
	double blocks; /* sum of 1 / p */
	double var;    /* sum of (1 - p) x^2 / p^2 */
	double seen;   /* sum of x: live for certain */
	double skew;   /* third moment of the error: sum of (1 - p) (1 - 2p) x^3 / p^3 */
	double covar;  /* of the error with var: sum of (1 - p)^2 x^3 / p^3 */
	u64 samples;
};

/* Probability that a block of size bytes is sampled at interval; 1 when interval <= 1. */
double estimate_probability(u64 size, u64 interval);
void estimate_add(struct estimator *e, u64 size, u64 interval);
/*
 * A block of which only bytes and blocks count now (a pool in part use, a
 * mapping cut short): p is that of the size it was drawn with.
 */
void estimate_add_part(struct estimator *e, u64 bytes, u64 blocks, u64 drawn_size,
		       u64 interval);
void estimate_merge(struct estimator *into, const struct estimator *from);
/* The estimate and its 95 % interval; low is never under e->seen. */
struct estimate estimate_interval(const struct estimator *e);

#endif
