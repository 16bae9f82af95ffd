// SPDX-License-Identifier: BSD-2-Clause
/* The screen of the live view: header, table, the line below it. */
#include "live_ui.h"

#include <math.h>
#include <string.h>

#include "report_units.h"

#define MIN_WIDTH  30
#define MIN_HEIGHT 7
#define LABEL	   11

const char *live_group_name(enum group_by by)
{
	static const char *const names[] = {
		[GROUP_LINE] = "line",	   [GROUP_FUNCTION] = "function",   [GROUP_FILE] = "file",
		[GROUP_THREAD] = "thread", [GROUP_TRACEBACK] = "traceback",
	};

	return names[by];
}

const char *live_column_name(enum live_column column)
{
	static const char *const names[LIVE_COLUMNS] = {
		[LIVE_LIVE] = "LIVE", [LIVE_GROWTH] = "GROWTH", [LIVE_BLOCKS] = "BLOCKS",
		[LIVE_RATE] = "RATE", [LIVE_SINCE] = "SINCE",
	};

	return names[column];
}

static const char *ellipsis(const struct live_ui *ui)
{
	return ui->ascii ? ".." : "\u2026";
}

/* From x to the end of the line, the cut marked. */
static int put_clipped(const struct live_ui *ui, struct canvas *c, int y, int x, enum ink ink,
		       const char *text)
{
	char cut[1024];

	escape_clip(cut, sizeof(cut), text, c->width - x, CLIP_RIGHT, ellipsis(ui));
	return canvas_put(c, y, x, c->width - x, ink, cut);
}

static void put_labelled(const struct live_ui *ui, struct canvas *c, int y, const char *label,
			 enum ink ink, const char *text)
{
	canvas_put(c, y, 0, LABEL, INK_DIM, label);
	put_clipped(ui, c, y, LABEL, ink, text);
}

static void draw_title(const struct live_ui *ui, struct canvas *c, int y)
{
	const struct live_model *m = live_ui_shown(ui);
	char name[4 * sizeof(m->now.comm) + 1], version[4 * sizeof(m->now.python_version) + 1];
	char collector[4 * sizeof(m->now.collector) + 1], seconds[UNITS_MAX], text[512];
	int x, used;

	escape_text(name, sizeof(name), *m->now.comm ? m->now.comm : "?", ui->ascii);
	escape_text(version, sizeof(version), m->now.python_version, ui->ascii);
	escape_text(collector, sizeof(collector), m->now.collector, ui->ascii);
	x = canvas_put(c, y, 0, c->width / 2, INK_BOLD, name);
	used = snprintf(text, sizeof(text), " (pid %d)  Python %s  %s  %s", m->now.pid, version,
			collector, units_seconds(seconds, m->now.duration));
	if (ui->nmodels > 1)
		snprintf(text + used, sizeof(text) - used, "  process %zu of %zu (Tab)", ui->at + 1,
			 ui->nmodels);
	x = put_clipped(ui, c, y, x, INK_PLAIN, text);
	if (m->paused)
		put_clipped(ui, c, y, x, INK_YELLOW, "  PAUSED");
}

static void draw_memory(const struct live_ui *ui, struct canvas *c, int y)
{
	const struct live_model *m = live_ui_shown(ui);
	struct estimate live = snap_interval(&m->total.live, m->now.sample_interval);
	char value[UNITS_MAX], error[UNITS_MAX], blocks[UNITS_MAX], rss[UNITS_MAX];
	char held[UNITS_MAX], count[UNITS_MAX], text[512];
	double half = live.high - live.value;
	int used;

	used = snprintf(text, sizeof(text), "%s %s%s in %s blocks since attach; RSS %s",
			units_bytes(value, live.value, false),
			half < 0.5  ? ""
			: ui->ascii ? "+/- "
				    : "\u00b1 ",
			half < 0.5 ? "exactly" : units_bytes(error, half, false),
			units_count(blocks, m->total.live.blocks),
			units_bytes(rss, (double)m->now.rss, false));
	if (m->held_objects)
		snprintf(text + used, sizeof(text) - used, "; before that %s in %s objects",
			 units_bytes(held, (double)m->held_bytes, false),
			 units_count(count, (double)m->held_objects));
	put_labelled(ui, c, y, "live heap", INK_BOLD, text);
}

static void draw_coverage(const struct live_ui *ui, struct canvas *c, int y)
{
	const struct snapshot *s = &live_ui_shown(ui)->now;
	char share[UNITS_MAX] = "?", cost[64] = "", words[4 * sizeof(s->coverage) + 1], text[1400];

	if (s->coverage_share >= 0 && isfinite(s->coverage_share))
		units_share(share, s->coverage_share, false);
	if (s->overhead >= 0)
		snprintf(cost, sizeof(cost), "; %.1f%% slower meanwhile", s->overhead * 100);
	escape_text(words, sizeof(words), s->coverage, ui->ascii);
	snprintf(text, sizeof(text), "%s, %s block by block%s; %s",
		 s->coverage_complete ? "complete" : "partial", share, cost, words);
	put_labelled(ui, c, y, "coverage", s->coverage_complete ? INK_GREEN : INK_YELLOW, text);
}

