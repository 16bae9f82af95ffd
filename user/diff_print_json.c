// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>

#include "diff_print.h"
#include "export_text.h"

static void put_number(FILE *out, const char *key, double v)
{
	fprintf(out, ",\"%s\":", key);
	json_whole(out, v);
}

static void put_moment(FILE *out, const char *key, const struct snapshot *s)
{
	fprintf(out, "\"%s\":{\"pid\":%d,\"comm\":", key, s->pid);
	json_string(out, s->comm);
	fputs(",\"python_version\":", out);
	json_string(out, s->python_version);
	fprintf(out,
		",\"duration_seconds\":%.3f,\"time_ns\":%llu,\"rss_bytes\":%llu,"
		"\"sample_interval\":%llu}",
		s->duration, (unsigned long long)s->wall_ns, (unsigned long long)s->rss,
		(unsigned long long)s->sample_interval);
}

static void put_change(FILE *out, const struct snap_change *c)
{
	fputs("\"size\":", out);
	json_whole(out, c->size);
	put_number(out, "size_diff", c->size_diff);
	put_number(out, "size_diff_low", c->diff.low);
	put_number(out, "size_diff_high", c->diff.high);
	put_number(out, "count", c->count);
	put_number(out, "count_diff", c->count_diff);
	put_number(out, "count_diff_low", c->counts.low);
	put_number(out, "count_diff_high", c->counts.high);
	fprintf(out, ",\"within_noise\":%s,\"count_within_noise\":%s", c->noise ? "true" : "false",
		c->count_noise ? "true" : "false");
}

static void put_frames(FILE *out, const struct stacks *stacks, u32 stack)
{
	struct frame frames[STACKS_MAX_DEPTH];
	u32 n = stacks_expand(stacks, stack, frames, STACKS_MAX_DEPTH);

	fputs(",\"frames\":[", out);
	if (!n)
		json_frame(out, stacks_frame(stacks, stacks_top(stacks, stack)));
	for (u32 i = 0; i < n; i++) {
		if (i)
			fputc(',', out);
		json_frame(out, &frames[i]);
	}
	fputc(']', out);
}

int diff_print_json(FILE *out, const struct diff_print *p)
{
	static const char *const ways[] = {[SNAP_SELF] = "false",
					   [SNAP_CUMULATIVE] = "\"stack\"",
					   [SNAP_EACH_FRAME] = "\"frames\""};

	fputc('{', out);
	put_moment(out, "from", p->before);
	fputc(',', out);
	put_moment(out, "to", p->after);
	fprintf(out, ",\"same_run\":%s,\"group_by\":\"%s\",\"cumulative\":%s,\"totals\":{",
		p->same_run ? "true" : "false", view_group_name(p->args->view.group_by),
		ways[p->args->view.cumulative]);
	put_change(out, &p->diff->total);
	fputs("},\"rows\":[", out);
	for (size_t i = 0; i < p->diff->n; i++) {
		fputs(i ? ",{" : "{", out);
		put_change(out, &p->diff->changes[i]);
		put_frames(out, p->stacks, p->diff->changes[i].stack);
		fputc('}', out);
	}
	fputs("]}\n", out);
	return ferror(out) ? -EIO : 0;
}
