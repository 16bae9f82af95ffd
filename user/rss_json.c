// SPDX-License-Identifier: BSD-2-Clause
/* The RSS report for programs; documented in docs/rss.md. */
#include "rss.h"
#include "rss_jsonw.h"

static struct jsonw kinds(const struct rss *r)
{
	struct jsonw o = jsonw_object();

	for (int k = 0; k < RSS_KINDS; k++)
		jsonw_u64(&o, rss_kind_key(k), r->kind[k]);
	return o;
}

static struct jsonw pymalloc(const struct rss *r)
{
	struct jsonw o = jsonw_object();

	jsonw_bool(&o, "known", r->pymalloc_known);
	jsonw_u64(&o, "arenas", r->arenas);
	jsonw_u64(&o, "arena_bytes", r->arena_bytes);
	jsonw_u64(&o, "resident_bytes", r->arenas_resident);
	jsonw_u64(&o, "pools", r->pools);
	jsonw_u64(&o, "empty_pools", r->pools_free);
	jsonw_u64(&o, "nearly_empty_arenas", r->arenas_nearly_empty);
	jsonw_u64(&o, "nearly_empty_unused_bytes", r->nearly_empty_free);
	return o;
}

static struct jsonw one_arena(const struct rss_arena *a)
{
	struct jsonw o = jsonw_object();

	jsonw_u64(&o, "address", a->addr);
	jsonw_bool(&o, "main", a->main);
	jsonw_u64(&o, "heaps", a->heaps);
	jsonw_u64(&o, "mapped_bytes", a->mapped);
	jsonw_u64(&o, "resident_bytes", a->resident);
	jsonw_u64(&o, "used_bytes", a->used);
	jsonw_u64(&o, "fastbin_bytes", a->cached);
	jsonw_u64(&o, "free_bytes", a->free);
	jsonw_u64(&o, "free_resident_bytes", a->free_resident);
	jsonw_u64(&o, "top_bytes", a->top);
	jsonw_u64(&o, "top_resident_bytes", a->top_resident);
	jsonw_u64(&o, "trimmable_bytes", a->trimmable);
	return o;
}

static struct jsonw glibc(const struct rss *r)
{
	struct jsonw o = jsonw_object(), list = jsonw_array();

	jsonw_bool(&o, "known", r->glibc_known);
	jsonw_u64(&o, "trimmable_bytes", r->trimmable);
	jsonw_u64(&o, "mapped_blocks", r->mmapped_chunks);
	for (size_t i = 0; i < r->narena; i++)
		jsonw_add(&list, NULL, one_arena(&r->arena[i]));
	jsonw_add(&o, "arenas", list);
	return o;
}

static struct jsonw named(const struct rss_named *v, size_t n)
{
	struct jsonw list = jsonw_array();

	for (size_t i = 0; i < n; i++) {
		struct jsonw o = jsonw_object();

		jsonw_text(&o, "name", v[i].name);
		jsonw_u64(&o, "resident_bytes", v[i].resident);
		jsonw_u64(&o, "private_bytes", v[i].anon);
		jsonw_u64(&o, "swap_bytes", v[i].swap);
		jsonw_u64(&o, "mappings", v[i].maps);
		jsonw_u64(&o, "start", v[i].start);
		jsonw_add(&list, NULL, o);
	}
	return list;
}

static struct jsonw findings(const struct rss *r, bool *fragmented)
{
	struct rss_finding f[RSS_FINDINGS_MAX];
	size_t n = rss_advise(r, f);
	struct jsonw list = jsonw_array();

	*fragmented = false;
	for (size_t i = 0; i < n; i++) {
		struct jsonw o = jsonw_object();

		jsonw_bool(&o, "fragmentation", f[i].fragmentation);
		jsonw_text(&o, "text", f[i].text);
		jsonw_add(&list, NULL, o);
		*fragmented |= f[i].fragmentation;
	}
	return list;
}

static struct jsonw losses(const struct rss *r)
{
	struct jsonw o = jsonw_object();

	jsonw_u64(&o, "torn_pools", r->torn_pools);
	jsonw_u64(&o, "vanished_pools", r->vanished);
	jsonw_u64(&o, "torn_heaps", r->torn_chunks);
	jsonw_u64(&o, "unwalked_bytes", r->unwalked);
	return o;
}

int rss_print_json(const struct rss *r, FILE *out)
{
	struct jsonw o = jsonw_object(), list;
	bool fragmented;

	jsonw_u64(&o, "pid", (u64)r->pid);
	jsonw_text(&o, "comm", r->comm);
	jsonw_text(&o, "python_version", r->python);
	jsonw_text(&o, "allocator", r->alloc_mode);
	jsonw_u64(&o, "rss_bytes", r->rss);
	jsonw_u64(&o, "statm_rss_bytes", r->statm_rss);
	jsonw_u64(&o, "pss_bytes", r->pss);
	jsonw_u64(&o, "uss_bytes", r->uss);
	jsonw_u64(&o, "swap_bytes", r->swap);
	jsonw_u64(&o, "huge_page_bytes", r->thp);
	jsonw_u64(&o, "hugetlb_bytes", r->hugetlb);
	jsonw_u64(&o, "page_table_bytes", r->page_tables);
	jsonw_u64(&o, "threads", r->threads);
	jsonw_u64(&o, "explained_bytes", rss_explained(r));
	jsonw_number(&o, "explained_share", r->rss ? (double)rss_explained(r) / (double)r->rss : 0,
		     4);
	jsonw_add(&o, "kinds", kinds(r));
	jsonw_add(&o, "pymalloc", pymalloc(r));
	jsonw_add(&o, "malloc", glibc(r));
	jsonw_add(&o, "files", named(r->file, r->nfile));
	jsonw_add(&o, "unexplained", named(r->anon, r->nanon));
	list = findings(r, &fragmented);
	jsonw_bool(&o, "fragmented", fragmented);
	jsonw_add(&o, "findings", list);
	jsonw_add(&o, "losses", losses(r));
	jsonw_number(&o, "took_ms", (double)r->took_ns / 1e6, 1);
	jsonw_number(&o, "stopped_ms", (double)r->frozen_ns / 1e6, 1);
	return jsonw_print(&o, out);
}
