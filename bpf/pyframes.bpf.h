/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Walk the current thread's Python frames.  Everything read here belongs to
 * the target and may be torn or crafted: a failed read ends the walk, and
 * counts.
 */
#ifndef PHT_PYFRAMES_BPF_H
#define PHT_PYFRAMES_BPF_H

#include "machine.bpf.h"
#include "maps.bpf.h"
#include "pycode.bpf.h"
#include "thread.bpf.h"

/* Room for shim frames, which are passed over, beside the ones that are kept. */
#define WALK_STEPS (PHT_MAX_FRAMES + 64)
/* Copies of one function's bytecode, and its length: more is not believed. */
#define CODE_COPIES 65536
#define CODE_LENGTH (1 << 24)
/* Interpreters and threads that are looked through for the one that runs. */
#define LIST_STEPS 256

static __always_inline bool tstate_is_ours(const struct pht_pyoffsets *off, __u64 ts, __u64 tp)
{
	return ts && thread_is(user_u64(ts + off->ts_thread_id), tp);
}

/* The thread state of this thread if it holds the GIL. */
static __always_inline __u64 current_tstate(const struct pht_proc *proc)
{
	const struct pht_pyoffsets *off = &proc->off;
	__u64 tp = thread_pointer(), ts = 0;

	if (proc->tls_kind == PHT_TLS_STATIC) {
		ts = user_u64(tp + proc->tls_offset);
	} else if (proc->tls_kind == PHT_TLS_DTV) {
		__u64 dtv = user_u64(tp + MACHINE_DTV);
		__u64 block = user_u64(dtv + 16ull * proc->tls_module);

		/* -1 marks a block that this thread has not allocated yet. */
		if (block && block + 1)
			ts = user_u64(block + proc->tls_offset);
	} else if (off->rt_tstate_current != PHT_ABSENT) {
		ts = user_u64(proc->runtime + off->rt_tstate_current);
	}
	return tstate_is_ours(off, ts, tp) ? ts : 0;
}

/* Is there a pthread key whose value lies where it can be read? */
static __always_inline bool has_key(const struct pht_proc *proc)
{
	return MACHINE_KEY_SLOT(1, 0) && proc->tss_key < 32 && !(proc->flags & PHT_PROC_MUSL);
}

/* That which the thread was given first, GIL or no GIL. */
static __always_inline __u64 keyed_tstate(const struct pht_proc *proc)
{
	__u64 tp = thread_pointer(), ts;

	if (!has_key(proc))
		return 0;
	ts = user_u64(MACHINE_KEY_SLOT(tp, proc->tss_key));
	return tstate_is_ours(&proc->off, ts, tp) ? ts : 0;
}

static __always_inline __u64 first_frame(const struct pht_pyoffsets *off, __u64 ts)
{
	__u64 frame = user_u64(ts + off->ts_frame);

	if (frame && off->cf_frame != PHT_ABSENT)
		frame = user_u64(frame + off->cf_frame);
	return frame;
}

/* Does this thread state have frames, and not just the one at the bottom (3.15)? */
static __always_inline bool tstate_runs(const struct pht_pyoffsets *off, __u64 ts)
{
	__u64 frame = first_frame(off, ts);
	__u8 owner = 0;

	if (!frame || off->fr_owner == PHT_ABSENT)
		return frame;
	bpf_probe_read_user(&owner, sizeof(owner), (void *)(frame + off->fr_owner));
	return owner < off->fr_skip_owner || user_u64(frame + off->fr_back);
}

/* Is this state the current thread's, and in use?  Global: checked once, not once per step. */
__noinline int pht_tstate_fits(__u64 ts)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct pht_proc *proc = bpf_map_lookup_elem(&procs, &tgid);

	return proc && tstate_is_ours(&proc->off, ts, thread_pointer()) &&
	       tstate_runs(&proc->off, ts);
}

/*
 * Look through all interpreters, the newest first: when one runs inside
 * another's call, in the same thread, it is the inner one that is wanted.
 */
__noinline __u64 pht_listed_tstate(void)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct pht_proc *proc = bpf_map_lookup_elem(&procs, &tgid);
	const struct pht_pyoffsets *off;
	__u64 interp, ts = 0;

	if (!proc)
		return 0;
	off = &proc->off;
	interp = user_u64(proc->runtime + off->rt_interp_head);
#pragma clang loop unroll(disable)
	for (int i = 0; i < LIST_STEPS; i++) {
		if (ts) {
			if (pht_tstate_fits(ts))
				return ts;
			ts = user_u64(ts + off->ts_next);
		} else if (interp) {
			ts = user_u64(interp + off->in_threads_head);
			interp = user_u64(interp + off->in_next);
		} else {
			break;
		}
	}
	return 0;
}

