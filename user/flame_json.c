// SPDX-License-Identifier: BSD-2-Clause
/* The data of a flame graph; docs/flamegraph.md describes them, data.js reads them. */
#include "flame_json.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "export.h"
#include "export_text.h"

static const char *const moment_names[FLAME_MOMENTS] = {"now", "first", "peak"};

struct writing {
	FILE *out;
	const struct flame_input *in;
	const struct flame_tree *tree;
	struct export_frames frames; /* numbers from 1 */
	struct hashmap strings;	     /* address -> number + 1 */
	const char **texts;	     /* owned; the other way round */
	u32 ntexts, names_cut;
};

static void put_text(FILE *out, const char *key, const char *text)
{
	fprintf(out, ",\"%s\":", key);
	flame_string(out, text);
}

static void put_number(FILE *out, const char *key, double v)
{
	if (isfinite(v) && v >= 0)
		fprintf(out, ",\"%s\":%.6g", key, v);
	else
		fprintf(out, ",\"%s\":null", key);
}

static void put_moment(FILE *out, const char *name, const struct snapshot *s)
{
	fprintf(out, "%s\"%s\":{\"pid\":%d", name == moment_names[0] ? "" : ",", name, s->pid);
	put_text(out, "comm", s->comm);
	put_text(out, "python", s->python_version);
	put_text(out, "collector", s->collector);
	put_text(out, "wrote", s->wrote);
	put_text(out, "coverage", s->coverage);
	put_text(out, "end", s->end_reason);
	put_number(out, "coverage_share", s->coverage_share);
	put_number(out, "overhead", s->overhead);
	fprintf(out, ",\"duration\":%.3f", isfinite(s->duration) ? s->duration : 0);
	fprintf(out, ",\"time_ms\":%llu,\"rss\":%llu,\"interval\":%llu,\"calls\":%llu",
		(unsigned long long)(s->wall_ns / 1000000), (unsigned long long)s->rss,
		(unsigned long long)s->sample_interval, (unsigned long long)s->calls);
	fprintf(out, ",\"frees\":%llu,\"complete\":%s,\"losses\":[", (unsigned long long)s->frees,
		s->coverage_complete ? "true" : "false");
	for (int i = 0, n = 0; i < PHT_LOSS_NR; i++) {
		if (!s->losses[i])
			continue;
		fprintf(out, "%s{\"name\":\"%s\",\"text\":", n++ ? "," : "", loss_name(i));
		flame_string(out, loss_text(i));
		fprintf(out, ",\"count\":%llu}", (unsigned long long)s->losses[i]);
	}
	fputs("]}", out);
}

static const struct snapshot *moment(const struct flame_input *in, int which)
{
	const struct snapshot *const moments[] = {in->now, in->first, in->peak};

	return moments[which];
}

static void put_header(struct writing *w)
{
	const struct flame_tree *tree = w->tree;

	fprintf(w->out,
		"{\"version\":1,\"diff\":%s,\"same_run\":%s,\"pruned\":{\"count\":%u,"
		"\"share\":%.3g},\"moments\":{",
		w->in->diff ? "true" : "false", w->in->same_run ? "true" : "false", tree->pruned,
		tree->pruned_share);
	for (int i = 0; i < FLAME_MOMENTS; i++)
		if (moment(w->in, i))
			put_moment(w->out, moment_names[i], moment(w->in, i));
	fputs("},\"series\":[", w->out);
	for (size_t i = 0; i < w->in->npoints; i++) {
		const struct capture_point *p = &w->in->points[i];

		fprintf(w->out, "%s[%.3f,", i ? "," : "", p->duration);
		json_whole(w->out, p->live_bytes.value);
		putc(',', w->out);
		json_whole(w->out, p->live_bytes.low);
		putc(',', w->out);
		json_whole(w->out, p->live_bytes.high);
		fprintf(w->out, ",%llu]", (unsigned long long)p->rss);
	}
	putc(']', w->out);
}

/* Frame 0 of the page stands for what is missing outside of a stack that was cut off. */
static u32 frame_number(const struct writing *w, u32 stack)
{
	return stack < STACK_FIRST ? 0 : w->frames.number[stacks_top(w->in->stacks, stack)];
}

static int open_frames(struct writing *w)
{
	u32 n = stacks_frame_count(w->in->stacks);

	w->frames.number = calloc(n, sizeof(u32));
	w->frames.frame = calloc(n, sizeof(u32));
	if (!w->frames.number || !w->frames.frame)
		return -ENOMEM;
	for (u32 i = 0; i < w->tree->nnodes; i++) {
		u32 frame = stacks_top(w->in->stacks, w->tree->nodes[i]);

		if (w->tree->nodes[i] < STACK_FIRST || w->frames.number[frame])
			continue;
		w->frames.frame[w->frames.n] = frame;
		w->frames.number[frame] = ++w->frames.n;
	}
	return 0;
}

static int add_string(struct writing *w, const char *text)
{
	if (hashmap_get(&w->strings, (uintptr_t)text, 0))
		return 0;
	w->texts[w->ntexts++] = text;
	return hashmap_put(&w->strings, (uintptr_t)text, 0, (void *)(uintptr_t)w->ntexts);
}

static u64 string_number(const struct writing *w, const char *text)
{
	return (uintptr_t)hashmap_get(&w->strings, (uintptr_t)text, 0) - 1;
}

