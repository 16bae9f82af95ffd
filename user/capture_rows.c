// SPDX-License-Identifier: BSD-2-Clause
#include "capture_rows.h"

#include <errno.h>
#include <math.h>

#include "capture_fields.h"

/* Second and third moments of sums that are in range. */
#define MOMENT_MAX 1e60

static int decode_stack_column(const struct decoder *d, struct inbuf *in, struct snap_row *rows,
			       size_t n)
{
	u64 id = 0;

	for (size_t i = 0; i < n; i++) {
		u64 step = get_varint(in);

		id += (step >> 1) ^ -(step & 1);
		if (in->failed || id >= STACK_FIRST + (u64)d->tree.n)
			return -EBADMSG;
		rows[i].stack = id < STACK_FIRST ? id : d->tree.ids[id - STACK_FIRST];
	}
	return 0;
}

static int decode_domain_column(struct inbuf *in, struct snap_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		u64 domain = get_varint(in);

		rows[i].domain = domain < SNAP_DOMAINS ? domain : SNAP_DOMAIN_UNKNOWN;
	}
	return in->failed ? -EBADMSG : 0;
}

static int decode_column(const struct capture_column *c, struct inbuf *in, struct snap_row *rows,
			 size_t n)
{
	for (size_t i = 0; i < n; i++) {
		void *value = field_at(&rows[i], c->offset);

		if (c->type == COLUMN_REAL)
			*(double *)value = get_real(in);
		else if (c->type == COLUMN_COARSE)
			*(double *)value = get_coarse(in);
		else
			*(u64 *)value = get_varint(in);
	}
	return in->failed ? -EBADMSG : 0;
}

static int decode_any_column(const struct decoder *d, u32 id, struct inbuf *in,
			     struct snap_row *rows, size_t n)
{
	if (id == COLUMN_STACK)
		return decode_stack_column(d, in, rows, n);
	if (id == COLUMN_DOMAIN)
		return decode_domain_column(in, rows, n);
	for (size_t i = 0; i < CAPTURE_COLUMNS; i++)
		if (capture_columns[i].id == id)
			return decode_column(&capture_columns[i], in, rows, n);
	return 0;
}

static bool sums_plausible(const struct snap_sums *s)
{
	return sum_in_range(s->bytes) && sum_in_range(s->blocks) && s->var >= 0 &&
	       s->var <= MOMENT_MAX && s->samples <= 1ull << 52;
}

static bool plausible(const struct snap_row *row)
{
	const struct estimator *e = &row->live;

	return sum_in_range(e->bytes) && sum_in_range(e->blocks) && sum_in_range(e->seen) &&
	       e->var >= 0 && e->var <= MOMENT_MAX && fabs(e->skew) <= MOMENT_MAX &&
	       fabs(e->covar) <= MOMENT_MAX && e->samples <= UINT32_MAX &&
	       sum_in_range(row->allocated_bytes) && sum_in_range(row->allocated_blocks) &&
	       sum_in_range(row->freed_bytes) && sum_in_range(row->freed_blocks) &&
	       row->samples <= 1ull << 52 && row->freed_samples <= 1ull << 52 &&
	       e->blocks_var >= 0 && e->blocks_var <= MOMENT_MAX && e->blocks_covar >= 0 &&
	       e->blocks_covar <= MOMENT_MAX && sums_plausible(&row->peak) &&
	       sums_plausible(&row->temporary) && sum_in_range(row->peak_allocated_bytes) &&
	       sum_in_range(row->peak_allocated_blocks) && row->peak_samples <= 1ull << 52;
}

static int compare_rows(const void *pa, const void *pb)
{
	const struct snap_row *a = pa, *b = pb;

	if (a->stack != b->stack)
		return a->stack < b->stack ? -1 : 1;
	return (a->domain > b->domain) - (a->domain < b->domain);
}

/* The file's order is that of its own numbers; the store's may differ. */
static size_t order(struct snap_row *rows, size_t n)
{
	size_t kept = 0;

	qsort(rows, n, sizeof(*rows), compare_rows);
	for (size_t i = 0; i < n; i++)
		if (!kept || compare_rows(&rows[kept - 1], &rows[i]))
			rows[kept++] = rows[i];
	return kept;
}

static bool gone(const struct snap_row *row)
{
	static const struct snap_row none;

	return snap_row_same(row, &none);
}

/* Numbers of rows that changed and are new, or that are gone. */
static void count_changes(const struct snapshot *now, const struct snapshot *change, size_t *new,
			  size_t *lost)
{
	size_t i = 0;

	*new = *lost = 0;
	for (size_t j = 0; j < change->nrows; j++) {
		const struct snap_row *row = &change->rows[j];
		bool known;

		while (i < now->nrows && compare_rows(&now->rows[i], row) < 0)
			i++;
		known = i < now->nrows && !compare_rows(&now->rows[i], row);
		*new += !known && !gone(row);
		*lost += known && gone(row);
	}
}

/* The usual case: the same rows as before, some of them with other numbers. */
static void apply_in_place(struct snapshot *now, const struct snapshot *change)
{
	size_t i = 0;

	for (size_t j = 0; j < change->nrows; j++) {
		while (i < now->nrows && compare_rows(&now->rows[i], &change->rows[j]) < 0)
			i++;
		if (i < now->nrows && !compare_rows(&now->rows[i], &change->rows[j]))
			now->rows[i] = change->rows[j];
	}
}

static int merge(struct snapshot *now, const struct snapshot *change, size_t n)
{
	const struct snap_row *old = now->rows, *new = change->rows;
	struct snap_row *merged = malloc((n + 1) * sizeof(*merged));
	size_t i = 0, j = 0, out = 0;

	if (!merged)
		return -ENOMEM;
	while (i < now->nrows || j < change->nrows) {
		int which = i >= now->nrows	 ? 1
			    : j >= change->nrows ? -1
						 : compare_rows(&old[i], &new[j]);

		if (which < 0)
			merged[out++] = old[i];
		else if (!gone(&new[j]))
			merged[out++] = new[j];
		i += which <= 0;
		j += which >= 0;
	}
	free(now->rows);
	now->rows = merged;
	now->nrows = out;
	return 0;
}

int apply_rows(struct snapshot *now, const struct snapshot *change)
{
	size_t new, lost;

	count_changes(now, change, &new, &lost);
	if (now->nrows + new - lost > SNAP_MAX_ROWS)
		return -EBADMSG;
	if (new || lost)
		return merge(now, change, now->nrows + new - lost);
	apply_in_place(now, change);
	return 0;
}

int decode_rows(const struct decoder *d, struct inbuf *in, struct snapshot *change)
{
	u64 n = get_varint(in);
	AUTO_FREE struct snap_row *rows = NULL;
	struct inbuf part = {0};
	u32 id;

	/* Each row has a byte at least in the column of its stack. */
	if (in->failed || n > SNAP_MAX_ROWS || n > (size_t)(in->end - in->p) || change->rows)
		return -EBADMSG;
	rows = calloc(n + 1, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	while (get_section(in, &id, &part)) {
		int err = decode_any_column(d, id, &part, rows, n);

		if (err)
			return err;
	}
	for (size_t i = 0; i < n; i++) {
		if (!plausible(&rows[i]))
			return -EBADMSG;
		if (rows[i].peak_is_now)
			snap_row_peak_is_now(&rows[i]);
		rows[i].peak_is_now = 0;
	}
	change->nrows = order(rows, n);
	change->rows = TAKE_PTR(rows);
	return in->failed ? -EBADMSG : 0;
}
