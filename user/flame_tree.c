// SPDX-License-Identifier: BSD-2-Clause
#include "flame_tree.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "estimate.h"

/* About what a node, and the sums of a site, take in the page. */
#define NODE_COST 6u
#define SITE_COST 80u
#define NAME_COST 8u /* beside the text itself */

/* Shares by size: STEPS bins to an octave, the last bin being shares above 1/2. */
#define STEPS 8
#define BINS  (64 * STEPS)

struct making {
	const struct flame_input *in;
	const struct snapshot *moments[FLAME_MOMENTS];
	u32 n;		   /* stacks there are */
	u32 *site;	   /* of a stack: the number of its site + 1; 0 = none */
	double *share;	   /* of a stack and all above it: the largest of any view's total */
	double *sum;	   /* of one view */
	u32 *first, *next; /* children; 0 = none, as STACK_ROOT is nobody's */
	struct flame_tree tree;
};

static void making_free(struct making *m)
{
	free(m->site);
	free(m->share);
	free(m->sum);
	free(m->first);
	free(m->next);
	flame_tree_free(&m->tree);
}

/* The site of a stack, made where there is none; there is room for max. */
static struct flame_site *site_of(struct making *m, u32 stack)
{
	if (!m->site[stack]) {
		m->tree.sites[m->tree.nsites++] = (struct flame_site){.node = stack};
		m->site[stack] = m->tree.nsites;
	}
	return &m->tree.sites[m->site[stack] - 1];
}

static int add_sites(struct making *m)
{
	const struct snap_filter *filter = m->in->filter;
	AUTO_FREE u8 *pass = snap_filter_stacks(m->in->stacks, filter);
	size_t max = 0;

	for (int i = 0; i < FLAME_MOMENTS; i++)
		max += m->moments[i] ? m->moments[i]->nrows : 0;
	/* No more than there are stacks, pruning included. */
	m->tree.sites = calloc((max < m->n ? max : m->n) + 1, sizeof(*m->tree.sites));
	if (!pass || !m->tree.sites)
		return -ENOMEM;
	for (int i = 0; i < FLAME_MOMENTS; i++) {
		const struct snapshot *s = m->moments[i];

		for (size_t j = 0; s && j < s->nrows; j++) {
			const struct snap_row *row = &s->rows[j];

			if (pass[row->stack] &&
			    (!filter->domains || filter->domains >> row->domain & 1))
				snap_total_add(&site_of(m, row->stack)->sum[i], row);
		}
	}
	return 0;
}

/* What the page can show as widths; see views.js. */
static double view_value(const struct flame_site *site, int view)
{
	double now = site->sum[FLAME_NOW].live.bytes, first = site->sum[FLAME_FIRST].live.bytes;

	switch (view) {
	case 0:
		return now;
	case 1:
		return site->sum[FLAME_NOW].allocated_bytes;
	case 2:
		return site->sum[FLAME_PEAK].live.bytes;
	case 3:
		return first;
	case 4:
		return now > first ? now - first : 0;
	default:
		return first > now ? first - now : 0;
	}
}
#define VIEWS 6

static void weigh(struct making *m)
{
	for (int view = 0; view < VIEWS; view++) {
		memset(m->sum, 0, m->n * sizeof(*m->sum));
		for (u32 i = 0; i < m->tree.nsites; i++)
			m->sum[m->tree.sites[i].node] = view_value(&m->tree.sites[i], view);
		/* Callees have higher numbers than their callers. */
		for (u32 i = m->n; i-- > 1;)
			m->sum[stacks_parent(m->in->stacks, i)] += m->sum[i];
		for (u32 i = 0; i < m->n && m->sum[0] > 0; i++)
			m->share[i] = fmax(m->share[i], fmin(m->sum[i] / m->sum[0], 1));
	}
}

static int bin_of(double share)
{
	int bin = BINS + (int)floor(log2(share) * STEPS);

	return bin < 0 ? 0 : bin >= BINS ? BINS - 1 : bin;
}

static size_t name_cost(const char *name)
{
	size_t len = strlen(name);

	return NAME_COST + (len < FLAME_NAME_MAX ? len : FLAME_NAME_MAX);
}

/* The text of a frame counts for the first stack that has it on top. */
static size_t cost_of(const struct making *m, u32 stack, u8 *named)
{
	u32 frame = stacks_top(m->in->stacks, stack);
	size_t cost = NODE_COST + (m->site[stack] ? SITE_COST : 0);

	if (!named[frame]) {
		named[frame] = 1;
		/* Files are shared by their frames: those of their lines cost little more. */
		cost += name_cost(stacks_frame(m->in->stacks, frame)->function);
	}
	return cost;
}

