/* SPDX-License-Identifier: BSD-2-Clause */
/* The bpf(2) calls that an older libbpf does not know. */
#ifndef PHT_BPFSYS_H
#define PHT_BPFSYS_H

#include <stdbool.h>
#include <sys/types.h>

#include "util.h"

/* From the kernel's uapi bpf.h; older headers lack the names. */
#define PHT_BPF_TRACE_UPROBE_MULTI   48
#define PHT_BPF_TRACE_UPROBE_SESSION 57

/*
 * BPF_LINK_CREATE for uprobe_multi: probes at offsets of the file behind
 * path, in the process pid only (0 = all).  ret_probe asks for return probes.
 * A link fd (closing it removes the probes), or -errno.
 */
int bpfsys_uprobe_multi(int prog_fd, u32 attach_type, const char *path, const u64 *offsets,
			const u64 *cookies, u32 n, pid_t pid, bool ret_probe);

#endif
