// SPDX-License-Identifier: BSD-2-Clause
#include "tramp.h"

#ifdef __x86_64__
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "bounded.h"
#include "procmem.h"
#include "tramp_tables.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#define MADV_KEEPONFORK 19
#endif

#define ATTACH_MS 8000
#define SWAP_MS	  6000
#define LOOK_MS	  1000

/* Samples until the next heartbeat: more than a second can hold, few enough to end soon. */
#define LEASE	  (1ll << 20)
#define LEASE_ALL (1ll << 40)

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
	struct inject_gadgets gadgets;
	u32 gen;
	u32 site;
	bool all;
	struct tramp_stops stops;
	struct tramp_view view;
};

/* ---- the control page ---- */

static u64 ctl(const struct tramp *t, u32 offset)
{
	return t->region.base + PHT_TRAMP_CTL + offset;
}

static int put32(const struct tramp *t, u32 offset, u32 value)
{
	return procmem_write(t->mem, ctl(t, offset), &value, sizeof(value));
}

static int put64(const struct tramp *t, u32 offset, u64 value)
{
	return procmem_write(t->mem, ctl(t, offset), &value, sizeof(value));
}

static int get_ctl(const struct tramp *t, struct pht_tramp_ctl *out)
{
	return procmem_read(t->mem, ctl(t, 0), out, sizeof(*out));
}

static int put_lease(const struct tramp *t)
{
	return put64(t, PHT_CTL_BUDGET, (u64)(t->all ? LEASE_ALL : LEASE));
}

/*
 * Parameters first, then the number that makes them valid: a thread that
 * looks in between sees a mismatch and comes back later.
 */
static int put_params(struct tramp *t, u64 r)
{
	u32 gen = t->gen % PHT_TRAMP_GEN_MAX + 1;
	struct pht_tramp_params par = tramp_params_make(gen, r);
	u32 at = PHT_CTL_PARAMS + gen % PHT_TRAMP_NPARAMS * PHT_PAR_SIZE;
	int err = put32(t, at, 0);

	/* Frees of blocks taken while all were taken must go on being reported. */
	if (r <= 1 && !t->all)
		par = tramp_params_make(gen, 2);
	if (!err)
		err = procmem_write(t->mem, ctl(t, at) + sizeof(u64), &par.k,
				    sizeof(par) - sizeof(u64));
	if (!err)
		err = put32(t, at, gen);
	if (!err)
		err = put32(t, PHT_CTL_GEN, gen);
	if (!err)
		t->gen = gen;
	return err;
}

/* ---- attach ---- */

static int check_identity(const struct tramp *t)
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

static int make_region(struct tramp *t, const struct tramp_regions *regions,
		       const struct proc_maps *maps, const char **why)
{
	struct tramp_region_request req = {
		.pid = t->pid,
		.mem = t->mem,
		.gadgets = t->gadgets,
		.may_use_tcb = !t->musl,
		.tcb_in_use = regions->total > 0,
		.wipe = !t->params.follow_fork,
	};
	int err;

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
		err = put32(t, PHT_CTL_STATE, PHT_STATE_WIPE);
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
		err = tramp_region_open(t->pid, &t->region);
	} else {
		err = make_region(t, &regions, maps, why);
	}
	if (!err)
		err = tramp_region_lock(&t->region, t->pid);
	if (!err)
		err = silence_others(t, &regions);
	if (err == -EBUSY && t->region.fd >= 0)
		*why = "another pyheaptrace is attached to it";
	return err;
}

/* Of a page that a dead tracer left: stop it, and go on from its numbers. */
static int take_over(struct tramp *t)
{
	struct pht_tramp_ctl c;
	int err = put32(t, PHT_CTL_GEN, 0);

	if (!err)
		err = get_ctl(t, &c);
	if (err)
		return err;
	for (int i = 0; i < PHT_TRAMP_NPARAMS; i++)
		if (c.params[i].gen > t->gen && c.params[i].gen <= PHT_TRAMP_GEN_MAX)
			t->gen = c.params[i].gen;
	return 0;
}

