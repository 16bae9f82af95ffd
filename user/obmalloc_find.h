/* SPDX-License-Identifier: BSD-2-Clause */
/* How obmalloc*.c and freelists.c find statics and interpreters.  For them only. */
#ifndef PHT_OBMALLOC_FIND_H
#define PHT_OBMALLOC_FIND_H

#include "elf.h"
#include "insn_statics.h"
#include "obmalloc.h"
#include "proc.h"

/* Bytes of the arena map's root, mid and bottom nodes, by how much address they cover. */
#define OBMALLOC_MAP_48BIT 8192, 8192, 2048
#define OBMALLOC_MAP_64BIT 262144, 262144, 131072

/* The file that holds the interpreter, and where it is mapped. */
struct pyobject_file {
	const struct pyinfo *info;
	struct elf_file *elf;
	struct proc_maps maps;
};

/* 0 or -errno (-ENOENT: the file cannot be had). */
int pyobject_file_open(const struct pyinfo *info, struct pyobject_file *out);
void pyobject_file_close(struct pyobject_file *f);
/*
 * Writable variables that the code of an exported function names, in the
 * order of insn_statics(), as run-time addresses.  How many.
 */
size_t pyobject_file_statics(const struct pyobject_file *f, const char *function,
			     struct insn_static *out, size_t max);
/* Does that code move the constant to a register? */
bool pyobject_file_names(const struct pyobject_file *f, const char *function, u64 constant);
/* Run-time address of a symbol that may be static, or 0; size may be NULL. */
u64 pyobject_file_symbol(const struct pyobject_file *f, const char *name, u64 *size);
bool pyobject_file_is_code(const struct pyobject_file *f, u64 addr);

struct interp {
	u64 addr;
	s64 id;
};

/*
 * The interpreters, the main one first; at most max, *more set when there are
 * others.  How many (0: not initialised), -EFAULT, -ESRCH, -EPERM, -ETIMEDOUT.
 */
int interps_read(const struct pyinfo *info, const struct reader *r, struct interp *v, size_t max,
		 bool *more);

/* Up to 3.11: pymalloc's variables are statics.  0, -ENOENT, -ESRCH, -EPERM, -ETIMEDOUT. */
int obmalloc_find_static(const struct pyinfo *info, const struct reader *r, struct obmalloc *ob);

#endif
