/* SPDX-License-Identifier: BSD-2-Clause */
/* How pyalloc.c finds things in the interpreter's code.  For pyalloc*.c only. */
#ifndef PHT_PYALLOC_FIND_H
#define PHT_PYALLOC_FIND_H

#include "elf.h"
#include "insn_refs.h"
#include "proc.h"
#include "pyinfo.h"

/* The process under examination. */
struct pyalloc_view {
	const struct pyinfo *info;
	struct elf_file *elf;
	const struct proc_maps *maps;
};

/* Run-time address in executable memory; and in the interpreter's own code. */
bool pyalloc_is_code(const struct pyalloc_view *v, u64 addr);
bool pyalloc_is_own_code(const struct pyalloc_view *v, u64 addr);

/* Read the five words of a PyMemAllocatorEx; true if all its functions are code. */
bool pyalloc_read_table(const struct pyalloc_view *v, u64 addr, struct py_allocator *out);
/* The tables of the raw, mem and obj domains; .addr is 0 where there is none. */
void pyalloc_find_tables(const struct pyalloc_view *v, struct py_allocator out[3]);
/* The arena allocator's alloc function, or 0. */
u64 pyalloc_find_arena(const struct pyalloc_view *v);

/* Facts about the function at run-time address addr, out of the file. */
int pyalloc_facts(const struct pyalloc_view *v, u64 addr, struct insn_facts *out);
/* True for calls that leave the object through its PLT. */
bool pyalloc_is_plt(const struct pyalloc_view *v, u64 addr);
/* The default (pymalloc, or mimalloc without a GIL) that PyObject_Malloc compares with, or 0. */
u64 pyalloc_find_compared(const struct pyalloc_view *v);
/*
 * allocate_from_new_pool, or 0: by name, with the suffixes that compilers add
 * to copies of a static function; and as the only function of the object that
 * pymalloc's malloc function calls.
 */
u64 pyalloc_new_pool_by_name(const struct pyalloc_view *v);
u64 pyalloc_new_pool_by_call(const struct pyalloc_view *v, u64 pymalloc_fn);

/* Which built-in allocator a malloc function of the interpreter belongs to. */
enum pyalloc_border {
	BORDER_NONE,
	BORDER_PYMALLOC, /* compares the size with 512 */
	BORDER_MIMALLOC, /* compares it with 1024 */
};
enum pyalloc_border pyalloc_border(const struct pyalloc_view *v, u64 fn);

#endif