static int attach(struct tramp *t, const char **why)
{
	struct proc_maps maps = { 0 };
	int err = inject_permitted(t->pid, why);

	if (err)
		return err;
	t->mem = procmem_open(t->pid);
	if (t->mem < 0) {
		err = t->mem;
		*why = "its memory may not be opened";
		return err;
	}
	err = check_identity(t);
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

/* ---- bounded operations ---- */

struct op {
	struct tramp *t;
	int (*fn)(struct op *op);
	const char *why;
	u64 arg;
	bool gap;
	struct tramp_stats stats;
	u32 nlist;
	struct pht_tramp_swap list[PHT_TRAMP_NSWAP];
};

static int run_op(void *arg)
{
	struct op *op = arg;

	return op->fn(op);
}

static struct op *new_op(struct tramp *t, int (*fn)(struct op *op))
{
	struct op *op = calloc(1, sizeof(*op));

	if (op)
		*op = (struct op){ .t = t, .fn = fn, .why = "the target could not be read" };
	return op;
}

/* The caller still owns op, unless the result is -ETIMEDOUT. */
static int perform(struct op *op, unsigned ms)
{
	struct tramp *t = op->t;
	int err;

	if (t->wedged)
		return -EIO;
	err = bounded_call(run_op, op, ms);
	/* Somebody may still be busy with it: it is never touched again. */
	if (err == -ETIMEDOUT)
		t->wedged = true;
	return err;
}

static int simple_op(struct tramp *t, int (*fn)(struct op *op), u64 arg, unsigned ms)
{
	struct op *op = new_op(t, fn);
	int err;

	if (!op)
		return -ENOMEM;
	op->arg = arg;
	err = perform(op, ms);
	if (!t->wedged)
		free(op);
	return err;
}

static int op_attach(struct op *op)
{
	return attach(op->t, &op->why);
}

static void fill(struct tramp *t, const struct pyinfo *info, const struct tramp_params *params)
{
	const struct py_allocator *tables[3] = { &info->raw, &info->mem, &info->obj };

	t->pid = info->pid;
	t->start_time = info->start_time;
	t->mem = t->region.fd = -1;
	t->mode = info->alloc_mode;
	t->musl = info->musl;
	t->params = *params;
	t->site = PHT_SITE_NONE;
	for (int d = 0; d < 3; d++)
		t->tables.addr[d] = tables[d]->addr;
}

int tramp_attach(const struct pyinfo *info, const struct tramp_params *params, struct tramp **out,
		 const char **why)
{
	struct tramp *t = calloc(1, sizeof(*t));
	struct op *op = t ? new_op(t, op_attach) : NULL;
	int err = -ENOMEM;

	*why = "out of memory";
	if (op) {
		fill(t, info, params);
		*why = "its allocator tables were not found";
		err = -ENOTSUP;
		if (t->tables.addr[0] || t->tables.addr[1] || t->tables.addr[2]) {
			err = perform(op, ATTACH_MS);
			*why = err == -ETIMEDOUT ? "it did not answer in time" :
			       err == -ESRCH	 ? "the process is gone" :
						   op->why;
		}
	}
	if (!t || !t->wedged)
		free(op);
	if (err)
		tramp_free(t);
	else
		*out = t;
	return err;
}

void tramp_free(struct tramp *t)
{
	if (!t || t->wedged)
		return;
	if (t->mem >= 0)
		close(t->mem);
	if (t->region.fd >= 0)
		close(t->region.fd);
	free(t);
}

/* ---- swapping ---- */

static int exchange(struct tramp *t, struct inject *in, struct pht_tramp_swap *list, u32 n)
{
	u64 at = ctl(t, PHT_CTL_SWAP);
	int err;

	if (!n)
		return 0;
	err = procmem_write(t->mem, at, list, n * sizeof(*list));
	if (!err)
		err = inject_run(in, t->region.base + PHT_TRAMP_SWAP, at, n);
	if (!err)
		err = procmem_read(t->mem, at, list, n * sizeof(*list));
	return err;
}

/* From what the tables hold towards our entries, or back to the originals. */
static u32 plan_swap(struct tramp *t, bool to_ours, struct pht_tramp_swap *list)
{
	u32 n = 0;

	for (int fn = 0; fn < PHT_TFN_TABLES; fn++) {
		u64 entry = tramp_entry_addr(&t->region, fn), orig = t->region.spec.orig[fn];
		enum tramp_slot s = tramp_slot_state(t->mem, &t->tables, &t->region, fn);

		if (s != (to_ours ? SLOT_ORIG : SLOT_OURS))
			continue;
		list[n++] = (struct pht_tramp_swap){
			.addr = tramp_slot_addr(&t->tables, fn),
			.expect = to_ours ? orig : entry,
			.value = to_ours ? entry : orig,
		};
	}
	return n;
}

static int look(struct tramp *t)
{
	int err = tramp_tables_read(t->mem, &t->tables);

	if (err)
		return err;
	t->view = (struct tramp_view){ .reused = t->reused };
	for (int fn = 0; fn < PHT_TFN_TABLES; fn++) {
		switch (tramp_slot_state(t->mem, &t->tables, &t->region, fn)) {
		case SLOT_ABSENT:
			t->view.absent++;
			break;
		case SLOT_OURS:
			t->view.ours++;
			break;
		case SLOT_CHAINED:
			t->view.chained++;
			break;
		case SLOT_ORIG:
		case SLOT_FOREIGN:
			break;
		}
	}
	return 0;
}

static bool complete(const struct tramp_view *v)
{
	return v->ours + v->chained + v->absent == PHT_TFN_TABLES;
}

/* A thread that was told to do this did it, or it did not happen. */
static int remote_madvise(struct tramp *t, struct inject *in, u64 from, int advice)
{
	const u64 args[6] = { t->region.base + from, PHT_TRAMP_SIZE - from, (u64)advice };
	s64 ret;
	int err = inject_syscall(in, SYS_madvise, args, &ret);

	return err ? err : (int)ret;
}

static int prepare(struct tramp *t, struct inject *in)
{
	static const u8 all[1 << PHT_FILTER_BITS] = { [0 ... (1 << PHT_FILTER_BITS) - 1] =
							      PHT_FILTER_ALL };
	u32 wipe = t->params.follow_fork ? 0 : PHT_STATE_WIPE;
	struct pht_tramp_ctl c;
	int err = get_ctl(t, &c);

	if (!err && (c.state & PHT_STATE_DIRTY))
		err = remote_madvise(t, in, PHT_TRAMP_FILTER, MADV_DONTNEED);
	if (!err && (c.state & PHT_STATE_WIPE) != wipe)
		err = remote_madvise(t, in, PHT_TRAMP_CTL,
				     wipe ? MADV_WIPEONFORK : MADV_KEEPONFORK);
	if (!err)
		err = put32(t, PHT_CTL_STATE, PHT_STATE_DIRTY | wipe);
	t->all = t->params.interval <= 1;
	if (!err && t->all)
		err = procmem_write(t->mem, t->region.base + PHT_TRAMP_FILTER, all, sizeof(all));
	if (!err)
		err = put32(t, PHT_CTL_FLAGS, t->all ? PHT_CTL_F_ALL : 0);
	if (!err)
		err = put32(t, PHT_CTL_SITE, t->site);
	if (!err)
		err = put64(t, PHT_CTL_RNG, t->params.seed);
	if (!err)
		err = put_lease(t);
	return err;
}

static int rearm(struct tramp *t, struct inject *in)
{
	struct pht_tramp_swap list[PHT_TFN_TABLES];
	int err = look(t);

	if (!err)
		err = exchange(t, in, list, plan_swap(t, true, list));
	if (!err)
		err = look(t);
	if (!err && !complete(&t->view))
		err = -EAGAIN;
	return err;
}

static int begin(struct tramp *t, struct inject **in)
{
	const char *why;
	int err = check_identity(t);

	return err ? err : inject_begin(t->pid, t->mem, &t->gadgets, in, &why);
}

static int op_enable(struct op *op)
{
	struct tramp *t = op->t;
	struct inject *in;
	int end, err = begin(t, &in);

	if (err)
		return err;
	err = prepare(t, in);
	if (!err)
		err = put_params(t, t->params.interval);
	if (!err)
		err = rearm(t, in);
	if (err)
		put32(t, PHT_CTL_GEN, 0);
	end = inject_end(in, &t->stops.enable);
	t->enabled = true;
	return err ? err : end;
}

static int op_recheck(struct op *op)
{
	struct tramp *t = op->t;
	struct inject *in;
	int end, err = look(t);

	if (err || complete(&t->view))
		return err;
	op->gap = true;
	for (int fn = 0; fn < PHT_TFN_TABLES; fn++)
		if (tramp_slot_state(t->mem, &t->tables, &t->region, fn) == SLOT_FOREIGN)
			return -ESTALE;
	err = begin(t, &in);
	if (err)
		return err;
	err = rearm(t, in);
	end = inject_end(in, NULL);
	return err ? err : end;
}

static int op_disable(struct op *op)
{
	struct pht_tramp_swap list[PHT_TFN_TABLES];
	struct tramp *t = op->t;
	struct inject *in;
	int end, err = put32(t, PHT_CTL_GEN, 0);

	if (!err)
		err = look(t);
	if (!err)
		err = begin(t, &in);
	if (err)
		return err;
	err = exchange(t, in, list, plan_swap(t, false, list));
	if (!err)
		err = remote_madvise(t, in, PHT_TRAMP_FILTER, MADV_DONTNEED);
	end = inject_end(in, &t->stops.disable);
	look(t);
	t->enabled = false;
	return err ? err : end;
}

static int op_swap(struct op *op)
{
	struct inject *in;
	int end, err = begin(op->t, &in);

	if (err)
		return err;
	err = exchange(op->t, in, op->list, op->nlist);
	end = inject_end(in, NULL);
	return err ? err : end;
}

static int op_interval(struct op *op)
{
	return put_params(op->t, op->arg);
}

static int op_heartbeat(struct op *op)
{
	return put_lease(op->t);
}

static int op_stats(struct op *op)
{
	struct pht_tramp_ctl c;
	int err = get_ctl(op->t, &c);

	if (!err)
		op->stats = (struct tramp_stats){
			.samples = c.samples,
			.frees = c.frees,
			.lost = c.lost,
			.false_pos = c.false_pos,
			.idle = c.idle,
			.expired = c.expired,
			.failed = c.failed,
			.undone = c.undone,
			.budget = c.budget,
		};
	return err;
}

int tramp_enable(struct tramp *t)
{
	int err = simple_op(t, op_enable, 0, SWAP_MS);

	/* Half a table of ours is worse than none. */
	if (err && !t->wedged && t->enabled)
		tramp_disable(t);
	return err;
}

int tramp_recheck(struct tramp *t, bool *gap)
{
	struct op *op = new_op(t, op_recheck);
	int err;

	if (!op)
		return -ENOMEM;
	err = perform(op, SWAP_MS);
	if (!t->wedged) {
		*gap = op->gap;
		free(op);
	}
	return err;
}

int tramp_disable(struct tramp *t)
{
	return t->enabled ? simple_op(t, op_disable, 0, SWAP_MS) : 0;
}

int tramp_set_interval(struct tramp *t, u64 interval)
{
	return t->enabled ? simple_op(t, op_interval, interval, LOOK_MS) : -EINVAL;
}

int tramp_heartbeat(struct tramp *t)
{
	return simple_op(t, op_heartbeat, 0, LOOK_MS);
}

int tramp_swap(struct tramp *t, struct pht_tramp_swap *list, u32 n)
{
	struct op *op;
	int err;

	if (n > PHT_TRAMP_NSWAP)
		return -E2BIG;
	op = new_op(t, op_swap);
	if (!op)
		return -ENOMEM;
	memcpy(op->list, list, n * sizeof(*list));
	op->nlist = n;
	err = perform(op, SWAP_MS);
	if (t->wedged)
		return err;
	if (!err)
		memcpy(list, op->list, n * sizeof(*list));
	free(op);
	return err;
}

int tramp_read_stats(struct tramp *t, struct tramp_stats *out)
{
	struct op *op = new_op(t, op_stats);
	int err;

	if (!op)
		return -ENOMEM;
	err = perform(op, LOOK_MS);
	if (t->wedged)
		return err;
	if (!err)
		*out = op->stats;
	free(op);
	return err;
}

/* ---- questions ---- */

int tramp_set_site(struct tramp *t, u32 site)
{
	if (site > PHT_SITE_NOP10 || t->enabled)
		return -EINVAL;
	t->site = site;
	return 0;
}

int tramp_code_fd(const struct tramp *t)
{
	return t->region.fd;
}

u64 tramp_base(const struct tramp *t)
{
	return t->region.base;
}

u64 tramp_entry(const struct tramp *t, int fn)
{
	return tramp_entry_addr(&t->region, fn);
}

struct tramp_stops tramp_stops(const struct tramp *t)
{
	return t->stops;
}

struct tramp_view tramp_view(const struct tramp *t)
{
	return t->view;
}
#endif
