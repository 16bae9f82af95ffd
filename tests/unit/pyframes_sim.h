/* SPDX-License-Identifier: BSD-2-Clause */
/* A pretended CPython of any version for bpf/pyframes.bpf.h: threads, frames, code objects. */
#ifndef PHT_PYFRAMES_SIM_H
#define PHT_PYFRAMES_SIM_H

#include "bpf_shim.h"
#include "pyframes.bpf.h"
#include "machine_sim.h"

#include "debug_tables.h"
#include "pyoffsets.h"

#define PY_TGID	   77u
#define PY_ID	   ((__u64)PY_TGID << 32 | 78)
#define PY_TP	   0x00007f1000001000ull
#define PY_TP2	   0x00007f1000009000ull /* another thread's */
#define PY_RUNTIME 0x0000000000900000ull
#define PY_INTERP  0x00007f2000000000ull
#define PY_TSTATE  0x00007f2100000000ull
#define PY_CFRAME  0x00007f2200000000ull
#define PY_FRAMES  0x00007f2300000000ull
#define PY_CODES   0x00007f2400000000ull
#define PY_DTV	   0x00007f2500000000ull
#define PY_ARRAYS  0x00007f2600000000ull

#define PY_STATIC_AT (-0x18)
#define PY_FRAME(i)  (PY_FRAMES + (i)*0x100ull)
#define PY_CODE(i)   (PY_CODES + (i)*0x100ull)
/* The third of the arrays that lead to copies of the bytecode; a copy is never read. */
#define PY_ARRAY(i)    (PY_ARRAYS + (i)*0x40ull)
#define PY_COPY(at, n) ((at) + 0x10000000ull * (n))
#define PY_COPIES      3
#define PY_NFRAMES     256
#define PY_NCODES      16

/* After the versions with a GIL come those without: 3.13t to 3.15t. */
#define PY_GIL_LAST 15
#define PY_FT	    3

static struct {
	__u32 minor;
	struct pht_proc proc;
	struct pht_thread *th;
} py;

static inline void poke32(__u64 addr, __u32 value)
{
	unsigned char *at = shim_at(addr, sizeof(value));

	if (!at)
		abort();
	memcpy(at, &value, sizeof(value));
}

static inline void py_store(void)
{
	__u32 tgid = PY_TGID;

	bpf_map_update_elem(&procs, &tgid, &py.proc, BPF_ANY);
}

/* A thread state that belongs to the thread with that pointer. */
static inline void py_tstate(__u64 ts, __u64 tp)
{
	shim_mem(ts, 0x400);
	shim_poke(ts + py.proc.off.ts_thread_id, machine_self(tp));
}

/* Where the thread's innermost frame is. */
static inline void py_top(__u64 frame)
{
	const struct pht_pyoffsets *off = &py.proc.off;

	if (off->cf_frame == PHT_ABSENT) {
		shim_poke(PY_TSTATE + off->ts_frame, frame);
		return;
	}
	shim_poke(PY_TSTATE + off->ts_frame, PY_CFRAME);
	shim_poke(PY_CFRAME + off->cf_frame, frame);
}

static inline void py_code(int i, __u64 name, __u64 filename, __u32 line)
{
	const struct pht_pyoffsets *off = &py.proc.off;

	shim_poke(PY_CODE(i) + off->co_name, name);
	shim_poke(PY_CODE(i) + off->co_filename, filename);
	poke32(PY_CODE(i) + off->co_firstlineno, line);
}

/* Where a code object's copies are; the first is its own. */
static inline void py_array(int i)
{
	const struct pht_pyoffsets *off = &py.proc.off;

	shim_poke(PY_CODE(i) + off->co_tlbc, PY_ARRAY(i));
	shim_poke(PY_ARRAY(i), PY_COPIES);
	for (int n = 0; n < PY_COPIES; n++)
		shim_poke(PY_ARRAY(i) + 8 + 8 * n, PY_COPY(PY_CODE(i) + off->co_code_adaptive, n));
}

