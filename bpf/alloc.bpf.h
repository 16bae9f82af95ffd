/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a probe hit means for the heap: pairing entry with return, deciding on
 * samples, following blocks from birth to death.
 *
 * Each byte has one owner, the lowest layer that hands out the very block, so
 * a hit is ignored when it happens inside another hit of the same layer.
 */
#ifndef PHT_ALLOC_BPF_H
#define PHT_ALLOC_BPF_H

#include "blocks.bpf.h"

#define MAP_PRIVATE_ANON 0x22u /* MAP_PRIVATE | MAP_ANONYMOUS */
#define MAP_TYPE_BITS	 0x2fu
/* Debug hooks, one over another, put headers before the block that libc gave. */
#define HOOK_HEADER_MAX 64

enum call_kind { CALL_NONE, CALL_ALLOC, CALL_REALLOC, CALL_FREE, CALL_UNMAP };

/* A probed call, its arguments sorted by meaning. */
struct call {
	enum call_kind kind;
	__u32 func;
	__u32 cookie;
	__u32 domain;
	__u64 size;
	__u64 old;
	__u64 memptr;
};

/* Both halves of a hit need these. */
struct hit {
	struct pt_regs *ctx;
	struct pht_proc *proc;
	struct pht_thread *th;
	__u64 id;
	__u32 tgid;
};

static __always_inline __u32 func_domain(__u32 cookie)
{
	__u32 func = PHT_COOKIE_FUNC(cookie);

	if (func == PHT_FN_PY_POOL)
		return PHT_DOM_POOL;
	if (func >= PHT_FN_PY_MALLOC)
		return PHT_DOM_PYMALLOC;
	if (func >= PHT_FN_MMAP)
		return PHT_DOM_MMAP;
	return PHT_DOM_LIBC;
}

static __always_inline bool product(__u64 a, __u64 b, __u64 *out)
{
	/* Not a division: clang turns that test back into a 128-bit product. */
	*out = a * b;
	return !pht_mulhi(a, b);
}

static __always_inline bool within(__u64 addr, __u64 start, __u64 end)
{
	return addr >= start && addr < end;
}

/* Mappings that some allocator makes for itself are not the program's. */
static __always_inline bool mapping_is_internal(struct hit *hit, __u64 size, __u32 flags)
{
	const struct pht_proc *proc = hit->proc;
	__u64 caller = return_address(hit->ctx);

	if (within(caller, proc->libc_start, proc->libc_end) ||
	    within(caller, proc->heap_start, proc->heap_end))
		return true;
	return within(caller, proc->python_start, proc->python_end) && size == proc->arena_size &&
	       (flags & MAP_TYPE_BITS) == MAP_PRIVATE_ANON;
}

static __always_inline void decode_libc(struct hit *hit, struct call *c)
{
	struct pt_regs *ctx = hit->ctx;

	switch (c->func) {
	case PHT_FN_MALLOC:
	case PHT_FN_VALLOC:
	case PHT_FN_PVALLOC:
		c->kind = CALL_ALLOC;
		c->size = PT_REGS_PARM1(ctx);
		break;
	case PHT_FN_CALLOC:
		if (product(PT_REGS_PARM1(ctx), PT_REGS_PARM2(ctx), &c->size))
			c->kind = CALL_ALLOC;
		break;
	case PHT_FN_REALLOC:
		c->kind = CALL_REALLOC;
		c->old = PT_REGS_PARM1(ctx);
		c->size = PT_REGS_PARM2(ctx);
		break;
	case PHT_FN_REALLOCARRAY:
		c->old = PT_REGS_PARM1(ctx);
		if (product(PT_REGS_PARM2(ctx), PT_REGS_PARM3(ctx), &c->size))
			c->kind = CALL_REALLOC;
		break;
	case PHT_FN_FREE:
		c->kind = CALL_FREE;
		c->old = PT_REGS_PARM1(ctx);
		break;
	case PHT_FN_POSIX_MEMALIGN:
		c->kind = CALL_ALLOC;
		c->memptr = PT_REGS_PARM1(ctx);
		c->size = PT_REGS_PARM3(ctx);
		break;
	case PHT_FN_ALIGNED:
		c->kind = CALL_ALLOC;
		c->size = PT_REGS_PARM2(ctx);
		break;
	}
}

