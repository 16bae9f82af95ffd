// SPDX-License-Identifier: BSD-2-Clause
#include "estimate.h"

#include <math.h>

#define Z95 1.959963984540054

/* The countdown takes an empty block for one byte. */
static double exponent(u64 size, u64 interval)
{
	return (size ? (double)size : 1.0) / (double)interval;
}

double estimate_probability(u64 size, u64 interval)
{
	return interval <= 1 ? 1.0 : -expm1(-exponent(size, interval));
}

void estimate_add_part(struct estimator *e, u64 bytes, u64 blocks, u64 drawn_size, u64 interval)
{
	double p = estimate_probability(drawn_size, interval);
	double q = interval <= 1 ? 0.0 : exp(-exponent(drawn_size, interval));
	double w = (double)bytes / p;

	e->bytes += w;
	e->blocks += (double)blocks / p;
	e->var += q * w * w;
	e->seen += (double)bytes;
	e->skew += q * (1 - 2 * p) * w * w * w;
	e->covar += q * q * w * w * w;
	e->samples++;
}

void estimate_add(struct estimator *e, u64 size, u64 interval)
{
	estimate_add_part(e, size, 1, size, interval);
}

void estimate_merge(struct estimator *into, const struct estimator *from)
{
	into->bytes += from->bytes;
	into->blocks += from->blocks;
	into->var += from->var;
	into->seen += from->seen;
	into->skew += from->skew;
	into->covar += from->covar;
	into->samples += from->samples;
}

/*
 * What was seen is certain; only the unseen rest, estimated as bytes - seen,
 * is not.  Its interval inverts a score test: the variance is taken to change
 * with the truth at the rate s = covar / var (for small blocks this is the
 * Poisson score interval, for blocks far beyond R it is symmetric), and the
 * quantiles are moved by the skewness of the error (Cornish-Fisher).  A plain
 * normal interval misses the truth far too often on few samples, and always on
 * the same side.
 */
struct estimate estimate_interval(const struct estimator *e)
{
	struct estimate out = {e->bytes, e->bytes, e->bytes};
	double slope, shift, half;

	if (!(e->var > 0))
		return out;
	slope = e->covar / e->var;
	shift = slope * Z95 * Z95 / 2 - e->skew / e->var * (Z95 * Z95 - 1) / 6;
	half = Z95 * sqrt(e->var + slope * slope * Z95 * Z95 / 4);
	/*
	 * Where a miss is all but excluded the expansion does not hold: bound what
	 * it may move, and keep "nothing was missed" inside.
	 */
	out.low = fmin(fmax(e->bytes + fmin(shift, half / 2) - half, e->seen), e->bytes);
	out.high = fmax(e->bytes + fmin(shift, half) + half, e->bytes);
	return out;
}