/*
 * Up to 3.11 the pthread key keeps the thread's first state even while another
 * interpreter runs in it; later it follows.
 */
static __always_inline bool key_may_lag(const struct pht_proc *proc)
{
	const struct pht_pyoffsets *off = &proc->off;

	return off->rt_tstate_current != PHT_ABSENT &&
	       user_u64(proc->runtime + off->rt_interp_head) !=
		       user_u64(proc->runtime + off->rt_interp_main);
}

/* The thread state of this thread, whether or not it holds the GIL; 0 = none. */
static __always_inline __u64 find_tstate(const struct pht_proc *proc)
{
	__u64 listed, ts = current_tstate(proc);

	if (ts)
		return ts;
	ts = keyed_tstate(proc);
	/* No usable key: musl, 3.15, aarch64. */
	if (ts ? !key_may_lag(proc) : has_key(proc))
		return ts;
	listed = pht_listed_tstate();
	return listed ? listed : ts;
}

static __always_inline __u64 hash_mix(__u64 h, __u64 v)
{
	h = (h ^ v) * 0x9fb21c651e98df25ull;
	return h ^ (h >> 28);
}

/*
 * The bytes of a frame; NULL when they cannot be read.  From 3.11 on frames
 * lie one after another on a data stack, callers below callees: one read
 * brings several.  It never reaches into another page than the frame's own,
 * which might not be there.
 */
static __always_inline const __u8 *frame_bytes(struct pht_thread *th,
					       const struct pht_pyoffsets *off, __u64 frame)
{
	/* 1 to 128: the verifier must know, and 128 must not become nothing. */
	__u32 size = ((off->fr_size - 1) & 127) + 1, len;
	__u64 at = frame - th->window_base, base;

	if (at < PHT_WINDOW && at + size <= th->window_len)
		return th->window + (at & (PHT_WINDOW - 1));
	if (off->pos_kind == PHT_POS_INSTR_PTR) {
		base = frame + size - PHT_WINDOW;
		if (base < (frame & ~4095ull))
			base = frame & ~4095ull;
		len = ((frame + size - base - 1) & (PHT_WINDOW - 1)) + 1;
		if (!bpf_probe_read_user(th->window, len, (void *)base)) {
			th->window_base = base;
			th->window_len = len;
			return th->window + ((frame - base) & (PHT_WINDOW - 1));
		}
	}
	th->window_len = 0;
	if (bpf_probe_read_user(th->window, size, (void *)frame))
		return NULL;
	return th->window;
}

static __always_inline struct pht_frame *frame_slot(struct pht_thread *th, __u32 n)
{
	/* The compiler drops a bound that it can prove; old verifiers (5.10) forget spilled ones.
	 */
	asm volatile("" : "+r"(n));
	return &th->stack.frames[n & (PHT_MAX_FRAMES - 1)];
}

static __always_inline void frame_keep(struct pht_thread *th, __u64 code, __s32 pos, __u32 ident)
{
	__u32 n = th->stack.nframes;
	struct pht_frame *slot = frame_slot(th, n);

	slot->code = code;
	slot->pos = pos;
	slot->ident = ident;
	th->stack.nframes = n + 1;
	th->walk.hash = hash_mix(hash_mix(th->walk.hash, code), (__u64)(__u32)pos << 32 | ident);
}

/*
 * A frame's position: where it is in the code object, or would be if it ran the
 * code object's own bytecode.  Without a GIL each thread has a copy, which it
 * specialises; the frame has its number.  -1 when that leads nowhere.
 */
static __always_inline long frame_pos(const struct pht_pyoffsets *off, const __u8 *bytes,
				      __u64 code, __s32 *pos)
{
	__u64 at = field_u64(bytes, off->fr_pos), copy;
	__s32 n;

	if (off->pos_kind != PHT_POS_INSTR_PTR) {
		*pos = field_s32(bytes, off->fr_pos);
		return 0;
	}
	*pos = (__s32)(at - code);
	if (off->fr_tlbc == PHT_ABSENT)
		return 0;
	n = field_s32(bytes, off->fr_tlbc);
	if (!n)
		return 0;
	if (n < 0 || n >= CODE_COPIES)
		return -1;
	copy = user_u64(user_u64(code + off->co_tlbc) + 8 + 8ull * n);
	if (!copy || at - copy >= CODE_LENGTH)
		return -1;
	*pos = (__s32)(at - copy + off->co_code_adaptive);
	return 0;
}

