// SPDX-License-Identifier: BSD-2-Clause
#include "live_model.h"

#include <errno.h>
#include <string.h>

#include "snapshot_diff.h"

static int open_store(struct live_model *m)
{
	m->stacks = stacks_new();
	m->cache = snap_cache_new();
	return m->stacks && m->cache ? 0 : -ENOMEM;
}

static void forget(struct live_model *m)
{
	snapshot_free(&m->now);
	snapshot_free(&m->before);
	snapshot_free(&m->base);
	m->has_now = m->has_before = m->has_base = false;
	live_callers_free(&m->callers);
	free(m->rows);
	m->rows = NULL;
	m->list = (struct live_list){0};
	snap_cache_free(m->cache);
	stacks_free(m->stacks);
	m->cache = NULL;
	m->stacks = NULL;
}

struct live_model *live_model_new(const struct live_settings *set)
{
	struct live_model *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->set = *set;
	if (open_store(m)) {
		live_model_free(m);
		return NULL;
	}
	return m;
}

void live_model_free(struct live_model *m)
{
	if (!m)
		return;
	forget(m);
	free(m);
}

static int rebuild(struct live_model *m)
{
	int err = live_rows_build(m);

	return err || !m->callers.open ? err : live_callers_build(m);
}

static bool stands_still(const struct live_model *m)
{
	return m->paused || (m->has_now && *m->now.end_reason);
}

int live_model_feed(struct live_model *m, const struct report *r)
{
	struct snapshot s;
	int err;

	if (stands_still(m))
		return 0;
	err = snapshot_from_report(r, m->stacks, m->cache, &s);
	if (err == -E2BIG) {
		m->started_over++;
		forget(m);
		err = open_store(m) ?: snapshot_from_report(r, m->stacks, m->cache, &s);
	}
	if (err)
		return err;
	if (r->before) {
		m->held_objects = r->before->objects;
		m->held_bytes = r->before->bytes;
	}
	return live_model_feed_snapshot(m, &s);
}

int live_model_feed_snapshot(struct live_model *m, struct snapshot *s)
{
	if (stands_still(m)) {
		snapshot_free(s);
		return 0;
	}
	snapshot_free(&m->before);
	m->before = m->now;
	m->has_before = m->has_now;
	m->now = *s;
	m->has_now = true;
	s->rows = NULL;
	s->sizes = s->ages = NULL;
	snapshot_total(&m->now, SNAP_DOMAINS, &m->total);
	return rebuild(m);
}

int live_model_set(struct live_model *m, const struct live_settings *set)
{
	struct live_settings old = m->set;
	bool regrouped = set->group_by != old.group_by;
	int err;

	m->set = *set;
	if (regrouped) {
		/* Keys of another grouping mean nothing here. */
		live_callers_free(&m->callers);
		m->list.at = m->list.first = 0;
		m->list.moved = false;
	}
	err = rebuild(m);
	if (err)
		m->set = old;
	return err;
}

int live_model_mark(struct live_model *m)
{
	struct snapshot copy;
	int err;

	if (!m->has_now)
		return 0;
	err = snapshot_copy(&m->now, &copy);
	if (err)
		return err;
	snapshot_free(&m->base);
	m->base = copy;
	m->has_base = true;
	return rebuild(m);
}

int live_model_clear(struct live_model *m)
{
	snapshot_free(&m->base);
	m->has_base = false;
	if (m->set.sort == LIVE_SINCE)
		m->set.sort = LIVE_LIVE;
	return rebuild(m);
}

int live_model_open_callers(struct live_model *m)
{
	const struct live_row *row;
	int err;

	if (m->callers.open || !m->list.n)
		return 0;
	row = &m->rows[m->list.at];
	live_callers_free(&m->callers);
	m->callers.open = true;
	m->callers.a = m->a = row->a;
	m->callers.b = m->b = row->b;
	m->callers.stack = row->stack;
	/* Back from there, the row is still the one. */
	m->list.moved = true;
	err = live_callers_build(m);
	if (err)
		live_callers_free(&m->callers);
	return err;
}

