// SPDX-License-Identifier: BSD-2-Clause
/* A report for people: header, table, what was lost. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "report_paint.h"
#include "report_table.h"
#include "report_units.h"

#define LABEL	  12
#define IDLE_CORE 0.005

static const char *plural(u64 n)
{
	return n == 1 ? "" : "s";
}

static void print_merged_title(struct paint *p, const struct report *r)
{
	char text[64 + UNITS_MAX], seconds[UNITS_MAX];

	snprintf(text, sizeof(text), "%zu process%s", r->nprocesses,
		 r->nprocesses == 1 ? "" : "es");
	paint_text(p, INK_BOLD, text);
	snprintf(text, sizeof(text), " together  %s%s", units_seconds(seconds, r->duration),
		 r->final ? ", final report" : "");
	paint_text(p, INK_PLAIN, text);
	paint_end_line(p);
}

static void print_title(struct paint *p, const struct report *r)
{
	char comm[4 * sizeof(r->comm) + 1], version[4 * sizeof(r->python_version) + 1];
	char text[sizeof(comm) + sizeof(version) + 64], cut[sizeof(text) + 8], seconds[UNITS_MAX];
	int name;

	if (r->processes) {
		print_merged_title(p, r);
		return;
	}
	escape_text(comm, sizeof(comm), *r->comm ? r->comm : "?", p->ascii);
	escape_text(version, sizeof(version), r->python_version, p->ascii);
	name = escape_clip(cut, sizeof(cut), comm, p->width / 2, CLIP_RIGHT, p->glyphs->ellipsis);
	paint_text(p, INK_BOLD, cut);
	snprintf(text, sizeof(text), " (pid %d)  Python %s  %s%s", r->pid, version,
		 units_seconds(seconds, r->duration), r->final ? ", final report" : "");
	escape_clip(cut, sizeof(cut), text, p->width - name, CLIP_RIGHT, p->glyphs->ellipsis);
	paint_text(p, INK_PLAIN, cut);
	paint_end_line(p);
}

/* What the number is of, behind "in N blocks". */
static void memory_words(const struct report *r, char *text, size_t size)
{
	char rss[UNITS_MAX], when[UNITS_MAX];

	if (r->metric == METRIC_PEAK)
		snprintf(text, size, "at the peak, %s after attach",
			 units_seconds(when, r->peak_seconds));
	else if (r->metric == METRIC_TEMPORARY)
		snprintf(text, size, "freed within %s, since attach",
			 units_moment(when, r->temporary_seconds));
	else
		snprintf(text, size, "since attach; RSS %s",
			 units_bytes(rss, (double)r->rss, false));
}

static void print_memory(struct paint *p, const struct report *r)
{
	static const char *const labels[] = {[METRIC_LIVE] = "live heap",
					     [METRIC_PEAK] = "peak heap",
					     [METRIC_TEMPORARY] = "temporary"};
	char live[UNITS_MAX], error[UNITS_MAX], blocks[UNITS_MAX], words[128];
	char margin[UNITS_MAX + 8], text[256];
	double half = r->live_bytes.high - r->live_bytes.value;

	units_bytes(live, r->live_bytes.value, false);
	units_bytes(error, half, false);
	units_count(blocks, r->live_blocks);
	memory_words(r, words, sizeof(words));
	if (half < 0.5)
		snprintf(margin, sizeof(margin), "exactly");
	else
		snprintf(margin, sizeof(margin), "%s %s", p->glyphs->plus_minus, error);
	snprintf(text, sizeof(text), "%s %s in %s blocks %s", live, margin, blocks, words);
	paint_wrapped(p, labels[r->metric], LABEL, INK_BOLD, text);
}