static __always_inline void decode_mmap(struct hit *hit, struct call *c)
{
	struct pt_regs *ctx = hit->ctx;

	switch (c->func) {
	case PHT_FN_MMAP:
		c->size = PT_REGS_PARM2(ctx);
		/* The fourth argument is still in the C calling convention's rcx. */
		if (!mapping_is_internal(hit, c->size, PT_REGS_PARM4(ctx)))
			c->kind = CALL_ALLOC;
		break;
	case PHT_FN_MUNMAP:
		c->kind = CALL_UNMAP;
		c->old = PT_REGS_PARM1(ctx);
		c->size = PT_REGS_PARM2(ctx);
		break;
	case PHT_FN_MREMAP:
		c->old = PT_REGS_PARM1(ctx);
		c->size = PT_REGS_PARM3(ctx);
		if (!mapping_is_internal(hit, 0, 0))
			c->kind = CALL_REALLOC;
		break;
	}
}

/* The functions of CPython's allocator tables: a context comes first. */
static __always_inline void decode_python(struct hit *hit, struct call *c)
{
	struct pt_regs *ctx = hit->ctx;

	if (hit->proc->raw_ctx && PT_REGS_PARM1(ctx) == hit->proc->raw_ctx)
		return;
	switch (c->func) {
	case PHT_FN_PY_MALLOC:
		c->kind = CALL_ALLOC;
		c->size = PT_REGS_PARM2(ctx);
		break;
	case PHT_FN_PY_CALLOC:
		if (product(PT_REGS_PARM2(ctx), PT_REGS_PARM3(ctx), &c->size))
			c->kind = CALL_ALLOC;
		break;
	case PHT_FN_PY_REALLOC:
		c->kind = CALL_REALLOC;
		c->old = PT_REGS_PARM2(ctx);
		c->size = PT_REGS_PARM3(ctx);
		break;
	case PHT_FN_PY_FREE:
		c->kind = CALL_FREE;
		c->old = PT_REGS_PARM2(ctx);
		break;
	case PHT_FN_PY_POOL:
		c->kind = CALL_ALLOC;
		c->size = hit->proc->pool_size;
		break;
	}
}

static __always_inline void decode(struct hit *hit, struct call *c)
{
	c->domain = func_domain(c->func);
	if (c->func < PHT_FN_MMAP)
		decode_libc(hit, c);
	else if (c->func < PHT_FN_PY_MALLOC)
		decode_mmap(hit, c);
	else
		decode_python(hit, c);
}

/* Requests that a layer passes down are counted below. */
static __always_inline bool served_here(const struct hit *hit, const struct call *c)
{
	if (c->domain != PHT_DOM_PYMALLOC)
		return true;
	return c->size && c->size <= hit->proc->small_max;
}

static __always_inline bool hit_init(struct hit *hit, struct pt_regs *ctx)
{
	hit->ctx = ctx;
	hit->id = bpf_get_current_pid_tgid();
	hit->tgid = hit->id >> 32;
	hit->proc = bpf_map_lookup_elem(&procs, &hit->tgid);
	return hit->proc && (hit->proc->flags & PHT_PROC_ENABLED);
}

static __always_inline struct pht_thread *thread_get(__u64 id)
{
	struct pht_thread *th = bpf_map_lookup_elem(&threads, &id);

	if (th)
		return th;
	bpf_map_update_elem(&threads, &id, &thread_zero, BPF_NOEXIST);
	th = bpf_map_lookup_elem(&threads, &id);
	if (th)
		th->rng = pht_rng_seed(cfg_seed, id);
	else
		loss(PHT_LOSS_thread_map_full);
	return th;
}

