/* SPDX-License-Identifier: BSD-2-Clause */
/* A site's history cut into equal parts of time, and what they add up to; pure. */
#ifndef PHT_LEAKS_FACTS_H
#define PHT_LEAKS_FACTS_H

#include "leaks_verdict.h"

struct facts {
	const struct leaks_profile *p;
	double span;		      /* seconds */
	unsigned int old;	      /* this many windows, from the first, are old enough */
	unsigned int half;	      /* where the later half of them begins */
	bool by_growth;		      /* there are looks enough for growth[] */
	double born[LEAKS_WINDOWS];   /* bytes allocated in each */
	double growth[LEAKS_WINDOWS]; /* of the live bytes, in each */
	double live_half, live_end;   /* live bytes after half the time, at the end */
	double change_error;	      /* of live_end - live_half */
};

/* false: nothing to go by. */
bool facts_of(const struct leaks_profile *p, struct facts *f);

struct facts_sum {
	double bytes, var;
	u64 samples;
	unsigned int windows;
};
/* Survivors born in the windows from..to - 1. */
struct facts_sum facts_survivors(const struct facts *f, unsigned int from, unsigned int to);
double facts_sum_of(const double *x, unsigned int from, unsigned int to);

/* Falls of the live bytes that sampling does not explain: at least 2 make a sawtooth. */
struct facts_falls {
	unsigned int n;
	double period; /* 0 with fewer than two */
	double least;  /* the least of them, in standard errors */
	size_t last;   /* look before the last one */
};
struct facts_falls facts_falls_of(const struct leaks_profile *p);

#endif
