/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A run as leaks sees it: sites (stacks grouped) with a bounded number of
 * looks at each.  Looks hold sums since attach and what is live, so leaving
 * every other one out, when there are too many, loses resolution only.
 * Memory: about 1.7 KiB a site, LEAKS_MAX_SITES of them.
 */
#ifndef PHT_LEAKS_SERIES_H
#define PHT_LEAKS_SERIES_H

#include "drain.h"
#include "hashmap.h"
#include "leaks_verdict.h"
#include "snapshot.h"

#define LEAKS_LOOKS	64
#define LEAKS_MAX_SITES 50000u

struct leaks_site {
	u32 stack;     /* the one that says most about it */
	double weight; /* of that stack; for choosing it */
	struct leaks_look looks[LEAKS_LOOKS];
	struct estimator live; /* at the end */
	u64 samples, freed_samples;
	bool births_known;
	struct leaks_window born[LEAKS_WINDOWS];
	struct leaks_verdict verdict;
};

struct leaks_series {
	struct stacks *stacks; /* the caller's */
	enum group_by by;
	double times[LEAKS_LOOKS];
	u64 rss[LEAKS_LOOKS];
	struct leaks_look total[LEAKS_LOOKS];
	size_t n;		   /* looks, the newest included */
	size_t offered, stride;	   /* every stride-th is kept; the newest always, until the next */
	struct leaks_site **sites; /* owned */
	size_t nsites, cap;
	struct hashmap index; /* key -> number of the site + 1 */
	u32 *site_of;	      /* stack -> number of the site + 1; 0 = not looked up */
	size_t nsite_of;
	u64 refused; /* rows without a site: there were too many */
};

void leaks_series_init(struct leaks_series *s, struct stacks *stacks, enum group_by by);
void leaks_series_free(struct leaks_series *s);

/* A further look; one that is not later than the last is left out.  0 or -ENOMEM. */
int leaks_series_add(struct leaks_series *s, const struct snapshot *snap);
/* The site of a stack, made if it is new; NULL in *out when there are too many. */
int leaks_series_site(struct leaks_series *s, u32 stack, struct leaks_site **out);

/*
 * At the end: when the live samples of process pid were born.  start: attach,
 * in CLOCK_MONOTONIC seconds.  0 or -errno.
 */
int leaks_series_births(struct leaks_series *s, const struct report *r, const struct drained *d,
			double start, double older_than);

/* Judge all sites, and order them: leaks by their lower bound, the rest by what they hold. */
void leaks_series_judge(struct leaks_series *s, double older_than);

#endif
