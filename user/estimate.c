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
	e->blocks_var += q * ((double)blocks / p) * ((double)blocks / p);
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
	into->blocks_var += from->blocks_var;
	into->samples += from->samples;
}

struct estimator estimate_of_sums(double bytes, double blocks, double var, u64 samples)
{
	struct estimator e = {.bytes = bytes, .blocks = blocks, .seen = bytes, .samples = samples};
	double p, w;

	if (!(var > 0) || !(blocks > (double)samples) || !samples)
		return e;
	p = (double)samples / blocks;
	w = sqrt(var / ((double)samples * (1 - p)));
	e.var = var;
	e.covar = var * (1 - p) * w;
	e.skew = var * (1 - 2 * p) * w;
	e.seen = fmax(bytes - (double)samples * (1 - p) * w, 0);
	e.blocks_var = (1 - p) * blocks * blocks / (double)samples;
	return e;
}

/* The interval of a sum from its moments, and from what of it is certain. */
static struct estimate interval(double value, double var, double slope, double skew, double seen)
{
	struct estimate out = {value, value, value};
	double shift, half;

	if (!(var > 0))
		return out;
	shift = slope * Z95 * Z95 / 2 - skew / var * (Z95 * Z95 - 1) / 6;
	half = Z95 * sqrt(var + slope * slope * Z95 * Z95 / 4);
	/*
	 * Where a miss is all but excluded the expansion does not hold: bound what
	 * it may move, and keep "nothing was missed" inside.
	 */
	out.low = fmin(fmax(value + fmin(shift, half / 2) - half, seen), value);
	out.high = fmax(value + fmin(shift, half) + half, value);
	return out;
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
	return interval(e->bytes, e->var, e->var > 0 ? e->covar / e->var : 0, e->skew, e->seen);
}

/*
 * The same for blocks.  Third moments are not kept for them: they are those of
 * blocks of one size with this variance, for which var / blocks is (1 - p) / p.
 */
struct estimate estimate_blocks(const struct estimator *e)
{
	double n = (double)e->samples, var = e->blocks_var, slope;

	if (!(var > 0) && n > 0 && e->blocks > n && e->var > 0)
		var = (1 - n / e->blocks) * e->blocks * e->blocks / n;
	slope = e->blocks > 0 ? var / e->blocks : 0;
	return interval(e->blocks, var, slope, var * (slope - 1), fmin(n, e->blocks));
}
