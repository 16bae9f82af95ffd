/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the commands that look at captures have in common: their options, the
 * snapshot that is meant, and where the output goes.
 */
#ifndef PHT_CAPTURE_VIEW_H
#define PHT_CAPTURE_VIEW_H

#include "capture.h"
#include "snapshot_group.h"

/* Which options a command takes beside -o, -v and -h. */
enum {
	VIEW_GROUP = 1,	  /* --group-by --cumulative */
	VIEW_FILTER = 2,  /* --include --exclude --all-frames --domain */
	VIEW_TOP = 4,	  /* -n --sort */
	VIEW_FORMAT = 8,  /* -f */
	VIEW_AT = 16,	  /* --at */
	VIEW_FROM = 32,	  /* --from --to, numbers */
	VIEW_TO = 64,	  /* --to, a name */
	VIEW_FLAME = 128, /* -f flamegraph */
};

struct view_spec {
	const char *name; /* of the command, for messages */
	const char *help;
	unsigned int takes;
	const struct view_sort {
		const char *name;
		int value;
	} * sorts;		     /* for --sort; end with a NULL name */
	size_t min_words, max_words; /* arguments that are no options */
	const char *words;	     /* what they are, for a message */
};

struct view_args {
	struct snap_view view; /* patterns are owned */
	size_t top;
	int sort;
	bool json, flame;   /* -f; neither = text */
	const char *output; /* NULL = standard output */
	bool temporary;	    /* show what was temporary instead of what was live */
	long at, from, to;  /* snapshots: numbers, CAPTURE_LAST, CAPTURE_PEAK */
	bool from_given, to_given;
	const char *to_name;
	char **words;
	size_t nwords;
};

/* Fill *out, which holds the defaults.  0, 1 (help was printed) or -EINVAL after one line. */
int view_parse(int argc, char **argv, const struct view_spec *spec, struct view_args *out);
void view_free(struct view_args *args);
/* Exit code after view_parse() did not return 0. */
static inline int view_exit(int err)
{
	return err > 0 ? 0 : 2;
}

/* Put --temporary into effect, if it was given.  0, or -ENOENT after one line. */
int view_select(const struct view_args *args, const char *path, struct snapshot *s);

/* Is what is to be shown in the stacks?  0, or -ENOENT after one line. */
int view_check(const struct view_args *args, const char *path, const struct stacks *stacks);

/* "traceback", "line", "function", "file", "thread". */
const char *view_group_name(enum group_by by);

/*
 * Call print with the stream that args name, and see that all of it was
 * written; a file appears under its name only when it is whole.  The exit
 * code: 0, or 1 after one line.
 */
int view_output(const struct view_args *args, int (*print)(FILE *out, void *ctx), void *ctx);

#endif
