// SPDX-License-Identifier: BSD-2-Clause
/* The words through which a tracer and the page talk. */
#include "tramp_priv.h"

#include "procmem.h"

/* Samples until the next heartbeat: more than a second can hold, few enough to end soon. */
#define LEASE	  (1ll << 20)
#define LEASE_ALL (1ll << 40)

u64 tramp_ctl_addr(const struct tramp *t, u32 offset)
{
	return t->region.base + PHT_TRAMP_CTL + offset;
}

int tramp_ctl_put32(const struct tramp *t, u32 offset, u32 value)
{
	return procmem_write(t->mem, tramp_ctl_addr(t, offset), &value, sizeof(value));
}

int tramp_ctl_put64(const struct tramp *t, u32 offset, u64 value)
{
	return procmem_write(t->mem, tramp_ctl_addr(t, offset), &value, sizeof(value));
}

int tramp_ctl_get(const struct tramp *t, struct pht_tramp_ctl *out)
{
	return procmem_read(t->mem, tramp_ctl_addr(t, 0), out, sizeof(*out));
}

int tramp_ctl_lease(const struct tramp *t)
{
	return tramp_ctl_put64(t, PHT_CTL_BUDGET, (u64)(t->all ? LEASE_ALL : LEASE));
}

/*
 * Parameters first, then the number that makes them valid: a thread that
 * looks in between sees a mismatch and comes back later.
 */
int tramp_ctl_params(struct tramp *t, u64 r)
{
	u32 gen = t->gen % PHT_TRAMP_GEN_MAX + 1;
	struct pht_tramp_params par = tramp_params_make(gen, r);
	u32 at = PHT_CTL_PARAMS + gen % PHT_TRAMP_NPARAMS * PHT_PAR_SIZE;
	int err = tramp_ctl_put32(t, at, 0);

	/* Frees of blocks taken while all were taken must go on being reported. */
	if (r <= 1 && !t->all)
		par = tramp_params_make(gen, 2);
	if (!err)
		err = procmem_write(t->mem, tramp_ctl_addr(t, at) + sizeof(u64), &par.k,
				    sizeof(par) - sizeof(u64));
	if (!err)
		err = tramp_ctl_put32(t, at, gen);
	if (!err)
		err = tramp_ctl_put32(t, PHT_CTL_GEN, gen);
	if (!err) {
		t->gen = gen;
		t->r = r;
	}
	return err;
}

/* What is added while we read is not missed but for the last, half-done sample of a thread. */
int tramp_ctl_take_set(const struct tramp *t, struct tramp_set *out)
{
	int err = tramp_ctl_put32(t, PHT_CTL_GEN, 0);

	out->pad = t->pad;
	return err ? err
		   : procmem_read(t->mem, t->region.base + PHT_TRAMP_FILTER, out->bytes,
				  sizeof(out->bytes));
}

int tramp_ctl_stats(const struct tramp *t, struct tramp_stats *out)
{
	struct pht_tramp_ctl c;
	int err = tramp_ctl_get(t, &c);

	if (!err)
		*out = (struct tramp_stats){
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
