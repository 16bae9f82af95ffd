// SPDX-License-Identifier: BSD-2-Clause
/* The census for programs; documented in docs/census.md. */
#include "census.h"
#include "rss_jsonw.h"

static struct jsonw rows(const struct census_row *row, size_t n)
{
	struct jsonw list = jsonw_array();

	for (size_t i = 0; i < n; i++) {
		struct jsonw o = jsonw_object();

		jsonw_text(&o, "module", row[i].module);
		if (row[i].name)
			jsonw_text(&o, "name", row[i].name);
		jsonw_u64(&o, "count", row[i].count);
		jsonw_u64(&o, "bytes", row[i].bytes);
		jsonw_u64(&o, "held_bytes", row[i].held);
		jsonw_u64(&o, "spare_bytes", row[i].spare);
		jsonw_add(&list, NULL, o);
	}
	return list;
}

static struct jsonw classes(const struct census *c)
{
	struct jsonw list = jsonw_array();

	for (u32 i = 0; i < OBMALLOC_CLASSES; i++) {
		const struct census_class *k = &c->class[i];
		struct jsonw o = jsonw_object();

		jsonw_u64(&o, "size", obmalloc_class_size(i));
		jsonw_u64(&o, "used", k->used);
		jsonw_u64(&o, "free", k->free);
		jsonw_u64(&o, "objects", k->objects);
		jsonw_u64(&o, "data", k->data);
		jsonw_u64(&o, "freelist", k->freelist);
		jsonw_u64(&o, "other", k->other);
		jsonw_add(&list, NULL, o);
	}
	return list;
}

static struct jsonw data(const struct census *c)
{
	struct jsonw all = jsonw_object();

	for (int i = 0; i < CENSUS_DATA_KINDS; i++) {
		struct jsonw o = jsonw_object();

		jsonw_u64(&o, "blocks", c->data[i].blocks);
		jsonw_u64(&o, "bytes", c->data[i].bytes);
		jsonw_u64(&o, "held_bytes", c->data[i].held);
		jsonw_add(&all, census_data_key(i), o);
	}
	return all;
}

static struct jsonw large(const struct census_top *top)
{
	struct jsonw list = jsonw_array();

	for (size_t i = 0; i < top->n; i++) {
		struct jsonw o = jsonw_object();

		jsonw_text(&o, "module", top->v[i].module);
		jsonw_text(&o, "name", top->v[i].name);
		jsonw_u64(&o, "address", top->v[i].addr);
		jsonw_u64(&o, "bytes", top->v[i].bytes);
		jsonw_u64(&o, "length", top->v[i].length);
		jsonw_add(&list, NULL, o);
	}
	return list;
}

static struct jsonw losses(const struct census *c)
{
	const struct census_heap_stats *h = &c->heap;
	struct jsonw o = jsonw_object();

	jsonw_u64(&o, "torn_pools", h->torn_pools);
	jsonw_u64(&o, "retried_pools", h->retried);
	jsonw_u64(&o, "vanished_pools", h->vanished);
	jsonw_u64(&o, "torn_heaps", h->torn_chunks);
	jsonw_u64(&o, "unwalked_bytes", h->unwalked);
	jsonw_u64(&o, "unread_tables", c->unread_tables);
	jsonw_u64(&o, "gc_links_left_out", c->linked_left_out);
	jsonw_u64(&o, "types_refused", c->types_refused);
	return o;
}

int census_print_json(const struct census *c, FILE *out)
{
	struct jsonw o = jsonw_object();

	jsonw_u64(&o, "pid", (u64)c->pid);
	jsonw_text(&o, "comm", c->comm);
	jsonw_text(&o, "python_version", c->python);
	jsonw_text(&o, "allocator", c->alloc_mode);
	jsonw_u64(&o, "rss_bytes", c->rss);
	jsonw_bool(&o, "pymalloc_walked", c->pymalloc);
	jsonw_bool(&o, "malloc_walked", c->malloc);
	jsonw_u64(&o, "objects_by_gc_lists", c->linked);
	jsonw_u64(&o, "objects", c->objects);
	jsonw_u64(&o, "object_bytes", c->object_bytes);
	jsonw_u64(&o, "freelist_blocks", c->freelist_blocks);
	jsonw_u64(&o, "freelist_bytes", c->freelist_bytes);
	jsonw_u64(&o, "other_small_bytes", c->other_pool_bytes);
	jsonw_u64(&o, "other_malloc_bytes", c->other_malloc_bytes);
	jsonw_u64(&o, "arenas", c->heap.arenas);
	jsonw_u64(&o, "pools", c->heap.pools);
	jsonw_u64(&o, "malloc_used_bytes", c->heap.chunk_bytes + c->heap.mapped_bytes);
	jsonw_add(&o, "types", rows(c->row, c->nrow));
	jsonw_add(&o, "modules", rows(c->module, c->nmodule));
	jsonw_add(&o, "data", data(c));
	jsonw_add(&o, "classes", classes(c));
	jsonw_add(&o, "largest_containers", large(&c->containers));
	jsonw_add(&o, "largest_strings", large(&c->strings));
	jsonw_add(&o, "losses", losses(c));
	jsonw_number(&o, "took_ms", (double)c->took_ns / 1e6, 1);
	jsonw_number(&o, "stopped_ms", (double)c->frozen_ns / 1e6, 1);
	return jsonw_print(&o, out);
}
