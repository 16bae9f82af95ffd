// SPDX-License-Identifier: BSD-2-Clause
#include "capture_encode.h"

#include <errno.h>
#include <string.h>

#include "capture_fields.h"

void encoder_init(struct encoder *e, const struct stacks *stacks)
{
	*e = (struct encoder){.stacks = stacks, .nstacks = STACK_FIRST};
}

void encoder_free(struct encoder *e)
{
	free(e->frame_ids);
	free(e->stack_ids);
	hashmap_clear(&e->string_ids, NULL);
	outbuf_free(&e->strings);
	outbuf_free(&e->frames);
	outbuf_free(&e->tree);
	outbuf_free(&e->part);
	outbuf_free(&e->columns);
	snapshot_free(&e->last);
	snapshot_free(&e->next);
}

/* A map from the store's numbers, grown to n entries of zero. */
static int grow_map(u32 **map, size_t *cap, size_t n)
{
	u32 *bigger;

	if (n <= *cap)
		return 0;
	n += n / 2;
	bigger = reallocarray(*map, n, sizeof(*bigger));
	if (!bigger)
		return -ENOMEM;
	memset(bigger + *cap, 0, (n - *cap) * sizeof(*bigger));
	*map = bigger;
	*cap = n;
	return 0;
}

static int string_id(struct encoder *e, const char *text, u32 *out)
{
	uintptr_t known = (uintptr_t)hashmap_get(&e->string_ids, (uintptr_t)text, 0);
	size_t len = strlen(text);
	int err;

	if (known) {
		*out = known - 1;
		return 0;
	}
	err = hashmap_put(&e->string_ids, (uintptr_t)text, 0, (void *)((uintptr_t)e->nstrings + 1));
	if (err)
		return err;
	put_varint(&e->strings, len);
	put_bytes(&e->strings, text, len);
	*out = e->nstrings++;
	return 0;
}

static int frame_id(struct encoder *e, u32 frame, u32 *out)
{
	const struct frame *f = stacks_frame(e->stacks, frame);
	u32 function, file;
	int err;

	if (e->frame_ids[frame]) {
		*out = e->frame_ids[frame] - 1;
		return 0;
	}
	err = string_id(e, f->function, &function) ?: string_id(e, f->file, &file);
	if (err)
		return err;
	put_varint(&e->frames, function);
	put_varint(&e->frames, file);
	put_varint(&e->frames, f->line > 0 ? f->line : 0);
	put_varint(&e->frames, f->kind);
	*out = e->nframes++;
	e->frame_ids[frame] = *out + 1;
	return 0;
}

/* Parents first: a file's numbers ascend as the store's do. */
static int stack_id(struct encoder *e, u32 stack, u32 *out)
{
	u32 chain[STACKS_MAX_DEPTH], n = 0, at = stack;

	while (at >= STACK_FIRST && !e->stack_ids[at]) {
		chain[n++] = at;
		at = stacks_parent(e->stacks, at);
	}
	while (n-- > 0) {
		u32 parent = stacks_parent(e->stacks, chain[n]), frame;
		int err = frame_id(e, stacks_top(e->stacks, chain[n]), &frame);

		if (err)
			return err;
		put_varint(&e->tree, parent < STACK_FIRST ? parent : e->stack_ids[parent] - 1);
		put_varint(&e->tree, frame);
		e->stack_ids[chain[n]] = ++e->nstacks;
	}
	*out = stack < STACK_FIRST ? stack : e->stack_ids[stack] - 1;
	return 0;
}

static int compare_keys(const struct snap_row *a, const struct snap_row *b)
{
	if (a->stack != b->stack)
		return a->stack < b->stack ? -1 : 1;
	return (a->domain > b->domain) - (a->domain < b->domain);
}

/* Rows that differ from the last ones written; a row that is gone comes out as zeros. */
static int changed_rows(const struct snapshot *last, const struct snapshot *s,
			struct snap_row **out, size_t *n)
{
	struct snap_row *rows = calloc(last->nrows + s->nrows + 1, sizeof(*rows));
	size_t i = 0, j = 0;

	if (!rows)
		return -ENOMEM;
	*n = 0;
	while (i < last->nrows || j < s->nrows) {
		int order = i >= last->nrows ? 1
			    : j >= s->nrows  ? -1
					     : compare_keys(&last->rows[i], &s->rows[j]);

		if (order < 0) {
			rows[*n].stack = last->rows[i].stack;
			rows[(*n)++].domain = last->rows[i].domain;
		} else if (order > 0 || !snap_row_same(&last->rows[i], &s->rows[j])) {
			rows[(*n)++] = s->rows[j];
		}
		i += order <= 0;
		j += order >= 0;
	}
	*out = rows;
	return 0;
}

static int put_stacks(struct encoder *e, const struct snap_row *rows, size_t n)
{
	u32 last = 0;

	outbuf_clear(&e->part);
	for (size_t i = 0; i < n; i++) {
		s64 step;
		u32 id;
		int err = stack_id(e, rows[i].stack, &id);

		if (err)
			return err;
		step = (s64)id - last;
		put_varint(&e->part, (u64)step << 1 ^ (u64)(step >> 63));
		last = id;
	}
	put_section(&e->columns, COLUMN_STACK, &e->part);
	return 0;
}

/* True when the row has more than 0. */
static bool put_value(struct outbuf *part, const struct capture_column *c, const void *value)
{
	double real;
	u64 whole;

	if (c->type == COLUMN_INTEGER) {
		memcpy(&whole, value, sizeof(whole));
		put_varint(part, whole);
		return whole != 0;
	}
	memcpy(&real, value, sizeof(real));
	if (c->type == COLUMN_REAL)
		put_real(part, real);
	else
		put_coarse(part, real);
	return real != 0;
}

