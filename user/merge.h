/* SPDX-License-Identifier: BSD-2-Clause */
/* The reports of several processes as one. */
#ifndef PHT_MERGE_H
#define PHT_MERGE_H

#include "report.h"

/*
 * Rows that agree in what group_by names become one, whatever process they are
 * of.  Frames and texts stay those of the reports, which must outlive *out.
 * 0 or -ENOMEM; free with merge_free().
 */
int merge_reports(const struct report *list, size_t n, struct report *out);
void merge_free(struct report *r);

#endif
