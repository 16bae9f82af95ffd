/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Walk the current thread's Python frames.  Everything read here belongs to
 * the target and may be torn or crafted: a failed read ends the walk, and
 * counts.
 */
#ifndef PHT_PYFRAMES_BPF_H
#define PHT_PYFRAMES_BPF_H

#include "maps.bpf.h"
#include "pycode.bpf.h"

/* Room for shim frames, which are passed over, beside the ones that are kept. */
#define WALK_STEPS (PHT_MAX_FRAMES + 64)

static __always_inline __u64 user_u64(__u64 addr)
{
	__u64 value = 0;

	bpf_probe_read_user(&value, sizeof(value), (void *)addr);
	return value;
}

/* pthread_self() on glibc and musl x86-64: the FS base. */
static __always_inline __u64 thread_pointer(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	return BPF_CORE_READ(task, thread.fsbase);
}

static __always_inline bool tstate_is_ours(const struct pht_pyoffsets *off, __u64 ts, __u64 tp)
{
	return ts && user_u64(ts + off->ts_thread_id) == tp;
}

/* glibc keeps the first 32 pthread keys' values inside the thread descriptor. */
#define GLIBC_KEY_SLOT(tp, key) ((tp) + 0x310 + 16ull * (key) + 8)

/* The thread state of this thread, whether or not it holds the GIL; 0 = none. */
static __always_inline __u64 current_tstate(const struct pht_proc *proc)
{
	const struct pht_pyoffsets *off = &proc->off;
	__u64 tp = thread_pointer(), ts = 0;

	if (proc->tls_kind == PHT_TLS_STATIC) {
		ts = user_u64(tp + proc->tls_offset);
	} else if (proc->tls_kind == PHT_TLS_DTV) {
		__u64 dtv = user_u64(tp + 8);
		__u64 block = user_u64(dtv + 16ull * proc->tls_module);

		/* -1 marks a block that this thread has not allocated yet. */
		if (block && block + 1)
			ts = user_u64(block + proc->tls_offset);
	} else if (off->rt_tstate_current != PHT_ABSENT) {
		ts = user_u64(proc->runtime + off->rt_tstate_current);
	}
	if (tstate_is_ours(off, ts, tp))
		return ts;
	if (proc->tss_key < 32 && !(proc->flags & PHT_PROC_MUSL)) {
		ts = user_u64(GLIBC_KEY_SLOT(tp, proc->tss_key));
		if (tstate_is_ours(off, ts, tp))
			return ts;
	}
	return 0;
}

/* First resort failed and there is no usable pthread key (musl): walk the list. */
static __always_inline __u64 listed_tstate(const struct pht_proc *proc)
{
	const struct pht_pyoffsets *off = &proc->off;
	__u64 tp = thread_pointer();
	__u64 interp = user_u64(proc->runtime + off->rt_interp_main);
	__u64 ts = interp ? user_u64(interp + off->in_threads_head) : 0;

#pragma clang loop unroll(disable)
	for (int i = 0; i < 64 && ts; i++) {
		if (tstate_is_ours(off, ts, tp))
			return ts;
		ts = user_u64(ts + off->ts_next);
	}
	return 0;
}

static __always_inline __u64 first_frame(const struct pht_pyoffsets *off, __u64 ts)
{
	__u64 frame = user_u64(ts + off->ts_frame);

	if (frame && off->cf_frame != PHT_ABSENT)
		frame = user_u64(frame + off->cf_frame);
	return frame;
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

/*
 * Fill the thread's scratch stack; returns its hash.  A global function: the
 * verifier checks it once, not once per caller.
 */
__noinline int pht_walk(void)
{
	__u64 id = bpf_get_current_pid_tgid(), frame = 0, last_code = 0, h, ts;
	__u32 tgid = id >> 32, flags = 0, ident = 0;
	struct pht_proc *proc = bpf_map_lookup_elem(&procs, &tgid);
	struct pht_thread *th = bpf_map_lookup_elem(&threads, &id);
	const struct pht_pyoffsets *off;

	if (!proc || !th)
		return -1;
	off = &proc->off;
	th->off = *off;
	/*
	 * The count lives in memory: in a register the verifier would follow
	 * each of its values against each step of the loop.
	 */
	th->stack.nframes = 0;
	th->window_len = 0;
	h = hash_mix(0x27d4eb2f165667c5ull, tgid);
	ts = current_tstate(proc);
	if (!ts && (proc->flags & PHT_PROC_MUSL))
		ts = listed_tstate(proc);
	if (ts)
		frame = first_frame(off, ts);
	else
		flags |= PHT_STACK_NO_PYTHON;

#pragma clang loop unroll(disable)
	for (int i = 0; i < WALK_STEPS; i++) {
		struct pht_frame *slot;
		const __u8 *bytes;
		__u64 code, back;
		__u32 owner, gen, n = th->stack.nframes;
		__s32 pos;

		if (!frame)
			break;
		if (i == WALK_STEPS - 1) {
			flags |= PHT_STACK_TRUNCATED;
			break;
		}
		bytes = frame_bytes(th, off, frame);
		if (!bytes) {
			flags |= PHT_STACK_UNREADABLE;
			break;
		}
		back = field_u64(bytes, off->fr_back);
		owner = off->fr_owner == PHT_ABSENT ? 0 : bytes[off->fr_owner & 127];
		if (off->fr_owner != PHT_ABSENT && owner >= off->fr_skip_owner) {
			frame = back;
			continue;
		}
		if (n >= PHT_MAX_FRAMES) {
			flags |= PHT_STACK_TRUNCATED;
			break;
		}
		code = field_u64(bytes, off->fr_code) & ~(__u64)off->code_tag_mask;
		if (off->pos_kind == PHT_POS_INSTR_PTR)
			pos = (__s32)(field_u64(bytes, off->fr_pos) - code);
		else
			pos = field_s32(bytes, off->fr_pos);
		/* Recursion: still the same code object. */
		if (code != last_code)
			ident = code_ident(off, th->code, tgid, code);
		last_code = code;
		if (!ident) {
			flags |= PHT_STACK_UNREADABLE;
			break;
		}
		gen = off->fr_owner != PHT_ABSENT && owner == off->fr_owner_gen ? PHT_IDENT_GEN : 0;
		slot = &th->stack.frames[n & (PHT_MAX_FRAMES - 1)];
		slot->code = code;
		slot->pos = pos;
		slot->ident = ident | gen;
		th->stack.nframes = n + 1;
		h = hash_mix(hash_mix(h, code), (__u64)(__u32)pos << 32 | ident | gen);
		frame = back;
	}
	if (flags & PHT_STACK_TRUNCATED)
		loss(PHT_LOSS_stack_truncated);
	if (flags & PHT_STACK_UNREADABLE)
		loss(PHT_LOSS_frame_unreadable);
	if (flags & PHT_STACK_NO_PYTHON)
		loss(PHT_LOSS_no_python_state);
	th->stack.flags = flags;
	h = hash_mix(h, (__u64)flags << 32 | th->stack.nframes);
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
