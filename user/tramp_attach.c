// SPDX-License-Identifier: BSD-2-Clause
/* Find the page of an earlier attach, or have one made. */
#include "tramp_priv.h"

#ifdef __x86_64__
#include <errno.h>

#include "procmem.h"

int tramp_check_identity(const struct tramp *t)
{
	u64 start;
	int err = proc_start_time(t->pid, &start);

	return err ? err : start == t->start_time ? 0 : -ESRCH;
}

/* Any other region must be silent: two that count would count twice. */
static int silence_others(struct tramp *t, const struct tramp_regions *regions)
{
	for (int i = 0; i < regions->n; i++) {
		struct tramp_region r = regions->v[i];
		const u32 off = 0;
		int err;

		if (r.base == t->region.base)
			continue;
		err = tramp_region_open(t->pid, &r);
		if (err)
			return err;
		err = tramp_region_lock(&r, t->pid);
		if (!err)
			err = procmem_write(t->mem, r.base + PHT_TRAMP_CTL + PHT_CTL_GEN, &off,
					    sizeof(off));
		close(r.fd);
		if (err)
			return err;
	}
	return 0;
}

/*
 * The first look at the thread block decided, while the words were nobody's
 * yet.  A hook that we know nothing of may pass calls on to an earlier page,
 * which goes on counting in its words although it is silent: not in ours.
 */
static void choose_words(const struct tramp *t, const struct tramp_regions *regions,
			 struct tramp_region_request *req)
{
	for (int i = 0; i < regions->n; i++)
		req->tcb_in_use |= regions->v[i].spec.flavour == TRAMP_TCB;
	if (regions->n && (!req->tcb_in_use || t->mode == PY_ALLOC_HOOKED))
		req->may_use_tcb = false;
}

static int make_region(struct tramp *t, const struct tramp_regions *regions,
		       const struct proc_maps *maps, const char **why)
{
	struct tramp_region_request req = {
		.pid = t->pid,
		.mem = t->mem,
		.gadgets = t->gadgets,
		.may_use_tcb = !t->musl,
		.wipe = !t->params.follow_fork,
	};
	int err;

	choose_words(t, regions, &req);
	if (regions->total >= TRAMP_REGIONS_MAX) {
		*why = "it holds too many mappings of earlier attaches";
		return -ENOSPC;
	}
	err = tramp_tables_spec(&t->tables, regions, maps, t->mode, t->params.libc, &req.spec);
	if (err) {
		*why = "its allocator tables do not point at code";
		return err;
	}
	err = tramp_region_create(&req, &t->region);
	*why = req.why;
	t->stops.attach = req.stopped_ns;
	if (!err && req.wipe)
		err = tramp_ctl_put32(t, PHT_CTL_STATE, PHT_STATE_WIPE);
	return err;
}

static int find_or_make(struct tramp *t, const struct proc_maps *maps, const char **why)
{
	struct tramp_regions regions;
	int match, err = tramp_regions_find(t->pid, t->mem, maps, &regions);

	if (err)
		return err;
	match = tramp_tables_match(t->mem, &t->tables, &regions, t->params.libc);
	if (match >= 0) {
		t->region = regions.v[match];
		t->reused = true;
		*why = "its page from an earlier attach cannot be opened";
		err = tramp_region_open(t->pid, &t->region);
	} else {
		err = make_region(t, &regions, maps, why);
	}
	if (!err)
		err = tramp_region_lock(&t->region, t->pid);
	if (!err)
		err = silence_others(t, &regions);
	if (!err)
		tramp_leftovers_find(t->pid, &t->region, &t->left);
	if (err == -EBUSY && t->region.fd >= 0)
		*why = "another pyheaptrace is attached to it";
	return err;
}

/* Of a page that a dead tracer left: stop it, and go on from its numbers. */
static int take_over(struct tramp *t)
{
	struct pht_tramp_ctl c;
	int err = tramp_ctl_put32(t, PHT_CTL_GEN, 0);

	if (!err)
		err = tramp_ctl_get(t, &c);
	if (err)
		return err;
	for (int i = 0; i < PHT_TRAMP_NPARAMS; i++)
		if (c.params[i].gen > t->gen && c.params[i].gen <= PHT_TRAMP_GEN_MAX)
			t->gen = c.params[i].gen;
	return 0;
}

int tramp_do_attach(struct tramp *t, const char **why)
{
	struct proc_maps maps = {0};
	int err = inject_permitted(t->pid, why);

	if (err)
		return err;
	t->mem = procmem_open(t->pid);
	if (t->mem < 0) {
		err = t->mem;
		*why = "its memory may not be opened";
		return err;
	}
	err = tramp_check_identity(t);
	if (!err)
		err = proc_maps_read(t->pid, &maps);
	if (!err)
		err = tramp_tables_read(t->mem, &t->tables);
	if (!err) {
		*why = "its libc has no way back from a signal handler that we know";
		err = inject_find_gadgets(t->pid, t->mem, &maps, &t->gadgets);
	}
	if (!err) {
		*why = "its memory cannot be read";
		err = find_or_make(t, &maps, why);
	}
	if (!err)
		err = take_over(t);
	proc_maps_free(&maps);
	return err;
}
#endif
