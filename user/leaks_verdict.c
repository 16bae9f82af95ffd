// SPDX-License-Identifier: BSD-2-Clause
#include "leaks_verdict.h"

#include <math.h>

#include "leaks_facts.h"
#include "leaks_stats.h"

#define MIN_SAMPLES   8	    /* a site with fewer says nothing */
#define MIN_OLD	      5	    /* survivors, to speak of a leak */
#define MIN_FREED     5	    /* freed samples, to speak of turnover */
#define SLOW_BELOW    0.1   /* a leak of less than this share of what is allocated is slow */
#define SURE	      2.326 /* standard errors: one in a hundred by chance */
#define LEVEL	      0.25  /* growth that has come down to this share has levelled off */
#define SLOWER	      0.5   /* and to this share is slower */
#define SAME_SURVIVAL 0.7   /* old blocks as likely to be there as younger ones */
#define MOSTLY_KEPT   0.5   /* where so much of it all is still there, lives are too long to see */
#define RANDOM_P      0.01
#define BY_GROWTH_P   0.001 /* without ages, or against them, evidence must be better */
#define SAME_GROWTH   0.7
#define STARTUP_SHARE 0.125
#define BIRTHS_GO_ON  0.25

static const struct {
	const char *key, *name;
} kinds[LEAKS_KINDS] = {
	[LEAKS_LINEAR] = {"linear_leak", "linear leak"},
	[LEAKS_SLOW] = {"slow_leak", "slow leak"},
	[LEAKS_GROWING] = {"growing", "growing"},
	[LEAKS_FILLED] = {"cache_filled", "filled, level"},
	[LEAKS_STARTUP] = {"startup", "start-up only"},
	[LEAKS_SAWTOOTH] = {"sawtooth", "sawtooth"},
	[LEAKS_STEADY] = {"steady", "steady turnover"},
	[LEAKS_NOT_ENOUGH] = {"not_enough_data", "not enough data"},
};

const char *leaks_kind_key(enum leaks_kind kind)
{
	return kinds[kind].key;
}

const char *leaks_kind_name(enum leaks_kind kind)
{
	return kinds[kind].name;
}

static double per_hour(const struct facts *f, double bytes, unsigned int windows)
{
	return windows ? bytes / (f->span / LEAKS_WINDOWS * windows) * 3600 : 0;
}

/* Bytes that one sample stands for, on average. */
static double per_sample(const struct facts *f)
{
	return facts_sum_of(f->born, 0, LEAKS_WINDOWS) / (double)f->p->samples;
}

/* Growth per window -> bytes an hour; the scatter and what sampling must scatter, the larger. */
static void set_rate(const struct facts *f, struct leaks_verdict *v, const struct stats_mean *m,
		     double sampling_error)
{
	double half = stats_student_95(m->freedom) * fmax(m->error, sampling_error);

	v->per_hour = (struct estimate){per_hour(f, m->mean, 1), per_hour(f, m->mean - half, 1),
					per_hour(f, m->mean + half, 1)};
}

/* Blocks of the earlier half are less likely to be there than those of the later. */
static bool old_ones_die(const struct facts *f, const struct facts_sum *early,
			 const struct facts_sum *late)
{
	double born_early = facts_sum_of(f->born, 1, f->half);
	double born_late = facts_sum_of(f->born, f->half, f->old);
	double was, is, error;

	if (!(born_early > 0) || !(born_late > 0))
		return false;
	was = SAME_SURVIVAL * late->bytes / born_late;
	is = early->bytes / born_early;
	error = sqrt(early->var / (born_early * born_early) +
		     SAME_SURVIVAL * SAME_SURVIVAL * late->var / (born_late * born_late));
	return stats_ratio(is - was, error) < -SURE;
}

