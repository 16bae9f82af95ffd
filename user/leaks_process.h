/* SPDX-License-Identifier: BSD-2-Clause */
/* Does the process grow, and do its live blocks account for it?  Pure. */
#ifndef PHT_LEAKS_PROCESS_H
#define PHT_LEAKS_PROCESS_H

#include "leaks_verdict.h"

enum leaks_process_kind {
	LEAKS_RSS_LEVEL,	 /* the resident set does not grow */
	LEAKS_RSS_LIVE,		 /* it grows about as live memory does */
	LEAKS_RSS_FRAGMENTATION, /* it grows, live memory does not, or far less */
	LEAKS_RSS_UNKNOWN,	 /* not watched for long enough */
	LEAKS_RSS_KINDS,
};

/* For programs: "level", "live", "fragmentation", "unknown". */
const char *leaks_process_key(enum leaks_process_kind kind);

struct leaks_process {
	enum leaks_process_kind kind;
	double since;		/* both growths are from then to the end: seconds since attach */
	double rss_growth;	/* bytes */
	struct estimate growth; /* of what is live */
	double rss_per_hour;
};

/* total: live bytes of all sites together. */
void leaks_judge_process(const double *times, const u64 *rss, const struct leaks_look *total,
			 size_t n, struct leaks_process *out);

#endif