static const struct frame missing = {"[outer frames are missing]", "", 0, FRAME_OTHER};

static const struct frame *frame_at(const struct writing *w, u32 number)
{
	return number ? stacks_frame(w->in->stacks, w->frames.frame[number - 1]) : &missing;
}

static int put_strings(struct writing *w)
{
	int err = 0;

	w->texts = calloc(2 * ((size_t)w->frames.n + 1), sizeof(*w->texts));
	if (!w->texts)
		return -ENOMEM;
	for (u32 i = 0; i <= w->frames.n && !err; i++)
		err = add_string(w, frame_at(w, i)->function)
			      ?: add_string(w, frame_at(w, i)->file);
	if (err)
		return err;
	fputs(",\"strings\":[", w->out);
	for (u32 i = 0; i < w->ntexts; i++) {
		if (i)
			putc(',', w->out);
		w->names_cut += flame_string(w->out, w->texts[i]);
	}
	fprintf(w->out, "],\"names_cut\":%u", w->names_cut);
	return 0;
}

static void put_frames(struct writing *w)
{
	static const char *const columns[] = {"function", "file", "line", "kind"};
	struct flame_column c;

	fprintf(w->out, ",\"frames\":{\"count\":%u", w->frames.n + 1);
	for (int k = 0; k < 4; k++) {
		putc(',', w->out);
		flame_column_begin(&c, w->out, columns[k]);
		for (u32 i = 0; i <= w->frames.n; i++) {
			const struct frame *f = frame_at(w, i);

			flame_column_put(&c, k == 0   ? string_number(w, f->function)
					     : k == 1 ? string_number(w, f->file)
					     : k == 2 ? (u64)(f->line > 0 ? f->line : 0)
						      : (u64)f->kind);
		}
		flame_column_end(&c);
	}
	putc('}', w->out);
}

static void put_nodes(struct writing *w)
{
	const struct flame_tree *t = w->tree;
	struct flame_column c;

	fprintf(w->out, ",\"nodes\":{\"count\":%u,", t->nnodes);
	flame_column_begin(&c, w->out, "depth");
	for (u32 i = 0; i < t->nnodes; i++) {
		u32 stack = t->nodes[i];

		/* STACK_CUT is drawn like a frame: one deeper, as is what is above it. */
		flame_column_put(&c, stacks_depth(w->in->stacks, stack) +
					     (stacks_truncated(w->in->stacks, stack) ? 1 : 0));
	}
	flame_column_end(&c);
	putc(',', w->out);
	flame_column_begin(&c, w->out, "frame");
	for (u32 i = 0; i < t->nnodes; i++)
		flame_column_put(&c, frame_number(w, t->nodes[i]));
	flame_column_end(&c);
	putc('}', w->out);
}

/* What a site's sums consist of in the page.  Blocks are in sixteenths. */
static u64 cell(const struct snap_total *t, int column)
{
	switch (column) {
	case 0:
		return export_whole(t->live.bytes);
	case 1:
		return export_whole(t->live.blocks * 16);
	case 2:
		return t->live.samples;
	case 3:
		return export_whole(t->live.seen);
	case 4:
		return flame_coarse(t->live.var);
	case 5:
		return flame_coarse(t->live.skew);
	case 6:
		return flame_coarse(t->live.covar);
	case 7:
		return t->samples;
	case 8:
		return export_whole(t->allocated_bytes);
	default:
		return export_whole(t->allocated_blocks * 16);
	}
}
static const char *const cells[] = {"bytes", "blocks", "samples", "seen",      "var",
				    "skew",  "covar",  "taken",	  "allocated", "allocated_blocks"};

static void put_sites(struct writing *w)
{
	const struct flame_tree *t = w->tree;
	struct flame_column c;
	u32 before = 0;

	fprintf(w->out, ",\"sites\":{\"count\":%u,", t->nsites);
	flame_column_begin(&c, w->out, "node");
	for (u32 i = 0; i < t->nsites; i++) {
		flame_column_put(&c, t->sites[i].node - before);
		before = t->sites[i].node;
	}
	flame_column_end(&c);
	for (int m = 0; m < FLAME_MOMENTS; m++) {
		/* What was allocated is of use at the last moment only. */
		int n = m == FLAME_NOW ? 10 : 8;

		if (!moment(w->in, m))
			continue;
		fprintf(w->out, ",\"%s\":{", moment_names[m]);
		for (int k = 0; k < n; k++) {
			if (k)
				putc(',', w->out);
			flame_column_begin(&c, w->out, cells[k]);
			for (u32 i = 0; i < t->nsites; i++)
				flame_column_put(&c, cell(&t->sites[i].sum[m], k));
			flame_column_end(&c);
		}
		putc('}', w->out);
	}
	fputs("}}", w->out);
}

int flame_json(FILE *out, const struct flame_input *in, const struct flame_tree *tree)
{
	struct writing w = {.out = out, .in = in, .tree = tree};
	int err = open_frames(&w);

	if (!err) {
		put_header(&w);
		err = put_strings(&w);
	}
	if (!err) {
		put_frames(&w);
		put_nodes(&w);
		put_sites(&w);
		err = ferror(out) ? -EIO : 0;
	}
	export_frames_free(&w.frames);
	hashmap_clear(&w.strings, NULL);
	free(w.texts);
	return err;
}
