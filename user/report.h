/* SPDX-License-Identifier: BSD-2-Clause */
/* What a report consists of.  Aggregation fills it, reporters print it; nobody else. */
#ifndef PHT_REPORT_H
#define PHT_REPORT_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "pht_abi.h"
#include "util.h"

enum frame_kind {
	FRAME_PYTHON,
	FRAME_NATIVE,
	FRAME_OTHER,  /* "<no Python state>", "<name unreadable>" and the like */
	FRAME_THREAD, /* a thread as the outermost caller: see threads.h */
};

/* A resolved frame.  Strings are interned and outlive the report. */
struct frame {
	const char *function;
	const char *file;
	s32 line; /* 0 = unknown */
	enum frame_kind kind;
};

/* A 95 % interval around an estimate, in the same unit. */
struct estimate {
	double value, low, high;
};

/* Sums over sampled blocks from which estimates and intervals follow: see estimate.h. */
struct estimator {
	double bytes;  /* sum of x / p */
	double blocks; /* sum of 1 / p */
	double var;    /* sum of (1 - p) x^2 / p^2 */
	double seen;   /* sum of x: live for certain */
	double skew;   /* third moment of the error: sum of (1 - p) (1 - 2p) x^3 / p^3 */
	double covar;  /* of the error with var: sum of (1 - p)^2 x^3 / p^3 */
	/* Of the blocks: sum of (1 - p) / p^2, of (1 - p)^2 / p^3; 0 where not recorded. */
	double blocks_var, blocks_covar;
	u64 samples;
};

/* Lifetimes of freed blocks by struct pht_life's buckets, estimated. */
struct life_hist {
	double bytes[PHT_LIFE_BUCKETS], blocks[PHT_LIFE_BUCKETS];
	u64 samples[PHT_LIFE_BUCKETS];
};

/* What the live columns of a report show. */
enum report_metric {
	METRIC_LIVE,
	METRIC_PEAK,	  /* what was live at the high-water mark */
	METRIC_TEMPORARY, /* what was freed again soon, since attach */
};

/* One line of the table: a group of stacks (see enum group_by). */
struct row {
	const struct frame *frames; /* innermost first; of the heaviest stack of the group */
	u32 nframes;
	bool truncated;	       /* the outermost frames are missing */
	struct estimator live; /* what live_bytes was made from; merges with other rows' */
	struct estimate live_bytes;
	double live_blocks;
	double allocated_bytes, allocated_blocks; /* since attach */
	double growth_bytes;			  /* live now minus live at the previous refresh */
	double alloc_rate;			  /* bytes a second since the previous refresh */
	u64 samples;				  /* taken since attach */
	u64 live_samples;
	/* Of the samples taken since attach, those freed again. */
	double freed_bytes, freed_blocks;
	u64 freed_samples;
	struct estimator peak, temporary; /* see enum report_metric */
	struct estimate peak_bytes, temporary_bytes;
	/* Allocated up to the peak, and the samples taken. */
	double peak_allocated_bytes, peak_allocated_blocks;
	u64 peak_samples;
	const struct life_hist *lives; /* NULL = none was freed, or not known by row */
	u32 domain;		       /* enum pht_domain, where the report is by_domain */
};

#define REPORT_BEFORE_TYPES 4

/* What the process held when it was attached to; not part of any row. */
struct report_before {
	u64 objects, bytes;
	struct {
		const char *name;
		u64 count, bytes;
	} types[REPORT_BEFORE_TYPES]; /* largest first */
	size_t ntypes;
};

/* One of the processes of a merged report. */
struct report_process {
	pid_t pid;
	char comm[32];
	char python_version[16];
	double duration;
	u64 rss;
	struct estimate live_bytes;
	const char *end_reason; /* NULL: it runs */
};

enum group_by { GROUP_TRACEBACK, GROUP_LINE, GROUP_FUNCTION, GROUP_FILE, GROUP_THREAD };

struct symbolizer;

struct report {
	pid_t pid; /* 0 in a merged report */
	char comm[32];
	char python_version[16];
	const char *collector; /* "probe", "trampoline", "growth" */
	const char *coverage;  /* one sentence in words */
	double coverage_share; /* 0..1: of the live bytes, what is counted block by block; < 0 =
				  unknown */
	bool coverage_complete;
	u64 sample_interval;
	u64 interval_asked;   /* by -R; 0 = not known */
	double overhead;      /* share of its time that the process lost to us; < 0 = unknown */
	double overhead_core; /* the same of one core, of all processes together; 0 = unknown */
	const struct report_before *before; /* NULL = not known */
	const char *wrote; /* what was written into the process; "" or NULL = nothing */
	double duration;   /* seconds since attach */
	u64 rss;
	bool final;		    /* the last report of a run */
	const char *end_reason;	    /* "target exited", ... or NULL */
	struct estimate live_bytes; /* totals over all rows, shown or not */
	double live_blocks;
	double allocated_bytes, allocated_blocks;
	u64 samples, live_samples;
	enum report_metric metric; /* of live_bytes and the like, here and in rows */
	double peak_seconds;	   /* when live bytes were at their highest; < 0 = not known */
	struct estimate peak_bytes, temporary_bytes;
	double peak_blocks, temporary_blocks;
	double temporary_seconds; /* blocks that lived no longer are temporary; 0 = not recorded */
	struct life_hist lives;	  /* of all rows */
	u64 calls, frees;	  /* probe hits */
	u64 losses[PHT_LOSS_NR];
	u64 own_losses[PHT_LOSS_NR]; /* the part of them that is not of all processes together */
	const struct report_process *processes; /* owned; of a merged report, or NULL */
	size_t nprocesses;
	enum group_by group_by;
	bool by_domain; /* rows of different domains are kept apart */
	/* Resolves stack ids of the records it was made from; NULL where there are none. */
	const struct symbolizer *symbols;
	struct row *rows; /* owned; sorted by live bytes, descending */
	size_t nrows;	  /* all of them; reporters cut at top */
	size_t top;
};

struct report_style {
	int width; /* columns; 0 = 80 */
	bool color;
	bool callers; /* show callers below the top rows */
	bool clear;   /* refresh in place: home the cursor first */
	int height;   /* lines that fit, with clear; 0 = any number */
	bool ascii;   /* the terminal is not UTF-8 */
};

/* One format each; 0 or -errno of the stream. */
int report_text(FILE *out, const struct report *r, const struct report_style *style);
int report_json(FILE *out, const struct report *r);
/* One line of a process of which there is nothing to tell but r->end_reason. */
int report_text_reason(FILE *out, const struct report *r);

/*
 * Show another metric in the place of what is live: rows are sorted by it,
 * totals are its.  -ENOENT where it is not known.
 */
int report_select(struct report *r, enum report_metric metric);
/* Order of rows: by live bytes, descending. */
int report_compare_rows(const void *a, const void *b);
/* The shortest time of a bucket of struct life_hist, and its end (INFINITY for the last). */
double life_from(u32 bucket);
double life_to(u32 bucket);
/* The end of the bucket up to which a share of the freed blocks lived; < 0: none were freed. */
double life_quantile(const struct life_hist *h, double share);

/* Name and explanation of a loss counter. */
const char *loss_name(enum pht_loss loss);
const char *loss_text(enum pht_loss loss);

#endif
