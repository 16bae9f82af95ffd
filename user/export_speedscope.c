// SPDX-License-Identifier: BSD-2-Clause
/* speedscope's file format: one sampled profile of live bytes, one of allocated ones. */
#include <errno.h>

#include "export.h"
#include "export_text.h"

static void put_shared(FILE *out, const struct export_input *in, const struct export_frames *frames)
{
	fputs("\"shared\":{\"frames\":[", out);
	for (u32 i = 0; i < frames->n; i++) {
		const struct frame *f = stacks_frame(in->stacks, frames->frame[i]);

		fputs(i ? ",{\"name\":" : "{\"name\":", out);
		json_string(out, f->function);
		if (*f->file) {
			fputs(",\"file\":", out);
			json_string(out, f->file);
		}
		if (f->line > 0)
			fprintf(out, ",\"line\":%d", f->line);
		fputc('}', out);
	}
	fputs("]}", out);
}

static double weight_of(const struct snap_row *row, bool allocated)
{
	return allocated ? row->allocated_bytes : row->live.bytes;
}

static void put_stack(FILE *out, const struct export_input *in, const struct export_frames *frames,
		      u32 stack)
{
	u32 numbers[STACKS_MAX_DEPTH], n = 0;

	do {
		numbers[n++] = frames->number[stacks_top(in->stacks, stack)] - 1;
		stack = stacks_parent(in->stacks, stack);
	} while (stack >= STACK_FIRST);
	/* Outermost first. */
	fputc('[', out);
	while (n-- > 0)
		fprintf(out, "%u%s", numbers[n], n ? "," : "");
	fputc(']', out);
}

static void put_profile(FILE *out, const struct export_input *in,
			const struct export_frames *frames, const char *name, bool allocated)
{
	double total = 0;
	bool first = true;

	fprintf(out,
		"{\"type\":\"sampled\",\"name\":\"%s\",\"unit\":\"bytes\",\"startValue\":0,"
		"\"samples\":[",
		name);
	for (size_t i = 0; i < in->nrows; i++) {
		if (!export_whole(weight_of(&in->rows[i], allocated)))
			continue;
		fputs(first ? "" : ",", out);
		first = false;
		put_stack(out, in, frames, in->rows[i].stack);
	}
	fputs("],\"weights\":[", out);
	first = true;
	for (size_t i = 0; i < in->nrows; i++) {
		u64 weight = export_whole(weight_of(&in->rows[i], allocated));

		if (!weight)
			continue;
		fprintf(out, "%s%llu", first ? "" : ",", (unsigned long long)weight);
		first = false;
		total += weight;
	}
	fprintf(out, "],\"endValue\":%.0f}", total);
}

static int export(FILE *out, const struct export_input *in)
{
	struct export_frames frames;
	int err = export_frames_open(in, &frames);

	if (err)
		return err;
	fputs("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
	      "\"exporter\":\"pyheaptrace@" PHT_VERSION "\",\"name\":",
	      out);
	json_string(out, in->s->comm);
	fputs(",\"activeProfileIndex\":0,", out);
	put_shared(out, in, &frames);
	fputs(",\"profiles\":[", out);
	put_profile(out, in, &frames, in->s->metric == METRIC_TEMPORARY ? "temporary" : "live",
		    false);
	fputc(',', out);
	put_profile(out, in, &frames, "allocated", true);
	fputs("]}\n", out);
	export_frames_free(&frames);
	return ferror(out) ? -EIO : 0;
}

const struct exporter export_speedscope = {"speedscope", "JSON for speedscope.app", export, false};
