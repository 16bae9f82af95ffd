// SPDX-License-Identifier: BSD-2-Clause
/* When what is live was allocated. */
#include <errno.h>

#include "estimate.h"
#include "leaks_series.h"
#include "symbolize.h"

struct births {
	struct leaks_series *series;
	const struct report *report;
	struct hashmap stacks; /* stack id of the kernel's -> stack number + 1 */
	double *old;	       /* stack number -> live bytes older than the limit */
	size_t nold;
	double start, span, limit;
};

static int stack_of(struct births *b, u64 id, u32 *out)
{
	uintptr_t known = (uintptr_t)hashmap_get(&b->stacks, id, 0);
	const struct sym_stack *sym;
	int err;

	if (known) {
		*out = known - 1;
		return 0;
	}
	sym = symbolizer_get(b->report->symbols, id);
	if (!sym)
		sym = symbolizer_lost(b->report->symbols);
	err = stacks_add(b->series->stacks, sym->frames, sym->nframes, sym->truncated, out);
	return err ? err : hashmap_put(&b->stacks, id, 0, (void *)((uintptr_t)*out + 1));
}

/* Of pools and pages the time is when they were taken, not when their content was. */
static bool age_means_something(const struct pht_live *v)
{
	return v->domain != PHT_DOM_POOL && v->domain != PHT_DOM_FAULT;
}

static void count(struct leaks_site *site, double share, const struct estimator *e)
{
	unsigned int i = share <= 0   ? 0
			 : share >= 1 ? LEAKS_WINDOWS - 1
				      : (unsigned int)(share * LEAKS_WINDOWS);
	struct leaks_window *w = &site->born[i < LEAKS_WINDOWS ? i : LEAKS_WINDOWS - 1];

	w->bytes += e->bytes;
	w->var += e->var;
	w->samples++;
}

static int weigh_old(struct births *b, u32 stack, double bytes)
{
	if (stack >= b->nold) {
		size_t n = stacks_count(b->series->stacks) + 1024ul;
		double *more = reallocarray(b->old, n, sizeof(*more));

		if (!more)
			return -ENOMEM;
		for (size_t i = b->nold; i < n; i++)
			more[i] = 0;
		b->old = more;
		b->nold = n;
	}
	b->old[stack] += bytes;
	return 0;
}

static int add(struct births *b, const struct pht_live *v)
{
	double birth = v->time_ns / 1e9 - b->start;
	struct estimator e = {0};
	struct leaks_site *site;
	u32 stack;
	int err = stack_of(b, v->stack_id, &stack) ?: leaks_series_site(b->series, stack, &site);

	if (err || !site)
		return err;
	if (!age_means_something(v)) {
		site->births_known = false;
		return 0;
	}
	estimate_add_part(&e, v->size, 1, v->drawn_size, v->interval);
	count(site, birth / b->span, &e);
	return b->span - birth >= b->limit ? weigh_old(b, stack, e.bytes) : 0;
}

/* Who called is told by the stack with most old blocks, where there are any. */
static int choose_stacks(struct births *b)
{
	for (size_t i = 0; i < b->series->nsites; i++)
		b->series->sites[i]->weight = 0;
	for (size_t i = 0; i < b->nold; i++) {
		struct leaks_site *site = NULL;
		int err = b->old[i] > 0 ? leaks_series_site(b->series, i, &site) : 0;

		if (err)
			return err;
		if (b->old[i] > 0 && site && b->old[i] > site->weight) {
			site->weight = b->old[i];
			site->stack = i;
		}
	}
	return 0;
}

int leaks_series_births(struct leaks_series *s, const struct report *r, const struct drained *d,
			double start, double older_than)
{
	struct births b = {s, r, {0}, NULL, 0, start, r->duration, older_than};
	int err = 0;

	if (!r->symbols || !(b.span > 0))
		return 0;
	if (!(b.limit > 0))
		b.limit = b.span * LEAKS_OLD_SHARE;
	for (size_t i = 0; i < s->nsites; i++)
		s->sites[i]->births_known = true;
	for (size_t i = 0; i < d->nlive && !err; i++)
		if (d->live[i].key.tgid == (u32)r->pid)
			err = add(&b, &d->live[i].v);
	if (!err)
		err = choose_stacks(&b);
	hashmap_clear(&b.stacks, NULL);
	free(b.old);
	return err;
}
