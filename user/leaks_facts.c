// SPDX-License-Identifier: BSD-2-Clause
#include "leaks_facts.h"

#include <math.h>

/* A fall counts from this share of the most there ever was, and this many standard errors. */
#define FALL_SHARE  0.4
#define FALL_ERRORS 4.5

enum field { FIELD_LIVE, FIELD_VAR, FIELD_ALLOCATED };

static double field_of(const struct leaks_look *l, enum field which)
{
	return which == FIELD_LIVE ? l->live : which == FIELD_VAR ? l->var : l->allocated;
}

/* Between looks a straight line, from nothing at attach. */
static double value_at(const struct leaks_profile *p, double t, enum field which)
{
	double t0 = 0, v0 = 0;

	for (size_t i = 0; i < p->n; i++) {
		double t1 = p->times[i], v1 = field_of(&p->looks[i], which);

		if (t <= t1)
			return t1 > t0 ? v0 + (v1 - v0) * (t - t0) / (t1 - t0) : v1;
		t0 = t1;
		v0 = v1;
	}
	return v0;
}

/*
 * The error of a difference of two looks: only what was born or died between
 * them adds to it, blocks that are in both cancel out.
 */
static double change_error(const struct leaks_profile *p, double from, double to)
{
	double before = value_at(p, from, FIELD_LIVE), after = value_at(p, to, FIELD_LIVE);
	double born = value_at(p, to, FIELD_ALLOCATED) - value_at(p, from, FIELD_ALLOCATED);
	double died = born - (after - before);
	double var_before = value_at(p, from, FIELD_VAR), var_after = value_at(p, to, FIELD_VAR);
	double per_byte =
		fmax(before > 0 ? var_before / before : 0, after > 0 ? var_after / after : 0);

	born = fmax(0, fmin(born, after));
	died = fmax(0, fmin(died, before));
	return sqrt(per_byte * (born + died));
}

bool facts_of(const struct leaks_profile *p, struct facts *f)
{
	double width, older = p->older_than;

	*f = (struct facts){.p = p, .span = p->n ? p->times[p->n - 1] : 0};
	if (!(f->span > 0))
		return false;
	width = f->span / LEAKS_WINDOWS;
	if (!(older > 0))
		older = f->span * LEAKS_OLD_SHARE;
	/* A window that ends just at the limit is old enough. */
	f->old = older < f->span ? (unsigned int)((f->span - older) / width + 1e-6) : 0;
	f->half = 1 + (f->old > 1 ? (f->old - 1) / 2 : 0);
	/* Of fewer looks the parts between would not be independent. */
	f->by_growth = p->n >= LEAKS_WINDOWS;
	for (unsigned int i = 0; i < LEAKS_WINDOWS; i++) {
		double from = i * width, to = i + 1 == LEAKS_WINDOWS ? f->span : (i + 1) * width;

		f->born[i] = value_at(p, to, FIELD_ALLOCATED) - value_at(p, from, FIELD_ALLOCATED);
		f->growth[i] = value_at(p, to, FIELD_LIVE) - value_at(p, from, FIELD_LIVE);
	}
	f->live_half = value_at(p, f->span / 2, FIELD_LIVE);
	f->live_end = value_at(p, f->span, FIELD_LIVE);
	f->change_error = change_error(p, f->span / 2, f->span);
	return true;
}

struct facts_sum facts_survivors(const struct facts *f, unsigned int from, unsigned int to)
{
	struct facts_sum sum = {.windows = to > from ? to - from : 0};

	for (unsigned int i = from; i < to && i < LEAKS_WINDOWS; i++) {
		sum.bytes += f->p->born[i].bytes;
		sum.var += f->p->born[i].var;
		sum.samples += f->p->born[i].samples;
	}
	return sum;
}

double facts_sum_of(const double *x, unsigned int from, unsigned int to)
{
	double sum = 0;

	for (unsigned int i = from; i < to && i < LEAKS_WINDOWS; i++)
		sum += x[i];
	return sum;
}

/* How far, in standard errors, it fell from look a to look b; 0: not far enough. */
static double fall(const struct leaks_profile *p, size_t a, size_t b, double most)
{
	double down = (double)p->looks[a].live - p->looks[b].live;
	double error = sqrt((double)p->looks[a].var + p->looks[b].var);

	if (down < FALL_SHARE * most || down <= 0 || down < FALL_ERRORS * error)
		return 0;
	return error > 0 ? down / error : 1e3;
}

struct facts_falls facts_falls_of(const struct leaks_profile *p)
{
	struct facts_falls falls = {.least = INFINITY};
	double most = 0, first = 0;
	size_t high = 0, low = 0;
	bool down = false;

	for (size_t i = 0; i < p->n; i++)
		most = fmax(most, p->looks[i].live);
	for (size_t i = 1; i < p->n; i++) {
		if (down) {
			low = p->looks[i].live < p->looks[low].live ? i : low;
			if (fall(p, i, low, most) > 0) {
				down = false;
				high = i;
			}
			continue;
		}
		high = p->looks[i].live >= p->looks[high].live ? i : high;
		if (fall(p, high, i, most) > 0) {
			falls.least = fmin(falls.least, fall(p, high, i, most));
			falls.last = high;
			first = falls.n++ ? first : p->times[high];
			down = true;
			low = i;
		}
	}
	if (falls.n >= 2)
		falls.period = (p->times[falls.last] - first) / (falls.n - 1);
	return falls;
}