static __always_inline int sample(struct pht_thread *th, __u64 size, __u64 interval)
{
	/* A fresh countdown is as good as a continued one: the process is memoryless. */
	if (th->interval != interval) {
		th->interval = interval;
		th->countdown = pht_exp_interval(pht_rng_next(&th->rng), interval, log_table);
	}
	return pht_countdown(&th->countdown, size, interval, &th->rng, log_table);
}

/*
 * Drop calls that cannot return any more: their frame lies below the current
 * stack pointer (longjmp, an exception, a thread that left by pthread_exit).
 */
static __always_inline void pending_prune(struct pht_thread *th, __u64 sp, __u32 cookie)
{
#pragma clang loop unroll(disable)
	for (int i = 0; i < PHT_PEND_DEPTH; i++) {
		__u32 d = th->depth;
		struct pht_pending *p;

		if (!d || d > PHT_PEND_DEPTH)
			break;
		p = &th->pend[(d - 1) & (PHT_PEND_DEPTH - 1)];
		/* The same function at the same depth cannot be inside itself. */
		if (p->sp > sp || (p->sp == sp && p->cookie != cookie))
			break;
		loss(PHT_LOSS_pending_stale);
		th->depth = d - 1;
	}
}

/* Ignore hits inside a pending call of the same layer. */
static __always_inline bool nested(struct pht_thread *th, const struct call *c)
{
	__u32 d = th->depth;
	struct pht_pending *p;
	__u32 outer;

	if (!d || d > PHT_PEND_DEPTH)
		return false;
	p = &th->pend[(d - 1) & (PHT_PEND_DEPTH - 1)];
	outer = func_domain(p->cookie);
	if (outer == c->domain)
		return true;
	/* malloc made a mapping for itself. */
	if (outer == PHT_DOM_LIBC && c->domain == PHT_DOM_MMAP)
		return true;
	/* Python passes a block that libc owns on to libc's realloc. */
	if (outer == PHT_DOM_PYMALLOC && c->kind == CALL_REALLOC && c->old &&
	    p->old - c->old <= HOOK_HEADER_MAX)
		p->served_below = 1;
	return false;
}

/* Remember the call until it returns; false when there is no room. */
static __always_inline bool pending_push(struct hit *hit, const struct call *c, bool sampled)
{
	struct pht_thread *th = hit->th;
	__u32 d = th->depth;
	struct pht_pending *p;

	if (d >= PHT_PEND_DEPTH) {
		loss(PHT_LOSS_pending_overflow);
		return false;
	}
	p = &th->pend[d & (PHT_PEND_DEPTH - 1)];
	p->sp = PT_REGS_SP(hit->ctx);
	p->size = c->size;
	p->old = c->old;
	p->memptr = c->memptr;
	p->interval = th->interval;
	p->cookie = c->cookie;
	p->sampled = sampled;
	p->served_below = 0;
	/*
	 * Removed now, put back if the call fails: once the allocator has let
	 * go of the old block another thread may be given its address.
	 */
	p->had_old = c->kind == CALL_REALLOC && c->old &&
		     pht_set_aside(c->old, d & (PHT_PEND_DEPTH - 1));
	th->depth = d + 1;
	return true;
}

static __always_inline bool always_returns(const struct pht_proc *proc, __u32 cookie)
{
	if (cookie >> 8)
		return cookie & PHT_COOKIE_ALWAYS;
	return proc->always_return & (1u << (cookie & 31));
}