void live_model_close_callers(struct live_model *m)
{
	live_callers_free(&m->callers);
}

/* What is in the map of folded paths; entries cannot be taken out of it. */
static char yes, no;

bool live_callers_folded(const struct live_callers *c, u64 path)
{
	return hashmap_get(&c->folded, path, 0) == &yes;
}

int live_model_fold(struct live_model *m)
{
	struct live_callers *c = &m->callers;
	int err;

	if (!c->open || !c->list.n)
		return 0;
	c->path = c->nodes[c->lines[c->list.at].node].path;
	c->list.moved = true;
	err = hashmap_put(&c->folded, c->path, 0, live_callers_folded(c, c->path) ? &no : &yes);
	return err ? err : live_callers_build(m);
}

struct live_list *live_model_list(struct live_model *m)
{
	return m->callers.open ? &m->callers.list : &m->list;
}

static void choose(struct live_model *m, size_t at)
{
	struct live_list *l = live_model_list(m);

	if (!l->n)
		return;
	l->at = at < l->n ? at : l->n - 1;
	l->moved = true;
	if (m->callers.open) {
		m->callers.path = m->callers.nodes[m->callers.lines[l->at].node].path;
	} else {
		m->a = m->rows[l->at].a;
		m->b = m->rows[l->at].b;
	}
}

void live_model_move(struct live_model *m, long lines)
{
	const struct live_list *l = live_model_list(m);

	if (lines < 0 && (size_t)-lines > l->at)
		choose(m, 0);
	else
		choose(m, l->at + lines);
}

void live_model_home(struct live_model *m)
{
	struct live_list *l = live_model_list(m);

	l->at = l->first = 0;
	l->moved = false;
}

void live_model_end(struct live_model *m)
{
	choose(m, SIZE_MAX);
}

void live_list_scroll(struct live_list *l, size_t page)
{
	if (!page)
		page = 1;
	if (l->at >= l->n)
		l->at = l->n ? l->n - 1 : 0;
	if (l->at < l->first)
		l->first = l->at;
	if (l->at - l->first >= page)
		l->first = l->at - page + 1;
	/* No empty lines below where there are rows above. */
	if (l->first + page > l->n)
		l->first = l->n > page ? l->n - page : 0;
}

void live_numbers_fill(const struct live_model *m, const struct snap_total *now,
		       const struct snap_total *before, const struct snap_total *base,
		       struct live_numbers *out)
{
	static const struct snap_total none;
	double elapsed = m->now.duration - (m->has_before ? m->before.duration : 0);
	u64 interval = m->now.sample_interval;

	before = before ? before : &none;
	*out = (struct live_numbers){.live = snap_interval(&now->live, interval)};
	out->value[LIVE_LIVE] = out->live.value;
	out->value[LIVE_GROWTH] = now->live.bytes - before->live.bytes;
	out->value[LIVE_BLOCKS] = now->live.blocks;
	if (elapsed > 0)
		out->value[LIVE_RATE] = (now->allocated_bytes - before->allocated_bytes) / elapsed;
	if (!m->has_base)
		return;
	out->since =
		snap_difference(base ? base : &none, m->base.sample_interval, now, interval, true);
	out->value[LIVE_SINCE] = out->since.value;
	out->noise = out->since.low <= 0 && out->since.high >= 0;
}

int live_numbers_compare(const struct live_settings *set, const struct live_numbers *a,
			 const struct live_numbers *b)
{
	double x = a->value[set->sort], y = b->value[set->sort];
	int order = (x < y) - (x > y);

	if (!order)
		order = (a->live.value < b->live.value) - (a->live.value > b->live.value);
	if (!order)
		order = (a->value[LIVE_RATE] < b->value[LIVE_RATE]) -
			(a->value[LIVE_RATE] > b->value[LIVE_RATE]);
	return set->reverse ? -order : order;
}
