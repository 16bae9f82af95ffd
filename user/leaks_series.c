// SPDX-License-Identifier: BSD-2-Clause
#include "leaks_series.h"

#include <errno.h>
#include <math.h>
#include <string.h>

void leaks_series_init(struct leaks_series *s, struct stacks *stacks, enum group_by by)
{
	*s = (struct leaks_series){.stacks = stacks, .by = by, .stride = 1};
}

void leaks_series_free(struct leaks_series *s)
{
	for (size_t i = 0; i < s->nsites; i++)
		free(s->sites[i]);
	free(s->sites);
	free(s->site_of);
	hashmap_clear(&s->index, NULL);
	*s = (struct leaks_series){0};
}

/* Strings are interned in the store, so their addresses identify them. */
static void key_of(const struct leaks_series *s, u32 stack, u64 *a, u64 *b)
{
	const struct frame *f = stacks_frame(s->stacks, stacks_top(s->stacks, stack));

	*a = s->by == GROUP_TRACEBACK ? stack : (uintptr_t)f->file;
	*b = s->by == GROUP_LINE       ? (u32)f->line
	     : s->by == GROUP_FUNCTION ? (uintptr_t)f->function
				       : 0;
}

static int new_site(struct leaks_series *s, u32 stack)
{
	struct leaks_site *site;

	if (s->nsites == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 256;
		void *more = reallocarray(s->sites, cap, sizeof(*s->sites));

		if (!more)
			return -ENOMEM;
		s->sites = more;
		s->cap = cap;
	}
	site = calloc(1, sizeof(*site));
	if (!site)
		return -ENOMEM;
	site->stack = stack;
	site->weight = -1;
	s->sites[s->nsites++] = site;
	return 0;
}

static int room_for_stacks(struct leaks_series *s, u32 stack)
{
	size_t n = s->nsite_of ? s->nsite_of : 1024;
	u32 *more;

	while (n <= stack)
		n *= 2;
	if (n == s->nsite_of)
		return 0;
	more = reallocarray(s->site_of, n, sizeof(*more));
	if (!more)
		return -ENOMEM;
	memset(more + s->nsite_of, 0, (n - s->nsite_of) * sizeof(*more));
	s->site_of = more;
	s->nsite_of = n;
	return 0;
}

int leaks_series_site(struct leaks_series *s, u32 stack, struct leaks_site **out)
{
	int err = room_for_stacks(s, stack);
	uintptr_t number;
	u64 a, b;

	if (err)
		return err;
	*out = NULL;
	if (!s->site_of[stack]) {
		key_of(s, stack, &a, &b);
		number = (uintptr_t)hashmap_get(&s->index, a, b);
		if (!number && s->nsites >= LEAKS_MAX_SITES)
			return 0;
		if (!number) {
			err = new_site(s, stack);
			number = s->nsites;
			if (!err)
				err = hashmap_put(&s->index, a, b, (void *)number);
			if (err)
				return err;
		}
		s->site_of[stack] = number;
	}
	*out = s->sites[s->site_of[stack] - 1];
	return 0;
}

/* Every other look, from the second on; there are LEAKS_LOOKS of them. */
static void thin(struct leaks_series *s)
{
	for (size_t i = 0; i < LEAKS_LOOKS / 2; i++) {
		size_t from = 2 * i + 1;

		s->times[i] = s->times[from];
		s->rss[i] = s->rss[from];
		s->total[i] = s->total[from];
		for (size_t k = 0; k < s->nsites; k++)
			s->sites[k]->looks[i] = s->sites[k]->looks[from];
	}
	s->n = LEAKS_LOOKS / 2;
	s->stride *= 2;
}

/* Where the next look goes: over the newest one if that is not to be kept. */
static size_t next_slot(struct leaks_series *s)
{
	size_t kept = s->n;

	if (kept && s->offered % s->stride)
		kept--;
	if (kept == LEAKS_LOOKS) {
		thin(s);
		kept = s->n;
	}
	s->offered++;
	s->n = kept + 1;
	return kept;
}

static void add_look(struct leaks_look *look, const struct snap_row *row)
{
	look->live += row->live.bytes;
	look->var += row->live.var;
	look->allocated += row->allocated_bytes;
}

static int add_row(struct leaks_series *s, const struct snap_row *row, size_t slot)
{
	struct leaks_site *site;
	int err = leaks_series_site(s, row->stack, &site);

	if (err)
		return err;
	add_look(&s->total[slot], row);
	if (!site) {
		s->refused++;
		return 0;
	}
	add_look(&site->looks[slot], row);
	site->live.bytes += row->live.bytes;
	site->live.blocks += row->live.blocks;
	site->live.var += row->live.var;
	site->live.samples += row->live.samples;
	site->samples += row->samples;
	site->freed_samples += row->freed_samples;
	if (row->live.bytes > site->weight) {
		site->weight = row->live.bytes;
		site->stack = row->stack;
	}
	return 0;
}

int leaks_series_add(struct leaks_series *s, const struct snapshot *snap)
{
	size_t slot;
	int err = 0;

	if (!(snap->duration > 0) || !isfinite(snap->duration) ||
	    (s->n && !(snap->duration > s->times[s->n - 1])))
		return 0;
	slot = next_slot(s);
	s->times[slot] = snap->duration;
	s->rss[slot] = snap->rss;
	s->total[slot] = (struct leaks_look){0};
	for (size_t i = 0; i < s->nsites; i++) {
		struct leaks_site *site = s->sites[i];

		site->looks[slot] = (struct leaks_look){0};
		site->live = (struct estimator){0};
		site->samples = site->freed_samples = 0;
		site->weight = -1;
	}
	for (size_t i = 0; i < snap->nrows && !err; i++)
		err = add_row(s, &snap->rows[i], slot);
	return err;
}

static int compare_sites(const void *pa, const void *pb)
{
	const struct leaks_site *a = *(struct leaks_site *const *)pa;
	const struct leaks_site *b = *(struct leaks_site *const *)pb;
	bool leak = leaks_is_leak(a->verdict.kind);
	double x = a->live.bytes, y = b->live.bytes;

	if (leak != leaks_is_leak(b->verdict.kind))
		return leak ? -1 : 1;
	if (leak) {
		x = a->verdict.per_hour.low;
		y = b->verdict.per_hour.low;
	}
	if (x != y)
		return x < y ? 1 : -1;
	return (a->stack > b->stack) - (a->stack < b->stack);
}

/* Of many sites some look like leaks by chance. */
static void correct(struct leaks_series *s)
{
	size_t tested = 0;

	for (size_t i = 0; i < s->nsites; i++)
		tested += s->sites[i]->verdict.tested;
	for (size_t i = 0; i < s->nsites; i++)
		leaks_correct(&s->sites[i]->verdict, tested);
}

void leaks_series_judge(struct leaks_series *s, double older_than)
{
	for (size_t i = 0; i < s->nsites; i++) {
		struct leaks_site *site = s->sites[i];
		struct leaks_profile p = {
			.times = s->times,
			.looks = site->looks,
			.n = s->n,
			.older_than = older_than,
			.samples = site->samples,
			.live_samples = site->live.samples,
			.births_known = site->births_known,
		};

		memcpy(p.born, site->born, sizeof(p.born));
		leaks_judge(&p, &site->verdict);
	}
	correct(s);
	if (s->nsites)
		qsort(s->sites, s->nsites, sizeof(struct leaks_site *), compare_sites);
}
