// SPDX-License-Identifier: BSD-2-Clause
/*
 * Verdicts on programs with known truth, seen through the sampler with fixed
 * seeds: all of 20 right for the plain ones; for the hard ones, of more seeds,
 * how many are missed is printed and must not get worse.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "leaks_sim.h"

#define SEEDS	   20
#define HARD_SEEDS 200

/* ---- lives of blocks; c is the program's time constant */

static double life_forever(struct sim *s, double now)
{
	return SIM_FOREVER;
}

static double life_random(struct sim *s, double now)
{
	return sim_exponential(s, s->c);
}

static double life_fixed(struct sim *s, double now)
{
	return s->c;
}

static double life_to_gc(struct sim *s, double now)
{
	return s->c * floor(now / s->c + 1) - now;
}

/* ---- programs; what they do is the same kind of thing for each seed, not the same thing */

#define EACH_STEP(s, t) for (double t = 0; t < (s)->span; t += SIM_STEP)

static void leak_linear(struct sim *s)
{
	s->a = sim_between(s, 5e3, 3e4);
	EACH_STEP(s, t)
	sim_burst(s, t, s->a * SIM_STEP, life_forever);
}

/* As requests come in: a rate that keeps changing. */
static void leak_in_bursts(struct sim *s)
{
	double rate = 1;

	s->a = sim_between(s, 1e4, 3e4);
	EACH_STEP(s, t)
	{
		if (sim_uniform(s) < 0.01)
			rate = sim_between(s, 0, 2);
		sim_burst(s, t, rate * s->a * SIM_STEP, life_forever);
	}
}

static void leak_of_churn(struct sim *s, double share)
{
	s->a = sim_between(s, 5e5, 2e6);
	s->c = 2;
	EACH_STEP(s, t)
	{
		sim_burst(s, t, s->a * SIM_STEP * (1 - share), life_random);
		sim_burst(s, t, s->a * SIM_STEP * share, life_forever);
	}
}

static void leak_slow(struct sim *s)
{
	leak_of_churn(s, 0.01);
}

static void churn(struct sim *s)
{
	leak_of_churn(s, 0);
}

static void cache_fills(struct sim *s)
{
	double end = sim_between(s, 0.15, 0.45) * s->span;

	s->a = sim_between(s, 1e4, 5e4);
	for (double t = 0; t < end; t += SIM_STEP)
		sim_burst(s, t, s->a * SIM_STEP, life_forever);
}

/* Keys come at random: ever fewer of them are new. */
static void cache_fills_ever_slower(struct sim *s)
{
	double slower = sim_between(s, 0.08, 0.15) * s->span;

	s->a = sim_between(s, 2e4, 1e5);
	EACH_STEP(s, t)
	sim_burst(s, t, s->a * SIM_STEP * exp(-t / slower), life_forever);
}

static void starts_up(struct sim *s)
{
	s->a = sim_between(s, 5e4, 1e5);
	for (double t = 0; t < 30; t += SIM_STEP)
		sim_burst(s, t, s->a * SIM_STEP, life_forever);
}

static void cache_lru(struct sim *s)
{
	s->c = sim_between(s, 0.02, 0.33) * s->span;
	s->a = sim_between(s, 1e4, 5e4);
	EACH_STEP(s, t)
	sim_burst(s, t, s->a * SIM_STEP, life_fixed);
}

static void cache_lru_slow(struct sim *s)
{
	s->c = sim_between(s, 0.33, 0.7) * s->span;
	s->a = sim_between(s, 1e4, 5e4);
	EACH_STEP(s, t)
	sim_burst(s, t, s->a * SIM_STEP, life_fixed);
}

static void cache_drops_any(struct sim *s)
{
	s->c = sim_between(s, 0.02, 0.3) * s->span;
	s->a = sim_between(s, 1e4, 5e4);
	EACH_STEP(s, t)
	sim_burst(s, t, s->a * SIM_STEP, life_random);
}

static void garbage(struct sim *s)
{
	s->c = sim_between(s, 0.05, 0.3) * s->span;
	s->a = sim_between(s, 5e4, 2e5);
	EACH_STEP(s, t)
	sim_burst(s, t, s->a * SIM_STEP, life_to_gc);
}

/* ---- verdicts */

/* Sums of kinds, to say which are right. */
#define IS(kind) (1u << (kind))
#define LEAK	 (IS(LEAKS_LINEAR) | IS(LEAKS_SLOW))
#define LEVEL	 (IS(LEAKS_FILLED) | IS(LEAKS_STARTUP))

struct kind_of_program {
	const char *name;
	void (*run)(struct sim *s);
	unsigned int right;
	u64 interval;
	bool ages;
	unsigned int seeds;
	unsigned int may_miss;	 /* of the seeds */
	unsigned int may_accuse; /* of the seeds: a leak where there is none */
};

