/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Everything that crosses the kernel boundary: map keys and values, ring
 * buffer records, counters.  Fixed-width fields, explicit padding, sizes
 * asserted, so that both compilers agree.
 */
#ifndef PHT_ABI_H
#define PHT_ABI_H

#include "pht_pyoffsets.h"

#define PHT_MAX_FRAMES 128
#define PHT_PEND_DEPTH 4

/*
 * A probed function: which arguments it has and what it does to the heap.
 * The attach cookie of a probe, where the kernel has cookies.
 */
enum pht_func {
	PHT_FN_MALLOC = 1,     /* (n) */
	PHT_FN_CALLOC,	       /* (n, m) */
	PHT_FN_REALLOC,	       /* (p, n) */
	PHT_FN_REALLOCARRAY,   /* (p, n, m) */
	PHT_FN_FREE,	       /* (p) */
	PHT_FN_POSIX_MEMALIGN, /* (&p, align, n) */
	PHT_FN_ALIGNED,	       /* (align, n): aligned_alloc, memalign */
	PHT_FN_VALLOC,	       /* (n): valloc */
	PHT_FN_PVALLOC,	       /* (n), rounded up to pages */
	PHT_FN_MMAP,	       /* (addr, n, prot, flags, fd, offset) */
	PHT_FN_MUNMAP,	       /* (p, n) */
	PHT_FN_MREMAP,	       /* (p, old, new, flags) */
	PHT_FN_PY_MALLOC,      /* (ctx, n): functions of CPython's mem and obj tables */
	PHT_FN_PY_CALLOC,      /* (ctx, n, m) */
	PHT_FN_PY_REALLOC,     /* (ctx, p, n) */
	PHT_FN_PY_FREE,	       /* (ctx, p) */
	PHT_FN_PY_POOL,	       /* allocate_from_new_pool: one pool */
	PHT_FN_NR,
};

/*
 * A cookie is the function's enum in its low byte, which target of that shape
 * it is above (from 1: a plain enum is no cookie), and whether its return
 * must always be seen because it may call another probed function.
 */
#define PHT_COOKIE(func, which, always) ((func) | ((which) + 1) << 8 | ((always) ? 1u << 31 : 0))
#define PHT_COOKIE_FUNC(cookie)		((cookie)&0xff)
#define PHT_COOKIE_ALWAYS		(1u << 31)

/* Who served a block (design: each byte has one owner, the lowest layer). */
enum pht_domain {
	PHT_DOM_LIBC,	  /* libc's malloc family, or its preloaded replacement */
	PHT_DOM_PYMALLOC, /* a block out of a pymalloc pool */
	PHT_DOM_POOL,	  /* a whole pymalloc pool handed to a size class */
	PHT_DOM_MMAP,	  /* a direct mapping */
	PHT_DOM_FAULT,	  /* a page written to for the first time */
	PHT_DOM_NR,
};

/*
 * Named losses.  X(name, what the user is told).  Every report prints the
 * non-zero ones; names are stable, other programs read them from JSON.
 */
#define PHT_LOSSES(X)                                                                              \
	X(live_map_full, "sampled blocks not tracked: live table full")                            \
	X(stack_map_full, "samples without a stack: stack table full")                             \
	X(site_map_full, "samples not totalled: site table full")                                  \
	X(life_map_full, "lifetimes not counted: table of lifetimes full")                         \
	X(thread_map_full, "calls not seen: thread table full")                                    \
	X(threads_merged, "samples of threads that are shown as one: more than 1,024")             \
	X(ring_full, "events lost: ring buffer full")                                              \
	X(stack_truncated, "stacks cut off at 128 frames")                                         \
	X(frame_unreadable, "stacks cut off at a frame that could not be read")                    \
	X(no_python_state, "samples from threads without Python state")                            \
	X(set_full, "sampled blocks not tracked: address set in the target full")                  \
	X(table_gap, "times that another hook had taken our place in the allocator tables")        \
	X(anchor_gap, "times that probes had to be placed anew: a thread that they hung on ended") \
	X(pending_stale, "calls whose return was never seen")                                      \
	X(pending_overflow, "calls nested too deeply to follow")                                   \
	X(arg_unreadable, "results that could not be read from the target")                        \
	X(code_gone, "frames whose code was freed before its name was read")                       \
	X(name_unreadable, "frames whose names could not be read")                                 \
	X(follow_map_full, "processes not followed: table full")                                   \
	X(stop_failed, "moments missed: a process could not be stopped")                           \
	X(process_missed, "processes that ended before they could be traced")                      \
	X(process_over, "processes not followed, or left out here: too many at a time")            \
	X(program_missed, "events not seen: the kernel did not run our program")