/* Find the share below which stacks are left out; 0: all that have one stay. */
static int choose_threshold(struct making *m, double *out)
{
	AUTO_FREE u8 *named = calloc(stacks_frame_count(m->in->stacks) + 1, 1);
	size_t costs[BINS] = {0}, total = 0;
	size_t max = m->in->max_bytes ? m->in->max_bytes : FLAME_MAX_BYTES;

	if (!named)
		return -ENOMEM;
	for (u32 i = STACK_CUT; i < m->n; i++)
		if (m->share[i] > 0)
			costs[bin_of(m->share[i])] += cost_of(m, i, named);
	*out = 0;
	for (int i = BINS; i-- > 0;) {
		total += costs[i];
		if (total > max) {
			*out = exp2((i + 1 - BINS) / (double)STEPS);
			break;
		}
	}
	return 0;
}

/* A caller's share is no less than that of what it calls, so a tree stays. */
static bool kept(const struct making *m, u32 stack)
{
	return stack == STACK_ROOT ||
	       (m->share[stack] > 0 && m->share[stack] >= m->tree.pruned_share);
}

static void merge_total(struct snap_total *into, const struct snap_total *from)
{
	estimate_merge(&into->live, &from->live);
	into->allocated_bytes += from->allocated_bytes;
	into->allocated_blocks += from->allocated_blocks;
	into->freed_bytes += from->freed_bytes;
	into->freed_blocks += from->freed_blocks;
	into->samples += from->samples;
	into->freed_samples += from->freed_samples;
}

/* Each pruned stack's site becomes its nearest caller's that is kept. */
static int merge_pruned(struct making *m)
{
	struct flame_site *old = m->tree.sites;
	u32 n = m->tree.nsites;

	for (u32 i = STACK_CUT; i < m->n; i++)
		m->tree.pruned += m->share[i] > 0 && !kept(m, i);
	memset(m->site, 0, m->n * sizeof(*m->site));
	m->tree.sites = calloc(n + 1, sizeof(*m->tree.sites));
	m->tree.nsites = 0;
	for (u32 i = 0; i < n && m->tree.sites; i++) {
		struct flame_site *site;
		u32 stack = old[i].node;

		while (!kept(m, stack))
			stack = stacks_parent(m->in->stacks, stack);
		site = site_of(m, stack);
		for (int j = 0; j < FLAME_MOMENTS; j++)
			merge_total(&site->sum[j], &old[i].sum[j]);
	}
	free(old);
	return m->tree.sites ? 0 : -ENOMEM;
}

static void link_children(struct making *m)
{
	/* From the end, so that children are in the order of their numbers. */
	for (u32 i = m->n; i-- > 1;) {
		u32 parent = stacks_parent(m->in->stacks, i);

		if (!kept(m, i))
			continue;
		m->next[i] = m->first[parent];
		m->first[parent] = i;
		m->tree.nnodes++;
	}
}

static int number_nodes(struct making *m)
{
	struct flame_site *sorted = calloc(m->tree.nsites + 1, sizeof(*sorted));
	u32 at = STACK_ROOT, n = 0, nsites = 0;

	m->tree.nodes = calloc(m->tree.nnodes + 1, sizeof(*m->tree.nodes));
	if (!m->tree.nodes || !sorted) {
		free(sorted);
		return -ENOMEM;
	}
	for (;;) {
		if (m->site[at]) {
			sorted[nsites] = m->tree.sites[m->site[at] - 1];
			sorted[nsites++].node = n;
		}
		m->tree.nodes[n++] = at;
		if (m->first[at]) {
			at = m->first[at];
			continue;
		}
		while (at != STACK_ROOT && !m->next[at])
			at = stacks_parent(m->in->stacks, at);
		if (at == STACK_ROOT)
			break;
		at = m->next[at];
	}
	m->tree.nnodes = n;
	free(m->tree.sites);
	m->tree.sites = sorted;
	/* A site that never held or allocated anything has no node. */
	m->tree.nsites = nsites;
	return 0;
}

int flame_tree_make(const struct flame_input *in, struct flame_tree *out)
{
	struct making m = {.in = in, .moments = {in->now, in->first, in->peak}};
	int err;

	m.n = stacks_count(in->stacks);
	m.site = calloc(m.n, sizeof(*m.site));
	m.share = calloc(m.n, sizeof(*m.share));
	m.sum = calloc(m.n, sizeof(*m.sum));
	m.first = calloc(m.n, sizeof(*m.first));
	m.next = calloc(m.n, sizeof(*m.next));
	err = m.site && m.share && m.sum && m.first && m.next ? add_sites(&m) : -ENOMEM;
	if (!err) {
		weigh(&m);
		err = choose_threshold(&m, &m.tree.pruned_share);
	}
	if (!err && m.tree.pruned_share > 0)
		err = merge_pruned(&m);
	if (!err) {
		link_children(&m);
		err = number_nodes(&m);
	}
	if (!err) {
		*out = m.tree;
		m.tree = (struct flame_tree){0};
	}
	making_free(&m);
	return err;
}

void flame_tree_free(struct flame_tree *t)
{
	free(t->nodes);
	free(t->sites);
	*t = (struct flame_tree){0};
}
