/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The trampoline in one target: CPython's allocator tables point at a page of
 * ours, which decides what is sampled and passes a probe site only then.
 *
 *	tramp_attach()		map the page, or find the one of an earlier attach
 *	  attach uprobes to tramp_code_fd() at PHT_SITE_ALLOC() and PHT_SITE_FREE()
 *	tramp_enable()		swap the pointers
 *	tramp_heartbeat(), tramp_recheck()	every second
 *	tramp_disable()		restore the pointers that are still ours
 *	  detach the uprobes
 *	tramp_free()
 *
 * Every call is bounded in time, whatever the target does.  After -ETIMEDOUT
 * all further calls on it fail, and so does the attach's tear-down: the lease
 * ends it.  -ESRCH: the process is gone or has started another program.
 */
#ifndef PHT_TRAMP_USER_H
#define PHT_TRAMP_USER_H

#include <stdbool.h>

#include "pht_tramp.h"
#include "pyinfo.h"
#include "util.h"

struct tramp;
struct tramp_set;

struct tramp_params {
	u64 interval; /* R, bytes; 1 = every allocation */
	u64 seed;
	/*
	 * Children go on sampling by themselves (their tgid tells them apart).
	 * Not with an optimised nop5 site: those kernels kill such children.
	 */
	bool follow_fork;
	/* Resolved functions of libc's family by PHT_TFN_* - PHT_TFN_TABLES; 0 = not needed. */
	u64 libc[PHT_TFN_NR - PHT_TFN_TABLES];
	/*
	 * Sampled blocks whose frees are still to be reported, or NULL.  It is
	 * the attach's from there on, also when that fails.
	 */
	struct tramp_set *set;
};

/*
 * On failure *why is one reason for people and the target is as before (but
 * for an unused mapping at worst).  -EBUSY: another tracer of any kind;
 * -EPERM, -EACCES: a policy; -ENOTSUP: not this target or machine; -ENOSPC:
 * too many mappings from earlier attaches.
 */
int tramp_attach(const struct pyinfo *info, const struct tramp_params *params, struct tramp **out,
		 const char **why);
/* Does not disable. */
void tramp_free(struct tramp *t);

/* The memfd with the sites; /proc/self/fd/N is a path that perf and uprobe_multi take. */
int tramp_code_fd(const struct tramp *t);
/* Run-time address of the page, and of an entry (PHT_TFN_*). */
u64 tramp_base(const struct tramp *t);
u64 tramp_entry(const struct tramp *t, int fn);
/* Which site samples pass; PHT_SITE_*.  Before tramp_enable(). */
int tramp_set_site(struct tramp *t, u32 site);
/*
 * What one hit of the probe at this alloc site costs here, in ns: the page is
 * mapped into the calling process and the site called, so the probe must be
 * attached without a pid filter, and its program sees this process's pid.
 * Which kernel takes a probe on a nop says nothing about its cost: 6.1 takes
 * one on all three and emulates only nop1.
 */
int tramp_site_cost(const struct tramp *t, u32 site, u64 *ns);

/* Start: -EAGAIN when somebody changed the tables under our hands. */
int tramp_enable(struct tramp *t);
/*
 * Are the tables still ours, or pass on to ours?  *gap: they were not, for some
 * time since the last look; they are again, unless the result is -ESTALE:
 * somebody else's functions are there now, and only a new attach can tell
 * what to do.
 */
int tramp_recheck(struct tramp *t, bool *gap);
/* Change R.  Samples carry the R they were drawn with. */
int tramp_set_interval(struct tramp *t, u64 interval);
/* Renew the lease: without it the page stops sampling, after a bounded number of samples. */
int tramp_heartbeat(struct tramp *t);
int tramp_disable(struct tramp *t);
/*
 * Stop sampling and take the sampled blocks, for the attach that follows on
 * this one.  Before tramp_disable(), which forgets them.
 */
int tramp_take_set(struct tramp *t, struct tramp_set **out);
/* For another try.  NULL of NULL, or out of memory. */
struct tramp_set *tramp_set_copy(const struct tramp_set *set);

/*
 * Exchange further words, such as GOT slots, each only where it holds
 * what is expected, as list[].seen tells: what was there, or ~expect if the word could
 * not be written.  At most PHT_TRAMP_NSWAP at once.
 */
int tramp_swap(struct tramp *t, struct pht_tramp_swap *list, u32 n);

struct tramp_stats {
	u64 samples;   /* taken in the page */
	u64 frees;     /* of sampled blocks */
	u64 lost;      /* sampled, but their free will not be seen: set full */
	u64 false_pos; /* frees looked up in vain */
	u64 idle;      /* looks while disabled or without a lease */
	u64 expired;   /* of these, without a lease */
	u64 failed;    /* sampled calls that returned NULL */
	u64 undone;    /* reallocs that failed */
	s64 budget;    /* left of the lease */
};
int tramp_read_stats(struct tramp *t, struct tramp_stats *out);

/* How long a thread of the target stood still, in ns: in attach, enable and disable. */
struct tramp_stops {
	u64 attach, enable, disable;
};
struct tramp_stops tramp_stops(const struct tramp *t);
/*
 * From this R on, a sampled block that pymalloc would serve comes from the raw
 * domain, enlarged, so that most frees need not be seen (PHT_CTL_F_PAD).  Below, too
 * much memory would go into that: 529 bytes for each live sample at worst.
 */
#define TRAMP_PAD_INTERVAL (64 << 10)

/*
 * How many of the 12 pointers lead to us, and how many need not (spared);
 * reused = the page was there already.
 */
struct tramp_view {
	int ours, chained, absent, spared;
	bool reused;
};
struct tramp_view tramp_view(const struct tramp *t);

#endif
