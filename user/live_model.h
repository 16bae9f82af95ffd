/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the live view shows of one process, without a terminal: rows of sites
 * with their numbers, sorted and filtered; the callers of one; a baseline.
 */
#ifndef PHT_LIVE_MODEL_H
#define PHT_LIVE_MODEL_H

#include "hashmap.h"
#include "snapshot_group.h"

#define LIVE_FILTER_MAX 128

enum live_column { LIVE_LIVE, LIVE_GROWTH, LIVE_BLOCKS, LIVE_RATE, LIVE_SINCE, LIVE_COLUMNS };

struct live_numbers {
	double value[LIVE_COLUMNS]; /* what the table shows and sorts by */
	struct estimate live;
	struct estimate since; /* the change since the baseline, with its interval */
	bool noise;	       /* since may well be no change at all */
};

/* A list with a selected line, of which a page is on the screen. */
struct live_list {
	size_t n, at, first;
	bool moved; /* somebody chose a line: stay on it; else on whatever is first */
};

struct live_row {
	u64 a, b; /* the key: see struct snap_group */
	u32 stack;
	struct live_numbers numbers;
};

/* A caller, with the callers that led to it as its children. */
struct live_node {
	u32 frame; /* stacks.h, or LIVE_NO_FRAME: outer frames are missing */
	u32 parent, child, sibling;
	u64 path; /* the same in every refresh */
	struct snap_total now, before, base;
	struct live_numbers numbers;
};
#define LIVE_NO_FRAME UINT32_MAX
#define LIVE_NO_NODE  UINT32_MAX

struct live_line {
	u32 node;
	u16 indent; /* in steps */
	bool folded, more;
};

struct live_callers {
	bool open;
	u64 a, b;		 /* of the row */
	u32 stack;		 /* likewise */
	struct live_node *nodes; /* owned; the first is the row itself */
	size_t nnodes, cap;
	struct live_line *lines; /* owned */
	struct live_list list;
	u64 path;	       /* of the line selected */
	struct hashmap folded; /* see live_callers_folded */
};

/* How to look; the same for all processes. */
struct live_settings {
	enum group_by group_by;
	enum live_column sort;
	bool reverse;
	char filter[LIVE_FILTER_MAX]; /* "" = all */
};

struct live_model {
	pid_t pid; /* whose it is; set by the user */
	struct stacks *stacks;
	struct snap_cache *cache;
	struct live_settings set;
	struct snapshot now, before, base; /* before: the refresh before this one */
	bool has_now, has_before, has_base;
	bool paused;
	u64 started_over;	      /* times that names filled their store: see live_model_feed */
	u64 held_objects, held_bytes; /* what there was at attach; 0 = not known */
	struct snap_total total;
	struct live_row *rows; /* owned */
	struct live_list list;
	u64 a, b;      /* of the row selected */
	double passed; /* live bytes that the filter lets through */
	struct live_callers callers;
};

struct live_model *live_model_new(const struct live_settings *set); /* NULL: no memory */
void live_model_free(struct live_model *m);

/*
 * A refresh, from a report by traceback.  While paused, and after the end of
 * the process, nothing changes.  When the store of stacks is full everything
 * is forgotten, the baseline included, and counted in started_over.  0 or
 * -errno.
 */
int live_model_feed(struct live_model *m, const struct report *r);
/* The same, from a snapshot in m->stacks, which is taken over; NULL rows after. */
int live_model_feed_snapshot(struct live_model *m, struct snapshot *s);

/* Each leaves rows, callers and selection in order.  0 or -ENOMEM, then nothing has changed. */
int live_model_set(struct live_model *m, const struct live_settings *set);
int live_model_mark(struct live_model *m); /* the baseline is now */
int live_model_clear(struct live_model *m);
int live_model_open_callers(struct live_model *m); /* of the selected row */
void live_model_close_callers(struct live_model *m);
int live_model_fold(struct live_model *m); /* the selected caller, or unfold it */

/* Selection, in whatever is open. */
struct live_list *live_model_list(struct live_model *m);
void live_model_move(struct live_model *m, long lines);
void live_model_home(struct live_model *m);
void live_model_end(struct live_model *m);

/* Make the selected line one of a page of so many. */
void live_list_scroll(struct live_list *l, size_t page);

/* Inner parts, for live_*.c. */
int live_rows_build(struct live_model *m);
int live_callers_build(struct live_model *m);
void live_callers_free(struct live_callers *c);
bool live_callers_folded(const struct live_callers *c, u64 path);
void live_numbers_fill(const struct live_model *m, const struct snap_total *now,
		       const struct snap_total *before, const struct snap_total *base,
		       struct live_numbers *out);
/* < 0: a goes above b. */
int live_numbers_compare(const struct live_settings *set, const struct live_numbers *a,
			 const struct live_numbers *b);
/* A word is looked for in names whatever its case, a pattern (* ? [) has to fit one. */
bool live_filter_match(const char *filter, const struct frame *f);
/* One byte per stack: 1 = to be shown.  NULL: no memory. */
u8 *live_filter_stacks(const struct live_model *m);

#endif