/* Mean life, in spans, of blocks that die at random, if that share of all is there at the end. */
static double random_life(double share)
{
	double low = 0, high = 2;

	for (int i = 0; i < 50; i++) {
		double middle = (low + high) / 2;

		if (middle * -expm1(-1 / middle) < share)
			low = middle;
		else
			high = middle;
	}
	return high;
}

/*
 * A cache that drops entries at random has survivors of every age, ever fewer.
 * The chance that one with as much live at the end has so many old ones.
 */
static double random_drops(const struct facts *f, const struct facts_sum *early)
{
	double allocated = facts_sum_of(f->born, 0, LEAKS_WINDOWS), expected = 0, life;

	if (!(allocated > 0) || f->live_end >= MOSTLY_KEPT * allocated)
		return 0;
	life = random_life(f->live_end / allocated) * LEAKS_WINDOWS;
	for (unsigned int i = 1; i < f->half; i++)
		expected += f->born[i] * exp(-(LEAKS_WINDOWS - i - 0.5) / life);
	return stats_poisson_tail(early->samples, expected / per_sample(f));
}

/* Standard errors by which the later growth is below share times the earlier. */
static double slower_by(const struct facts_sum *early, const struct facts_sum *late, double share)
{
	double e = early->windows ? 1.0 / early->windows : 0;
	double l = late->windows ? 1.0 / late->windows : 0;

	return stats_ratio(share * early->bytes * e - late->bytes * l,
			   sqrt(share * share * early->var * e * e + late->var * l * l));
}

static void set_survival(struct leaks_verdict *v, double kept, double born)
{
	v->survival = born > 0 ? fmax(0, fmin(1, kept / born)) : -1;
}

/* None among the samples still leaves room for about three of them (exp(-3) is 5 %). */
static double room_of(const struct facts *f, u64 samples)
{
	return samples ? 0 : 3 * per_sample(f);
}

/* Survivors of every age beyond older_than: a leak. */
static bool leak_by_age(const struct facts *f, struct leaks_verdict *v)
{
	struct facts_sum early = facts_survivors(f, 1, f->half);
	struct facts_sum late = facts_survivors(f, f->half, f->old);
	double bytes[LEAKS_WINDOWS], drops, p;
	struct stats_mean all, later;

	for (unsigned int i = 0; i < LEAKS_WINDOWS; i++)
		bytes[i] = f->p->born[i].bytes;
	all = stats_mean_of(bytes + 1, f->old - 1);
	later = stats_mean_of(bytes + f->half, f->old - f->half);
	set_rate(f, v, &all, sqrt(early.var + late.var) / (f->old - 1));
	set_survival(v, early.bytes + late.bytes, facts_sum_of(f->born, 1, f->old));
	v->per_hour.high += per_hour(f, room_of(f, early.samples + late.samples), f->old - 1);
	if (early.samples + late.samples < MIN_OLD)
		return false;
	v->tested = true;
	drops = random_drops(f, &early);
	if (old_ones_die(f, &early, &late) || drops > RANDOM_P) {
		v->why = "its older blocks are freed";
		return false;
	}
	if (slower_by(&early, &late, SLOWER) > SURE) {
		v->why = "it grows more slowly than before";
		return false;
	}
	p = fmax(drops, fmax(stats_mean_above_zero(&all), stats_mean_above_zero(&later)));
	v->p = p;
	if (p >= LEAKS_CHANCE)
		return false;
	v->kind = v->survival >= 0 && v->survival < SLOW_BELOW ? LEAKS_SLOW : LEAKS_LINEAR;
	return true;
}

/*
 * Live bytes that keep growing, whatever the age of the blocks: one block that
 * is enlarged again and again is always young.
 */
