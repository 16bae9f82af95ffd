// SPDX-License-Identifier: BSD-2-Clause
/* One page of verdicts. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "leaks_report.h"
#include "report_place.h"
#include "report_style.h"
#include "report_units.h"

#define LABEL	     10
#define MAX_CALLERS  6
#define LIVE_WIDTH   10
#define KIND_WIDTH   16
#define NOTE_WIDTH   22
#define TABLE_WIDTH  (LIVE_WIDTH + KIND_WIDTH + NOTE_WIDTH + 6)
#define NOTE_MAX     48
#define LINE_MAX_LEN 1024

static const struct leaks_look *last_look(const struct leaks_report *r,
					  const struct leaks_look *looks)
{
	return &looks[r->series->n - 1];
}

static void print_head(struct paint *p, const struct leaks_report *r)
{
	const struct snapshot *s = &r->head;
	char text[LINE_MAX_LEN], seconds[UNITS_MAX], interval[UNITS_MAX];

	snprintf(text, sizeof(text), "%.31s (pid %d), Python %.15s", s->comm, s->pid,
		 s->python_version);
	paint_wrapped(p, "process", LABEL, INK_BOLD, text);
	snprintf(text, sizeof(text), "%s, %zu looks, one sample per %s, %.15s%s%s",
		 units_seconds(seconds, s->duration), r->series->n,
		 units_bytes(interval, (double)s->sample_interval, false), s->collector,
		 *s->end_reason ? "; ended: " : "", s->end_reason);
	paint_wrapped(p, "watched", LABEL, INK_PLAIN, text);
	snprintf(text, sizeof(text), "%s: %.255s", s->coverage_complete ? "complete" : "partial",
		 s->coverage);
	paint_wrapped(p, "coverage", LABEL, s->coverage_complete ? INK_GREEN : INK_YELLOW, text);
}

static void print_process(struct paint *p, const struct leaks_report *r)
{
	static const char *const words[LEAKS_RSS_KINDS] = {
		[LEAKS_RSS_LEVEL] = "the process does not grow",
		[LEAKS_RSS_LIVE] = "it grows as what it holds does",
		[LEAKS_RSS_FRAGMENTATION] =
			"it grows, what it holds does not: fragmentation, or memory that is "
			"not seen here (pyheaptrace rss tells)",
		[LEAKS_RSS_UNKNOWN] = "not watched for long enough to tell whether it grows",
	};
	const struct leaks_process *v = &r->process;
	char text[LINE_MAX_LEN], rss[UNITS_MAX], grew[UNITS_MAX], live[UNITS_MAX], half[UNITS_MAX];
	char since[UNITS_MAX];

	if (v->kind == LEAKS_RSS_UNKNOWN)
		snprintf(text, sizeof(text), "RSS %s; %s",
			 units_bytes(rss, (double)r->head.rss, false), words[v->kind]);
	else
		snprintf(text, sizeof(text), "RSS %s, %s since %s; traced live heap %s %s%s: %s",
			 units_bytes(rss, (double)r->head.rss, false),
			 units_growth(grew, v->rss_growth, false), units_seconds(since, v->since),
			 units_growth(live, v->growth.value, false), p->glyphs->plus_minus,
			 units_bytes(half, v->growth.high - v->growth.value, false),
			 words[v->kind]);
	paint_wrapped(p, "memory", LABEL,
		      v->kind == LEAKS_RSS_FRAGMENTATION ? INK_YELLOW : INK_PLAIN, text);
	if (*r->finding)
		paint_wrapped(p, "", LABEL, INK_YELLOW, r->finding);
	if (!strcmp(r->head.collector, "growth"))
		paint_wrapped(p, "", LABEL, INK_YELLOW,
			      "This collector sees which line first writes to a page, not which "
			      "one keeps blocks in it: look at them together.");
}

static const char *chance(char buf[UNITS_MAX], double p)
{
	if (p < 1e-4)
		snprintf(buf, UNITS_MAX, "p < 0.0001");
	else
		snprintf(buf, UNITS_MAX, "p = %.4f", p);
	return buf;
}

static void print_evidence(struct paint *p, const struct leaks_report *r,
			   const struct leaks_site *site)
{
	const struct leaks_verdict *v = &site->verdict;
	char text[LINE_MAX_LEN], old[UNITS_MAX], share[UNITS_MAX], live[UNITS_MAX];
	char blocks[UNITS_MAX], age[UNITS_MAX], allocated[UNITS_MAX];
	int used = snprintf(text, sizeof(text), "%s live in %s blocks, of %s allocated",
			    units_bytes(live, site->live.bytes, false),
			    units_count(blocks, site->live.blocks),
			    units_bytes(allocated, last_look(r, site->looks)->allocated, false));

	if (v->by_age)
		used += snprintf(text + used, sizeof(text) - used, "; %s of it older than %s",
				 units_bytes(old, v->old.value, false),
				 units_seconds(age, r->older_than));
	else
		used += snprintf(text + used, sizeof(text) - used,
				 "; it grew evenly, ages are not known");
	if (v->survival >= 0)
		snprintf(text + used, sizeof(text) - used, "; %s of what it allocates stays",
			 units_share(share, v->survival, false));
	paint_wrapped(p, "", LABEL, INK_DIM, text);
}

static void print_stack(struct paint *p, const struct leaks_report *r,
			const struct leaks_site *site)
{
	struct frame frames[MAX_CALLERS];
	struct place_layout place = {.total = p->width - LABEL};
	u32 n = stacks_expand(r->series->stacks, site->stack, frames, MAX_CALLERS);
	int arrow = escape_width(p->glyphs->from);

	n = n < MAX_CALLERS ? n : MAX_CALLERS;
	for (u32 i = 0; i < n; i++)
		place_measure(&place, p, &frames[i], PLACE_LINE | PLACE_FUNCTION, i ? arrow : 0,
			      NULL);
	place_divide(&place);
	for (u32 i = 0; i < n; i++) {
		paint_spaces(p, LABEL);
		if (i)
			paint_text(p, INK_DIM, p->glyphs->from);
		place_print(&place, p, &frames[i], PLACE_LINE | PLACE_FUNCTION, i ? arrow : 0,
			    NULL);
		paint_end_line(p);
	}
}

static void print_leak(struct paint *p, const struct leaks_report *r, const struct leaks_site *site)
{
	const struct leaks_verdict *v = &site->verdict;
	char text[LINE_MAX_LEN], rate[UNITS_MAX], low[UNITS_MAX], high[UNITS_MAX], sure[UNITS_MAX];

	paint_end_line(p);
	paint_cell(p, INK_RED, "LEAK", LABEL, false);
	snprintf(text, sizeof(text), "%s/h", units_growth(rate, v->per_hour.value, false));
	paint_text(p, INK_RED, text);
	snprintf(text, sizeof(text), "  (95%%: %s to %s)  %s  %s",
		 units_bytes(low, v->per_hour.low, false),
		 units_bytes(high, v->per_hour.high, false), leaks_kind_name(v->kind),
		 chance(sure, v->p));
	paint_text(p, INK_PLAIN, text);
	paint_end_line(p);
	print_stack(p, r, site);
	print_evidence(p, r, site);
}

/* What there is to say about a site that is no leak, in a few columns. */
static void note_of(char note[NOTE_MAX], const struct leaks_verdict *v)
{
	char buf[UNITS_MAX];

	if (v->kind == LEAKS_SAWTOOTH)
		snprintf(note, NOTE_MAX, "every %s", units_seconds(buf, v->period));
	else if (v->kind == LEAKS_FILLED || v->kind == LEAKS_STARTUP)
		snprintf(note, NOTE_MAX, "90%% after %s", units_seconds(buf, v->level_after));
	else if (v->kind == LEAKS_STEADY)
		snprintf(note, NOTE_MAX, "at most %s/h",
			 units_bytes(buf, fmax(0, v->per_hour.high), false));
	else if (v->kind == LEAKS_GROWING)
		snprintf(note, NOTE_MAX, "%s/h?", units_growth(buf, v->per_hour.value, false));
	else
		*note = '\0';
}