/* Only where it is news: most of the time the peak is now. */
static void print_peak(struct paint *p, const struct report *r)
{
	char peak[UNITS_MAX], error[UNITS_MAX], when[UNITS_MAX], text[256];

	if (r->metric != METRIC_LIVE || r->peak_seconds < 0 ||
	    r->peak_bytes.value <= 1.25 * r->live_bytes.high)
		return;
	snprintf(text, sizeof(text), "%s %s %s were live %s after attach (--peak shows what)",
		 units_bytes(peak, r->peak_bytes.value, false), p->glyphs->plus_minus,
		 units_bytes(error, r->peak_bytes.high - r->peak_bytes.value, false),
		 units_seconds(when, r->peak_seconds));
	paint_wrapped(p, "peak", LABEL, INK_PLAIN, text);
}

static void print_lives(struct paint *p, const struct report *r)
{
	static const int percent[] = {50, 90, 99};
	char text[256] = "", moment[UNITS_MAX];
	size_t used = 0;

	if (r->metric != METRIC_TEMPORARY || life_quantile(&r->lives, 1) < 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(percent); i++) {
		double end = life_quantile(&r->lives, percent[i] / 100.0);

		used += snprintf(text + used, sizeof(text) - used, "%s%d%%%s lived %s %s",
				 i ? ", " : "", percent[i], i ? "" : " of what was freed",
				 isfinite(end) ? "less than" : "more than",
				 units_moment(moment, isfinite(end)
							      ? end
							      : life_from(PHT_LIFE_BUCKETS - 1)));
	}
	paint_wrapped(p, "lifetimes", LABEL, INK_PLAIN, text);
}

static void print_before(struct paint *p, const struct report *r)
{
	char bytes[UNITS_MAX], count[UNITS_MAX], text[512];
	const struct report_before *b = r->before;
	size_t used;

	if (!b)
		return;
	used = snprintf(text, sizeof(text), "%s in %s objects when attached, not counted below",
			units_bytes(bytes, (double)b->bytes, false),
			units_count(count, (double)b->objects));
	for (size_t i = 0; i < b->ntypes && used < sizeof(text); i++)
		used += snprintf(text + used, sizeof(text) - used, "%s %s %s", i ? "," : ":",
				 b->types[i].name,
				 units_bytes(bytes, (double)b->types[i].bytes, false));
	paint_wrapped(p, "before", LABEL, INK_PLAIN, text);
}

/* Much of next to nothing is nothing: of a process that is mostly idle say how much that is. */
static void cost_text(const struct report *r, char *buf, size_t size)
{
	if (r->overhead > 0 && r->overhead_core > 0 && r->overhead_core < IDLE_CORE)
		snprintf(buf, size,
			 "; meanwhile this costs %.2f%% of a core, and the process uses %.2f%%",
			 r->overhead_core * 100, r->overhead_core / r->overhead * 100);
	else if (r->overhead >= 0)
		snprintf(buf, size, "; the process runs %.1f%% slower meanwhile",
			 r->overhead * 100);
}

static void print_coverage(struct paint *p, const struct report *r)
{
	char share[UNITS_MAX], cost[96] = "", text[1024];
	const char *words = r->coverage ? r->coverage : "";

	cost_text(r, cost, sizeof(cost));
	snprintf(text, sizeof(text), "%s, wrote %s into the process%s",
		 r->collector ? r->collector : "?", r->wrote && *r->wrote ? r->wrote : "nothing",
		 cost);
	paint_wrapped(p, "collector", LABEL, INK_PLAIN, text);
	if (r->coverage_share >= 0 && isfinite(r->coverage_share))
		snprintf(text, sizeof(text), "%s, %s of live bytes block by block%s%s",
			 r->coverage_complete ? "complete" : "partial",
			 units_share(share, r->coverage_share, false), *words ? ": " : "", words);
	else
		snprintf(text, sizeof(text), "%s, share unknown%s%s",
			 r->coverage_complete ? "complete" : "partial", *words ? ": " : "", words);
	paint_wrapped(p, "coverage", LABEL, r->coverage_complete ? INK_GREEN : INK_YELLOW, text);
}