enum pht_loss {
#define PHT_LOSS_ENUM(name, text) PHT_LOSS_##name,
	PHT_LOSSES(PHT_LOSS_ENUM)
#undef PHT_LOSS_ENUM
		PHT_LOSS_NR,
};

/* Plain counters, for the coverage line and the overhead guard. */
enum pht_stat {
	PHT_STAT_CALLS,	  /* probe hits that counted bytes */
	PHT_STAT_FREES,	  /* probe hits on frees */
	PHT_STAT_BYTES,	  /* bytes requested in counted calls */
	PHT_STAT_SAMPLES, /* samples taken */
	PHT_STAT_FAILED,  /* sampled calls that returned NULL */
	PHT_STAT_POOLS,	  /* pool grants */
	PHT_STAT_NR,
};

/*
 * One Python frame.  pos is f_lasti as stored (<= 3.10) or the byte distance
 * from the code object's address to the instruction pointer (3.11+).  ident
 * is its identity (pht_ident.h) as the unwinder saw it: a later reader
 * compares it to know that the address still holds that code.
 * Bit 0 of ident is instead set when the frame belongs to a generator.
 */
struct pht_frame {
	__u64 code;
	__s32 pos;
	__u32 ident;
};

#define PHT_IDENT_GEN 1u

/* Flags of a stack. */
#define PHT_STACK_TRUNCATED  (1u << 0)
#define PHT_STACK_UNREADABLE (1u << 1)
#define PHT_STACK_NO_PYTHON  (1u << 2)

/* Threads of one run that stacks are kept apart by; those after them share one place. */
#define PHT_THREADS_MAX 1024

/*
 * Whose stack it is, where stacks are kept apart by thread; else all zero.
 * The two numbers of the thread are part of the stack's id.
 */
struct pht_stack_thread {
	__u64 start_ns; /* when it began: CLOCK_BOOTTIME; tells it from others of the same id */
	__u64 object;	/* first local variable of the outermost frame; 0 = not known */
	__u32 tid;	/* 0 = one of those beyond PHT_THREADS_MAX */
	__u32 known;	/* 1 = this is filled */
	char comm[16];	/* NUL-terminated */
};

struct pht_stack {
	__u32 nframes; /* innermost first */
	__u32 flags;
	struct pht_stack_thread thread;
	struct pht_frame frames[PHT_MAX_FRAMES];
};

struct pht_live_key {
	__u64 addr;
	__u32 tgid;
	__u32 pad;
};

/* One live sampled block. */
struct pht_live {
	__u64 size;
	__u64 drawn_size; /* what the sampling saw: p = 1 - exp(-drawn_size / interval) */
	__u64 stack_id;
	__u64 time_ns;	/* CLOCK_MONOTONIC */
	__u64 interval; /* R, bytes */
	__u32 tid;
	__u32 domain; /* enum pht_domain */
};

struct pht_site_key {
	__u64 stack_id;
	__u32 tgid;
	__u32 domain;
};

/* Sums over sampled blocks, each of x bytes and sampled with probability p. */
struct pht_sums {
	__u64 bytes;	/* sum of x / p */
	__u64 blocks16; /* sum of 1 / p, times 65536 */
	__u64 samples;
	__u64 var; /* sum of (1 - p) (x / p)^2, over 65536 */
};