static void draw_sampling(const struct live_ui *ui, struct canvas *c, int y)
{
	const struct live_model *m = live_ui_shown(ui);
	char every[UNITS_MAX], samples[UNITS_MAX], live[UNITS_MAX], text[1024];
	size_t used;
	int x;

	if (m->now.sample_interval <= 1)
		strcpy(every, "allocation");
	else
		units_bytes(every, (double)m->now.sample_interval, false);
	canvas_put(c, y, 0, LABEL, INK_DIM, "sampling");
	snprintf(text, sizeof(text), "one per %s, %s samples, %s live", every,
		 units_count(samples, (double)m->total.samples),
		 units_count(live, (double)m->total.live.samples));
	x = put_clipped(ui, c, y, LABEL, INK_PLAIN, text);
	used = 0;
	if (m->started_over)
		used = snprintf(text, sizeof(text), "; names forgotten %llu times",
				(unsigned long long)m->started_over);
	for (int i = 0; i < PHT_LOSS_NR && used < sizeof(text); i++)
		if (m->now.losses[i])
			used += snprintf(text + used, sizeof(text) - used, "%s %s %llu",
					 used ? "," : "; lost:", loss_name(i),
					 (unsigned long long)m->now.losses[i]);
	if (used)
		put_clipped(ui, c, y, x, INK_YELLOW, text);
}

static void draw_end(const struct live_ui *ui, struct canvas *c, int y)
{
	const struct snapshot *s = &live_ui_shown(ui)->now;
	char reason[4 * sizeof(s->end_reason) + 1], text[sizeof(reason) + 64];

	escape_text(reason, sizeof(reason), s->end_reason, ui->ascii);
	snprintf(text, sizeof(text), "%s; q leaves with the final report", reason);
	put_labelled(ui, c, y, "ended", INK_RED, text);
}

/* How the rows were chosen and ordered, in words. */
static void draw_settings(const struct live_ui *ui, struct canvas *c, int y)
{
	const struct live_model *m = live_ui_shown(ui);
	char filter[4 * LIVE_FILTER_MAX + 1], bytes[UNITS_MAX], at[UNITS_MAX], text[1024];
	int used;

	if (m->callers.open)
		used = snprintf(text, sizeof(text), "%zu of one %s", m->callers.list.n,
				live_group_name(m->set.group_by));
	else
		used = snprintf(text, sizeof(text), "%zu by %s", m->list.n,
				live_group_name(m->set.group_by));
	used += snprintf(text + used, sizeof(text) - used, ", sorted by %s%s",
			 live_column_name(m->set.sort), m->set.reverse ? ", reversed" : "");
	if (*m->set.filter) {
		escape_text(filter, sizeof(filter), m->set.filter, ui->ascii);
		used += snprintf(text + used, sizeof(text) - used, ", with \"%s\": %s", filter,
				 units_bytes(bytes, m->passed, false));
	}
	if (m->has_base)
		snprintf(text + used, sizeof(text) - used, ", baseline at %s",
			 units_seconds(at, m->base.duration));
	put_labelled(ui, c, y, m->callers.open ? "callers" : "rows", INK_PLAIN, text);
}

int live_draw_header(const struct live_ui *ui, struct canvas *c)
{
	const struct live_model *m = live_ui_shown(ui);
	int y = 0;

	draw_title(ui, c, y++);
	draw_memory(ui, c, y++);
	if (c->height >= 2 * MIN_HEIGHT) {
		draw_coverage(ui, c, y++);
		draw_sampling(ui, c, y++);
	}
	if (*m->now.end_reason)
		draw_end(ui, c, y++);
	draw_settings(ui, c, y++);
	return y;
}

static void draw_bottom(const struct live_ui *ui, struct canvas *c)
{
	static const char table_keys[] =
		"q quit  h help  \u2191\u2193 select  Enter callers  s sort  r reverse  "
		"g group  / filter  p pause  b baseline";
	static const char ascii_keys[] =
		"q quit  h help  Enter callers  s sort  r reverse  g group  "
		"/ filter  p pause  b baseline";
	static const char caller_keys[] =
		"q quit  h help  Esc back  Enter fold  s sort  r reverse  "
		"p pause  b baseline";
	const struct live_model *m = live_ui_shown(ui);
	char filter[4 * LIVE_FILTER_MAX + 1];
	int y = c->height - 1, x;

	if (ui->typing) {
		escape_text(filter, sizeof(filter), m->set.filter, ui->ascii);
		x = canvas_put(c, y, 0, c->width, INK_BOLD, "filter: ");
		x = canvas_put(c, y, x, c->width - x, INK_PLAIN, filter);
		x = canvas_put(c, y, x, c->width - x, INK_BOLD, "_");
		put_clipped(ui, c, y, x, INK_DIM,
			    "  part of a name, or a pattern with * ?; Enter keeps, Esc drops it");
	} else if (*ui->message) {
		put_clipped(ui, c, y, 0, ui->warn ? INK_YELLOW : INK_PLAIN, ui->message);
	} else {
		put_clipped(ui, c, y, 0, INK_DIM,
			    m->callers.open ? caller_keys
			    : ui->ascii	    ? ascii_keys
					    : table_keys);
	}
}

int live_draw(struct live_ui *ui, struct canvas *c, int width, int height)
{
	int err = canvas_reset(c, width, height);
	int top;

	if (err)
		return err;
	if (!live_ui_shown(ui)) {
		canvas_put(c, 0, 0, c->width, INK_PLAIN, "Waiting for the first look...");
		return 0;
	}
	if (c->width < MIN_WIDTH || c->height < MIN_HEIGHT) {
		canvas_put(c, 0, 0, c->width, INK_PLAIN, "window too small");
		return 0;
	}
	if (ui->help) {
		live_draw_help(ui, c);
		return 0;
	}
	top = live_draw_header(ui, c);
	ui->page = c->height - 2 - top;
	live_draw_list(ui, c, top, c->height - 1 - top);
	draw_bottom(ui, c);
	return 0;
}