static bool leak_by_growth(const struct facts *f, struct leaks_verdict *v, double limit)
{
	const unsigned int from = LEAKS_WINDOWS / 4, middle = from + 3 * LEAKS_WINDOWS / 8;
	struct stats_mean all, early, late;
	double p;

	if (!f->by_growth)
		return false;
	all = stats_mean_of(f->growth + from, LEAKS_WINDOWS - from);
	early = stats_mean_of(f->growth + from, middle - from);
	late = stats_mean_of(f->growth + middle, LEAKS_WINDOWS - middle);
	p = fmax(stats_mean_above_zero(&all), stats_mean_above_zero(&late));
	if (!v->by_age) {
		v->p = p;
		v->tested = true;
		set_rate(f, v, &all, 0);
		set_survival(v, all.mean * (LEAKS_WINDOWS - from),
			     facts_sum_of(f->born, from, LEAKS_WINDOWS));
	}
	if (p >= limit)
		return false;
	if (late.mean < SAME_GROWTH * early.mean) {
		v->why = "it grows more slowly than before";
		return false;
	}
	set_rate(f, v, &all, 0);
	set_survival(v, all.mean * (LEAKS_WINDOWS - from),
		     facts_sum_of(f->born, from, LEAKS_WINDOWS));
	v->p = p;
	v->tested = true;
	v->kind = v->survival >= 0 && v->survival < SLOW_BELOW ? LEAKS_SLOW : LEAKS_LINEAR;
	return true;
}

static bool sawtooth(const struct facts *f, struct leaks_verdict *v)
{
	struct facts_falls falls = facts_falls_of(f->p);

	v->falls = falls.n;
	if (falls.n < 2)
		return false;
	v->kind = LEAKS_SAWTOOTH;
	v->period = falls.period;
	v->p = fmin(1, falls.n * stats_normal_tail(falls.least));
	return true;
}

/* Nine tenths of x came in the windows up to this one. */
static double level_after(const struct facts *f, const double *x, unsigned int n)
{
	double all = facts_sum_of(x, 0, n), sum = 0;

	for (unsigned int i = 0; i < n; i++) {
		sum += x[i];
		if (sum >= 0.9 * all)
			return f->span / LEAKS_WINDOWS * (i + 1);
	}
	return f->span;
}

static void set_filled(const struct facts *f, struct leaks_verdict *v, double errors, double level)
{
	v->level_after = level;
	v->kind = level <= f->span * STARTUP_SHARE + 1e-9 ? LEAKS_STARTUP : LEAKS_FILLED;
	v->p = stats_normal_tail(errors);
	v->why = NULL;
}

/* What is there is old, and few were added lately. */
static bool filled_by_age(const struct facts *f, struct leaks_verdict *v)
{
	struct facts_sum early = facts_survivors(f, 0, f->half);
	struct facts_sum late = facts_survivors(f, f->half, f->old);
	struct facts_sum all = facts_survivors(f, 0, LEAKS_WINDOWS);
	double bytes[LEAKS_WINDOWS], errors;

	if (early.samples < MIN_OLD || early.bytes + late.bytes < all.bytes / 2)
		return false;
	errors = slower_by(&early, &late, SLOWER);
	if (errors < SURE || late.bytes / late.windows > LEVEL * early.bytes / early.windows)
		return false;
	for (unsigned int i = 0; i < LEAKS_WINDOWS; i++)
		bytes[i] = f->p->born[i].bytes;
	set_filled(f, v, errors, level_after(f, bytes, f->old));
	return true;
}

static bool births_go_on(const struct facts *f)
{
	double early = facts_sum_of(f->born, 1, LEAKS_WINDOWS / 2);
	double late = facts_sum_of(f->born, LEAKS_WINDOWS / 2 + 1, LEAKS_WINDOWS);

	return late > 0 && late >= BIRTHS_GO_ON * early;
}

/* Without ages: no more than at half time, and hardly anything allocated since. */
static bool filled_by_growth(const struct facts *f, struct leaks_verdict *v)
{
	double change = f->live_end - f->live_half;
	double errors = stats_ratio(SLOWER * f->live_half - change, f->change_error);

	if (!f->by_growth || births_go_on(f) || !(f->live_half > 0))
		return false;
	if (change > LEVEL * f->live_half || errors < SURE)
		return false;
	set_filled(f, v, errors, level_after(f, f->growth, LEAKS_WINDOWS));
	return true;
}

