/* SPDX-License-Identifier: BSD-2-Clause */
/* What pyheaptrace leaks prints, in two formats. */
#ifndef PHT_LEAKS_REPORT_H
#define PHT_LEAKS_REPORT_H

#include "leaks_process.h"
#include "leaks_series.h"

struct leaks_report {
	const struct leaks_series *series; /* judged */
	struct snapshot head;		   /* of the last look; without its heap */
	struct leaks_process process;
	char finding[512]; /* what the process's pages say about fragmentation; "" = nothing */
	double older_than; /* seconds, as it was applied */
	size_t top;
};

/* 0 or -errno. */
int leaks_print_text(FILE *out, const struct leaks_report *r);
int leaks_print_json(FILE *out, const struct leaks_report *r);

#endif
