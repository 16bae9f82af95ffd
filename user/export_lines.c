// SPDX-License-Identifier: BSD-2-Clause
/* Formats of one line per stack: folded stacks and CSV. */
#include <errno.h>
#include <string.h>

#include "escape.h"
#include "export.h"
#include "export_text.h"

static void put_doubling_quotes(FILE *out, const char *text)
{
	const char *quote;

	while ((quote = strchr(text, '"'))) {
		fwrite_unlocked(text, 1, quote + 1 - text, out);
		putc_unlocked('"', out);
		text = quote + 1;
	}
	fputs_unlocked(text, out);
}

/* A frame for a folded line, where ; and line ends are not to be had; quoted: for a CSV field. */
static void put_folded_frame(FILE *out, const struct frame *f, bool quoted)
{
	char label[FRAME_LABEL_MAX], safe[4 * FRAME_LABEL_MAX];

	frame_label(label, sizeof(label), f);
	escape_text(safe, sizeof(safe), label, false);
	for (char *p = safe; (p = strchr(p, ';'));)
		*p = ':';
	if (quoted)
		put_doubling_quotes(out, safe);
	else
		fputs_unlocked(safe, out);
}

/* Outermost first. */
static void put_folded_stack(FILE *out, const struct stacks *stacks, u32 stack, bool quoted)
{
	struct frame frames[STACKS_MAX_DEPTH];
	u32 n = stacks_expand(stacks, stack, frames, STACKS_MAX_DEPTH);

	if (!n)
		put_folded_frame(out, stacks_frame(stacks, stacks_top(stacks, stack)), quoted);
	while (n-- > 0) {
		put_folded_frame(out, &frames[n], quoted);
		if (n)
			putc_unlocked(';', out);
	}
}

static int put_folded(FILE *out, const struct export_input *in, bool allocated)
{
	for (size_t i = 0; i < in->nrows;) {
		u32 stack = in->rows[i].stack;
		double sum = 0;

		/* Domains of one stack follow each other. */
		for (; i < in->nrows && in->rows[i].stack == stack; i++)
			sum += allocated ? in->rows[i].allocated_bytes : in->rows[i].live.bytes;
		if (!export_whole(sum))
			continue;
		put_folded_stack(out, in->stacks, stack, false);
		fprintf(out, " %llu\n", (unsigned long long)export_whole(sum));
	}
	return ferror(out) ? -EIO : 0;
}

static int export_live(FILE *out, const struct export_input *in)
{
	return put_folded(out, in, false);
}

static int export_allocated(FILE *out, const struct export_input *in)
{
	return put_folded(out, in, true);
}

/* A quoted field; a spreadsheet must not take a name for a formula. */
static void put_field(FILE *out, const char *text)
{
	char safe[4 * FRAME_LABEL_MAX];

	escape_text(safe, sizeof(safe), text, false);
	fputs(*safe && strchr("=+-@", *safe) ? "\"'" : "\"", out);
	put_doubling_quotes(out, safe);
	fputc('"', out);
}

static void put_csv_stack(FILE *out, const struct stacks *stacks, u32 stack)
{
	fputc('"', out);
	if (stacks_depth(stacks, stack))
		put_folded_stack(out, stacks, stack, true);
	fputc('"', out);
}

static void put_csv_row(FILE *out, const struct export_input *in, const struct snap_row *row)
{
	const struct frame *f = stacks_frame(in->stacks, stacks_top(in->stacks, row->stack));
	struct estimate e = snap_interval(&row->live, in->s->sample_interval);
	double numbers[] = {e.value,
			    e.low,
			    e.high,
			    row->live.blocks,
			    row->allocated_bytes,
			    row->allocated_blocks,
			    row->freed_bytes,
			    row->freed_blocks};

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		put_decimal(out, export_whole(numbers[i]));
		putc_unlocked(',', out);
	}
	fprintf(out, "%llu,%llu,%s,", (unsigned long long)row->samples,
		(unsigned long long)row->live.samples, snap_domain_name(row->domain));
	put_field(out, f->function);
	fputc(',', out);
	put_field(out, f->file);
	fprintf(out, ",%d,", f->line > 0 ? f->line : 0);
	put_csv_stack(out, in->stacks, row->stack);
	fputc('\n', out);
}

static int export_table(FILE *out, const struct export_input *in)
{
	fputs("live_bytes,live_bytes_low,live_bytes_high,live_blocks,allocated_bytes,"
	      "allocated_blocks,freed_bytes,freed_blocks,samples,live_samples,domain,function,"
	      "file,line,stack\n",
	      out);
	for (size_t i = 0; i < in->nrows; i++)
		put_csv_row(out, in, &in->rows[i]);
	return ferror(out) ? -EIO : 0;
}

const struct exporter export_folded = {
	"folded", "one line per stack with its live bytes, for flame graph tools", export_live,
	false};
const struct exporter export_folded_allocated = {"folded-allocated",
						 "the same with all bytes allocated since attach",
						 export_allocated, false};
const struct exporter export_csv = {"csv", "one line per stack and domain", export_table, false};