static bool steady(const struct facts *f, struct leaks_verdict *v)
{
	double change = f->live_end - f->live_half, error = f->change_error;
	double rate = facts_sum_of(f->born, LEAKS_WINDOWS / 2, LEAKS_WINDOWS) / (f->span / 2);

	if (f->p->samples < f->p->live_samples + MIN_FREED)
		return false;
	if (!births_go_on(f) || change > LEVEL * f->live_half + 2 * error)
		return false;
	v->turnover = rate > 0 ? (f->live_half + f->live_end) / 2 / rate : -1;
	v->kind = LEAKS_STEADY;
	v->p = -1;
	v->why = NULL;
	return true;
}

static void set_growing(const struct facts *f, struct leaks_verdict *v)
{
	double change = f->live_end - f->live_half;

	if (v->falls == 1)
		v->why = "it fell once, which may repeat";
	v->kind = change > 2 * f->change_error && change > 0 ? LEAKS_GROWING : LEAKS_NOT_ENOUGH;
	if (!v->why)
		v->why = v->kind == LEAKS_GROWING ? "not evenly, or not for long enough"
						  : "too few samples, or too short a time";
}

/*
 * How much what is no leak may grow all the same: what its old survivors say,
 * or, where it has some that will die yet, the change since half time.
 */
static void set_bound(const struct facts *f, struct leaks_verdict *v)
{
	double change = f->live_end - f->live_half, half = 1.96 * f->change_error;
	double most = fmax(0, change) + half + room_of(f, f->p->live_samples);

	if (v->by_age && facts_survivors(f, 1, f->old).samples < MIN_OLD)
		return;
	v->per_hour = (struct estimate){per_hour(f, change, LEAKS_WINDOWS / 2),
					per_hour(f, change - half, LEAKS_WINDOWS / 2),
					per_hour(f, most, LEAKS_WINDOWS / 2)};
}

static void set_old(const struct facts *f, struct leaks_verdict *v)
{
	struct facts_sum old = facts_survivors(f, 0, f->old);
	double half = 1.96 * sqrt(old.var);

	v->old = (struct estimate){old.bytes, fmax(0, old.bytes - half), old.bytes + half};
}

void leaks_judge(const struct leaks_profile *p, struct leaks_verdict *v)
{
	struct facts f;
	bool known;

	*v = (struct leaks_verdict){
		.kind = LEAKS_NOT_ENOUGH,
		.p = -1,
		.old = {-1, -1, -1},
		.survival = -1,
		.turnover = -1,
		.period = -1,
		.level_after = -1,
		.why = "too few samples, or too short a time",
	};
	if (!facts_of(p, &f) || p->samples < MIN_SAMPLES)
		return;
	v->why = NULL;
	v->by_age = p->births_known && f.old >= LEAKS_WINDOWS / 4;
	if (v->by_age) {
		set_old(&f, v);
		known = leak_by_age(&f, v) || sawtooth(&f, v) || filled_by_age(&f, v) ||
			steady(&f, v) || leak_by_growth(&f, v, BY_GROWTH_P);
	} else {
		known = sawtooth(&f, v) || leak_by_growth(&f, v, LEAKS_CHANCE) ||
			filled_by_growth(&f, v) || steady(&f, v);
	}
	if (!known)
		set_growing(&f, v);
	if (!leaks_is_leak(v->kind))
		set_bound(&f, v);
}

void leaks_correct(struct leaks_verdict *v, size_t tested)
{
	if (!v->tested || !leaks_is_leak(v->kind))
		return;
	v->p = fmin(1, v->p * (double)tested);
	if (v->p < LEAKS_CHANCE)
		return;
	v->kind = LEAKS_GROWING;
	v->why = "of so many sites one may look like this by chance";
}
