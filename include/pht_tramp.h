/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the trampoline puts into a target: one code image (a sealed private
 * memfd, mapped r-x) followed by one private data region.  Shared by the
 * assembler, user space and BPF.  A change of any offset or of the meaning of
 * a field is a new PHT_TRAMP_VERSION: pages outlive the tracer that mapped
 * them, and only a page that is byte for byte what this build would write is
 * used again.
 *
 *	+0x00000  header: originals, thresholds, logarithm table (constants)
 *	+0x01000  entries and their tails
 *	+0x03000  probe sites, alone on their page: a uprobe copies it
 *	+0x04000  data: control words, counters
 *	+0x05000  per-thread slots (only where the thread block has no room)
 *	+0x09000  filter: a count for each 256 bytes of addresses, modulo 16 MiB
 *	+0x19000  set: 4096 buckets of 16 sampled addresses
 */
#ifndef PHT_TRAMP_H
#define PHT_TRAMP_H

#define PHT_TRAMP_VERSION 3
#define PHT_TRAMP_NAME	  "pyheaptrace"	     /* of the memfd, as /proc/PID/maps shows it */
#define PHT_TRAMP_MAGIC	  0x31504d5254544850 /* "PHTTRMP1" */

/* Offsets from the start of the image. */
#define PHT_TRAMP_ORIG	    0x0040
#define PHT_TRAMP_LOG2	    0x0800
#define PHT_TRAMP_TEXT	    0x1000
#define PHT_TRAMP_SITES	    0x3000
#define PHT_TRAMP_CODE_SIZE 0x4000
#define PHT_TRAMP_CTL	    0x4000
#define PHT_TRAMP_SLOTS	    0x5000
#define PHT_TRAMP_FILTER    0x9000
#define PHT_TRAMP_SET	    0x19000
#define PHT_TRAMP_SIZE	    0x99000

/* In the header. */
#define PHT_TRAMP_SMALL_MAX 0x0010
#define PHT_TRAMP_BIG_MODE  0x0018

/*
 * What a mem or obj request above small_max does: go down to the raw domain,
 * which counts it; or be counted here, with the raw domain told to look away.
 */
#define PHT_TRAMP_BIG_RAW   0
#define PHT_TRAMP_BIG_COUNT 1

/* In the control page, relative to PHT_TRAMP_CTL. */
#define PHT_CTL_GEN	0x00
#define PHT_CTL_FLAGS	0x04
#define PHT_CTL_SITE	0x08
#define PHT_CTL_STATE	0x0c
#define PHT_CTL_RNG	0x10
#define PHT_CTL_BUDGET	0x18
#define PHT_CTL_SAMPLES 0x40
#define PHT_CTL_FREES	0x48
#define PHT_CTL_LOST	0x50
#define PHT_CTL_FALSE	0x58
#define PHT_CTL_IDLE	0x60
#define PHT_CTL_EXPIRED 0x68
#define PHT_CTL_FAILED	0x70
#define PHT_CTL_UNDONE	0x78
#define PHT_CTL_PARAMS	0x100
#define PHT_CTL_SWAP	0x800

#define PHT_TRAMP_NPARAMS 8
#define PHT_TRAMP_NSWAP	  64

/* One set of sampling parameters; threads finish the gap they drew. */
#define PHT_PAR_SIZE 32
#define PHT_PAR_GEN  0
#define PHT_PAR_K    8	/* R * ln 2 * 2^16 */
#define PHT_PAR_MIN  16 /* least gap: 1, or 0 when every call is taken */
#define PHT_PAR_R    24

/* PHT_CTL_FLAGS: every free is reported, the set is not used (R = 1). */
#define PHT_CTL_F_ALL 1
/*
 * Sampled blocks of mem and obj come from the raw domain: pymalloc passes on
 * what is larger than small_max, and so a sampled request is made larger.
 * Their frees go down to raw's free, and the tables' other frees need not be
 * ours, which keeps the interpreter's own way of inlining them.
 */
