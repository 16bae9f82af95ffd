/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A pretended target for bpf/alloc.bpf.h: threads with stacks and Python
 * frames, calls that hit probes on the way in and out.
 */
#ifndef PHT_ALLOC_SIM_H
#define PHT_ALLOC_SIM_H

#include "bpf_shim.h"
#include "alloc.bpf.h"
#include "machine_sim.h"
#include "pyoffsets.h"
#include "sampling_tables.h"

#define SIM_TGID      4242u
#define SIM_RUNTIME   0x0000000000900000ull
#define SIM_LIBC      0x00007f1000000000ull
#define SIM_HEAP      0x00007f2000000000ull
#define SIM_PYTHON    0x0000000000400000ull
#define SIM_USER      0x00007f3000000000ull
#define SIM_CODE      0x00007f4000000000ull
#define SIM_THREADS   0x00007f5000000000ull
#define SIM_ARENA     (1u << 20)
#define SIM_POOL      16384u
#define SIM_STACK_TOP 0xf000ull /* offset into the thread's 64 KiB */
#define SIM_DEPTH     16

struct sim_frame {
	__u32 func;
	__u64 sp;   /* at entry */
	bool fired; /* the entry half wants the return */
};

struct sim_thread {
	__u32 tid;
	__u64 base; /* of its memory: TLS block at 0, thread state, frame, stack */
	__u64 sp;
	struct sim_frame frames[SIM_DEPTH];
	int n;
};

static struct sim {
	/* Returns fire only where the entry asked (uprobe session), or always. */
	bool session;
	struct pht_proc proc;
	struct sim_thread threads[4];
	__u64 caller; /* return address of calls */
} sim;

static inline void sim_proc_store(void)
{
	__u32 tgid = SIM_TGID;

	bpf_map_update_elem(&procs, &tgid, &sim.proc, BPF_ANY);
}

/* One Python frame: cframe at +0x400, frame at +0x500; 3.12's offsets. */
static inline void sim_thread_init(struct sim_thread *t, int i, __u32 tid)
{
	const struct pht_pyoffsets *off = &sim.proc.off;
	__u64 base = SIM_THREADS + i * 0x100000ull;

	shim_mem(base, 0x10000);
	*t = (struct sim_thread){.tid = tid, .base = base, .sp = base + SIM_STACK_TOP};
	shim_poke(base + 16, base + 0x200);
	shim_poke(base + 0x200 + off->ts_thread_id, machine_self(base));
	shim_poke(base + 0x200 + off->ts_frame, base + 0x400);
	shim_poke(base + 0x400 + off->cf_frame, base + 0x500);
	shim_poke(base + 0x500 + off->fr_code, SIM_CODE);
	shim_poke(base + 0x500 + off->fr_pos, SIM_CODE);
}

static inline void sim_init(bool session, __u64 interval, __u32 first_tid)
{
	shim_reset();
	memset(&sim, 0, sizeof(sim));
	sampling_tables_fill(log_table, weight_table);
	sim.session = session;
	sim.caller = SIM_USER;
	sim.proc = (struct pht_proc){
		.runtime = SIM_RUNTIME,
		.interval = interval,
		.tls_kind = PHT_TLS_STATIC,
		.tls_offset = 16,
		.tss_key = PHT_ABSENT,
		.flags = PHT_PROC_ENABLED,
		.pool_size = SIM_POOL,
		.arena_size = SIM_ARENA,
		.small_max = 512,
		.libc_start = SIM_LIBC,
		.libc_end = SIM_LIBC + 0x200000,
		.heap_start = SIM_HEAP,
		.heap_end = SIM_HEAP + 0x200000,
		.python_start = SIM_PYTHON,
		.python_end = SIM_PYTHON + 0x400000,
	};
	if (pyoffsets_fill(0x030c01f0, false, NULL, 0, &sim.proc.off))
		abort();
	sim_proc_store();
	shim_mem(SIM_CODE, 256);
	for (int i = 0; i < 4; i++)
		sim_thread_init(&sim.threads[i], i, first_tid + i);
}

static inline void sim_switch(const struct sim_thread *t)
{
	shim.id = (__u64)SIM_TGID << 32 | t->tid;
	machine_thread(t->base);
}