static const struct frame *top_frame(const struct leaks_report *r, const struct leaks_site *site)
{
	return stacks_frame(r->series->stacks, stacks_top(r->series->stacks, site->stack));
}

static void print_other(struct paint *p, const struct leaks_report *r,
			const struct leaks_site *site, const struct place_layout *place)
{
	const struct leaks_verdict *v = &site->verdict;
	char note[NOTE_MAX], live[UNITS_MAX];

	note_of(note, v);
	paint_cell(p, INK_PLAIN, units_bytes(live, site->live.bytes, false), LIVE_WIDTH, true);
	paint_spaces(p, 2);
	paint_cell(p, v->kind == LEAKS_GROWING ? INK_YELLOW : INK_PLAIN, leaks_kind_name(v->kind),
		   KIND_WIDTH, false);
	paint_spaces(p, 2);
	paint_cell(p, INK_DIM, note, NOTE_WIDTH, false);
	paint_spaces(p, 2);
	place_print(place, p, top_frame(r, site), PLACE_LINE | PLACE_FUNCTION, 0, NULL);
	paint_end_line(p);
	if (v->kind == LEAKS_GROWING && v->why) {
		paint_spaces(p, LIVE_WIDTH + 2);
		paint_text(p, INK_DIM, v->why);
		paint_end_line(p);
	}
}

