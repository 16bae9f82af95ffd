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
	double w = (double)bytes / p, n = (double)blocks / p;

	e->bytes += w;
	e->blocks += (double)blocks / p;
	e->var += q * w * w;
	e->seen += (double)bytes;
	e->skew += q * (1 - 2 * p) * w * w * w;
	e->covar += q * q * w * w * w;
	e->blocks_var += q * n * n;
	e->blocks_covar += q * q * n * n * n;
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
	into->blocks_covar += from->blocks_covar;
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
	e.blocks_covar = e.blocks_var * (1 - p) / p;
	return e;
}

/*
 * The interval of a sum, from its variance, how that changes with the truth
 * (slope), the third moment of the error over the variance, and what is certain.
 */
static struct estimate interval(double value, double var, double slope, double skewness,
				double seen)
{
	struct estimate out = {value, value, value};
	double shift, half;

	if (!(var > 0) && !(slope > 0))
		return out;
	shift = slope * Z95 * Z95 / 2 - skewness * (Z95 * Z95 - 1) / 6;
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
	if (!(e->var > 0))
		return (struct estimate){e->bytes, e->bytes, e->bytes};
	return interval(e->bytes, e->var, e->covar / e->var, e->skew / e->var, e->seen);
}

/* Where they were not recorded: as if the blocks were of one size. */
static void blocks_moments(const struct estimator *e, double *var, double *covar)
{
	double n = (double)e->samples;

	*var = e->blocks_var;
	*covar = e->blocks_covar;
	if (*var > 0 || !n || e->blocks <= n || !(e->var > 0))
		return;
	*var = (1 - n / e->blocks) * e->blocks * e->blocks / n;
	*covar = *var * (e->blocks / n - 1);
}

double estimate_blocks_slope(const struct estimator *e)
{
	double var, covar;

	blocks_moments(e, &var, &covar);
	return var > 0 ? covar / var : 0;
}

struct estimate estimate_blocks(const struct estimator *e, double least_slope)
{
	double slope = fmax(estimate_blocks_slope(e), least_slope), var, covar;

	blocks_moments(e, &var, &covar);
	/* Third moment: (1 - p) (1 - 2p) is (1 - p)^2 - (1 - p) p. */
	return interval(e->blocks, var, slope, slope - 1, fmin((double)e->samples, e->blocks));
}

/* No sample among the live blocks says little about less than 3 R bytes: exp(-3) is 5 %. */
struct estimate estimate_or_none(const struct estimator *e, u64 sample_interval)
{
	struct estimate interval = estimate_interval(e);

	if (!e->samples && sample_interval > 1)
		interval.high = 3.0 * sample_interval;
	return interval;
}
