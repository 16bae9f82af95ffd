/* SPDX-License-Identifier: BSD-2-Clause */
/* What this host lets us do, found by trying. */
#ifndef PHT_CHECK_H
#define PHT_CHECK_H

#include <stdbool.h>

struct host_features {
	bool privileged;     /* may load BPF and probe processes */
	bool btf;	     /* /sys/kernel/btf/vmlinux readable */
	bool ringbuf;	     /* BPF_MAP_TYPE_RINGBUF, 5.8 */
	bool map_growth;     /* maps may take memory as they fill, 6.1 */
	bool uprobe_perf;    /* uprobe PMU present */
	bool attach_cookie;  /* bpf_get_attach_cookie(), 5.15 */
	bool uprobe_multi;   /* BPF_TRACE_UPROBE_MULTI, 6.6 */
	bool uprobe_session; /* BPF_TRACE_UPROBE_SESSION, 6.13 */
	bool ptrace;	     /* may ptrace others (trampoline) */
};

/* Try each; no output. */
void check_probe(struct host_features *out);
/* `pyheaptrace check`: a line each on stdout.  0 when tracing can work, else 1. */
int check_main(void);
/*
 * For the trace command: 0, or -EPERM / -ENOTSUP after one clear line that
 * names the missing capability or feature and what to do.
 */
int check_require(struct host_features *out);

#endif