/* The instruction that the thread's frame is at: tells sites apart. */
static inline void sim_line(const struct sim_thread *t, __u32 line)
{
	shim_poke(t->base + 0x500 + sim.proc.off.fr_pos, SIM_CODE + line);
}

static inline void sim_enter(struct sim_thread *t, __u32 func, __u64 a, __u64 b, __u64 c, __u64 d)
{
	struct pt_regs regs = {.parm = {a, b, c, d}, .sp = t->sp, .ret = sim.caller};
	struct sim_frame *f = &t->frames[t->n++];

	if (t->n > SIM_DEPTH)
		abort();
	sim_switch(t);
	*f = (struct sim_frame){.func = func, .sp = t->sp};
	f->fired = on_enter(&regs, func);
}

/* A call: arguments in registers; the return address, too, or on the stack. */
static inline void sim_call4(struct sim_thread *t, __u32 func, __u64 a, __u64 b, __u64 c, __u64 d)
{
	t->sp -= 32;
	if (MACHINE_CALL_BYTES)
		shim_poke(t->sp, sim.caller);
	sim_enter(t, func, a, b, c, d);
}

static inline void sim_call(struct sim_thread *t, __u32 func, __u64 a, __u64 b, __u64 c)
{
	sim_call4(t, func, a, b, c, 0);
}

/* A jump to another function as a function's last act: the same stack slot. */
static inline void sim_tail(struct sim_thread *t, __u32 func, __u64 a, __u64 b, __u64 c)
{
	sim_enter(t, func, a, b, c, 0);
}

/* Return, from all the functions that share the stack slot; the last entered first. */
static inline void sim_ret(struct sim_thread *t, __u64 rc)
{
	struct pt_regs regs = {.sp = t->sp + MACHINE_CALL_BYTES, .rc = rc};

	sim_switch(t);
	do {
		const struct sim_frame *f = &t->frames[--t->n];

		if (f->fired || !sim.session)
			on_return(&regs, f->func);
	} while (t->n && t->frames[t->n - 1].sp == t->sp);
	t->sp += 32;
}

/* Leave n calls without returning from them. */
static inline void sim_longjmp(struct sim_thread *t, int n)
{
	for (; n > 0; n--) {
		t->n--;
		t->sp += 32;
	}
}

static inline __u64 sim_run(struct sim_thread *t, __u32 func, __u64 a, __u64 b, __u64 c, __u64 rc)
{
	sim_call(t, func, a, b, c);
	sim_ret(t, rc);
	return rc;
}

static inline const struct pht_live *sim_live(__u64 addr)
{
	struct pht_live_key key = {.addr = addr, .tgid = SIM_TGID};

	return bpf_map_lookup_elem(&live, &key);
}

static inline __u64 sim_counter(__u32 which)
{
	return *(__u64 *)bpf_map_lookup_elem(&counters, &which);
}

static inline __u64 sim_loss(enum pht_loss which)
{
	return sim_counter(which);
}

static inline __u64 sim_stat(enum pht_stat which)
{
	return sim_counter(PHT_LOSS_NR + which);
}

/* Position of the innermost frame of a stored stack; -1 when there is none. */
static inline __s32 sim_stack_line(__u64 stack_id)
{
	const struct pht_stack *s = bpf_map_lookup_elem(&stacks, &stack_id);

	return s && s->nframes ? s->frames[0].pos : -1;
}

/* Totals over the sites of a line (-1 = any) and domain (PHT_DOM_NR = any). */
static inline struct pht_site sim_site(__s32 line, __u32 domain)
{
	struct pht_site sum = {0};

	shim_each(&sites, e)
	{
		const struct pht_site_key *key = (const void *)e->key;
		const struct pht_site *s = e->value;

		if ((line >= 0 && sim_stack_line(key->stack_id) != line) ||
		    (domain != PHT_DOM_NR && key->domain != domain))
			continue;
		sum.alloc_bytes += s->alloc_bytes;
		sum.alloc_blocks16 += s->alloc_blocks16;
		sum.samples += s->samples;
		sum.freed_bytes += s->freed_bytes;
		sum.freed_blocks16 += s->freed_blocks16;
		sum.freed_samples += s->freed_samples;
	}
	return sum;
}

#endif
