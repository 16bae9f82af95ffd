/* SPDX-License-Identifier: BSD-2-Clause */
/* The trampoline's mappings in a target: found again, verified, or made. */
#ifndef PHT_TRAMP_REGION_H
#define PHT_TRAMP_REGION_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "inject.h"
#include "proc.h"
#include "tramp_image.h"

/* Mappings stay for ever, so their number is bounded. */
#define TRAMP_REGIONS_MAX 8

struct tramp_region {
	u64 base;
	int fd; /* of the memfd, owned; -1 = none yet */
	struct tramp_image_spec spec;
};

struct tramp_regions {
	struct tramp_region v[TRAMP_REGIONS_MAX]; /* those that verify; fd -1 */
	int n;
	int total; /* mappings with our name, verified or not, that may be in use */
};

/* Code without data: whoever was making it was killed, or is at it. */
bool tramp_map_is_partial(const struct proc_map *m);

/* A nameless file of the kernel's tmpfs, and nothing else: an fd and its *st, or -errno. */
int tramp_memfd_open(const char *path, struct stat *st);

/* Mappings of earlier attaches.  0 or -errno. */
int tramp_regions_find(pid_t pid, int mem, const struct proc_maps *maps, struct tramp_regions *out);

/* Open the memfd of a region that was found. 0 or -errno. */
int tramp_region_open(pid_t pid, struct tramp_region *region);

/*
 * Map a new region into the target and verify it.  The images are those for
 * either flavour; which one is used is decided by a look at the stopped
 * thread, or by may_use_tcb = false.  wipe: children get zeroed data.
 */
struct tramp_region_request {
	pid_t pid;
	int mem;
	struct inject_gadgets gadgets;
	struct tramp_image_spec spec; /* its flavour is chosen by tramp_region_create */
	bool may_use_tcb;
	bool tcb_in_use; /* the words there are an earlier region's */
	bool wipe;
	u64 stopped_ns;	 /* out */
	const char *why; /* out: the reason of a failure, for people */
};
int tramp_region_create(struct tramp_region_request *req, struct tramp_region *out);

/* Exclusive use of a region of this process, for as long as the fd lives; -EBUSY. */
int tramp_region_lock(const struct tramp_region *region, pid_t pid);

#endif
