// SPDX-License-Identifier: BSD-2-Clause
/*
 * A page in the target decides what is sampled; the kernel is entered only
 * for samples.  See tramp.h for what is written into the target.
 */
#include "collector.h"

#ifdef __x86_64__
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gotswap.h"
#include "log.h"
#include "plan.h"
#include "session.h"
#include "tramp.h"

struct trampoline {
	struct tramp *tramp;
	struct gotswap *got;   /* NULL: calls of extension modules are not seen */
	struct probes *probes; /* the caller's */
	struct probes_links *links;
	pid_t pid; /* of the process, or a thread of it: whom sites are for */
	u32 site;
	u64 site_ns;	    /* what a hit of it costs */
	u64 interval, seed; /* as asked */
	u64 gaps;	    /* times that somebody else's pointers were found in the tables */
	bool lost;	    /* the tables are somebody else's now */
};

#define TRAP_NS_MIN 15
#define HOOK_TRIES  4

static int attach_site(struct trampoline *tr, struct probes *probes, u32 site, pid_t pid)
{
	return probes_attach_sites(probes, tramp_code_fd(tr->tramp), PHT_SITE_ALLOC(site),
				   PHT_SITE_FREE(site), pid, tr->links);
}

/*
 * What the kernel accepts is found by trying, and what that costs by measuring:
 * it may take a probe on any of them and yet be fast on one only.
 */
static int choose_site(struct trampoline *tr, struct probes *probes)
{
	int err = -ENOTSUP;

	tr->site_ns = UINT64_MAX;
	for (u32 site = PHT_SITE_NOP1; site <= PHT_SITE_NOP10; site++) {
		u64 ns;
		int refused = attach_site(tr, probes, site, -1);

		if (!refused)
			refused = tramp_site_cost(tr->tramp, site, &ns);
		/* Faster than any trap: taken, but not placed. */
		if (!refused && ns < TRAP_NS_MIN)
			refused = -ENOTSUP;
		probes_detach_sites(probes, tr->links);
		log_debug("site %u: %lld ns a hit", site, refused ? refused : (long long)ns);
		if (refused && err)
			err = refused;
		if (refused || ns >= tr->site_ns)
			continue;
		tr->site = site;
		tr->site_ns = ns;
		err = 0;
	}
	return err;
}

/* All pages are alike, and removing probes takes the kernel long: once is enough. */
static struct {
	u32 site;
	u64 ns;
} best;

static int attach_sites(struct trampoline *tr, struct probes *probes)
{
	int err = 0;

	if (!tr->site && best.site) {
		tr->site = best.site;
		tr->site_ns = best.ns;
	} else if (!tr->site) {
		err = choose_site(tr, probes);
	}
	if (!err)
		err = attach_site(tr, probes, tr->site, tr->pid);
	if (!err) {
		best.site = tr->site;
		best.ns = tr->site_ns;
	}
	return err ? err : tramp_set_site(tr->tramp, tr->site);
}

static void describe(struct session *s, const struct trampoline *tr)
{
	struct gotswap_view got = {0};
	const char *but = "";

	if (tr->got)
		got = gotswap_view(tr->got);
	if (got.own_new)
		but = "; not C++'s operator new, which this process's allocator serves itself";
	s->complete = tr->got && !got.missed && !got.own_new;
	if (tr->got && !got.missed)
		snprintf(
			s->coverage, sizeof(s->coverage),
			"every allocation through CPython's allocators, and every libc call of the "
			"modules loaded, mappings included%s",
			but);
	else if (tr->got)
		snprintf(s->coverage, sizeof(s->coverage),
			 "every allocation through CPython's allocators, and the libc calls of the "
			 "modules loaded, mappings included, but for %u places%s",
			 got.missed, but);
	else
		snprintf(s->coverage, sizeof(s->coverage),
			 "every allocation through CPython's allocators; not mappings, nor what "
			 "extension modules take from libc directly");
	snprintf(s->wrote, sizeof(s->wrote),
		 "two mappings%s, %d pointers of the allocator tables and %u of modules' tables",
		 tramp_view(tr->tramp).reused ? " (from an earlier run)" : "",
		 tramp_view(tr->tramp).ours, got.ours);
}

