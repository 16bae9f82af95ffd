// SPDX-License-Identifier: BSD-2-Clause
/* Pointers exchanged by a stopped thread of the target, one atomic instruction each. */
#include "tramp_priv.h"

#ifdef __x86_64__
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "inject.h"
#include "procmem.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#define MADV_KEEPONFORK 19
#endif

#define TRIES 4

/*
 * A word that is gone by now (a library was unloaded) faults; the program
 * never sees that signal, and the words after it are still exchanged.
 */
static int run_list(struct tramp *t, struct inject *in, struct pht_tramp_swap *list, u32 n)
{
	u64 at = tramp_ctl_addr(t, PHT_CTL_SWAP);
	u32 done = 0;
	int err;

	do {
		err = inject_run(in, t->region.base + PHT_TRAMP_SWAP, at + done * sizeof(*list),
				 n - done);
		if (err && err != -EFAULT)
			return err;
		if (procmem_read(t->mem, at, list, n * sizeof(*list)))
			return -EFAULT;
		while (done < n && list[done].seen != ~list[done].expect)
			done++;
		done++;
	} while (err && done < n);
	return 0;
}

static int exchange(struct tramp *t, struct inject *in, struct pht_tramp_swap *list, u32 n)
{
	int err;

	if (!n)
		return 0;
	for (u32 i = 0; i < n; i++)
		list[i].seen = ~list[i].expect;
	err = procmem_write(t->mem, tramp_ctl_addr(t, PHT_CTL_SWAP), list, n * sizeof(*list));
	return err ? err : run_list(t, in, list, n);
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
		if (to_ours && t->pad && tramp_slot_is_small_free(fn))
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
	t->view = (struct tramp_view){.reused = t->reused};
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
			t->view.spared += t->pad && tramp_slot_is_small_free(fn);
			break;
		case SLOT_FOREIGN:
			break;
		}
	}
	return 0;
}

static bool complete(const struct tramp_view *v)
{
	return v->ours + v->chained + v->absent + v->spared == PHT_TFN_TABLES;
}

/* A thread that was told to do this did it, or it did not happen. */
static int remote_madvise(struct tramp *t, struct inject *in, u64 from, int advice)
{
	const u64 args[6] = {t->region.base + from, PHT_TRAMP_SIZE - from, (u64)advice};
	s64 ret;
	int err = inject_syscall(in, SYS_madvise, args, &ret);

	return err ? err : (int)ret;
}

static int prepare(struct tramp *t, struct inject *in)
{
	static const u8 all[1 << PHT_FILTER_BITS] = {[0 ...(1 << PHT_FILTER_BITS) - 1] =
							     PHT_FILTER_ALL};
	u32 wipe = t->params.follow_fork ? 0 : PHT_STATE_WIPE;
	struct pht_tramp_ctl c;
	int err = tramp_ctl_get(t, &c);

	tramp_leftovers_clear(&t->left, in);
	if (!err && (c.state & PHT_STATE_DIRTY))
		err = remote_madvise(t, in, PHT_TRAMP_FILTER, MADV_DONTNEED);
	if (!err && (c.state & PHT_STATE_WIPE) != wipe)
		err = remote_madvise(t, in, PHT_TRAMP_CTL,
				     wipe ? MADV_WIPEONFORK : MADV_KEEPONFORK);
	if (!err)
		err = tramp_ctl_put32(t, PHT_CTL_STATE, PHT_STATE_DIRTY | wipe);
	t->all = t->params.interval <= 1;
	t->pad = t->params.interval >= TRAMP_PAD_INTERVAL && t->tables.addr[0] &&
		 tramp_spec_may_pad(&t->region.spec) && (!t->params.set || t->params.set->pad);
	if (!err && !t->all && t->params.set)
		err = procmem_write(t->mem, t->region.base + PHT_TRAMP_FILTER, t->params.set->bytes,
				    sizeof(t->params.set->bytes));
	if (!err && t->all)
		err = procmem_write(t->mem, t->region.base + PHT_TRAMP_FILTER, all, sizeof(all));
	if (!err)
		err = tramp_ctl_put32(t, PHT_CTL_FLAGS,
				      (t->all ? PHT_CTL_F_ALL : 0) | (t->pad ? PHT_CTL_F_PAD : 0));
	if (!err)
		err = tramp_ctl_put32(t, PHT_CTL_SITE, t->site);
	if (!err)
		err = tramp_ctl_put64(t, PHT_CTL_RNG, t->params.seed);
	if (!err)
		err = tramp_ctl_lease(t);
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

/* A page that takes itself for abandoned switches itself off, and puts pointers back. */
static bool is_on(const struct tramp *t)
{
	struct pht_tramp_ctl c;

	return !tramp_ctl_get(t, &c) && c.gen && c.gen == t->gen;
}

/* The other threads run: one that was in the page for long may yet act on what was before. */
static int switch_on(struct tramp *t, struct inject *in, u64 r)
{
	int err = -EAGAIN;

	for (int i = 0; i < TRIES && err == -EAGAIN; i++) {
		err = is_on(t) ? 0 : tramp_ctl_params(t, r);
		if (!err)
			err = rearm(t, in);
		if (!err && !is_on(t))
			err = -EAGAIN;
	}
	return err;
}

static int begin(struct tramp *t, struct inject **in)
{
	const char *why;
	int err = tramp_check_identity(t);

	return err ? err : inject_begin(t->pid, t->mem, &t->gadgets, in, &why);
}

int tramp_do_enable(struct tramp *t)
{
	struct inject *in;
	int end, err = begin(t, &in);

	if (err)
		return err;
	err = prepare(t, in);
	if (!err)
		err = switch_on(t, in, t->params.interval);
	if (err)
		tramp_ctl_put32(t, PHT_CTL_GEN, 0);
	end = inject_end(in, &t->stops.enable);
	t->enabled = true;
	return err ? err : end;
}

int tramp_do_recheck(struct tramp *t, bool *gap)
{
	struct inject *in;
	int end, err = look(t);

	if (err || (complete(&t->view) && is_on(t)))
		return err;
	*gap = true;
	for (int fn = 0; fn < PHT_TFN_TABLES; fn++)
		if (tramp_slot_state(t->mem, &t->tables, &t->region, fn) == SLOT_FOREIGN)
			return -ESTALE;
	err = begin(t, &in);
	if (err)
		return err;
	err = switch_on(t, in, t->r);
	end = inject_end(in, NULL);
	return err ? err : end;
}

int tramp_do_disable(struct tramp *t)
{
	struct pht_tramp_swap list[PHT_TFN_TABLES];
	struct inject *in;
	int end, err = tramp_ctl_put32(t, PHT_CTL_GEN, 0);

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

int tramp_do_swap(struct tramp *t, struct pht_tramp_swap *list, u32 n)
{
	struct inject *in;
	int end, err = begin(t, &in);

	if (err)
		return err;
	err = exchange(t, in, list, n);
	end = inject_end(in, NULL);
	return err ? err : end;
}
#endif
