/* SPDX-License-Identifier: BSD-2-Clause */
/* How each thing we need went when it was tried on this host. */
#ifndef PHT_CHECK_HOST_H
#define PHT_CHECK_HOST_H

#include <linux/capability.h>

#include "check.h"
#include "util.h"

/* Newer than the oldest headers we build with. */
#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#endif
#ifndef CAP_BPF
#define CAP_BPF 39
#endif

struct host_trial {
	u64 caps;	      /* effective capabilities */
	bool other_userns;    /* root of a user namespace only: its capabilities do not count */
	bool confidentiality; /* lockdown hides kernel memory from BPF */
	/* 0 = works, -errno = how it failed. */
	int bpf;     /* any BPF map */
	int program; /* a program that may probe */
	int btf;
	int ringbuf;
	int map_growth;
	int uprobe_perf;
	int attach_cookie;
	int uprobe_multi;
	int uprobe_session;
	int ptrace; /* of a child: nothing forbids it altogether */
};

void host_try(struct host_trial *out);

/* The effective set holds cap, or for the BPF ones CAP_SYS_ADMIN in its place. */
bool host_has_cap(const struct host_trial *t, int cap);
/* Names of the capabilities that tracing needs and we lack; "" if none. */
void host_missing_caps(const struct host_trial *t, char *buf, size_t size);

#define HOST_WHY_MAX 320

/*
 * Whether tracing can work: 0, -EPERM or -ENOTSUP, and then in one line what is
 * wrong and what to do.
 */
int host_verdict(const struct host_trial *t, char why[HOST_WHY_MAX]);

#endif