/* Put the target's pointers back. */
static void let_go(const struct session *s, const struct trampoline *tr)
{
	int err;

	if (tr->got)
		gotswap_restore(tr->got, tr->tramp);
	err = tramp_disable(tr->tramp);
	if (err && err != -ESRCH)
		log_warn("process %d: could not restore its allocator tables (%s); its page "
			 "stops sampling by itself",
			 s->info.pid, strerror(-err));
}

/* Everything but the state itself: it can be started again. */
static void stop(struct session *s, struct trampoline *tr, bool alive)
{
	if (tr->tramp && alive)
		let_go(s, tr);
	probes_detach(tr->probes, s->info.pid, tr->links);
	gotswap_free(tr->got);
	tramp_free(tr->tramp);
	tr->links = NULL;
	tr->got = NULL;
	tr->tramp = NULL;
}

static void detach(struct session *s, struct probes *probes, bool alive)
{
	(void)probes;
	stop(s, s->state, alive);
	free(s->state);
}

/* One line for each, but for -EAGAIN; that the process exited is nobody's refusal. */
static int failed(const struct session *s, int err, const char *what, const char *why)
{
	if (err == -EAGAIN)
		return err;
	if (err == -ESRCH)
		return log_err_r(err, "process %d exited while attaching", s->info.pid);
	return log_err_r(err, "%s process %d: %s", what, s->info.pid, why ? why : strerror(-err));
}

/* set: the blocks that an earlier start sampled, or NULL. */
static int start(struct session *s, struct trampoline *tr, struct tramp_set *set)
{
	struct tramp_params params = {.interval = tr->interval, .seed = tr->seed, .set = set};
	const char *why = NULL;
	struct pht_proc proc;
	int err;

	err = gotswap_open(&s->info, &tr->got);
	if (err)
		log_info("neither mappings nor calls of extension modules to libc will be seen: %s",
			 strerror(-err));
	else
		gotswap_originals(tr->got, params.libc);
	err = tramp_attach(&s->info, &params, &tr->tramp, &why);
	if (err)
		return failed(s, err, "no trampoline in", why);
	plan_proc(&s->info, tr->interval, &proc);
	err = probes_attach_none(tr->probes, s->info.pid, &proc, &tr->links);
	if (err)
		return err;
	err = attach_sites(tr, tr->probes);
	if (err)
		return failed(s, err, "the kernel refuses probes on the trampoline in", NULL);
	err = tramp_enable(tr->tramp);
	if (err)
		return failed(s, err, "cannot swap the allocator tables of", NULL);
	if (tr->got)
		gotswap_apply(tr->got, tr->tramp);
	return 0;
}

/* What the page's originals lead to has changed: look at what is there now. */
static int examine_again(struct session *s, struct trampoline *tr)
{
	struct pyinfo info;
	int err;

	stop(s, tr, true);
	err = pyinfo_examine(s->info.pid, &info);
	if (err)
		return err;
	if (info.start_time != s->info.start_time) {
		pyinfo_free(&info);
		return -ESRCH;
	}
	pyinfo_free(&s->info);
	s->info = info;
	return 0;
}

/*
 * A hook that came or went between the look at the process and the exchange is
 * no reason to give up.  set: as for start(), still the caller's.
 */
static int start_patiently(struct session *s, struct trampoline *tr, const struct tramp_set *set)
{
	int err = -EAGAIN;

	for (int i = 0; i < HOOK_TRIES && err == -EAGAIN; i++) {
		struct tramp_set *copy = tramp_set_copy(set);

		if (set && !copy)
			return -ENOMEM;
		err = start(s, tr, copy);
		if (err == -EAGAIN)
			err = examine_again(s, tr) ?: -EAGAIN;
	}
	return err;
}

