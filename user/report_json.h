/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside of report_json(). */
#ifndef PHT_REPORT_JSON_H
#define PHT_REPORT_JSON_H

#include "report.h"

/* A rounded estimate; JSON has neither nan nor infinity. */
s64 report_json_whole(double value);
/* One site; errors are the stream's. */
void report_json_site(FILE *out, const struct report *r, const struct row *row);

#endif