/* A column of zeros is left out. */
static void put_column(struct encoder *e, const struct capture_column *c,
		       const struct snap_row *rows, size_t n)
{
	bool any = false;

	outbuf_clear(&e->part);
	for (size_t i = 0; i < n; i++)
		any |= put_value(&e->part, c, field_of(&rows[i], c->offset));
	if (any)
		put_section(&e->columns, c->id, &e->part);
}

/* Most of the time what grows is at its peak: say so instead of saying it twice. */
static void leave_out_peak(struct snap_row *row)
{
	struct snap_row same = *row;

	snap_row_peak_is_now(&same);
	if (!row->samples || !snap_row_same(&same, row))
		return;
	row->peak = (struct snap_sums){0};
	row->peak_allocated_bytes = row->peak_allocated_blocks = 0;
	row->peak_samples = 0;
	row->peak_is_now = 1;
}

static int put_rows(struct encoder *e, const struct snapshot *s)
{
	AUTO_FREE struct snap_row *rows = NULL;
	size_t n;
	int err = changed_rows(&e->last, s, &rows, &n);

	if (err)
		return err;
	for (size_t i = 0; i < n; i++)
		leave_out_peak(&rows[i]);
	outbuf_clear(&e->columns);
	put_varint(&e->columns, n);
	err = put_stacks(e, rows, n);
	if (err)
		return err;
	outbuf_clear(&e->part);
	for (size_t i = 0; i < n; i++)
		put_varint(&e->part, rows[i].domain);
	put_section(&e->columns, COLUMN_DOMAIN, &e->part);
	for (size_t i = 0; i < CAPTURE_COLUMNS; i++)
		put_column(e, &capture_columns[i], rows, n);
	return 0;
}

static void put_bins(struct encoder *e, u32 id, const struct snap_bin *bins, size_t n,
		     struct outbuf *payload)
{
	if (!n)
		return;
	outbuf_clear(&e->part);
	for (size_t i = 0; i < n; i++) {
		put_varint(&e->part, bins[i].domain);
		put_varint(&e->part, bins[i].log2);
		put_real(&e->part, bins[i].bytes);
		put_real(&e->part, bins[i].blocks);
		put_varint(&e->part, bins[i].samples);
	}
	put_section(payload, id, &e->part);
}

static void put_losses(struct outbuf *part, const u64 losses[PHT_LOSS_NR])
{
	for (int i = 0; i < PHT_LOSS_NR; i++) {
		struct outbuf loss = {0};

		if (!losses[i])
			continue;
		/* By name: numbers of losses are not fixed. */
		put_varint(&loss, losses[i]);
		put_bytes(&loss, loss_name(i), strlen(loss_name(i)));
		put_section(part, FIELD_LOSS, &loss);
		outbuf_free(&loss);
	}
}

static void put_fields(struct encoder *e, const struct snapshot *s, struct outbuf *payload)
{
	struct outbuf *part = &e->part;

	outbuf_clear(part);
	put_section_varint(part, FIELD_PID, (u32)s->pid);
	for (size_t i = 0; i < CAPTURE_TEXTS; i++)
		put_section_text(part, capture_texts[i].id, field_of(s, capture_texts[i].offset));
	for (size_t i = 0; i < CAPTURE_NUMBERS; i++)
		put_section_varint(part, capture_numbers[i].id,
				   *(const u64 *)field_of(s, capture_numbers[i].offset));
	put_section_double(part, FIELD_DURATION, s->duration);
	put_section_double(part, FIELD_OVERHEAD, s->overhead);
	put_section_double(part, FIELD_COVERAGE_SHARE, s->coverage_share);
	put_section_varint(part, FIELD_COVERAGE_COMPLETE, s->coverage_complete);
	put_section_varint(part, FIELD_FINAL, s->final);
	if (s->peak_seconds >= 0)
		put_section_double(part, FIELD_PEAK_SECONDS, s->peak_seconds);
	put_losses(part, s->losses);
	put_section(payload, SECT_HEAD, part);
}

static int keep_rows(struct snapshot *next, const struct snapshot *s)
{
	struct snap_row *rows = malloc((s->nrows + 1) * sizeof(*rows));

	if (!rows)
		return -ENOMEM;
	if (s->nrows)
		memcpy(rows, s->rows, s->nrows * sizeof(*rows));
	free(next->rows);
	next->rows = rows;
	next->nrows = s->nrows;
	return 0;
}

int encode_snapshot(struct encoder *e, const struct snapshot *s, struct outbuf *payload)
{
	int err = grow_map(&e->frame_ids, &e->frames_cap, stacks_frame_count(e->stacks)) ?:
		  grow_map(&e->stack_ids, &e->stacks_cap, stacks_count(e->stacks)) ?:
		  put_rows(e, s) ?: keep_rows(&e->next, s);

	if (err)
		return err;
	outbuf_clear(payload);
	put_fields(e, s, payload);
	put_section(payload, SECT_STRINGS, &e->strings);
	put_section(payload, SECT_FRAMES, &e->frames);
	put_section(payload, SECT_STACKS, &e->tree);
	put_section(payload, SECT_ROWS, &e->columns);
	put_bins(e, SECT_SIZES, s->sizes, s->nsizes, payload);
	put_bins(e, SECT_AGES, s->ages, s->nages, payload);
	put_bins(e, SECT_LIVES, s->lives, s->nlives, payload);
	return payload->failed ? -ENOMEM : 0;
}

void encoder_commit(struct encoder *e)
{
	struct snapshot last = e->last;

	e->last = e->next;
	e->next = last;
	outbuf_clear(&e->strings);
	outbuf_clear(&e->frames);
	outbuf_clear(&e->tree);
}