/* Take one frame; what goes wrong is in the flags, and then this was the last. */
static __always_inline void frame_step(struct pht_thread *th, __u32 tgid)
{
	const struct pht_pyoffsets *off = &th->off;
	struct pht_walk *w = &th->walk;
	bool owned = off->fr_owner != PHT_ABSENT;
	const __u8 *bytes = frame_bytes(th, off, w->frame);
	__u64 at = w->frame, code;
	__u32 owner;
	__s32 pos;

	w->frame = 0;
	if (!bytes) {
		w->flags |= PHT_STACK_UNREADABLE;
		return;
	}
	owner = owned ? bytes[off->fr_owner & 127] : 0;
	if (owned && owner >= off->fr_skip_owner) {
		w->frame = field_u64(bytes, off->fr_back);
		return;
	}
	if (th->stack.nframes >= PHT_MAX_FRAMES) {
		w->flags |= PHT_STACK_TRUNCATED;
		return;
	}
	code = field_u64(bytes, off->fr_code) & ~(__u64)off->code_tag_mask;
	if (frame_pos(off, bytes, code, &pos)) {
		w->flags |= PHT_STACK_UNREADABLE;
		return;
	}
	/* Recursion: still the same code object. */
	if (code != w->last_code)
		w->ident = code_ident(off, th->code, tgid, code);
	w->last_code = code;
	if (!w->ident) {
		w->flags |= PHT_STACK_UNREADABLE;
		return;
	}
	if (cfg_threads)
		w->outer = at;
	frame_keep(th, code, pos,
		   w->ident | (owned && owner == off->fr_owner_gen ? PHT_IDENT_GEN : 0));
	w->frame = field_u64(bytes, off->fr_back);
}

/* Not 0 while there are frames to come. */
__noinline int pht_walk_step(void)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct pht_thread *th = bpf_map_lookup_elem(&threads, &id);

	if (!th || !th->walk.frame)
		return 0;
	frame_step(th, id >> 32);
	return th->walk.frame != 0;
}

static __always_inline void walk_start(struct pht_thread *th, const struct pht_proc *proc,
				       __u32 tgid)
{
	__u64 ts;

	th->off = proc->off;
	th->stack.nframes = 0;
	th->window_len = 0;
	th->walk.frame = 0;
	th->walk.outer = 0;
	th->walk.last_code = 0;
	th->walk.ident = 0;
	th->walk.flags = 0;
	th->walk.hash = hash_mix(0x27d4eb2f165667c5ull, tgid);
	ts = find_tstate(proc);
	if (ts)
		th->walk.frame = first_frame(&proc->off, ts);
	else
		th->walk.flags = PHT_STACK_NO_PYTHON;
}

/* Fill the thread's scratch stack and its hash.  Global: checked once, not once per caller. */
__noinline int pht_walk(void)
{
	__u64 id = bpf_get_current_pid_tgid(), h;
	__u32 tgid = id >> 32, flags;
	struct pht_proc *proc = bpf_map_lookup_elem(&procs, &tgid);
	struct pht_thread *th = bpf_map_lookup_elem(&threads, &id);

	if (!proc || !th)
		return -1;
	walk_start(th, proc, tgid);
#pragma clang loop unroll(disable)
	for (int i = 0; i < WALK_STEPS - 1; i++)
		if (!pht_walk_step())
			break;
	if (th->walk.frame)
		th->walk.flags |= PHT_STACK_TRUNCATED;
	flags = th->walk.flags;
	if (flags & PHT_STACK_TRUNCATED)
		loss(PHT_LOSS_stack_truncated);
	if (flags & PHT_STACK_UNREADABLE)
		loss(PHT_LOSS_frame_unreadable);
	if (flags & PHT_STACK_NO_PYTHON)
		loss(PHT_LOSS_no_python_state);
	th->stack.flags = flags;
	h = hash_mix(th->walk.hash, (__u64)flags << 32 | th->stack.nframes);
	if (cfg_threads) {
		stack_owner(th, &proc->off);
		h = hash_mix(hash_mix(h, th->stack.thread.start_ns), th->stack.thread.tid);
	}
	th->stack_id = h ? h : 1;
	return 0;
}

/* Walk, and store the stack if it is new.  Its id, or 0 when there is no room. */
static __always_inline __u64 stack_capture(struct pht_thread *th, __u32 tgid)
{
	__u64 stack_id;

	if (pht_walk())
		return 0;
	stack_id = th->stack_id;
	if (bpf_map_lookup_elem(&stacks, &stack_id))
		return stack_id;
	/* First the names, then the stack: the reader takes them in that order. */
	pht_codes_send();
	/* -EEXIST (-17): another thread was first, which is as good. */
	switch (bpf_map_update_elem(&stacks, &stack_id, &th->stack, BPF_NOEXIST)) {
	case 0:
		event_send(PHT_EV_STACK, tgid, stack_id);
		return stack_id;
	case -17:
		return stack_id;
	default:
		loss(PHT_LOSS_stack_map_full);
		return 0;
	}
}

#endif