#define PHT_CTL_F_PAD 2

/*
 * The filter has a byte for each 256 bytes of addresses, modulo 16 MiB: how
 * many sampled blocks begin there, from PHT_FILTER_STUCK on only that there
 * were many.  PHT_FILTER_ALL says that every free is reported.
 */
#define PHT_FILTER_SHIFT 8
#define PHT_FILTER_STUCK 0x40 /* not counted down any more */
#define PHT_FILTER_TOP	 0x60 /* nor up */
#define PHT_FILTER_ALL	 0x80

/* PHT_CTL_SITE: which site is in use. */
#define PHT_SITE_NONE  0
#define PHT_SITE_NOP1  1
#define PHT_SITE_NOP5  2
#define PHT_SITE_NOP10 3

/*
 * File offsets of the sites.  At an alloc site rdi = address, esi = domain
 * and PHT_TS_*, rdx = bytes, rcx = the R the sample was drawn with, and rsp
 * points at the return address into the caller of the entry.  At a free site
 * rdi = address, esi = PHT_TS_*; the stack is the entry's.
 *
 * Mappings pass a site at every call, for BPF to sample: with rcx = 0 and
 * r8 = mmap's flags (mremap: 0); at a free site rdx = length.
 */
#define PHT_SITE_ALLOC(kind) (PHT_TRAMP_SITES + ((kind)-1) * 0x40)
#define PHT_SITE_FREE(kind)  (PHT_TRAMP_SITES + 0x100 + ((kind)-1) * 0x40)

/* esi at a site: who was called, and what is special. */
#define PHT_TS_RAW     0
#define PHT_TS_MEM     1
#define PHT_TS_OBJ     2
#define PHT_TS_LIBC    3
#define PHT_TS_MMAP    4
#define PHT_TS_DOMAIN  0xff
#define PHT_TS_LOST    0x100 /* alloc: the set is full here, its free will not be seen */
#define PHT_TS_UNDO    0x200 /* alloc: the realloc failed, the block dropped last lives on */
#define PHT_TS_REALLOC 0x400 /* free: a realloc begins; it may yet be undone */
/* Used inside the page only. */
#define PHT_TS_NEST	0x1000
#define PHT_TS_ZEROFREE 0x2000
#define PHT_TS_SMALL	0x4000 /* realloc of mem or obj */

/* Entries, in the order of the originals; 128 bytes each from PHT_TRAMP_TEXT. */
#define PHT_TFN_RAW	       0 /* malloc, calloc, realloc, free */
#define PHT_TFN_MEM	       4
#define PHT_TFN_OBJ	       8
#define PHT_TFN_MALLOC	       12
#define PHT_TFN_CALLOC	       13
#define PHT_TFN_REALLOC	       14
#define PHT_TFN_FREE	       15
#define PHT_TFN_ALIGNED_ALLOC  16
#define PHT_TFN_MEMALIGN       17
#define PHT_TFN_POSIX_MEMALIGN 18
#define PHT_TFN_REALLOCARRAY   19
#define PHT_TFN_VALLOC	       20
#define PHT_TFN_PVALLOC	       21
#define PHT_TFN_MMAP	       22
#define PHT_TFN_MUNMAP	       23
#define PHT_TFN_MREMAP	       24
#define PHT_TFN_NR	       25
#define PHT_TFN_TABLES	       12 /* the first 12 are CPython's */
#define PHT_ENTRY(fn)	       (PHT_TRAMP_TEXT + (fn)*0x80)
/*
 * Places in the code that depend on the specification: PHT_FIX_SMALL is a
 * 32-bit operand that holds small_max, capped; another number is a 64-bit
 * operand that holds orig[number].
 */
#define PHT_FIX_SMALL 0x100
/* The compare-and-exchange loop that a stopped thread is sent through. */
#define PHT_TRAMP_SWAP PHT_ENTRY(PHT_TFN_NR)
/* In the header: where the tables are, for the page to restore when nobody else does. */
#define PHT_TRAMP_HOME (PHT_TRAMP_ORIG + 8 * PHT_TFN_NR)