static const struct kind_of_program plain[] = {
	{"linear leak", leak_linear, IS(LEAKS_LINEAR), 64 << 10, true, SEEDS, 0, 0},
	{"leak in bursts", leak_in_bursts, IS(LEAKS_LINEAR), 64 << 10, true, SEEDS, 0, 0},
	{"slow leak, 1 % of churn", leak_slow, IS(LEAKS_SLOW), 64 << 10, true, SEEDS, 0, 0},
	{"churn", churn, IS(LEAKS_STEADY), 64 << 10, true, SEEDS, 0, 0},
	{"cache that fills", cache_fills, IS(LEAKS_FILLED), 64 << 10, true, SEEDS, 0, 0},
	{"start-up", starts_up, IS(LEAKS_STARTUP), 64 << 10, true, SEEDS, 0, 0},
	{"LRU cache", cache_lru, IS(LEAKS_STEADY), 64 << 10, true, SEEDS, 0, 0},
	{"sawtooth", garbage, IS(LEAKS_SAWTOOTH), 64 << 10, true, SEEDS, 0, 0},
	{"capture: churn", churn, IS(LEAKS_STEADY), 64 << 10, false, SEEDS, 0, 0},
	{"capture: cache that fills", cache_fills, IS(LEAKS_FILLED), 64 << 10, false, SEEDS, 0, 0},
	{"capture: start-up", starts_up, IS(LEAKS_STARTUP), 64 << 10, false, SEEDS, 0, 0},
	{"capture: LRU cache", cache_lru, IS(LEAKS_STEADY), 64 << 10, false, SEEDS, 0, 0},
	{"capture: sawtooth", garbage, IS(LEAKS_SAWTOOTH), 64 << 10, false, SEEDS, 0, 0},
};

/* The limits are what was seen, and a little more. */
static const struct kind_of_program hard[] = {
	{"linear leak", leak_linear, LEAK, 64 << 10, true, HARD_SEEDS, 8, 0},
	{"slow leak, 1 %, R 64K", leak_slow, LEAK, 64 << 10, true, HARD_SEEDS, 5, 0},
	{"slow leak, 1 %, R 256K", leak_slow, LEAK, 256 << 10, true, HARD_SEEDS, 90, 0},
	{"slow leak, 1 %, R 512K", leak_slow, LEAK, 512 << 10, true, HARD_SEEDS, 170, 0},
	{"churn, R 512K", churn, IS(LEAKS_STEADY), 512 << 10, true, HARD_SEEDS, 12, 2},
	{"cache, ever slower", cache_fills_ever_slower, LEVEL, 64 << 10, true, HARD_SEEDS, 30, 4},
	{"LRU cache, slow", cache_lru_slow, IS(LEAKS_STEADY), 64 << 10, true, HARD_SEEDS, 20, 2},
	{"cache that drops any", cache_drops_any, IS(LEAKS_STEADY), 64 << 10, true, HARD_SEEDS, 8,
	 4},
	{"start-up, R 512K", starts_up, LEVEL, 512 << 10, true, HARD_SEEDS, 200, 2},
	{"capture: linear leak", leak_linear, LEAK, 64 << 10, false, HARD_SEEDS, 20, 0},
	{"capture: slow leak, 1 %", leak_slow, LEAK, 64 << 10, false, HARD_SEEDS, 150, 0},
	{"capture: drops any", cache_drops_any, IS(LEAKS_STEADY), 64 << 10, false, HARD_SEEDS, 8,
	 4},
};

static void judge(const struct kind_of_program *k, u64 seed, struct leaks_verdict *v)
{
	struct sim_history h;
	struct sim s;

	sim_init(&s, seed, k->interval);
	k->run(&s);
	sim_look(&s, &h);
	h.profile.births_known = k->ages;
	leaks_judge(&h.profile, v);
	leaks_correct(v, 1);
	sim_free(&s);
}

static void judge_all(const struct kind_of_program *k)
{
	unsigned int missed = 0, accused = 0;

	for (unsigned int seed = 0; seed < k->seeds; seed++) {
		struct leaks_verdict v;

		judge(k, seed, &v);
		assert_true(v.per_hour.low <= v.per_hour.value &&
			    v.per_hour.value <= v.per_hour.high);
		missed += !(k->right & IS(v.kind));
		accused += leaks_is_leak(v.kind) && !(k->right & IS(v.kind));
		if (k->seeds == SEEDS && !(k->right & IS(v.kind)))
			print_message("  seed %u: %s, p %g, %s\n", seed, leaks_kind_name(v.kind),
				      v.p, v.why ? v.why : "");
	}
	print_message("%-28s %u of %u right, %u falsely called a leak\n", k->name,
		      k->seeds - missed, k->seeds, accused);
	assert_true(missed <= k->may_miss);
	assert_true(accused <= k->may_accuse);
}