/* The entry half.  True when the return must be seen. */
static __always_inline bool on_enter(struct pt_regs *ctx, __u32 cookie)
{
	struct hit hit;
	struct call c = {.func = PHT_COOKIE_FUNC(cookie), .cookie = cookie};
	struct pht_live_key key = {};
	bool sampled = false, watched;

	if (!hit_init(&hit, ctx))
		return false;
	decode(&hit, &c);
	if (c.kind == CALL_NONE)
		return false;
	hit.th = thread_get(hit.id);
	if (!hit.th)
		return false;
	pending_prune(hit.th, PT_REGS_SP(ctx), cookie);
	if (nested(hit.th, &c))
		return false;
	if (c.kind == CALL_FREE) {
		if (c.old) {
			stat_add(PHT_STAT_FREES, 1);
			pht_forget(c.old, FORGET_FREED);
		}
		return false;
	}
	if (c.kind == CALL_UNMAP) {
		pht_unmap(c.old, c.size);
		return false;
	}
	if (served_here(&hit, &c)) {
		stat_add(PHT_STAT_CALLS, 1);
		stat_add(PHT_STAT_BYTES, c.size);
		sampled = sample(hit.th, c.size, hit.proc->interval);
	}
	watched = sampled || always_returns(hit.proc, cookie);
	if (!watched && c.kind == CALL_REALLOC && c.old) {
		key.addr = c.old;
		key.tgid = hit.tgid;
		watched = bpf_map_lookup_elem(&live, &key) != NULL;
	}
	return watched && pending_push(&hit, &c, sampled);
}

/* Did the call hand out a block, and where? */
static __always_inline __u64 result_addr(struct pt_regs *ctx, const struct pht_pending *p)
{
	__u64 ret = PT_REGS_RC(ctx), addr = 0;
	__u32 func = PHT_COOKIE_FUNC(p->cookie), domain = func_domain(func);

	if (func == PHT_FN_POSIX_MEMALIGN) {
		if ((__u32)ret)
			return 0;
		if (bpf_probe_read_user(&addr, sizeof(addr), (void *)p->memptr))
			loss(PHT_LOSS_arg_unreadable);
		return addr;
	}
	if (domain == PHT_DOM_MMAP && ret == ~0ull)
		return 0;
	return ret;
}

/* A failed realloc leaves the old block alone; realloc(p, 0) may free it and return NULL. */
static __always_inline bool old_block_survives(const struct pht_pending *p, __u64 addr)
{
	__u32 func = PHT_COOKIE_FUNC(p->cookie);

	return !addr && (p->size || (func != PHT_FN_REALLOC && func != PHT_FN_REALLOCARRAY));
}

static __always_inline void settle_old(const struct pht_pending *p, __u32 slot, __u64 addr)
{
	if (p->had_old)
		pht_settle(p->old, slot, old_block_survives(p, addr) ? SETTLE_LIVES : SETTLE_FREED);
}

/* The return half. */
static __always_inline void on_return(struct pt_regs *ctx, __u32 cookie)
{
	struct hit hit;
	struct pht_pending *p;
	__u32 d, domain;
	__u64 addr;

	if (!hit_init(&hit, ctx))
		return;
	hit.th = bpf_map_lookup_elem(&threads, &hit.id);
	if (!hit.th)
		return;
	/* What was called from inside and left by a jump hides this one no longer. */
	pending_prune(hit.th, PT_REGS_SP(ctx) - MACHINE_CALL_BYTES, 0);
	d = hit.th->depth;
	if (!d || d > PHT_PEND_DEPTH)
		return;
	d = (d - 1) & (PHT_PEND_DEPTH - 1);
	p = &hit.th->pend[d];
	/* A return address on the stack is popped by now. */
	if (p->cookie != cookie || p->sp + MACHINE_CALL_BYTES != PT_REGS_SP(ctx))
		return;
	hit.th->depth = d;
	domain = func_domain(cookie);
	addr = result_addr(ctx, p);
	settle_old(p, d, addr);
	if (domain == PHT_DOM_POOL && addr) {
		stat_add(PHT_STAT_POOLS, 1);
		/* Pools are given back unseen; a new grant ends the old one. */
		addr &= ~((__u64)hit.proc->pool_size - 1);
		pht_forget(addr, FORGET_UNSEEN);
	}
	if (!p->sampled || p->served_below)
		return;
	if (!addr) {
		stat_add(PHT_STAT_FAILED, 1);
		return;
	}
	pht_insert(addr, p->size, p->interval, domain);
}

#endif
