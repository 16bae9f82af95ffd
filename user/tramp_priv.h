/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the parts of the trampoline collector's target side; see tramp.h. */
#ifndef PHT_TRAMP_PRIV_H
#define PHT_TRAMP_PRIV_H

#include "tramp.h"
#include "tramp_leftover.h"
#include "tramp_tables.h"

/* The filter and the set, as they are in the data region. */
struct tramp_set {
	bool pad; /* of a session with PHT_CTL_F_PAD: small blocks in it are the raw domain's */
	u8 bytes[PHT_TRAMP_SIZE - PHT_TRAMP_FILTER];
};

struct tramp {
	pid_t pid;
	u64 start_time;
	int mem;
	bool wedged, enabled, reused;
	enum py_alloc_mode mode;
	bool musl;
	struct tramp_params params;
	struct tramp_tables tables;
	struct tramp_region region;
	struct tramp_leftovers left;
	struct inject_gadgets gadgets;
	u32 gen;
	u64 r; /* of the parameters in force */
	u32 site;
	bool all;
	bool pad; /* mem's and obj's free stay CPython's: PHT_CTL_F_PAD */
	struct tramp_stops stops;
	struct tramp_view view;
};

/* ---- tramp_ctl.c: the control page ---- */

u64 tramp_ctl_addr(const struct tramp *t, u32 offset);
int tramp_ctl_put32(const struct tramp *t, u32 offset, u32 value);
int tramp_ctl_put64(const struct tramp *t, u32 offset, u64 value);
int tramp_ctl_get(const struct tramp *t, struct pht_tramp_ctl *out);
/* Make R = r the parameters in force. */
int tramp_ctl_params(struct tramp *t, u64 r);
int tramp_ctl_lease(const struct tramp *t);
int tramp_ctl_take_set(const struct tramp *t, struct tramp_set *out);
int tramp_ctl_stats(const struct tramp *t, struct tramp_stats *out);

/* ---- tramp_attach.c: find or make the page ---- */

/* Is it still the process that was examined?  -ESRCH. */
int tramp_check_identity(const struct tramp *t);
int tramp_do_attach(struct tramp *t, const char **why);

/* ---- tramp_swap.c: everything that stops a thread once the page is there ---- */

int tramp_do_enable(struct tramp *t);
int tramp_do_disable(struct tramp *t);
int tramp_do_recheck(struct tramp *t, bool *gap);
int tramp_do_swap(struct tramp *t, struct pht_tramp_swap *list, u32 n);

#endif
