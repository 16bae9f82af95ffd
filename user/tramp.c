// SPDX-License-Identifier: BSD-2-Clause
/* The interface: every operation on a target runs in a thread that can be given up. */
#include "tramp_priv.h"

#ifdef __x86_64__
#include <errno.h>
#include <string.h>

#include "bounded.h"

#define ATTACH_MS 8000
#define SWAP_MS	  6000
#define LOOK_MS	  1000

struct op {
	struct tramp *t;
	int (*fn)(struct op *op);
	const char *why;
	u64 arg;
	struct tramp_set *set; /* owned */
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
		*op = (struct op){.t = t, .fn = fn, .why = "the target could not be read"};
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

static int op_take_set(struct op *op)
{
	return tramp_ctl_take_set(op->t, op->set);
}

static int op_attach(struct op *op)
{
	return tramp_do_attach(op->t, &op->why);
}

static void fill(struct tramp *t, const struct pyinfo *info, const struct tramp_params *params)
{
	const struct py_allocator *tables[3] = {&info->raw, &info->mem, &info->obj};

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
	if (t)
		fill(t, info, params);
	if (op) {
		*why = "its allocator tables were not found";
		err = -ENOTSUP;
		if (t->tables.addr[0] || t->tables.addr[1] || t->tables.addr[2]) {
			err = perform(op, ATTACH_MS);
			*why = err == -ETIMEDOUT ? "it did not answer in time"
			       : err == -ESRCH	 ? "the process is gone"
						 : op->why;
		}
	}
	if (!t)
		free(params->set);
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
	tramp_leftovers_free(&t->left);
	free(t->params.set);
	free(t);
}

static int op_enable(struct op *op)
{
	return tramp_do_enable(op->t);
}

static int op_disable(struct op *op)
{
	return tramp_do_disable(op->t);
}

static int op_recheck(struct op *op)
{
	return tramp_do_recheck(op->t, &op->gap);
}

static int op_swap(struct op *op)
{
	return tramp_do_swap(op->t, op->list, op->nlist);
}

static int op_interval(struct op *op)
{
	return tramp_ctl_params(op->t, op->arg);
}

static int op_heartbeat(struct op *op)
{
	return tramp_ctl_lease(op->t);
}

static int op_stats(struct op *op)
{
	return tramp_ctl_stats(op->t, &op->stats);
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

int tramp_take_set(struct tramp *t, struct tramp_set **out)
{
	struct op *op = new_op(t, op_take_set);
	int err = -ENOMEM;

	if (op)
		op->set = malloc(sizeof(*op->set));
	if (op && op->set)
		err = perform(op, LOOK_MS);
	if (t->wedged)
		return err;
	if (!err)
		*out = TAKE_PTR(op->set);
	if (op)
		free(op->set);
	free(op);
	return err;
}

struct tramp_set *tramp_set_copy(const struct tramp_set *set)
{
	struct tramp_set *copy = set ? malloc(sizeof(*copy)) : NULL;

	if (copy)
		*copy = *set;
	return copy;
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
