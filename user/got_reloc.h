/* SPDX-License-Identifier: BSD-2-Clause */
/* The relocations of one loaded object that concern malloc and its family. */
#ifndef PHT_GOT_RELOC_H
#define PHT_GOT_RELOC_H

#include "got.h"
#include "got_elf.h"

/*
 * Append the object's slots to slots (state and swappable are left to the
 * caller), and note where an executable stands in for a function.  budget is
 * the number of relocations that may still be read.  0, or -E2BIG, -EFAULT, -ENOMEM: what was found
 * until then remains appended; -ESRCH, -EPERM.
 */
int got_reloc_scan(pid_t pid, const struct proc_maps *maps, const struct got_elf *o, u32 object,
		   u64 *budget, struct got_slots *slots);
/* The functions that are looked for; NULL: this one is not. */
const char *got_func_symbol(enum alloc_func func);
/* Another name of it, or NULL. */
const char *got_func_alias(enum alloc_func func);
/* The function that is looked for under a name, or -ENOENT. */
int got_func_by_name(const char *name);

#endif
