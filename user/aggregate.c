// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate.h"

#include <errno.h>
#include <string.h>

#include "estimate.h"

struct row_then {
	double live, allocated;
};

struct group {
	u64 a, b;
	u32 domain; /* of its first record */
	struct estimator est;
	double allocated_bytes, allocated_blocks;
	double freed_bytes, freed_blocks;
	u64 samples, freed_samples;
	struct estimator peak, temporary;
	double peak_allocated_bytes, peak_allocated_blocks;
	u64 peak_samples;
	struct life_hist *lives; /* the history's */
	/* The heaviest stack speaks for the group. */
	const struct sym_stack *stack;
	double stack_weight;
};

struct groups {
	struct hashmap index;	/* key -> struct group */
	struct hashmap weights; /* stack -> double *, live bytes */
};

/* Strings are interned, so their addresses identify them. */
static void group_key(enum group_by by, const struct sym_stack *s, u64 *a, u64 *b)
{
	const struct frame *f = &s->frames[by == GROUP_THREAD ? s->nframes - 1 : 0];

	*a = by == GROUP_FILE ? 0 : (uintptr_t)f->function;
	*b = (uintptr_t)f->file;
	/* Strings lie close together: a plain xor with a line would be another one's. */
	if (by == GROUP_LINE)
		*b = hashmap_mix(hashmap_mix(0, *b), f->line);
	/* A thread is the same when it has been given another name. */
	if (f->kind == FRAME_THREAD && by == GROUP_THREAD)
		*a = 0;
	if (by != GROUP_TRACEBACK)
		return;
	/* From zero: mixed with itself, the first frame would cancel out. */
	*a = *b = 0;
	for (u32 i = 0; i < s->nframes; i++) {
		f = &s->frames[i];
		*a = hashmap_mix(*a, (uintptr_t)f->function ^ (u64)f->line << 48);
		*b = hashmap_mix(*b, (uintptr_t)f->file + f->line);
	}
}

static struct group *group_of(struct groups *gs, const struct report *r, const struct sym_stack *s,
			      u32 domain)
{
	struct group *g;
	u64 a, b;

	group_key(r->group_by, s, &a, &b);
	if (r->by_domain)
		a = hashmap_mix(a, domain);
	g = hashmap_get(&gs->index, a, b);
	if (g)
		return g;
	g = calloc(1, sizeof(*g));
	if (!g)
		return NULL;
	g->a = a;
	g->b = b;
	g->domain = domain;
	g->stack = s;
	if (hashmap_put(&gs->index, a, b, g)) {
		free(g);
		return NULL;
	}
	return g;
}

static int weigh(struct groups *gs, struct group *g, const struct sym_stack *s, double bytes)
{
	double *w = hashmap_get(&gs->weights, (uintptr_t)s, 0);

	if (!w) {
		w = calloc(1, sizeof(*w));
		if (!w || hashmap_put(&gs->weights, (uintptr_t)s, 0, w)) {
			free(w);
			return -ENOMEM;
		}
	}
	*w += bytes;
	if (*w > g->stack_weight) {
		g->stack_weight = *w;
		g->stack = s;
	}
	return 0;
}

static const struct sym_stack *stack_of(const struct symbolizer *sym, u64 id)
{
	const struct sym_stack *s = symbolizer_get(sym, id);

	return s ? s : symbolizer_lost(sym);
}

/* Bytes that a sample stands for: samples of different sizes compare by these only. */
static double weight_of(const struct pht_live *v, const struct live_use *use)
{
	return use->bytes / estimate_probability(v->drawn_size, v->interval);
}

static int add_live(struct groups *gs, const struct report *r, const struct symbolizer *sym,
		    const struct pht_live *v, const struct live_use *use)
{
	const struct sym_stack *s = stack_of(sym, v->stack_id);
	struct group *g = group_of(gs, r, s, v->domain);

	if (!g)
		return -ENOMEM;
	estimate_add_part(&g->est, use->bytes, use->blocks, v->drawn_size, v->interval);
	return weigh(gs, g, s, weight_of(v, use) + 1);
}

/* Caught between an addition and its subtraction, a sum may be below 0. */
static double sum_of(u64 v)
{
	return (s64)v > 0 ? (double)v : 0;
}