static void test_plain_programs(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
		judge_all(&plain[i]);
}

static void test_hard_programs(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(hard); i++)
		judge_all(&hard[i]);
}

/* The printed interval of a leak's rate holds the truth about as often as it says. */
static void test_rate_of_a_leak(void **state)
{
	const struct kind_of_program k = {"", leak_linear, 0, 64 << 10, true, 0, 0, 0};
	unsigned int held = 0;

	for (unsigned int seed = 0; seed < HARD_SEEDS; seed++) {
		struct leaks_verdict v;
		struct sim s;
		double truth;

		sim_init(&s, seed, k.interval);
		truth = sim_between(&s, 5e3, 3e4) * 3600;
		sim_free(&s);
		judge(&k, seed, &v);
		held += v.per_hour.low <= truth && truth <= v.per_hour.high;
	}
	print_message("the rate is in its 95 %% interval in %u of %u\n", held, HARD_SEEDS);
	assert_true(held >= HARD_SEEDS * 91 / 100);
}

/* Nothing but noise at many sites: hardly ever is any of them accused. */
static void test_many_sites(void **state)
{
	const struct kind_of_program k = {"", cache_drops_any, 0, 64 << 10, true, 0, 0, 0};
	struct leaks_verdict v[HARD_SEEDS];
	unsigned int tested = 0, accused = 0;

	for (unsigned int i = 0; i < HARD_SEEDS; i++) {
		judge(&k, 5000 + i, &v[i]);
		tested += v[i].tested;
	}
	for (unsigned int i = 0; i < HARD_SEEDS; i++) {
		leaks_correct(&v[i], tested);
		if (leaks_is_leak(v[i].kind))
			print_message("  site %u accused: p %g, %u tested\n", i, v[i].p, tested);
		accused += leaks_is_leak(v[i].kind);
	}
	assert_int_equal(accused, 0);
}

/* ---- what the sampler does not make */

static void fill_looks(struct leaks_look *looks, double *times, size_t n, double (*live)(double))
{
	for (size_t i = 0; i < n; i++) {
		times[i] = 10.0 * (double)(i + 1);
		looks[i] = (struct leaks_look){.live = live(times[i]), .allocated = 2e4 * times[i]};
	}
}

static double ever_more(double t)
{
	return 1e4 * t;
}

/* One buffer that is enlarged again and again: always young, and a leak. */
static void test_growing_block(void **state)
{
	struct leaks_look looks[60];
	double times[60];
	struct leaks_profile p = {.times = times,
				  .looks = looks,
				  .n = 60,
				  .samples = 60,
				  .live_samples = 1,
				  .births_known = true};
	struct leaks_verdict v;

	fill_looks(looks, times, 60, ever_more);
	p.born[LEAKS_WINDOWS - 1] = (struct leaks_window){.bytes = 6e6, .samples = 1};
	leaks_judge(&p, &v);
	assert_int_equal(v.kind, LEAKS_LINEAR);
	assert_true(fabs(v.per_hour.value - 3.6e7) < 1e4);
}

/* Too little to go by is said, whatever is missing. */
static void test_not_enough(void **state)
{
	struct leaks_look looks[60];
	double times[60];
	struct leaks_profile p = {.times = times, .looks = looks, .births_known = true};
	struct leaks_verdict v;

	leaks_judge(&p, &v);
	assert_int_equal(v.kind, LEAKS_NOT_ENOUGH);
	fill_looks(looks, times, 60, ever_more);
	for (p.n = 1; p.n <= 60; p.n++) {
		leaks_judge(&p, &v); /* no sample */
		assert_int_equal(v.kind, LEAKS_NOT_ENOUGH);
	}
	p.n = 3;
	p.samples = p.live_samples = 100;
	leaks_judge(&p, &v); /* nothing survived, few looks */
	assert_false(leaks_is_leak(v.kind));
	p.n = 60;
	p.older_than = 1e9; /* nothing can be so old */
	leaks_judge(&p, &v);
	assert_false(v.by_age);
}

static void test_chance_of_many(void **state)
{
	struct leaks_verdict v = {.kind = LEAKS_LINEAR, .tested = true, .p = 0.003};

	leaks_correct(&v, 5);
	assert_int_equal(v.kind, LEAKS_LINEAR);
	assert_true(fabs(v.p - 0.015) < 1e-12);
	leaks_correct(&v, 5);
	assert_int_equal(v.kind, LEAKS_GROWING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain_programs), cmocka_unit_test(test_hard_programs),
		cmocka_unit_test(test_rate_of_a_leak), cmocka_unit_test(test_many_sites),
		cmocka_unit_test(test_growing_block),  cmocka_unit_test(test_not_enough),
		cmocka_unit_test(test_chance_of_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