/* Running totals of a stack since attach; Horvitz-Thompson weighted. */
struct pht_site {
	__u64 alloc_bytes;    /* sum of size / p */
	__u64 alloc_blocks16; /* sum of 1 / p, times 65536 */
	__u64 samples;
	__u64 freed_bytes; /* of the sampled blocks that were freed again */
	__u64 freed_blocks16;
	__u64 freed_samples;
	struct pht_sums temporary; /* of those, the ones that were freed soon */
	struct pht_sums live;	   /* of the blocks in the live table */
	/*
	 * As it was at the process's peak number peak_epoch.  Where that is not
	 * its last one, nothing has changed here since: then live and the first
	 * three are what they were at the peak.
	 */
	__u64 peak_epoch;
	struct pht_sums peak;
	__u64 peak_alloc_bytes, peak_alloc_blocks16, peak_samples;
};

/* The high-water mark of a process, one per tgid; see bpf/sums.bpf.h. */
struct pht_peak {
	__u64 live;    /* estimated bytes now; for a moment it may be below 0 */
	__u64 max;     /* the most there were */
	__u64 time_ns; /* when: CLOCK_MONOTONIC */
	__u64 epoch;   /* how many times there were more than ever before */
	__u64 pools;   /* pool grants sampled: they end unseen, so that live means nothing */
};

/*
 * Lifetimes of a stack's freed blocks: bucket 0 is below 2^14 ns, bucket i is
 * from 2^(13 + i) to 2^(14 + i), the last one has no upper end.
 */
#define PHT_LIFE_BUCKETS 32
#define PHT_LIFE_SHIFT	 14

struct pht_life {
	__u64 bytes[PHT_LIFE_BUCKETS];
	__u64 blocks16[PHT_LIFE_BUCKETS];
	__u32 samples[PHT_LIFE_BUCKETS];
};

enum pht_event_type {
	PHT_EV_STACK = 1, /* a stack was stored for the first time */
	PHT_EV_EXEC,	  /* the process started another program */
	PHT_EV_EXIT,	  /* the process is gone */
	PHT_EV_FORK,	  /* value: tgid of the child */
	PHT_EV_CODE,	  /* a code object at first sight: struct pht_code_head; value: address */
	PHT_EV_BORN,	  /* a followed child is about to run for the first time */
	PHT_EV_ENTRY,	  /* a followed process is at its program's entry point */
	PHT_EV_READY,	  /* its interpreter has been initialised */
	PHT_EV_FINI,	  /* its interpreter begins to shut down */
	PHT_EV_ANCHOR,	  /* the thread that probes were placed for has ended; value: its id */
};

struct pht_event {
	__u32 type;
	__u32 tgid;
	__u64 value; /* stack id, or child, or code object */
};

/*
 * Names and line table of a code object, read while it was on the stack of a
 * running thread.  In one of two sizes; a part that did not fit, or could not
 * be read, has the size PHT_ABSENT.
 */
struct pht_code_head {
	struct pht_event ev;
	__u32 size;  /* of the whole record */
	__u32 ident; /* as pht_frame.ident, bit 0 clear */
	__s32 firstlineno;
	__s32 firsttraceable;			/* 0 before 3.11 */
	__u32 name_kind, file_kind;		/* bytes per code point */
	__u32 name_size, file_size, table_size; /* bytes */
	__u32 pad;
};

#define PHT_CODE_NAME_SMALL  96
#define PHT_CODE_FILE_SMALL  192
#define PHT_CODE_TABLE_SMALL 416
#define PHT_CODE_NAME_LARGE  512
#define PHT_CODE_FILE_LARGE  1024
#define PHT_CODE_TABLE_LARGE 4096

struct pht_code_small {
	struct pht_code_head head;
	__u8 name[PHT_CODE_NAME_SMALL];
	__u8 file[PHT_CODE_FILE_SMALL];
	__u8 table[PHT_CODE_TABLE_SMALL];
};

struct pht_code_large {
	struct pht_code_head head;
	__u8 name[PHT_CODE_NAME_LARGE];
	__u8 file[PHT_CODE_FILE_LARGE];
	__u8 table[PHT_CODE_TABLE_LARGE];
};

/* Which code object: it may have successors at its address. */
struct pht_code_key {
	__u64 code;
	__u32 tgid;
	__u32 ident;
};

/* How to reach the current thread's PyThreadState (one per process). */
enum pht_tls_kind {
	PHT_TLS_NONE,
	PHT_TLS_STATIC, /* *(fsbase + tls_offset) */
	PHT_TLS_DTV,	/* *(dtv[tls_module].pointer + tls_offset) */
};