/* Per-thread words: in glibc's thread block from %fs:0x38, or in a slot. */
#define PHT_TCB_OFFSET 0x38
#define PHT_THR_COUNT  0  /* s64: bytes to the next mark */
#define PHT_THR_NEST   8  /* u32: stack pointer of the counting call, or 0 */
#define PHT_THR_GEN    12 /* u32: parameters the gap was drawn with; 0 = none */
#define PHT_THR_SIZE   16
#define PHT_GEN_CUT    0x80000000 /* no mark at the end of this gap: draw on */

#define PHT_GAP_MAX	(16 << 20) /* longest stretch before a thread looks up */
#define PHT_GAP_IDLE	(16 << 10) /* while disabled */
#define PHT_NEST_WINDOW 0x10000

#define PHT_FILTER_BITS 16
#define PHT_SET_WAYS	16

#ifndef __ASSEMBLER__
#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

struct pht_tramp_header {
	__u64 magic;
	__u32 version;
	__u32 flavour; /* enum tramp_flavour */
	__u64 small_max;
	__u32 big_mode;
	__u32 pad[9];
	__u64 orig[PHT_TFN_NR];
	__u64 home[PHT_TFN_TABLES]; /* where CPython keeps these pointers; 0 = nowhere */
};

struct pht_tramp_fix {
	__u32 at; /* offset in the image */
	__u32 what;
};

struct pht_tramp_params {
	__u32 gen;
	__u32 pad;
	__u64 k;
	__u64 min;
	__u64 r;
};

struct pht_tramp_swap {
	__u64 addr;
	__u64 expect;
	__u64 value;
	__u64 seen; /* what was there: equal to expect when the exchange took place */
};

struct pht_tramp_ctl {
	__u32 gen; /* parameters in force; 0 = disabled */
	__u32 flags;
	__u32 site;
	__u32 state; /* PHT_STATE_*, written by the tracer only */
	__u64 rng;
	__s64 budget; /* samples left before the lease runs out */
	__u64 pad1[4];
	__u64 samples, frees, lost, false_pos;
	__u64 idle, expired, failed, undone;
	__u64 pad2[16];
	struct pht_tramp_params params[PHT_TRAMP_NPARAMS];
};

/* pht_tramp_ctl.state */
#define PHT_STATE_DIRTY 1 /* filter and set hold an earlier session's addresses */
#define PHT_STATE_WIPE	2 /* the data region is wiped in children */

_Static_assert(__builtin_offsetof(struct pht_tramp_header, orig) == PHT_TRAMP_ORIG, "orig");
_Static_assert(__builtin_offsetof(struct pht_tramp_header, home) == PHT_TRAMP_HOME, "home");
_Static_assert(__builtin_offsetof(struct pht_tramp_header, small_max) == PHT_TRAMP_SMALL_MAX,
	       "small_max");
_Static_assert(__builtin_offsetof(struct pht_tramp_header, big_mode) == PHT_TRAMP_BIG_MODE,
	       "big_mode");
_Static_assert(__builtin_offsetof(struct pht_tramp_ctl, samples) == PHT_CTL_SAMPLES, "samples");
_Static_assert(__builtin_offsetof(struct pht_tramp_ctl, undone) == PHT_CTL_UNDONE, "undone");
_Static_assert(__builtin_offsetof(struct pht_tramp_ctl, budget) == PHT_CTL_BUDGET, "budget");
_Static_assert(__builtin_offsetof(struct pht_tramp_ctl, params) == PHT_CTL_PARAMS, "params");
_Static_assert(sizeof(struct pht_tramp_params) == PHT_PAR_SIZE, "params size");
_Static_assert(PHT_CTL_SWAP + PHT_TRAMP_NSWAP * sizeof(struct pht_tramp_swap) <=
		       PHT_TRAMP_SLOTS - PHT_TRAMP_CTL,
	       "swap list");
#endif /* __ASSEMBLER__ */
#endif
