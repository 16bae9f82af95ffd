/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The trampoline's sites: the target has decided on the sample already, what
 * arrives is one block with the interval it was drawn with.
 */
#ifndef PHT_TRAMP_BPF_H
#define PHT_TRAMP_BPF_H

#include "alloc.bpf.h"
#include "pht_tramp.h"

static __always_inline __u32 tramp_domain(__u32 flags)
{
	__u32 who = flags & PHT_TS_DOMAIN;

	return who == PHT_TS_MEM || who == PHT_TS_OBJ ? PHT_DOM_PYMALLOC : PHT_DOM_LIBC;
}

/* A realloc failed: the block that it let go of lives on. */
static __always_inline void tramp_undo(struct hit *hit, __u64 addr)
{
	struct pht_thread *th = hit->th;

	if (!addr || th->undo_addr != addr)
		return;
	pht_settle(addr, PHT_ASIDE_UNDO, SETTLE_LIVES);
	th->undo_addr = 0;
}

/* The realloc that let go of the last block succeeded: count its end. */
static __always_inline void tramp_settle(struct hit *hit)
{
	struct pht_thread *th = hit->th;

	if (!th->undo_addr)
		return;
	pht_settle(th->undo_addr, PHT_ASIDE_UNDO, SETTLE_FREED);
	th->undo_addr = 0;
}

/* Mappings come here one and all: r8 = mmap's flags. */
static __always_inline void tramp_map(struct hit *hit, __u64 addr, __u64 size)
{
	struct pht_thread *th = hit->th;

	if (mapping_is_internal(hit, size, PT_REGS_PARM5(hit->ctx)))
		return;
	if (sample(th, size, hit->proc->interval))
		pht_insert(addr, size, th->interval, PHT_DOM_MMAP);
}

static __always_inline void on_tramp_alloc(struct pt_regs *ctx)
{
	__u64 addr = PT_REGS_PARM1(ctx), size = PT_REGS_PARM3(ctx);
	/* rcx: the register is free at a site, whatever the calling convention. */
	__u64 interval = PT_REGS_PARM4(ctx);
	__u32 flags = PT_REGS_PARM2(ctx);
	struct hit hit;

	if (!hit_init(&hit, ctx))
		return;
	hit.th = thread_get(hit.id);
	if (!hit.th)
		return;
	if (flags & PHT_TS_UNDO) {
		tramp_undo(&hit, addr);
		return;
	}
	tramp_settle(&hit);
	if ((flags & PHT_TS_DOMAIN) == PHT_TS_MMAP) {
		tramp_map(&hit, addr, size);
		return;
	}
	if (flags & PHT_TS_LOST) {
		loss(PHT_LOSS_set_full);
		addr = 0;
	}
	pht_insert(addr, size, interval, tramp_domain(flags));
}

static __always_inline void on_tramp_free(struct pt_regs *ctx)
{
	__u64 addr = PT_REGS_PARM1(ctx);
	__u32 flags = PT_REGS_PARM2(ctx);
	struct hit hit;

	if (!hit_init(&hit, ctx))
		return;
	hit.th = thread_get(hit.id);
	if (!hit.th)
		return;
	tramp_settle(&hit);
	if (flags == PHT_TS_MMAP) {
		pht_unmap(addr, PT_REGS_PARM3(ctx));
		return;
	}
	if (!(flags & PHT_TS_REALLOC)) {
		pht_forget(addr, FORGET_FREED);
		return;
	}
	if (pht_set_aside(addr, PHT_ASIDE_UNDO))
		hit.th->undo_addr = addr;
}

#endif