/* The governor may have raised it: then -R does not say how fine the numbers are. */
static void interval_words(const struct report *r, char *buf, size_t size)
{
	char interval[UNITS_MAX], asked[UNITS_MAX];

	if (r->sample_interval <= 1) {
		snprintf(buf, size, "every allocation");
		return;
	}
	units_bytes(interval, (double)r->sample_interval, false);
	units_bytes(asked, (double)r->interval_asked, false);
	if (r->interval_asked && r->interval_asked < r->sample_interval)
		snprintf(buf, size, "1 per %s (%s asked for, raised for --max-overhead)", interval,
			 r->interval_asked == 1 ? "all" : asked);
	else
		snprintf(buf, size, "1 per %s", interval);
}

static void print_sampling(struct paint *p, const struct report *r)
{
	char samples[UNITS_MAX], live[UNITS_MAX], calls[UNITS_MAX];
	char frees[UNITS_MAX], seen[3 * UNITS_MAX], text[256], every[2 * UNITS_MAX + 64];

	interval_words(r, every, sizeof(every));
	snprintf(seen, sizeof(seen), "; %s calls, %s frees", units_count(calls, (double)r->calls),
		 units_count(frees, (double)r->frees));
	/* The trampoline counts in the target, where only samples are told to us. */
	snprintf(text, sizeof(text), "%s, %s sample%s, %s live%s", every,
		 units_count(samples, (double)r->samples), plural(r->samples),
		 units_count(live, (double)r->live_samples), r->calls ? seen : "");
	paint_wrapped(p, "sampling", LABEL, INK_PLAIN, text);
}

static void print_header(struct paint *p, const struct report *r)
{
	print_title(p, r);
	print_memory(p, r);
	print_peak(p, r);
	print_lives(p, r);
	print_before(p, r);
	print_coverage(p, r);
	print_sampling(p, r);
	paint_end_line(p);
}

/* As many as there may be rows. */
static void print_processes(struct paint *p, const struct report *r)
{
	size_t shown = r->nprocesses < r->top ? r->nprocesses : r->top;
	char live[UNITS_MAX], rss[UNITS_MAX], text[512];

	if (!r->processes)
		return;
	for (size_t i = 0; i < shown; i++) {
		const struct report_process *one = &r->processes[i];

		snprintf(text, sizeof(text), "%7d %-15s %10s live, RSS %s%s%s", one->pid, one->comm,
			 units_bytes(live, one->live_bytes.value, false),
			 units_bytes(rss, (double)one->rss, false), one->end_reason ? "; " : "",
			 one->end_reason ? one->end_reason : "");
		paint_wrapped(p, i ? "" : "processes", LABEL, INK_PLAIN, text);
	}
	if (shown < r->nprocesses) {
		snprintf(text, sizeof(text), "... %zu more", r->nprocesses - shown);
		paint_wrapped(p, "", LABEL, INK_PLAIN, text);
	}
	paint_end_line(p);
}

static u64 lost(const struct report *r)
{
	u64 n = 0;

	for (int i = 0; i < PHT_LOSS_NR; i++)
		n |= r->losses[i];
	return n;
}

/* An empty table has to say why, or it reads as "no leak". */
static void print_no_rows(struct paint *p, const struct report *r)
{
	char interval[UNITS_MAX], text[512];

	if (r->samples) {
		snprintf(text, sizeof(text),
			 "Nothing live: all %llu sampled block%s been freed again. What was "
			 "allocated before attach is not seen.",
			 (unsigned long long)r->samples, r->samples == 1 ? " has" : "s have");
	} else {
		units_bytes(interval, (double)r->sample_interval, false);
		snprintf(text, sizeof(text),
			 "No samples yet: since attach the process has allocated little (one "
			 "sample is taken per %s, on average), or only where this collector does "
			 "not look (see coverage). What was allocated before attach is not seen. "
			 "Wait longer, or sample finer with a smaller -R.",
			 interval);
	}
	paint_wrapped(p, "", 0, INK_PLAIN, text);
	if (lost(r))
		paint_wrapped(p, "", 0, INK_YELLOW, "Samples were lost, see below.");
}

