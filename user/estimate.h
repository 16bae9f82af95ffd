/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Horvitz-Thompson estimation over sampled blocks, pure.  A block of x bytes
 * is sampled with p = 1 - exp(-x / R) and stands for 1 / p blocks.
 */
#ifndef PHT_ESTIMATE_H
#define PHT_ESTIMATE_H

#include "report.h"

/* Probability that a block of size bytes is sampled at interval; 1 when interval <= 1. */
double estimate_probability(u64 size, u64 interval);
void estimate_add(struct estimator *e, u64 size, u64 interval);
/*
 * A block of which only bytes and blocks count now (a pool in part use, a
 * mapping cut short): p is that of the size it was drawn with.
 */
void estimate_add_part(struct estimator *e, u64 bytes, u64 blocks, u64 drawn_size, u64 interval);
void estimate_merge(struct estimator *into, const struct estimator *from);
/*
 * The moments of a sum of which only these are known: as if its blocks were
 * of one size, which is exact where they are and careful where they are not.
 */
struct estimator estimate_of_sums(double bytes, double blocks, double var, u64 samples);
/* How the variance of a number of blocks changes with it: about 1 / p of the smaller ones. */
double estimate_blocks_slope(const struct estimator *e);
/*
 * The number of blocks and its 95 % interval; low is never under the samples.
 * The slope is that of these blocks, or a larger one that is known of others
 * like them: small blocks are rarely among few samples, but may be there.
 */
struct estimate estimate_blocks(const struct estimator *e, double least_slope);
/* The estimate and its 95 % interval; low is never under e->seen. */
struct estimate estimate_interval(const struct estimator *e);

/* The same where 0 samples are no proof of 0 bytes. */
struct estimate estimate_or_none(const struct estimator *e, u64 sample_interval);

#endif