/* What the walker is to say of a frame at that code unit. */
static inline __s32 py_pos(__s32 unit)
{
	const struct pht_pyoffsets *off = &py.proc.off;

	if (off->pos_kind == PHT_POS_INSTR_PTR)
		return (__s32)off->co_code_adaptive + 2 * unit;
	return off->pos_kind == PHT_POS_LASTI_BYTES ? 2 * unit : unit;
}

static inline void py_frame(int i, __u64 code, __s32 unit, __u32 owner, __u64 back)
{
	const struct pht_pyoffsets *off = &py.proc.off;
	__u64 tag = off->code_tag_mask & i;

	shim_poke(PY_FRAME(i) + off->fr_back, back);
	shim_poke(PY_FRAME(i) + off->fr_code, code | tag);
	if (off->fr_tlbc != PHT_ABSENT) {
		poke32(PY_FRAME(i) + off->fr_tlbc, i % PY_COPIES);
		shim_poke(PY_FRAME(i) + off->fr_pos, PY_COPY(code, i % PY_COPIES) + py_pos(unit));
	} else if (off->pos_kind == PHT_POS_INSTR_PTR)
		shim_poke(PY_FRAME(i) + off->fr_pos, code + py_pos(unit));
	else
		poke32(PY_FRAME(i) + off->fr_pos, py_pos(unit));
	if (off->fr_owner != PHT_ABSENT)
		*shim_at(PY_FRAME(i) + off->fr_owner, 1) = owner;
}

/* A chain of n frames, frame i in code object i % PY_NCODES at unit i. */
static inline void py_chain(int n)
{
	for (int i = 0; i < n; i++)
		py_frame(i, PY_CODE(i % PY_NCODES), i, 0, i + 1 < n ? PY_FRAME(i + 1) : 0);
	py_top(n ? PY_FRAME(0) : 0);
}

/* An interpreter with one thread, ours, found the first way that the version has. */
static inline void py_init(__u32 minor)
{
	struct pht_thread th = {0};
	__u64 id = PY_ID;
	u8 table[TABLE_MAX];

	shim_reset();
	memset(&py, 0, sizeof(py));
	py.minor = minor;
	if (minor > PY_GIL_LAST)
		make_ft_table(minor - PY_FT, table);
	else if (minor >= 13)
		make_table(minor, table);
	if (pyoffsets_fill(V(minor > PY_GIL_LAST ? minor - PY_FT : minor), minor > PY_GIL_LAST,
			   table, sizeof(table), &py.proc.off))
		abort();
	py.proc.runtime = PY_RUNTIME;
	py.proc.flags = PHT_PROC_ENABLED;
	py.proc.tss_key = PHT_ABSENT;
	shim.id = PY_ID;
	machine_thread(PY_TP);
	shim_mem(PY_RUNTIME, 0x1000);
	shim_mem(PY_INTERP, 0x2000);
	shim_mem(PY_CFRAME, 0x40);
	shim_mem(PY_FRAMES, PY_NFRAMES * 0x100);
	shim_mem(PY_CODES, PY_NCODES * 0x100);
	shim_mem(PY_ARRAYS, PY_NCODES * 0x40);
	shim_mem(PY_TP - 0x100, 0x1000);
	py_tstate(PY_TSTATE, PY_TP);
	for (int i = 0; i < PY_NCODES; i++)
		py_code(i, 0x1000 + i, 0x2000 + i, 10 * i);
	for (int i = 0; i < PY_NCODES && py.proc.off.co_tlbc != PHT_ABSENT; i++)
		py_array(i);
	if (py.proc.off.rt_tstate_current != PHT_ABSENT) {
		shim_poke(PY_RUNTIME + py.proc.off.rt_tstate_current, PY_TSTATE);
	} else {
		py.proc.tls_kind = PHT_TLS_STATIC;
		py.proc.tls_offset = PY_STATIC_AT;
		shim_poke(PY_TP + PY_STATIC_AT, PY_TSTATE);
	}
	py_store();
	bpf_map_update_elem(&threads, &id, &th, BPF_ANY);
	py.th = bpf_map_lookup_elem(&threads, &id);
}

static inline __u64 py_loss(enum pht_loss which)
{
	__u32 i = which;

	return *(__u64 *)bpf_map_lookup_elem(&counters, &i);
}

#endif
