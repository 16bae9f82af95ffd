// SPDX-License-Identifier: BSD-2-Clause
/* A moment as one JSON object on one line: docs/pymalloc.md. */
#include <errno.h>
#include <json-c/json.h>

#include "cmd_pymalloc.h"

#define FLAGS (JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)

static const u32 bucket_pcts[OBMALLOC_BUCKETS] = OBMALLOC_BUCKET_PCTS;

/* The first value that could not be made spoils the whole: see report_json.c. */
struct tree {
	struct json_object *json;
	bool *failed;
};

static void add(struct tree t, const char *key, struct json_object *value)
{
	if (!value || !t.json ||
	    (key ? json_object_object_add(t.json, key, value)
		 : json_object_array_add(t.json, value))) {
		json_object_put(value);
		*t.failed = true;
	}
}

static void add_null(struct tree t, const char *key)
{
	if (!t.json || json_object_object_add(t.json, key, NULL))
		*t.failed = true;
}

static void add_u64(struct tree t, const char *key, u64 value)
{
	add(t, key, json_object_new_int64(value > INT64_MAX ? INT64_MAX : (int64_t)value));
}

static void add_text(struct tree t, const char *key, const char *text)
{
	add(t, key, json_object_new_string(text));
}

static void add_bool(struct tree t, const char *key, bool value)
{
	add(t, key, json_object_new_boolean(value));
}

static void add_fixed(struct tree t, const char *key, double value)
{
	char text[64];

	snprintf(text, sizeof(text), "%.3f", value);
	add(t, key, json_object_new_double_s(value, text));
}

static struct tree add_object(struct tree t, const char *key)
{
	struct tree child = {json_object_new_object(), t.failed};

	add(t, key, child.json);
	return *t.failed ? (struct tree){NULL, t.failed} : child;
}

static struct tree add_array(struct tree t, const char *key)
{
	struct tree child = {json_object_new_array(), t.failed};

	add(t, key, child.json);
	return *t.failed ? (struct tree){NULL, t.failed} : child;
}

static void add_arenas(struct tree parent, const struct obmalloc_layout *l,
		       const struct obmalloc_stats *s)
{
	struct tree t = add_object(parent, "arenas");

	add_u64(t, "current", s->arenas);
	add_u64(t, "highwater", s->highwater);
	add_u64(t, "allocated_total", s->ntimes);
	add_u64(t, "reclaimed", s->ntimes > s->arenas ? s->ntimes - s->arenas : 0);
	add_u64(t, "bytes", s->arenas * l->arena_size);
}

static void add_bytes(struct tree parent, const struct obmalloc_layout *l,
		      const struct obmalloc_stats *s)
{
	struct obmalloc_bytes b = obmalloc_stats_bytes(l, s);
	struct tree t = add_object(parent, "bytes");

	add_u64(t, "in_use", b.used);
	add_u64(t, "available", b.avail);
	add_u64(t, "unused_pools", b.unused_pools);
	add_u64(t, "pool_headers", b.headers);
	add_u64(t, "quantization", b.quantization);
	add_u64(t, "arena_alignment", b.alignment);
	add_u64(t, "total", b.total);
}

static void add_map(struct tree parent, const struct obmalloc_layout *l,
		    const struct obmalloc_stats *s)
{
	struct tree t;

	if (!l->map_root) {
		add_null(parent, "arena_map");
		return;
	}
	t = add_object(parent, "arena_map");
	add_u64(t, "mid_nodes", s->map_mid);
	add_u64(t, "bot_nodes", s->map_bot);
	add_u64(t, "bytes", l->map_root + s->map_mid * l->map_mid + s->map_bot * l->map_bot);
}

static void add_classes(struct tree parent, const struct obmalloc_stats *s)
{
	struct tree list = add_array(parent, "classes");

	for (u32 i = 0; i < OBMALLOC_CLASSES; i++) {
		const struct obmalloc_class_stats *c = &s->class[i];
		struct tree t;

		if (!c->pools)
			continue;
		t = add_object(list, NULL);
		add_u64(t, "class", i);
		add_u64(t, "size", obmalloc_class_size(i));
		add_u64(t, "pools", c->pools);
		add_u64(t, "in_use", c->used);
		add_u64(t, "available", c->avail);
		add_u64(t, "nearly_empty_pools", c->sparse);
		add_u64(t, "in_use_in_nearly_empty", c->sparse_used);
	}
}

static void add_fragmentation(struct tree parent, const struct obmalloc_layout *l,
			      const struct obmalloc_stats *s)
{
	struct obmalloc_fragmentation f = obmalloc_stats_fragmentation(l, s);
	struct tree t = add_object(parent, "fragmentation"), list;

	add_u64(t, "nearly_empty_arenas", f.sparse_arenas);
	add_u64(t, "nearly_empty_arena_bytes", f.sparse_arena_bytes);
	add_u64(t, "nearly_empty_arena_bytes_in_use", f.sparse_arena_used);
	add_u64(t, "nearly_empty_pools", f.sparse_pools);
	add_u64(t, "nearly_empty_pool_bytes", f.sparse_pool_bytes);
	add_u64(t, "nearly_empty_pool_bytes_in_use", f.sparse_pool_used);
	add_u64(t, "arenas_needed_if_packed", f.needed_arenas);
	add_u64(t, "excess_bytes", f.excess_bytes);
	list = add_array(t, "arenas_by_fill");
	for (size_t i = 0; i < OBMALLOC_BUCKETS; i++) {
		struct tree b = add_object(list, NULL);

		add_u64(b, "below_percent", bucket_pcts[i]);
		add_u64(b, "arenas", s->bucket[i].arenas);
		add_u64(b, "bytes_in_use", s->bucket[i].used_bytes);
	}
}