/* What to do in a process; one entry per traced tgid. */
struct pht_proc {
	__u64 runtime;	  /* address of _PyRuntime */
	__u64 interval;	  /* R, bytes; 1 = every allocation */
	__s64 tls_offset; /* of _Py_tss_tstate, 3.12+ */
	__u32 tls_kind;	  /* enum pht_tls_kind */
	__u32 tls_module;
	__u32 tss_key;	     /* autoTSSkey's pthread key, PHT_ABSENT when unknown */
	__u32 flags;	     /* PHT_PROC_* */
	__u32 always_return; /* 1 << enum pht_func: PHT_COOKIE_ALWAYS where there are no cookies */
	__u32 pool_size;     /* bytes of a pymalloc pool: 4096 or 16384 */
	__u32 arena_size;    /* private anonymous mappings of this size are pymalloc arenas */
	__u32 anchor;	     /* the thread by which the kernel knows whom probes are for */
	__u32 exit_signal;   /* that ended the process; 0: it has not, or of its own will */
	__u32 pad;
	/* Largest request that the py functions serve themselves; larger ones reach libc. */
	__u64 small_max;
	__u64 raw_ctx;	  /* the debug hooks share their functions with the raw domain: */
			  /* calls with this context are libc's; 0 = no such thing */
	__u64 libc_start; /* mappings made from here are the allocator's or libc's own */
	__u64 libc_end;
	__u64 heap_start; /* the same for a preloaded malloc */
	__u64 heap_end;
	__u64 python_start; /* object that holds the interpreter */
	__u64 python_end;
	struct pht_pyoffsets off;
};

#define PHT_PROC_ENABLED (1u << 0)
#define PHT_PROC_MUSL	 (1u << 1) /* no glibc thread descriptor */
#define PHT_PROC_FAULTS	 (1u << 2) /* page faults are what is sampled */

/*
 * A process that is followed: from exec to exec, and into its children.  The
 * hardware breakpoint that user space sets is either on the entry point or on
 * the word in which the interpreter says that it is initialised.
 */
struct pht_follow {
	__u64 watch;   /* address of that word; 0 = not known (yet) */
	__u32 flags;   /* PHT_FOLLOW_* */
	__u32 ready;   /* the word was seen to be non-zero */
	__u32 stopped; /* a SIGSTOP of ours is in force */
	__u32 pad;
};

#define PHT_FOLLOW_FORK	 (1u << 0) /* its children are followed too */
#define PHT_FOLLOW_STOP	 (1u << 1) /* it is stopped where it executes a program */
#define PHT_FOLLOW_ENTRY (1u << 2) /* the breakpoint is on the entry point */
#define PHT_FOLLOW_BIRTH (1u << 3) /* its children are stopped where they begin */
#define PHT_FOLLOW_NEW	 (1u << 4) /* such a child, before that */

_Static_assert(sizeof(struct pht_follow) == 24, "pht_follow");
_Static_assert(sizeof(struct pht_frame) == 16, "pht_frame");
_Static_assert(sizeof(struct pht_stack_thread) == 40, "pht_stack_thread");
_Static_assert(sizeof(struct pht_stack) == 48 + 16 * PHT_MAX_FRAMES, "pht_stack");
_Static_assert(sizeof(struct pht_live_key) == 16, "pht_live_key");
_Static_assert(sizeof(struct pht_live) == 48, "pht_live");
_Static_assert(sizeof(struct pht_site_key) == 16, "pht_site_key");
_Static_assert(sizeof(struct pht_site) == 176, "pht_site");
_Static_assert(sizeof(struct pht_peak) == 40, "pht_peak");
_Static_assert(sizeof(struct pht_life) == 640, "pht_life");
_Static_assert(sizeof(struct pht_event) == 16, "pht_event");
_Static_assert(sizeof(struct pht_code_head) == 56, "pht_code_head");
_Static_assert(sizeof(struct pht_code_small) == 760, "pht_code_small");
_Static_assert(sizeof(struct pht_code_key) == 16, "pht_code_key");

#endif