static bool worth_a_line(const struct leaks_site *site)
{
	return !leaks_is_leak(site->verdict.kind) && site->verdict.kind != LEAKS_NOT_ENOUGH &&
	       site->live.bytes >= 1;
}

/* Those that hold most: sites come in that order. */
static void print_others(struct paint *p, const struct leaks_report *r)
{
	struct place_layout place = {.total = p->width - TABLE_WIDTH};
	const struct leaks_series *s = r->series;
	size_t shown = 0, few = 0, more = 0;
	char text[LINE_MAX_LEN];
	bool listed;

	for (size_t i = 0; i < s->nsites; i++) {
		const struct leaks_site *site = s->sites[i];

		few += site->verdict.kind == LEAKS_NOT_ENOUGH;
		if (!worth_a_line(site))
			continue;
		if (shown == r->top) {
			more++;
			continue;
		}
		shown++;
		place_measure(&place, p, top_frame(r, site), PLACE_LINE | PLACE_FUNCTION, 0, NULL);
	}
	listed = shown;
	if (shown) {
		paint_end_line(p);
		paint_cell(p, INK_BOLD, "LIVE", LIVE_WIDTH, true);
		paint_text(p, INK_BOLD, "  NOT A LEAK");
		paint_end_line(p);
	}
	place_divide(&place);
	for (size_t i = 0; i < s->nsites && shown; i++) {
		if (!worth_a_line(s->sites[i]))
			continue;
		print_other(p, r, s->sites[i], &place);
		shown--;
	}
	if (!few && !more)
		return;
	snprintf(text, sizeof(text), "%s%zu site%s with too few samples to tell%s",
		 listed ? "and " : "", few + more, few + more == 1 ? "" : "s",
		 more ? ", or not shown (-n)" : "");
	paint_end_line(p);
	paint_wrapped(p, "", LABEL, INK_DIM, text);
}

static void print_losses(struct paint *p, const struct leaks_report *r)
{
	char text[LINE_MAX_LEN];

	for (int i = 0; i < PHT_LOSS_NR; i++) {
		if (!r->head.losses[i])
			continue;
		snprintf(text, sizeof(text), "%llu %s", (unsigned long long)r->head.losses[i],
			 loss_text((enum pht_loss)i));
		paint_wrapped(p, "lost", LABEL, INK_YELLOW, text);
	}
	if (r->series->refused)
		paint_wrapped(p, "lost", LABEL, INK_YELLOW,
			      "some sites were not looked at: there are too many");
}

int leaks_print_text(FILE *out, const struct leaks_report *r)
{
	const struct leaks_series *s = r->series;
	struct report_style style;
	struct paint p;
	size_t leaks = 0;

	report_style_for(out, &style);
	paint_init(&p, out, &style);
	print_head(&p, r);
	print_process(&p, r);
	print_losses(&p, r);
	for (size_t i = 0; i < s->nsites && leaks_is_leak(s->sites[i]->verdict.kind); i++)
		if (leaks++ < r->top)
			print_leak(&p, r, s->sites[i]);
	if (!leaks) {
		paint_end_line(&p);
		paint_wrapped(&p, "no leak", LABEL, INK_GREEN,
			      "No site grows in a way that is beyond chance.");
	}
	print_others(&p, r);
	return ferror(out) ? -EIO : 0;
}
