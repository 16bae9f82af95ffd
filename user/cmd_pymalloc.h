/* SPDX-License-Identifier: BSD-2-Clause */
/* What cmd_pymalloc*.c share: a look at one process at one moment, and its writers. */
#ifndef PHT_CMD_PYMALLOC_H
#define PHT_CMD_PYMALLOC_H

#include "freelists.h"
#include "obmalloc_stats.h"

enum pymalloc_format { PYMALLOC_TEXT, PYMALLOC_JSON, PYMALLOC_DEBUGMALLOCSTATS };

struct pymalloc_moment {
	pid_t pid;
	u64 start_time;
	char comm[80]; /* escaped */
	char version[16];
	char allocator[32]; /* py_alloc_mode_name() */
	bool prints;	    /* sys._debugmallocstats() would print pymalloc's part */
	double time;	    /* seconds since 1970 */
	bool found;	    /* pymalloc's state; otherwise what follows is zero */
	struct obmalloc_layout layout;
	size_t nstates;
	bool more_states;				  /* than were read */
	struct obmalloc_stats state[OBMALLOC_STATES_MAX]; /* the main interpreter's first */
	struct obmalloc_stats total;
	struct freelists main_lists, lists; /* of the main interpreter, of all */
	u64 frozen_ns;			    /* the process stood still; 0 = it ran */
	bool thawed_early;
};

/* The target of repeated looks. */
struct pymalloc_target {
	struct pyinfo info;
	unsigned freeze_ms; /* 0: let it run */
};

/* 0, or -errno after one line on stderr. */
int pymalloc_take(struct pymalloc_target *target, struct pymalloc_moment *out);

void pymalloc_write_text(const struct pymalloc_moment *m, FILE *f);
void pymalloc_write_text_diff(const struct pymalloc_moment *before,
			      const struct pymalloc_moment *after, FILE *f);
/* The bytes that sys._debugmallocstats() prints in the main interpreter. */
void pymalloc_write_stats(const struct pymalloc_moment *m, FILE *f);
/* One line.  before may be NULL; with it, the changes are added.  0 or -ENOMEM. */
int pymalloc_write_json(const struct pymalloc_moment *before, const struct pymalloc_moment *m,
			FILE *f);
/* What pymalloc_write_json() wrote (the last line of it).  0, or -errno after a message. */
int pymalloc_load_json(const char *path, struct pymalloc_moment *out);

#endif
