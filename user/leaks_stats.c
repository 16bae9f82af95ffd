// SPDX-License-Identifier: BSD-2-Clause
#include "leaks_stats.h"

#include <math.h>

double stats_normal_tail(double x)
{
	return 0.5 * erfc(x / sqrt(2));
}

/*
 * The continued fraction of the incomplete beta function, evaluated from the
 * front with both convergents' ratio (Lentz); converges for x < (a+1)/(a+b+2).
 */
static double beta_fraction(double a, double b, double x)
{
	const double tiny = 1e-300;
	double c = 1, d = 1 - (a + b) * x / (a + 1), value;

	d = 1 / (fabs(d) < tiny ? tiny : d);
	value = d;
	for (int m = 1; m <= 500; m++) {
		double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
		double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
		double step = 1;

		for (int half = 0; half < 2; half++) {
			double term = half ? odd : even;

			d = 1 + term * d;
			d = 1 / (fabs(d) < tiny ? tiny : d);
			c = 1 + term / c;
			c = fabs(c) < tiny ? tiny : c;
			step = c * d;
			value *= step;
		}
		if (fabs(step - 1) < 1e-14)
			break;
	}
	return value;
}

/* The regularized incomplete beta function. */
static double beta_share(double a, double b, double x)
{
	double front;

	if (x <= 0 || x >= 1)
		return x >= 1;
	front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
	if (x < (a + 1) / (a + b + 2))
		return front * beta_fraction(a, b, x) / a;
	return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double stats_student_tail(double t, double freedom)
{
	double half;

	if (isnan(t))
		return 1;
	if (isinf(t))
		return t < 0;
	half = beta_share(freedom / 2, 0.5, freedom / (freedom + t * t)) / 2;
	return t > 0 ? half : 1 - half;
}

double stats_poisson_tail(u64 n, double mean)
{
	double below = 0;

	if (!n)
		return 1;
	if (!(mean > 0))
		return 0;
	if (n > 10000) /* the normal one is as good */
		return stats_normal_tail(((double)n - 0.5 - mean) / sqrt(mean));
	for (u64 i = 0; i < n; i++)
		below += exp((double)i * log(mean) - mean - lgamma((double)i + 1));
	return fmax(0, 1 - below);
}

double stats_student_95(double freedom)
{
	double low = 0, high = 20;

	for (int i = 0; i < 60; i++) {
		double middle = (low + high) / 2;

		if (stats_student_tail(middle, freedom) > 0.025)
			low = middle;
		else
			high = middle;
	}
	return high;
}

struct stats_mean stats_mean_of(const double *x, size_t n)
{
	struct stats_mean m = {0};
	double squares = 0;

	if (!n)
		return m;
	for (size_t i = 0; i < n; i++)
		m.mean += x[i] / (double)n;
	if (n < 2)
		return m;
	for (size_t i = 0; i < n; i++)
		squares += (x[i] - m.mean) * (x[i] - m.mean);
	m.freedom = (double)n - 1;
	m.error = sqrt(squares / m.freedom / (double)n);
	return m;
}

double stats_ratio(double value, double error)
{
	if (error > 0)
		return value / error;
	return value > 0 ? INFINITY : value < 0 ? -INFINITY : 0;
}

double stats_mean_above_zero(const struct stats_mean *m)
{
	if (m->freedom < 1)
		return 1;
	return stats_student_tail(stats_ratio(m->mean, m->error), m->freedom);
}
