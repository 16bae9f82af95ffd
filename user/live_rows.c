// SPDX-License-Identifier: BSD-2-Clause
/* The rows of the live view: which stacks are in, their groups, their order. */
#include <errno.h>
#include <fnmatch.h>
#include <string.h>

#include "live_model.h"

static bool match(const char *filter, bool pattern, const char *name)
{
	if (!name)
		return false;
	return pattern ? !fnmatch(filter, name, FNM_CASEFOLD) : strcasestr(name, filter) != NULL;
}

bool live_filter_match(const char *filter, const struct frame *f)
{
	bool pattern = strpbrk(filter, "*?[") != NULL;
	const char *slash = f->file ? strrchr(f->file, '/') : NULL;

	if (match(filter, pattern, f->function) || match(filter, pattern, f->file))
		return true;
	/* A pattern may be for the bare name of the file. */
	return pattern && slash && match(filter, pattern, slash + 1);
}

u8 *live_filter_stacks(const struct live_model *m)
{
	u32 nframes = stacks_frame_count(m->stacks), n = stacks_count(m->stacks);
	AUTO_FREE u8 *frames = calloc(nframes + 1, 1);
	u8 *pass = calloc(n + 1, 1);

	if (!frames || !pass) {
		free(pass);
		return NULL;
	}
	for (u32 i = 0; i < nframes; i++)
		frames[i] = !*m->set.filter ||
			    live_filter_match(m->set.filter, stacks_frame(m->stacks, i));
	for (u32 i = 0; i < n; i++) {
		pass[i] = frames[stacks_top(m->stacks, i)];
		/* A traceback is in when any of its frames is; parents come first.  And a
		 * thread with what it has under frames that pass, or by its name. */
		if ((m->set.group_by == GROUP_TRACEBACK || m->set.group_by == GROUP_THREAD) &&
		    i >= STACK_FIRST)
			pass[i] |= stacks_parent(m->stacks, i) >= STACK_FIRST &&
				   pass[stacks_parent(m->stacks, i)];
	}
	return pass;
}

/* The rows of a snapshot that pass; *rows is the memory, to be freed. */
static int pick(const struct snapshot *s, const u8 *pass, struct snapshot *out,
		struct snap_row **rows)
{
	*out = *s;
	*rows = out->rows = malloc((s->nrows + 1) * sizeof(*s->rows));
	if (!*rows)
		return -ENOMEM;
	out->nrows = 0;
	for (size_t i = 0; i < s->nrows; i++)
		if (pass[s->rows[i].stack])
			out->rows[out->nrows++] = s->rows[i];
	return 0;
}

static int group(const struct live_model *m, const struct snapshot *s, const u8 *pass,
		 struct snap_groups *out)
{
	const struct snap_view view = {.group_by = m->set.group_by};
	AUTO_FREE struct snap_row *rows = NULL;
	struct snapshot some;

	return pick(s, pass, &some, &rows) ?: snapshot_group(&some, m->stacks, &view, out);
}

static int index_groups(const struct snap_groups *g, struct hashmap *index)
{
	int err = 0;

	for (size_t i = 0; i < g->n && !err; i++)
		err = hashmap_put(index, g->groups[i].a, g->groups[i].b, &g->groups[i].sum);
	return err;
}

static int compare_places(const struct stacks *stacks, u32 a, u32 b)
{
	const struct frame *f = stacks_frame(stacks, stacks_top(stacks, a));
	const struct frame *g = stacks_frame(stacks, stacks_top(stacks, b));
	int order = f->file == g->file ? 0 : strcmp(f->file, g->file);

	if (!order)
		order = (f->line > g->line) - (f->line < g->line);
	return order ?: strcmp(f->function, g->function) ?: (a > b) - (a < b);
}

static int compare_rows(const void *pa, const void *pb, void *ctx)
{
	const struct live_row *a = pa, *b = pb;
	const struct live_model *m = ctx;

	return live_numbers_compare(&m->set, &a->numbers, &b->numbers)
		       ?: compare_places(m->stacks, a->stack, b->stack);
}

/* Keep the chosen row under the cursor wherever it went. */
static void follow(struct live_model *m)
{
	if (!m->list.moved)
		m->list.at = 0;
	for (size_t i = 0; m->list.moved && i < m->list.n; i++) {
		if (m->rows[i].a != m->a || m->rows[i].b != m->b)
			continue;
		m->list.at = i;
		return;
	}
	if (m->list.at >= m->list.n)
		m->list.at = m->list.n ? m->list.n - 1 : 0;
	if (m->list.moved && m->list.n) {
		m->a = m->rows[m->list.at].a;
		m->b = m->rows[m->list.at].b;
	}
}

static int fill(struct live_model *m, const struct snap_groups *now, const struct hashmap *before,
		const struct hashmap *base)
{
	struct live_row *rows = calloc(now->n + 1, sizeof(*rows));

	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < now->n; i++) {
		const struct snap_group *g = &now->groups[i];

		rows[i] = (struct live_row){.a = g->a, .b = g->b, .stack = g->stack};
		live_numbers_fill(m, &g->sum, hashmap_get(before, g->a, g->b),
				  hashmap_get(base, g->a, g->b), &rows[i].numbers);
	}
	free(m->rows);
	m->rows = rows;
	m->list.n = now->n;
	m->passed = now->total.live.bytes;
	if (now->n)
		qsort_r(rows, now->n, sizeof(*rows), compare_rows, m);
	follow(m);
	return 0;
}

int live_rows_build(struct live_model *m)
{
	struct snap_groups now = {0}, before = {0}, base = {0};
	struct hashmap before_index = {0}, base_index = {0};
	AUTO_FREE u8 *pass = live_filter_stacks(m);
	int err = 0;

	if (!pass)
		return -ENOMEM;
	if (m->has_now)
		err = group(m, &m->now, pass, &now);
	if (!err && m->has_before)
		err = group(m, &m->before, pass, &before) ?: index_groups(&before, &before_index);
	if (!err && m->has_base)
		err = group(m, &m->base, pass, &base) ?: index_groups(&base, &base_index);
	if (!err)
		err = fill(m, &now, &before_index, &base_index);
	hashmap_clear(&before_index, NULL);
	hashmap_clear(&base_index, NULL);
	snap_groups_free(&now);
	snap_groups_free(&before);
	snap_groups_free(&base);
	return err;
}
