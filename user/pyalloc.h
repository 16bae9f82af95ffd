/* SPDX-License-Identifier: BSD-2-Clause */
/* CPython's allocators in a process: where their tables are and who serves which. */
#ifndef PHT_PYALLOC_H
#define PHT_PYALLOC_H

#include "elf.h"
#include "proc.h"
#include "pyinfo.h"

/*
 * Fill alloc_mode, raw, mem, obj, arena_alloc_fn, inlined and new_pool_fn.
 * info->pid, version, free_threaded, runtime, object_* and off must be
 * filled; elf is the object that holds the interpreter.  What cannot be
 * found is 0 (mode PY_ALLOC_UNKNOWN): that is no error.  `inlined` tells
 * about the build, whatever the mode.  0 or -errno (the process is gone).
 */
int pyalloc_examine(struct pyinfo *info, struct elf_file *elf, const struct proc_maps *maps);

#endif
