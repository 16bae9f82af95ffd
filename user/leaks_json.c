// SPDX-License-Identifier: BSD-2-Clause
#include <math.h>

#include "capture_view.h"
#include "leaks_report.h"
#include "rss_jsonw.h"

#define MAX_FRAMES 128

/* Negative stands for "not known" where a value cannot be negative. */
static void number(struct jsonw *o, const char *key, double value, int decimals)
{
	if (value < 0 || !isfinite(value))
		jsonw_text(o, key, NULL); /* null */
	else
		jsonw_number(o, key, value, decimals);
}

static struct jsonw interval(const struct estimate *e)
{
	struct jsonw o = jsonw_object();

	jsonw_number(&o, "value", e->value, 0);
	jsonw_number(&o, "low", e->low, 0);
	jsonw_number(&o, "high", e->high, 0);
	return o;
}

static struct jsonw frames_of(const struct stacks *stacks, u32 stack)
{
	static const char *const kinds[] = {[FRAME_PYTHON] = "python",
					    [FRAME_NATIVE] = "native",
					    [FRAME_OTHER] = "other",
					    [FRAME_THREAD] = "thread"};
	struct frame frames[MAX_FRAMES];
	u32 n = stacks_expand(stacks, stack, frames, MAX_FRAMES);
	struct jsonw list = jsonw_array();

	for (u32 i = 0; i < n && i < MAX_FRAMES; i++) {
		struct jsonw f = jsonw_object();

		jsonw_text(&f, "function", frames[i].function);
		jsonw_text(&f, "file", frames[i].file);
		jsonw_s64(&f, "line", frames[i].line);
		jsonw_text(&f, "kind", kinds[frames[i].kind]);
		jsonw_add(&list, NULL, f);
	}
	return list;
}

static struct jsonw site_of(const struct leaks_report *r, const struct leaks_site *site)
{
	const struct leaks_verdict *v = &site->verdict;
	const struct leaks_look *last = &site->looks[r->series->n - 1];
	struct jsonw o = jsonw_object();

	jsonw_text(&o, "verdict", leaks_kind_key(v->kind));
	jsonw_bool(&o, "leak", leaks_is_leak(v->kind));
	number(&o, "p", v->p, 12);
	jsonw_text(&o, "why", v->why);
	jsonw_text(&o, "evidence", v->by_age ? "age" : "growth");
	jsonw_add(&o, "bytes_per_hour", interval(&v->per_hour));
	jsonw_number(&o, "live_bytes", site->live.bytes, 0);
	jsonw_number(&o, "live_blocks", site->live.blocks, 0);
	jsonw_number(&o, "allocated_bytes", last->allocated, 0);
	number(&o, "old_bytes", v->old.value, 0);
	number(&o, "survival", v->survival, 6);
	number(&o, "turnover_seconds", v->turnover, 3);
	number(&o, "period_seconds", v->period, 3);
	jsonw_u64(&o, "falls", v->falls);
	number(&o, "level_after_seconds", v->level_after, 3);
	jsonw_u64(&o, "samples", site->samples);
	jsonw_u64(&o, "live_samples", site->live.samples);
	jsonw_add(&o, "frames", frames_of(r->series->stacks, site->stack));
	return o;
}

static struct jsonw process_of(const struct leaks_report *r)
{
	const struct leaks_process *p = &r->process;
	struct jsonw o = jsonw_object();

	jsonw_text(&o, "verdict", leaks_process_key(p->kind));
	jsonw_number(&o, "since_seconds", p->since, 3);
	jsonw_number(&o, "rss_growth_bytes", p->rss_growth, 0);
	jsonw_number(&o, "rss_bytes_per_hour", p->rss_per_hour, 0);
	jsonw_add(&o, "live_growth_bytes", interval(&p->growth));
	jsonw_text(&o, "finding", *r->finding ? r->finding : NULL);
	return o;
}

int leaks_print_json(FILE *out, const struct leaks_report *r)
{
	const struct leaks_series *s = r->series;
	struct jsonw o = jsonw_object(), sites = jsonw_array(), losses = jsonw_object();

	jsonw_s64(&o, "pid", r->head.pid);
	jsonw_text(&o, "comm", r->head.comm);
	jsonw_text(&o, "python_version", r->head.python_version);
	jsonw_text(&o, "collector", r->head.collector);
	jsonw_text(&o, "coverage", r->head.coverage);
	jsonw_bool(&o, "coverage_complete", r->head.coverage_complete);
	jsonw_text(&o, "end_reason", *r->head.end_reason ? r->head.end_reason : NULL);
	jsonw_u64(&o, "sample_interval", r->head.sample_interval);
	jsonw_number(&o, "duration_seconds", r->head.duration, 3);
	jsonw_number(&o, "older_than_seconds", r->older_than, 3);
	jsonw_u64(&o, "looks", s->n);
	jsonw_u64(&o, "rss_bytes", r->head.rss);
	jsonw_text(&o, "group_by", view_group_name(s->by));
	jsonw_add(&o, "process", process_of(r));
	for (int i = 0; i < PHT_LOSS_NR; i++)
		jsonw_u64(&losses, loss_name((enum pht_loss)i), r->head.losses[i]);
	jsonw_add(&o, "losses", losses);
	for (size_t i = 0; i < s->nsites; i++)
		jsonw_add(&sites, NULL, site_of(r, s->sites[i]));
	jsonw_add(&o, "sites", sites);
	return jsonw_print(&o, out);
}
