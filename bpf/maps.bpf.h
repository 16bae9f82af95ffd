/* SPDX-License-Identifier: GPL-2.0 */
/* All maps, knobs and counters. */
#ifndef PHT_MAPS_BPF_H
#define PHT_MAPS_BPF_H

#include "pht_abi.h"
#include "pht_sampling.h"

/* Bytes of the interpreter's data stack that one read brings. */
#define PHT_WINDOW 1024

/* A call of ours that has begun and whose return will be seen. */
struct pht_pending {
	__u64 sp;	/* at the function's first instruction: identifies the call */
	__u64 size;	/* requested bytes */
	__u64 old;	/* realloc's block */
	__u64 memptr;	/* posix_memalign's result goes here */
	__u64 interval; /* R that the decision was drawn with */
	__u32 cookie;
	__u8 sampled;
	__u8 had_old;
	__u8 served_below; /* a lower layer turned out to serve this block */
	__u8 pad;
};

/*
 * Where a walk of the frames has come to.  In memory rather than in registers,
 * so that each step is a function that the verifier checks once.
 */
struct pht_walk {
	__u64 frame; /* the next one; 0 = the end */
	__u64 outer; /* the last one kept, where stacks are kept apart by thread */
	__u64 last_code;
	__u64 hash;
	__u32 ident; /* of last_code */
	__u32 flags;
};

/* A block that a realloc lets go of: put back if the call fails. */
struct pht_aside {
	struct pht_live block;
	__u64 time_ns; /* when it was let go of */
};

/* Is the thread one of those that stacks are kept apart by? */
enum thread_place { PLACE_UNKNOWN, PLACE_OWN, PLACE_SHARED };

/* One for each pending call, and two more; a power of two, to be masked. */
#define PHT_ASIDE      8
#define PHT_ASIDE_UNDO PHT_PEND_DEPTH
#define PHT_ASIDE_CUT  (PHT_PEND_DEPTH + 1) /* a mapping that is being cut short */

/* State of one thread.  Only that thread's own probes touch it. */
struct pht_thread {
	__s64 countdown; /* bytes to the next mark */
	__u64 interval;	 /* R the countdown was drawn with; 0 = not drawn yet */
	__u64 rng;
	__u64 stack_id;
	__u32 depth;
	__u32 place; /* enum thread_place */
	struct pht_pending pend[PHT_PEND_DEPTH];
	struct pht_aside aside[PHT_ASIDE];
	/* The block that a realloc in the trampoline let go of, which may yet fail; or 0. */
	__u64 undo_addr;
	/*
	 * Scratch space.  It is not in a per-CPU map because uprobe programs
	 * can be preempted by another task's on the same CPU.
	 */
	struct pht_walk walk;
	__u64 window_base;
	__u32 window_len;
	__u32 pad2;
	__u8 window[PHT_WINDOW + 136];
	struct pht_pyoffsets off;
	__u8 code[256];
	struct pht_stack stack;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct pht_proc);
	__uint(max_entries, 256);
} procs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64); /* tgid << 32 | tid */
	__type(value, struct pht_thread);
	__uint(max_entries, 16384);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pht_live_key);
	__type(value, struct pht_live);
	__uint(max_entries, 262144); /* raised for small sample intervals */
} live SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64); /* hash of the frames and the process */
	__type(value, struct pht_stack);
	__uint(max_entries, 16384);
} stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pht_site_key);
	__type(value, struct pht_site);
	__uint(max_entries, 32768);
} sites SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32); /* tgid */
	__type(value, struct pht_peak);
	__uint(max_entries, 256);
} peaks SEC(".maps");

/* Only of stacks whose blocks are freed. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pht_site_key);
	__type(value, struct pht_life);
	__uint(max_entries, 16384);
} lives SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} events SEC(".maps");

/* Code objects whose names have been sent. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct pht_code_key);
	__type(value, __u8);
	__uint(max_entries, 32768);
} codes SEC(".maps");

/* Identities of code objects that have a version of their own (3.12+), to save reading more. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct pht_code_key); /* with the version as ident */
	__type(value, __u32);
	__uint(max_entries, 16384);
} idents SEC(".maps");

/* Processes that are followed, traced or not (yet). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct pht_follow);
	__uint(max_entries, 4096);
} follow SEC(".maps");

/* u64 counters: losses first, then stats. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, PHT_LOSS_NR + PHT_STAT_NR);
} counters SEC(".maps");

/* Set before loading. */
const volatile __u64 cfg_seed;
/* A block that lived no longer was temporary. */
const volatile __u64 cfg_temporary_ns = 10000000;
/* Stacks of different threads are different stacks.  Not to be changed in a unit test either. */
#ifndef CFG_THREADS
#define CFG_THREADS 0
#endif
const volatile __u32 cfg_threads = CFG_THREADS;
/* Threads that have a place of their own; two at the same moment may be counted as one. */
__u32 thread_places;
/* Not const: the compiler would fold a const table that it sees as zeroes. */
__u32 log_table[PHT_LOG_TABLE];
__u32 weight_table[PHT_WEIGHT_TABLE];

static const struct pht_thread thread_zero;
static const struct pht_site site_zero;
static const struct pht_peak peak_zero;
static const struct pht_life life_zero;

static __always_inline void counter_add(__u32 which, __u64 n)
{
	__u64 *value = bpf_map_lookup_elem(&counters, &which);

	if (value)
		__sync_fetch_and_add(value, n);
}

static __always_inline void loss(enum pht_loss which)
{
	counter_add(which, 1);
}

static __always_inline void stat_add(enum pht_stat which, __u64 n)
{
	counter_add(PHT_LOSS_NR + which, n);
}

static __always_inline void event_send(__u32 type, __u32 tgid, __u64 value)
{
	struct pht_event ev = {.type = type, .tgid = tgid, .value = value};

	if (bpf_ringbuf_output(&events, &ev, sizeof(ev), 0))
		loss(PHT_LOSS_ring_full);
}

#endif
