/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a site's history says about it; pure.
 *
 * The main evidence is when the blocks that are live at the end were born.
 * Sampled blocks are independent of each other, so the numbers of survivors
 * of different times of birth are, too: a leak has some of every age, a cache
 * that has filled up only old ones, one that drops its oldest only young ones.
 * What is younger than older_than is not looked at, so churn does not blur it.
 * Where ages are not known (a capture, memory counted by pools or pages) the
 * increments of the live bytes take their place.
 */
#ifndef PHT_LEAKS_VERDICT_H
#define PHT_LEAKS_VERDICT_H

#include "report.h"

#define LEAKS_WINDOWS 16u

enum leaks_kind {
	LEAKS_LINEAR,	  /* keeps growing; much of what it allocates stays */
	LEAKS_SLOW,	  /* keeps growing by a small part of what it allocates */
	LEAKS_GROWING,	  /* grew, but not (yet) as a leak does: see why */
	LEAKS_FILLED,	  /* grew, then levelled off */
	LEAKS_STARTUP,	  /* grew at the beginning only */
	LEAKS_SAWTOOTH,	  /* grows and falls again and again */
	LEAKS_STEADY,	  /* as much is freed as is allocated */
	LEAKS_NOT_ENOUGH, /* too few samples, or too short */
	LEAKS_KINDS,
};

/* For programs ("linear_leak") and for people ("linear leak"). */
const char *leaks_kind_key(enum leaks_kind kind);
const char *leaks_kind_name(enum leaks_kind kind);
static inline bool leaks_is_leak(enum leaks_kind kind)
{
	return kind == LEAKS_LINEAR || kind == LEAKS_SLOW;
}

/* A site at one moment. */
struct leaks_look {
	float live, var;  /* bytes, and the variance of that estimate */
	double allocated; /* since attach */
};

/* What is live at the end and was born in one of LEAKS_WINDOWS equal parts of the time. */
struct leaks_window {
	double bytes, var;
	u64 samples;
};

struct leaks_profile {
	const double *times; /* of looks: seconds since attach, ascending */
	const struct leaks_look *looks;
	size_t n;
	double older_than; /* seconds; 0 = a quarter of the time */
	u64 samples;	   /* taken since attach */
	u64 live_samples;  /* of them, live at the end */
	bool births_known;
	struct leaks_window born[LEAKS_WINDOWS];
};

struct leaks_verdict {
	enum leaks_kind kind;
	const char *why;	  /* a reason in words, or NULL */
	bool by_age;		  /* births were looked at */
	bool tested;		  /* counts in leaks_correct() */
	double p;		  /* chance to see this without it being so; < 0 = not tested */
	struct estimate per_hour; /* bytes; of what is no leak, high is the bound */
	struct estimate old;	  /* live bytes older than older_than; all < 0 = not known */
	double survival; /* of the bytes allocated that long ago, the share still live; < 0 */
	double turnover; /* seconds that a byte lives on average; < 0 = not known */
	double period;	 /* seconds from fall to fall; < 0 = none */
	unsigned int falls;
	double level_after; /* seconds after which nine tenths were there; < 0 */
};

void leaks_judge(const struct leaks_profile *p, struct leaks_verdict *v);
/*
 * Of many sites some look like leaks by chance: takes back the verdict on one
 * that is not beyond it (Bonferroni, LEAKS_CHANCE for all tested ones together).
 */
void leaks_correct(struct leaks_verdict *v, size_t tested);
#define LEAKS_CHANCE 0.02

/* The default of older_than in a run of so many seconds. */
#define LEAKS_OLD_SHARE 0.25

#endif