static int attach(struct session *s, struct probes *probes, const struct opts *opts)
{
	struct trampoline *tr = calloc(1, sizeof(*tr));
	struct tramp_stops stops;
	int err;

	if (!tr)
		return log_err_r(-ENOMEM, "out of memory");
	tr->probes = probes;
	tr->pid = s->info.pid;
	tr->interval = opts->sample_interval;
	tr->seed = opts->seed;
	s->state = tr;
	err = start_patiently(s, tr, NULL);
	if (err == -EAGAIN)
		log_error("another allocator hook keeps changing the allocator tables of "
			  "process %d",
			  s->info.pid);
	if (err) {
		detach(s, probes, true);
		s->state = NULL;
		return err;
	}
	describe(s, tr);
	stops = tramp_stops(tr->tramp);
	log_info("a thread stood still for %llu us to attach and %llu us to enable; a hit "
		 "of site %u costs %llu ns",
		 (unsigned long long)stops.attach / 1000, (unsigned long long)stops.enable / 1000,
		 tr->site, (unsigned long long)tr->site_ns);
	return 0;
}

static int throttle(struct session *s, u64 interval)
{
	struct trampoline *tr = s->state;

	if (tr->lost)
		return -ENOTCONN;
	return tramp_set_interval(tr->tramp, interval)
		       ?: probes_set_interval(tr->probes, s->info.pid, interval);
}

/* Begin anew, with the blocks that are sampled. */
static int start_again(struct session *s, struct trampoline *tr)
{
	AUTO_FREE struct tramp_set *set = NULL;
	int err = tramp_take_set(tr->tramp, &set);

	if (err)
		return err;
	err = examine_again(s, tr) ?: start_patiently(s, tr, set);
	if (!err && s->interval != tr->interval)
		err = throttle(s, s->interval);
	if (err)
		stop(s, tr, true);
	return err;
}

static void follow_tables(struct session *s, struct trampoline *tr)
{
	int err = start_again(s, tr);

	if (!err) {
		log_info("process %d: another allocator hook took the tables over; attached again "
			 "(%s)",
			 s->info.pid, py_alloc_mode_name(s->info.alloc_mode));
		return;
	}
	tr->lost = true;
	s->complete = false;
	log_warn("process %d: another allocator hook took the tables over, and attaching again "
		 "failed (%s); nothing is seen from here on",
		 s->info.pid, strerror(-err));
}

static void tick(struct session *s, struct probes *probes)
{
	struct trampoline *tr = s->state;
	bool gap = false;
	int err;

	(void)probes;
	if (tr->lost)
		return;
	err = tramp_heartbeat(tr->tramp) ?: tramp_recheck(tr->tramp, &gap);
	tr->gaps += gap;
	if (!err && tr->got) {
		gotswap_apply(tr->got, tr->tramp);
		tr->gaps += gotswap_view(tr->got).taken > 0;
	}
	if (err == -ESTALE)
		follow_tables(s, tr);
	if (!tr->lost)
		describe(s, tr);
}

static int anchor(struct session *s, struct probes *probes, pid_t tid)
{
	struct trampoline *tr = s->state;
	bool gap;
	int err;

	tr->pid = tid;
	if (tr->lost)
		return 0;
	probes_detach_sites(probes, tr->links);
	err = attach_site(tr, probes, tr->site, tid);
	if (err)
		return err;
	/* A page that has found its site without a probe takes us for gone. */
	tramp_heartbeat(tr->tramp);
	tramp_recheck(tr->tramp, &gap);
	return 0;
}

static void losses(const struct session *s, u64 out[PHT_LOSS_NR])
{
	const struct trampoline *tr = s->state;

	out[PHT_LOSS_table_gap] += tr->gaps;
}

const struct collector collector_trampoline = {
	.name = "trampoline",
	.attach = attach,
	.tick = tick,
	.throttle = throttle,
	.anchor = anchor,
	.detach = detach,
	.losses = losses,
};
#endif
