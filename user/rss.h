/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a process's resident memory goes.  Each resident page of each mapping
 * is given to one kind of use; what the allocators hold is split into what is
 * in use and what is free.  The sum over a mapping is what the kernel says of
 * it (smaps), so the sum over all kinds is the process's RSS.
 */
#ifndef PHT_RSS_H
#define PHT_RSS_H

#include <stdbool.h>
#include <sys/types.h>

#include "util.h"

enum rss_kind {
	RSS_PYMALLOC_USED,   /* blocks in use */
	RSS_PYMALLOC_PARTLY, /* free blocks in pools that also hold used ones, and pool headers */
	RSS_PYMALLOC_FREE,   /* pools without any block in use */
	RSS_MALLOC_USED,     /* glibc: chunks in use, in heaps */
	RSS_MALLOC_CACHED,   /* fast bins and thread caches */
	RSS_MALLOC_FREE,     /* free chunks */
	RSS_MALLOC_TOP,	     /* the unused end of heaps */
	RSS_MALLOC_MMAP,     /* large blocks that glibc maps one by one */
	RSS_MALLOC_OTHER,    /* heap that could not be walked */
	RSS_STACK_MAIN,
	RSS_STACK_THREADS,
	RSS_FILE_CODE,	  /* pages of files, executable mappings */
	RSS_FILE_DATA,	  /* pages of files, other mappings */
	RSS_FILE_PRIVATE, /* private copies of file pages: relocated or written data */
	RSS_BSS,	  /* zero-initialised data behind a file's */
	RSS_SHARED,	  /* shared memory: /dev/shm, memfd, SysV, shared anonymous */
	RSS_NAMED,	  /* anonymous memory that its owner named */
	RSS_KERNEL,	  /* vdso and the like */
	RSS_ANON,	  /* anonymous, owner unknown */
	RSS_KINDS,
};

/* For programs ("pymalloc_used") and for people ("pymalloc: blocks in use"). */
const char *rss_kind_key(enum rss_kind kind);
const char *rss_kind_name(enum rss_kind kind);

struct rss_arena { /* of glibc */
	u64 addr;
	bool main;
	u32 heaps;
	u64 mapped, used, cached, free, top; /* bytes, resident or not */
	u64 resident, free_resident, top_resident;
	u64 trimmable; /* resident pages that malloc_trim(0) would give back */
};

struct rss_named {  /* a file, a name or an unexplained mapping */
	char *name; /* owned */
	u64 resident, swap, anon;
	u64 start; /* of an unexplained mapping, else of the first */
	u32 maps;
};

struct rss {
	pid_t pid;
	char comm[64];
	char python[16]; /* "" when it is not a supported Python */
	const char *alloc_mode;
	u64 rss, pss, uss, swap; /* from smaps, summed */
	u64 statm_rss;		 /* the kernel's running counter, for comparison */
	u64 thp, hugetlb;	 /* AnonHugePages; hugetlb is not part of RSS */
	u64 page_tables;	 /* VmPTE, not part of RSS */
	u64 kind[RSS_KINDS];	 /* resident bytes */
	/* pymalloc */
	u64 arenas, arena_bytes, arenas_resident;
	u64 pools, pools_free;	 /* carved ones; without a block in use */
	u64 arenas_nearly_empty; /* at most a tenth of their bytes in use */
	u64 nearly_empty_free;	 /* resident but unused in those */
	bool pymalloc_known, glibc_known;
	bool thp_always;
	/* glibc */
	struct rss_arena *arena; /* owned */
	size_t narena;
	u64 trimmable;
	u64 mmapped_chunks;
	u64 threads;
	/* Lists, largest first. */
	struct rss_named *file, *anon; /* owned */
	size_t nfile, nanon;
	/* What went wrong while the process ran on. */
	u64 torn_pools, torn_chunks, unwalked, vanished;
	u64 took_ns, frozen_ns; /* frozen_ns: 0 = not stopped */
};

/* 0, or -errno after one clear line (log_error). */
int rss_collect(pid_t pid, bool freeze, struct rss *out);
void rss_free(struct rss *r);

/* Resident bytes whose kind is known. */
u64 rss_explained(const struct rss *r);

/* Advice in words: one finding each. */
struct rss_finding {
	bool fragmentation; /* "the leak" is free memory that does not go back */
	char text[512];
};
#define RSS_FINDINGS_MAX 8
size_t rss_advise(const struct rss *r, struct rss_finding out[RSS_FINDINGS_MAX]);

int rss_print_text(const struct rss *r, size_t top, FILE *out);
int rss_print_json(const struct rss *r, FILE *out);

#endif