static struct estimator estimator_of(const struct pht_sums *s)
{
	return estimate_of_sums(sum_of(s->bytes), sum_of(s->blocks16) / 65536,
				sum_of(s->var) * 65536, (u64)sum_of(s->samples));
}

/* What the site held at the peak: what it put aside then, if it has changed since. */
static void add_peak(struct group *g, const struct pht_site *s, u64 epoch)
{
	bool aside = s->peak_epoch >= epoch;
	struct estimator e = estimator_of(aside ? &s->peak : &s->live);

	estimate_merge(&g->peak, &e);
	g->peak_allocated_bytes += aside ? s->peak_alloc_bytes : s->alloc_bytes;
	g->peak_allocated_blocks += (aside ? s->peak_alloc_blocks16 : s->alloc_blocks16) / 65536.0;
	g->peak_samples += aside ? s->peak_samples : s->samples;
}

static int add_site(struct groups *gs, const struct report *r, const struct symbolizer *sym,
		    const struct site_rec *rec, const struct pht_peak *peak)
{
	struct estimator temporary = estimator_of(&rec->v.temporary);
	const struct sym_stack *s = stack_of(sym, rec->key.stack_id);
	struct group *g = group_of(gs, r, s, rec->key.domain);

	if (!g)
		return -ENOMEM;
	g->allocated_bytes += rec->v.alloc_bytes;
	g->allocated_blocks += rec->v.alloc_blocks16 / 65536.0;
	g->samples += rec->v.samples;
	g->freed_bytes += rec->v.freed_bytes;
	g->freed_blocks += rec->v.freed_blocks16 / 65536.0;
	g->freed_samples += rec->v.freed_samples;
	estimate_merge(&g->temporary, &temporary);
	if (peak)
		add_peak(g, &rec->v, peak->epoch);
	/* Far below the weight of anything live: only breaks ties. */
	return weigh(gs, g, s, rec->v.samples * 1e-9);
}

static void hist_add(struct life_hist *to, const struct pht_life *v)
{
	for (u32 i = 0; i < PHT_LIFE_BUCKETS; i++) {
		to->bytes[i] += v->bytes[i];
		to->blocks[i] += v->blocks16[i] / 65536.0;
		to->samples[i] += v->samples[i];
	}
}

static int add_life(struct groups *gs, struct report *r, const struct symbolizer *sym,
		    const struct life_rec *rec, struct aggregate_history *history)
{
	struct group *g = group_of(gs, r, stack_of(sym, rec->key.stack_id), rec->key.domain);

	if (!g)
		return -ENOMEM;
	if (!g->lives)
		g->lives = &history->lives[history->nlives++];
	hist_add(g->lives, &rec->v);
	hist_add(&r->lives, &rec->v);
	return 0;
}

static void fill_row(const struct group *g, const struct aggregate_history *history,
		     const struct report *r, struct row *row)
{
	const struct row_then *then = hashmap_get(&history->rows, g->a, g->b);
	double elapsed = r->duration - history->when;

	u32 first = r->group_by == GROUP_THREAD ? g->stack->nframes - 1 : 0;

	*row = (struct row){
		.frames = g->stack->frames + first,
		.nframes = g->stack->nframes - first,
		.truncated = g->stack->truncated && !first,
		.live = g->est,
		.live_bytes = estimate_or_none(&g->est, r->sample_interval),
		.live_blocks = g->est.blocks,
		.allocated_bytes = g->allocated_bytes,
		.allocated_blocks = g->allocated_blocks,
		.samples = g->samples,
		.live_samples = g->est.samples,
		.freed_bytes = g->freed_bytes,
		.freed_blocks = g->freed_blocks,
		.freed_samples = g->freed_samples,
		.peak = g->peak,
		.temporary = g->temporary,
		.peak_bytes = estimate_or_none(&g->peak, r->sample_interval),
		.temporary_bytes = estimate_or_none(&g->temporary, r->sample_interval),
		.peak_allocated_bytes = g->peak_allocated_bytes,
		.peak_allocated_blocks = g->peak_allocated_blocks,
		.peak_samples = g->peak_samples,
		.lives = g->lives,
		.domain = g->domain,
	};
	row->growth_bytes = row->live_bytes.value - (then ? then->live : 0);
	if (elapsed > 0)
		row->alloc_rate = (g->allocated_bytes - (then ? then->allocated : 0)) / elapsed;
}

