/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that allocate at one site, seen through the sampler: a truth in, a
 * struct leaks_profile out, the same for the same seed.
 */
#ifndef LEAKS_SIM_H
#define LEAKS_SIM_H

#include <math.h>
#include <string.h>

#include "estimate.h"
#include "leaks_verdict.h"
#include "sampling_tables.h"

#define SIM_SPAN    600.0 /* seconds watched */
#define SIM_LOOKS   60
#define SIM_STEP    0.1
#define SIM_FOREVER 1e30

struct sim_block {
	double birth, death;
	u64 size;
};

struct sim {
	__u64 rng, truth_rng; /* of the sampler, of the program */
	__s64 countdown;
	u32 log_table[PHT_LOG_TABLE];
	u64 interval;
	struct sim_block *samples; /* owned */
	size_t n, cap;
	double span;
	/* For the program's use. */
	double a, b, c;
};

static inline double sim_uniform(struct sim *s)
{
	return ((pht_rng_next(&s->truth_rng) >> 11) + 0.5) * 0x1p-53;
}

static inline double sim_between(struct sim *s, double low, double high)
{
	return low + (high - low) * sim_uniform(s);
}

static inline double sim_exponential(struct sim *s, double mean)
{
	return -mean * log(sim_uniform(s));
}

static inline void sim_init(struct sim *s, u64 seed, u64 interval)
{
	*s = (struct sim){
		.rng = pht_rng_seed(seed, 1),
		.truth_rng = pht_rng_seed(seed, 2),
		.interval = interval,
		.span = SIM_SPAN,
	};
	sampling_tables_fill(s->log_table, NULL);
	s->countdown = pht_exp_interval(pht_rng_next(&s->rng), s->interval, s->log_table);
}

static inline void sim_free(struct sim *s)
{
	free(s->samples);
}

static inline void sim_allocate(struct sim *s, double birth, double death, u64 size)
{
	if (!pht_countdown(&s->countdown, size, s->interval, &s->rng, s->log_table))
		return;
	if (s->n == s->cap) {
		s->cap = s->cap ? s->cap * 2 : 1024;
		s->samples = reallocarray(s->samples, s->cap, sizeof(*s->samples));
		if (!s->samples)
			abort();
	}
	s->samples[s->n++] = (struct sim_block){birth, death, size};
}

/* Sizes of a site are seldom all the same. */
static inline u64 sim_size(struct sim *s)
{
	return 64 + (u64)(sim_uniform(s) * sim_uniform(s) * 4000);
}

/* About bytes, in blocks, born now and living as long as life says. */
static inline void sim_burst(struct sim *s, double now, double bytes,
			     double (*life)(struct sim *s, double now))
{
	for (double done = 0; done < bytes;) {
		u64 size = sim_size(s);

		/* The last one is only in by chance, so that small amounts are right on average. */
		if (done + size > bytes && sim_uniform(s) > (bytes - done) / size)
			break;
		sim_allocate(s, now, now + life(s, now), size);
		done += size;
	}
}

struct sim_history {
	double times[SIM_LOOKS];
	struct leaks_look looks[SIM_LOOKS];
	struct leaks_profile profile;
};

static inline void sim_count(struct sim *s, struct sim_history *h, const struct sim_block *b)
{
	double p = estimate_probability(b->size, s->interval), w = b->size / p;

	h->profile.samples++;
	for (size_t i = 0; i < SIM_LOOKS; i++) {
		if (b->birth > h->times[i])
			continue;
		h->looks[i].allocated += w;
		if (b->death > h->times[i]) {
			h->looks[i].live += w;
			h->looks[i].var += (1 - p) * w * w;
		}
	}
	if (b->birth <= s->span && b->death > s->span) {
		unsigned int i = (unsigned int)(b->birth / s->span * LEAKS_WINDOWS);
		struct leaks_window *win =
			&h->profile.born[i < LEAKS_WINDOWS ? i : LEAKS_WINDOWS - 1];

		win->bytes += w;
		win->var += (1 - p) * w * w;
		win->samples++;
		h->profile.live_samples++;
	}
}

static inline void sim_look(struct sim *s, struct sim_history *h)
{
	memset(h, 0, sizeof(*h));
	for (size_t i = 0; i < SIM_LOOKS; i++)
		h->times[i] = s->span * (i + 1) / SIM_LOOKS;
	h->profile = (struct leaks_profile){
		.times = h->times, .looks = h->looks, .n = SIM_LOOKS, .births_known = true};
	for (size_t i = 0; i < s->n; i++)
		sim_count(s, h, &s->samples[i]);
}

#endif