static void add_interpreters(struct tree parent, const struct pymalloc_moment *m)
{
	struct tree list = add_array(parent, "interpreters");

	for (size_t i = 0; i < m->nstates; i++) {
		struct tree t = add_object(list, NULL);

		add(t, "id", json_object_new_int64(m->state[i].interp_id));
		add_arenas(t, &m->layout, &m->state[i]);
		add_bytes(t, &m->layout, &m->state[i]);
	}
}

static void add_lists(struct tree parent, const struct freelists *lists)
{
	struct tree list = add_array(parent, "free_lists");

	for (size_t i = 0; i < lists->n; i++) {
		const struct freelist *l = &lists->v[i];
		struct tree t = add_object(list, NULL);

		add_text(t, "type", l->type);
		add_u64(t, "items", l->items);
		add_u64(t, "size", l->size);
		if (l->count == FREELISTS_UNKNOWN)
			add_null(t, "count");
		else
			add_u64(t, "count", l->count);
	}
}

static void add_consistency(struct tree parent, const struct pymalloc_moment *m)
{
	struct tree t = add_object(parent, "consistency");

	add_bool(t, "frozen", m->frozen_ns);
	add_fixed(t, "frozen_ms", (double)m->frozen_ns / 1e6);
	add_bool(t, "thawed_early", m->thawed_early);
	add_u64(t, "torn", m->total.torn);
	add_u64(t, "vanished", m->total.vanished);
	add_u64(t, "walks", m->total.tries);
	add_fixed(t, "walk_ms", (double)m->total.walk_ns / 1e6);
	add_bool(t, "interpreters_left_out", m->more_states);
}

/* [before, after, change] */
static void add_change(struct tree parent, const char *key, u64 before, u64 after)
{
	struct tree t = add_array(parent, key);

	add_u64(t, NULL, before);
	add_u64(t, NULL, after);
	add(t, NULL, json_object_new_int64((int64_t)(after - before)));
}

static void add_class_changes(struct tree parent, const struct obmalloc_stats *a,
			      const struct obmalloc_stats *b)
{
	struct tree list = add_array(parent, "classes");

	for (u32 i = 0; i < OBMALLOC_CLASSES; i++) {
		const struct obmalloc_class_stats *x = &a->class[i], *y = &b->class[i];
		struct tree t;

		if (x->pools == y->pools && x->used == y->used && x->avail == y->avail)
			continue;
		t = add_object(list, NULL);
		add_u64(t, "size", obmalloc_class_size(i));
		add_change(t, "pools", x->pools, y->pools);
		add_change(t, "in_use", x->used, y->used);
		add_change(t, "available", x->avail, y->avail);
	}
}

static void add_list_changes(struct tree parent, const struct freelists *a,
			     const struct freelists *b)
{
	struct tree list = add_array(parent, "free_lists");

	for (size_t i = 0; i < b->n; i++) {
		const struct freelist *y = &b->v[i], *x = freelists_same(a, y);
		struct tree t;

		if (!x || x->count == y->count || x->count == FREELISTS_UNKNOWN ||
		    y->count == FREELISTS_UNKNOWN)
			continue;
		t = add_object(list, NULL);
		add_text(t, "type", y->type);
		add_u64(t, "items", y->items);
		add_change(t, "count", x->count, y->count);
	}
}

static void add_changes(struct tree parent, const struct pymalloc_moment *a,
			const struct pymalloc_moment *b)
{
	struct obmalloc_bytes x = obmalloc_stats_bytes(&a->layout, &a->total);
	struct obmalloc_bytes y = obmalloc_stats_bytes(&b->layout, &b->total);
	struct tree t = add_object(parent, "changes"), bytes;

	add_fixed(t, "seconds", b->time - a->time);
	add_bool(t, "same_process", a->pid == b->pid && a->start_time == b->start_time);
	add_change(t, "arenas", a->total.arenas, b->total.arenas);
	bytes = add_object(t, "bytes");
	add_change(bytes, "in_use", x.used, y.used);
	add_change(bytes, "available", x.avail, y.avail);
	add_change(bytes, "unused_pools", x.unused_pools, y.unused_pools);
	add_change(bytes, "total", x.total, y.total);
	add_class_changes(t, &a->total, &b->total);
	add_list_changes(t, &a->lists, &b->lists);
}

int pymalloc_write_json(const struct pymalloc_moment *before, const struct pymalloc_moment *m,
			FILE *f)
{
	bool failed = false;
	struct tree t = {json_object_new_object(), &failed};
	const char *text = NULL;

	add_u64(t, "pymalloc", 1);
	add_u64(t, "pid", (u64)m->pid);
	add_u64(t, "start_time", m->start_time);
	add_text(t, "command", m->comm);
	add_text(t, "python", m->version);
	add_text(t, "allocator", m->allocator);
	add_fixed(t, "time", m->time);
	add_bool(t, "found", m->found);
	add_u64(t, "pool_size", m->layout.pool_size);
	add_u64(t, "arena_size", m->layout.arena_size);
	add_arenas(t, &m->layout, &m->total);
	add_bytes(t, &m->layout, &m->total);
	add_map(t, &m->layout, &m->total);
	add_classes(t, &m->total);
	if (m->found)
		add_fragmentation(t, &m->layout, &m->total);
	else
		add_null(t, "fragmentation");
	add_interpreters(t, m);
	add_lists(t, &m->lists);
	add_consistency(t, m);
	if (before)
		add_changes(t, before, m);
	if (!failed)
		text = json_object_to_json_string_ext(t.json, FLAGS);
	if (text)
		fprintf(f, "%s\n", text);
	json_object_put(t.json);
	return text ? 0 : -ENOMEM;
}
