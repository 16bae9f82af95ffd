/* SPDX-License-Identifier: BSD-2-Clause */
/* What the traced process is: its CPython, where its structures are, who allocates. */
#ifndef PHT_PYINFO_H
#define PHT_PYINFO_H

#include <stdbool.h>
#include <sys/types.h>

#include "pht_abi.h"
#include "util.h"

/* One entry of CPython's allocator tables: PyMemAllocatorEx (Include/cpython/pymem.h). */
struct py_allocator {
	u64 addr; /* where the struct is in the target; 0 = not found */
	u64 ctx, malloc_fn, calloc_fn, realloc_fn, free_fn;
};

/* Who serves obj and mem requests of at most 512 bytes. */
enum py_alloc_mode {
	PY_ALLOC_UNKNOWN,      /* tables not found */
	PY_ALLOC_PYMALLOC,     /* default */
	PY_ALLOC_MALLOC,       /* PYTHONMALLOC=malloc: everything goes to libc */
	PY_ALLOC_DEBUG,	       /* debug hooks over pymalloc (requests grow by 24 or 32) */
	PY_ALLOC_MALLOC_DEBUG, /* debug hooks over libc */
	PY_ALLOC_TRACEMALLOC,  /* tracemalloc over one of the above */
	PY_ALLOC_MIMALLOC,     /* 3.13+ */
	PY_ALLOC_HOOKED,       /* somebody else's functions */
};

struct pyinfo {
	pid_t pid;
	u64 start_time;
	u32 version;	      /* PY_VERSION_HEX */
	char version_str[16]; /* "3.11.2" */
	bool free_threaded;
	bool static_build; /* interpreter is in the executable, not in libpython */
	u64 runtime;	   /* address of _PyRuntime */
	/* The object that holds the interpreter. */
	char *object_path;	      /* owned; as the target sees it */
	u64 object_bias;	      /* run-time address = file address + bias */
	u64 object_start, object_end; /* all of its mappings */
	struct pht_pyoffsets off;
	/* Current thread state (cpython-internals A.3). */
	u32 tls_kind; /* enum pht_tls_kind */
	u32 tls_module;
	s64 tls_offset;
	u32 tss_key; /* PHT_ABSENT when unknown */
	/* Allocators. */
	enum py_alloc_mode alloc_mode;
	struct py_allocator raw, mem, obj;
	u64 arena_alloc_fn; /* pymalloc arena allocator (mmap), 0 = not found */
	bool inlined;	    /* PGO+LTO: fast path copied into callers (E.4) */
	u64 new_pool_fn;    /* allocate_from_new_pool, run-time address; 0 = not found */
	u32 pool_size, arena_size;
	bool musl;
};

/*
 * Examine a process.  On failure logs one clear line (what is wrong, what to
 * do) and returns -ESRCH (no such process, or it went away), -EPERM,
 * -ENOEXEC (not a Python process) or -ENOTSUP (a Python that is not
 * supported: names it and what is supported).
 */
int pyinfo_examine(pid_t pid, struct pyinfo *out);
/*
 * Where the interpreter of a process says whether it is initialised, also of
 * one that has not begun yet.  Logs nothing.  0, -ENOEXEC (no Python in it, or
 * not yet), -ENOTSUP (one that we do not know), -ESRCH, -EPERM.
 */
int pyinfo_find_initialized(pid_t pid, u64 *addr);
void pyinfo_free(struct pyinfo *info);
const char *py_alloc_mode_name(enum py_alloc_mode mode);

/* Read the three tables again (somebody may have swapped them). 0 or -errno. */
int pyinfo_reread_allocators(struct pyinfo *info);

#endif