static void print_losses(struct paint *p, const struct report *r)
{
	if (!lost(r))
		return;
	paint_end_line(p);
	paint_text(p, INK_YELLOW, "Lost, and so missing above:");
	paint_end_line(p);
	for (int i = 0; i < PHT_LOSS_NR; i++) {
		char count[32];

		if (!r->losses[i])
			continue;
		snprintf(count, sizeof(count), "%9llu  ", (unsigned long long)r->losses[i]);
		paint_wrapped(p, count, (int)strlen(count), INK_PLAIN, loss_text(i));
	}
}

static void print_footer(struct paint *p, const struct report *r)
{
	print_losses(p, r);
	if (!r->end_reason)
		return;
	paint_end_line(p);
	paint_wrapped(p, "ended: ", 7, INK_PLAIN, r->end_reason);
}

/* A part of the report in memory, so that its lines can be counted first. */
struct part {
	struct paint paint;
	char *text;
	size_t len;
};

static int part_open(struct part *part, const struct report_style *style)
{
	FILE *stream = open_memstream(&part->text, &part->len);

	if (!stream)
		return -errno;
	paint_init(&part->paint, stream, style);
	return 0;
}

static int part_close(struct part *part)
{
	int err = ferror(part->paint.out) ? -ENOMEM : 0;

	if (fclose(part->paint.out))
		err = -errno;
	part->paint.out = NULL;
	return err;
}

static int make_header(struct part *part, const struct report *r, const struct report_style *style)
{
	int err = part_open(part, style);

	if (err)
		return err;
	print_header(&part->paint, r);
	print_processes(&part->paint, r);
	return part_close(part);
}

static int make_footer(struct part *part, const struct report *r, const struct report_style *style)
{
	int err = part_open(part, style);

	if (err)
		return err;
	print_footer(&part->paint, r);
	return part_close(part);
}

static int make_table(struct part *part, const struct report *r, const struct report_style *style,
		      int max_lines)
{
	int ret = part_open(part, style), err;

	if (ret)
		return ret;
	if (r->nrows && r->top)
		ret = report_table(&part->paint, r, style, max_lines);
	else
		print_no_rows(&part->paint, r);
	err = part_close(part);
	return ret ? ret : err;
}

/* Lines left for the table when a screen must not scroll; 0 = any number. */
static int table_room(const struct report_style *style, int taken)
{
	int room = style->height - 1 - taken; /* the cursor rests on the last */

	if (!style->clear || style->height <= 0)
		return 0;
	return room > 0 ? room : 1;
}

static int emit(FILE *out, const struct part parts[3], const struct report_style *style)
{
	errno = 0;
	if (style->clear)
		fputs("\033[H", out);
	for (int i = 0; i < 3; i++)
		fwrite(parts[i].text, 1, parts[i].len, out);
	if (style->clear)
		fputs("\033[J", out);
	if (fflush(out) || ferror(out))
		return errno ? -errno : -EIO;
	return 0;
}

int report_text(FILE *out, const struct report *r, const struct report_style *style)
{
	struct part parts[3] = {0};
	int err;

	err = make_header(&parts[0], r, style);
	if (!err)
		err = make_footer(&parts[2], r, style);
	if (!err)
		err = make_table(&parts[1], r, style,
				 table_room(style, parts[0].paint.lines + parts[2].paint.lines));
	if (!err)
		err = emit(out, parts, style);
	for (int i = 0; i < 3; i++)
		free(parts[i].text);
	return err;
}

int report_text_reason(FILE *out, const struct report *r)
{
	char comm[4 * sizeof(r->comm) + 1], why[1024];

	escape_text(comm, sizeof(comm), r->comm, false);
	escape_text(why, sizeof(why), r->end_reason, false);
	errno = 0;
	fprintf(out, "%7d %-15s %s\n", r->pid, comm, why);
	return ferror(out) ? -(errno ? errno : EIO) : 0;
}
