// SPDX-License-Identifier: BSD-2-Clause
/*
 * A page in the target decides what is sampled; the kernel is entered only
 * for samples.  See tramp.h for what is written into the target.
 */
#include "collector.h"

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
	struct gotswap *got; /* NULL: calls of extension modules are not seen */
	struct probes_links *links;
	u32 site;
	u64 gaps; /* times that somebody else's pointers were found in the tables */
	bool lost; /* the tables are somebody else's now */
};

/* Cheapest first where it works; what the kernel accepts is found by trying. */
static const u32 sites[] = { PHT_SITE_NOP10, PHT_SITE_NOP5, PHT_SITE_NOP1 };

static int attach_sites(struct trampoline *tr, struct probes *probes)
{
	int err = -ENOTSUP;

	for (size_t i = 0; i < ARRAY_SIZE(sites) && err; i++) {
		err = probes_attach_sites(probes, tramp_code_fd(tr->tramp),
					  PHT_SITE_ALLOC(sites[i]), PHT_SITE_FREE(sites[i]),
					  tr->links);
		if (!err)
			err = tramp_set_site(tr->tramp, sites[i]);
		if (!err)
			tr->site = sites[i];
	}
	return err;
}

static void describe(struct session *s, const struct trampoline *tr)
{
	struct gotswap_view got = { 0 };

	if (tr->got)
		got = gotswap_view(tr->got);
	s->complete = tr->got && !got.missed;
	if (s->complete)
		snprintf(s->coverage, sizeof(s->coverage),
			 "every allocation through CPython's allocators, every libc call of the "
			 "modules loaded, and every mapping");
	else if (tr->got)
		snprintf(s->coverage, sizeof(s->coverage),
			 "every allocation through CPython's allocators, the libc calls of the "
			 "modules loaded but for %u places, and every mapping",
			 got.missed);
	else
		snprintf(s->coverage, sizeof(s->coverage),
			 "every allocation through CPython's allocators and every mapping; not "
			 "what extension modules take from libc directly");
	snprintf(s->wrote, sizeof(s->wrote),
		 "two mappings%s, %d pointers of the allocator tables and %u of modules' tables",
		 tramp_view(tr->tramp).reused ? " (from an earlier run)" : "",
		 tramp_view(tr->tramp).ours, got.ours);
}

static void detach(struct session *s, struct probes *probes, bool alive)
{
	struct trampoline *tr = s->state;

	if (tr->tramp && alive) {
		int err;

		if (tr->got)
			gotswap_restore(tr->got, tr->tramp);
		err = tramp_disable(tr->tramp);
		if (err && err != -ESRCH)
			log_warn("process %d: could not restore its allocator tables (%s); its page "
				 "stops sampling by itself",
				 s->info.pid, strerror(-err));
	}
	probes_detach(probes, s->info.pid, tr->links);
	gotswap_free(tr->got);
	if (tr->tramp)
		tramp_free(tr->tramp);
	free(tr);
}

static int start(struct session *s, struct trampoline *tr, struct probes *probes,
		 const struct opts *opts)
{
	struct tramp_params params = { .interval = opts->sample_interval, .seed = opts->seed };
	const char *why = NULL;
	struct plan plan;
	int err;

	err = gotswap_open(&s->info, &tr->got);
	if (err)
		log_info("calls of extension modules to libc will not be seen: %s", strerror(-err));
	else
		gotswap_originals(tr->got, params.libc);
	err = tramp_attach(&s->info, &params, &tr->tramp, &why);
	if (err)
		return log_err_r(err, "no trampoline in process %d: %s", s->info.pid,
				 why ? why : strerror(-err));
	err = plan_make(&s->info, opts->sample_interval, PLAN_MAPPINGS, &plan);
	if (err)
		return err;
	err = probes_attach(probes, s->info.pid, &plan, &tr->links);
	plan_free(&plan);
	if (err)
		return err;
	err = attach_sites(tr, probes);
	if (err)
		return log_err_r(err, "the kernel refuses probes on the trampoline: %s",
				 strerror(-err));
	err = tramp_enable(tr->tramp);
	if (err)
		return log_err_r(err, "cannot swap the allocator tables of process %d: %s",
				 s->info.pid, strerror(-err));
	if (tr->got)
		gotswap_apply(tr->got, tr->tramp);
	return 0;
}

static int attach(struct session *s, struct probes *probes, const struct opts *opts)
{
	struct trampoline *tr = calloc(1, sizeof(*tr));
	struct tramp_stops stops;
	int err;

	if (!tr)
		return log_err_r(-ENOMEM, "out of memory");
	s->state = tr;
	err = start(s, tr, probes, opts);
	if (err) {
		detach(s, probes, true);
		s->state = NULL;
		return err;
	}
	describe(s, tr);
	stops = tramp_stops(tr->tramp);
	log_info("a thread stood still for %llu us to attach and %llu us to enable; site %u",
		 (unsigned long long)stops.attach / 1000, (unsigned long long)stops.enable / 1000,
		 tr->site);
	return 0;
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
	if (gap)
		tr->gaps++;
	if (!err && tr->got) {
		gotswap_apply(tr->got, tr->tramp);
		describe(s, tr);
	}
	if (err == -ESTALE) {
		tr->lost = true;
		log_warn("process %d: another allocator hook took the tables over; nothing is "
			 "seen from here on, attach again",
			 s->info.pid);
	}
}

static int throttle(struct session *s, u64 interval)
{
	struct trampoline *tr = s->state;

	return tramp_set_interval(tr->tramp, interval);
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
	.detach = detach,
	.losses = losses,
};
