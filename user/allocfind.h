/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which code really serves malloc and its family in a process: the libc, or
 * a preloaded or linked replacement; found as the dynamic linker would.
 */
#ifndef PHT_ALLOCFIND_H
#define PHT_ALLOCFIND_H

#include <sys/types.h>

#include "insn.h"
#include "proc.h"

enum alloc_func {
	AF_MALLOC,
	AF_CALLOC,
	AF_REALLOC,
	AF_REALLOCARRAY,
	AF_FREE,
	AF_POSIX_MEMALIGN,
	AF_ALIGNED_ALLOC,
	AF_MEMALIGN,
	AF_VALLOC,
	AF_PVALLOC,
	AF_MMAP,
	AF_MUNMAP,
	AF_MREMAP,
	AF_NEW,
	AF_NEW_ARRAY, /* operator new(size_t), new[]: only where inlined */
	AF_DELETE,
	AF_DELETE_ARRAY,
	/* Further forms, same shapes: (size, ...) -> block, and (block, ...). */
	AF_NEW_NOTHROW,
	AF_NEW_ARRAY_NOTHROW,
	AF_NEW_ALIGNED,
	AF_NEW_ARRAY_ALIGNED,
	AF_NEW_ALIGNED_NOTHROW,
	AF_NEW_ARRAY_ALIGNED_NOTHROW,
	AF_DELETE_NOTHROW,
	AF_DELETE_ARRAY_NOTHROW,
	AF_DELETE_SIZED,
	AF_DELETE_ARRAY_SIZED,
	AF_DELETE_ALIGNED,
	AF_DELETE_ARRAY_ALIGNED,
	AF_DELETE_SIZED_ALIGNED,
	AF_DELETE_ARRAY_SIZED_ALIGNED,
	AF_FREE_SIZED,
	AF_FREE_ALIGNED_SIZED,
	AF_DELETE_ALIGNED_NOTHROW,
	AF_DELETE_ARRAY_ALIGNED_NOTHROW,
	AF_NR,
};

/* How a function's arguments are to be read: what a probe's program depends on. */
enum alloc_shape {
	AS_MALLOC,	   /* block f(size, ...): malloc, valloc, every operator new */
	AS_CALLOC,	   /* block f(n, size) */
	AS_REALLOC,	   /* block f(block, size) */
	AS_REALLOCARRAY,   /* block f(block, n, size) */
	AS_FREE,	   /* f(block, ...): free, every operator delete */
	AS_POSIX_MEMALIGN, /* int f(&block, align, size) */
	AS_MEMALIGN,	   /* block f(align, size) */
	AS_PVALLOC,	   /* block f(size), rounded up to whole pages */
	AS_MMAP,
	AS_MUNMAP,
	AS_MREMAP,
};

struct alloc_target {
	bool present;	    /* found and worth a probe */
	bool always_return; /* it may call another member of the family: its return
			       half must always fire so that nested calls are known */
	u64 vaddr;	    /* in the object's file */
	u64 size;	    /* 0 = unknown */
	u64 offset;	    /* file offset of the probe site */
	struct probe_site site;
};

struct alloc_family {
	char *path;		  /* owned: the object as the target sees it */
	struct proc_map map;	  /* a mapping of it (path not owned): for proc_open_map() */
	u64 code_start, code_end; /* run-time range of the object's code */
	u64 bias;
	const char *name; /* "glibc", "musl", "jemalloc", "tcmalloc", "mimalloc", "unknown" */
	struct alloc_target f[AF_NR];
};

/*
 * heap: malloc..pvalloc and new/delete.  mm: only mmap, munmap and mremap,
 * which may live in another object (libc, while malloc is preloaded); without
 * any, mm->path is NULL.  Names that share an address get one entry, the
 * first: the others are not present.  0, -ENOENT (no allocator found: a static musl binary, say),
 * -errno.
 */
int allocfind(pid_t pid, const struct proc_maps *maps, struct alloc_family *heap,
	      struct alloc_family *mm);
void alloc_family_free(struct alloc_family *family);
const char *alloc_func_name(enum alloc_func f);
enum alloc_shape alloc_func_shape(enum alloc_func f);

#endif
