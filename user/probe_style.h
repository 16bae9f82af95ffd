/* SPDX-License-Identifier: BSD-2-Clause */
/* How probes are attached, and which programs that takes. */
#ifndef PHT_PROBE_STYLE_H
#define PHT_PROBE_STYLE_H

#include "check.h"

/* Best first. */
enum attach_style {
	STYLE_SESSION, /* one link an object, return half only where asked for */
	STYLE_MULTI,   /* two links an object */
	STYLE_COOKIE,  /* one or two links a function */
	STYLE_PERF,    /* the same, and one or two programs a function */
};

struct pyheaptrace_bpf;

/* The best that this host has; PHT_ATTACH=multi, cookie or perf asks for less (for tests). */
enum attach_style probe_style_choose(const struct host_features *host);
/* Between open and load: load only what the style attaches. */
void probe_style_configure(struct pyheaptrace_bpf *skel, enum attach_style style);

#endif