static int remember(struct aggregate_history *history, const struct groups *gs, double now)
{
	hashmap_clear(&history->rows, free);
	history->when = now;
	for (size_t i = 0; i < gs->index.cap; i++) {
		const struct group *g = gs->index.slots[i].value;
		struct row_then *then;

		if (!g)
			continue;
		then = malloc(sizeof(*then));
		if (!then)
			return -ENOMEM;
		then->live = g->est.bytes;
		then->allocated = g->allocated_bytes;
		if (hashmap_put(&history->rows, g->a, g->b, then)) {
			free(then);
			return -ENOMEM;
		}
	}
	return 0;
}

static int build_rows(const struct groups *gs, struct aggregate_history *history, struct report *r)
{
	struct estimator total = {0}, peak = {0}, temporary = {0};

	r->rows = calloc(gs->index.n ? gs->index.n : 1, sizeof(*r->rows));
	if (!r->rows)
		return -ENOMEM;
	for (size_t i = 0; i < gs->index.cap; i++) {
		const struct group *g = gs->index.slots[i].value;

		if (!g)
			continue;
		fill_row(g, history, r, &r->rows[r->nrows++]);
		estimate_merge(&total, &g->est);
		estimate_merge(&peak, &g->peak);
		estimate_merge(&temporary, &g->temporary);
		r->allocated_bytes += g->allocated_bytes;
		r->allocated_blocks += g->allocated_blocks;
		r->samples += g->samples;
	}
	qsort(r->rows, r->nrows, sizeof(*r->rows), report_compare_rows);
	r->live_bytes = estimate_or_none(&total, r->sample_interval);
	r->live_blocks = total.blocks;
	r->live_samples = total.samples;
	r->peak_bytes = estimate_or_none(&peak, r->sample_interval);
	r->peak_blocks = peak.blocks;
	r->temporary_bytes = estimate_or_none(&temporary, r->sample_interval);
	r->temporary_blocks = temporary.blocks;
	return remember(history, gs, r->duration);
}

static int add_lives(struct groups *gs, const struct drained *d, pid_t pid,
		     const struct symbolizer *sym, struct aggregate_history *history,
		     struct report *r)
{
	int err = 0;

	free(history->lives);
	history->nlives = 0;
	history->lives = calloc(d->nlives + 1, sizeof(*history->lives));
	if (!history->lives)
		return -ENOMEM;
	for (size_t i = 0; i < d->nlives && !err; i++)
		if (d->lives[i].key.tgid == (u32)pid)
			err = add_life(gs, r, sym, &d->lives[i], history);
	return err;
}

int aggregate(const struct drained *d, const struct live_use *uses, pid_t pid,
	      const struct pht_peak *peak, const struct symbolizer *sym,
	      struct aggregate_history *history, struct report *r)
{
	struct groups gs = {0};
	double exact = 0, pools = 0;
	int err = 0;

	for (size_t i = 0; i < d->nlive && !err; i++) {
		const struct pht_live *v = &d->live[i].v;

		if (d->live[i].key.tgid != (u32)pid)
			continue;
		err = add_live(&gs, r, sym, v, &uses[i]);
		if (v->domain == PHT_DOM_POOL || v->domain == PHT_DOM_FAULT)
			pools += weight_of(v, &uses[i]);
		else
			exact += weight_of(v, &uses[i]);
	}
	for (size_t i = 0; i < d->nsites && !err; i++)
		if (d->sites[i].key.tgid == (u32)pid)
			err = add_site(&gs, r, sym, &d->sites[i], peak);
	if (!err)
		err = add_lives(&gs, d, pid, sym, history, r);
	if (!err)
		err = build_rows(&gs, history, r);
	hashmap_clear(&gs.index, free);
	hashmap_clear(&gs.weights, free);
	if (r->coverage_complete)
		r->coverage_share = 1;
	else
		r->coverage_share = exact + pools > 0 ? exact / (exact + pools) : -1;
	return err;
}

void aggregate_history_free(struct aggregate_history *history)
{
	hashmap_clear(&history->rows, free);
	free(history->lives);
	history->lives = NULL;
}
