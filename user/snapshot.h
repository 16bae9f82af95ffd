/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A heap at one moment: what a traced process had live, by stack and domain.
 * Made from a live report (snapshot_from_report) or read from a capture
 * (capture.h); everything that looks at it works on both.
 *
 * snapshot_group.h groups, filters and totals a snapshot, snapshot_diff.h
 * compares two.
 */
#ifndef PHT_SNAPSHOT_H
#define PHT_SNAPSHOT_H

#include "snapshot_stacks.h"

/* Domain of rows whose owner is not known. */
#define SNAP_DOMAIN_UNKNOWN PHT_DOM_NR
#define SNAP_DOMAINS	    (PHT_DOM_NR + 1)
#define SNAP_MAX_ROWS	    (1u << 19)
#define SNAP_MAX_BINS	    512u

/* Sums of which the third moments are not kept; see estimate_of_sums(). */
struct snap_sums {
	double bytes, blocks, var;
	u64 samples;
};

/* One stack in one domain: sums since attach, Horvitz-Thompson weighted. */
struct snap_row {
	u32 stack;  /* stacks.h */
	u32 domain; /* enum pht_domain or SNAP_DOMAIN_UNKNOWN */
	struct estimator live;
	double allocated_bytes, allocated_blocks; /* freed again or not */
	double freed_bytes, freed_blocks;
	u64 samples;	   /* taken */
	u64 freed_samples; /* of them, freed again */
	/* What was live at the peak up to now, and what had been allocated by then. */
	struct snap_sums peak;
	double peak_allocated_bytes, peak_allocated_blocks;
	u64 peak_samples;
	struct snap_sums temporary; /* freed soon, since attach */
	u64 peak_is_now;	    /* in files only: the peak is what is live, and is left out */
};

/*
 * Samples of one domain with floor(log2(x)) = log2: live ones, x being a size
 * in bytes or an age in ms, or freed ones, x being a lifetime in ns (where the
 * first and the last take in what is less and what is more).
 */
struct snap_bin {
	u32 domain;
	u32 log2; /* 0..63; x = 0 counts as 1 */
	double bytes, blocks;
	u64 samples;
};

struct snapshot {
	/* The process and how it is traced */
	pid_t pid;
	char comm[32];
	char python_version[16];
	char collector[16];
	char coverage[256];
	char wrote[128];       /* what was written into the process; "" = nothing */
	char end_reason[128];  /* "" = still going on */
	double coverage_share; /* < 0 = unknown */
	bool coverage_complete;
	bool final; /* the last of its run */
	/* The moment */
	double duration;     /* seconds since attach */
	u64 wall_ns;	     /* CLOCK_REALTIME */
	u64 rss;	     /* 0 = not known */
	double overhead;     /* < 0 = unknown */
	u64 sample_interval; /* R now; it may be raised during a run */
	u64 calls, frees;
	u64 losses[PHT_LOSS_NR];
	double peak_seconds; /* after attach, when live bytes were at their highest; < 0 = unknown
			      */
	u64 temporary_ns;    /* a block that lived no longer was temporary; 0 = not recorded */
	enum report_metric metric; /* what the rows' live is: see snapshot_select() */
	/* The heap; all owned */
	struct snap_row *rows; /* by stack, then domain, each pair once */
	size_t nrows;
	struct snap_bin *sizes, *ages; /* by domain, then log2; empty where not recorded */
	size_t nsizes, nages;
	struct snap_bin *lives; /* lifetimes of what was freed, since attach */
	size_t nlives;
};

/* What was seen before, so that a stack's frames are looked up once; see below. */
struct snap_cache; /* opaque */

struct snap_cache *snap_cache_new(void);
void snap_cache_free(struct snap_cache *cache);

/*
 * A report grouped by traceback -> a snapshot, stacks going into the store.
 * The cache holds on to the addresses of rows' frames: keep one per session,
 * no longer than its symbolizer.  0, -EINVAL (grouped otherwise), -ENOMEM or
 * -E2BIG.  The bins stay empty: see snapshot_add_bin.  Numbers are rounded to
 * what a capture keeps (bytes: whole ones; fractions to about 1 in 60,000).
 */
int snapshot_from_report(const struct report *r, struct stacks *stacks, struct snap_cache *cache,
			 struct snapshot *out);

/* Count one live sample (weight 1/p) in both histograms; 0 or -ENOMEM. */
int snapshot_add_bin(struct snapshot *s, u32 domain, u64 size, u64 age_ms, double bytes,
		     double blocks);

/* Count a bucket of lifetimes; 0 or -ENOMEM. */
int snapshot_add_life(struct snapshot *s, u32 domain, u32 bucket, double bytes, double blocks,
		      u64 samples);

/*
 * Put another metric in the place of what is live, so that whatever works on
 * snapshots works on it.  The peak is a snapshot of an earlier moment: all sums
 * are its, and the bins, which are not known, empty.  -ENOENT: not recorded.
 */
int snapshot_select(struct snapshot *s, enum report_metric metric);

int snapshot_copy(const struct snapshot *from, struct snapshot *out); /* 0 or -ENOMEM */
void snapshot_free(struct snapshot *s);				      /* also of a zeroed one */

/* Sums over all rows (or those of one domain: pass SNAP_DOMAINS for all). */
struct snap_total {
	struct estimator live;
	double allocated_bytes, allocated_blocks, freed_bytes, freed_blocks;
	u64 samples, freed_samples;
	struct estimator peak, temporary;
};
void snapshot_total(const struct snapshot *s, u32 domain, struct snap_total *out);

/* All numbers are the same; place and domain are not looked at. */
bool snap_row_same(const struct snap_row *a, const struct snap_row *b);

/* The peak is what there is now. */
void snap_row_peak_is_now(struct snap_row *row);

/* Merge a row into sums. */
void snap_total_add(struct snap_total *t, const struct snap_row *row);

/* The 95 % interval of sums that were sampled at R; like the live report's. */
struct estimate snap_interval(const struct estimator *e, u64 sample_interval);

/* "libc", "pymalloc", "pool", "mmap", "fault", "unknown". */
const char *snap_domain_name(u32 domain);
/* By name, or -ENOENT. */
int snap_domain_find(const char *name, u32 *out);

#endif
