/* SPDX-License-Identifier: BSD-2-Clause */
/* One loaded object, read from the memory of the process.  All of it is hostile. */
#ifndef PHT_GOT_ELF_H
#define PHT_GOT_ELF_H

#include "proc.h"

#define GOT_ELF_SEGS 16

struct got_seg {
	u64 start, end; /* in the target */
	bool w, x;
};

struct got_elf {
	const struct proc_map *map; /* of the file's first bytes */
	u64 bias, start, end;	    /* start and end on page boundaries */
	struct got_seg seg[GOT_ELF_SEGS];
	size_t nseg;
	u64 relro_start, relro_end;
	u64 dynamic; /* address of the dynamic section */
	/* From the dynamic section: run-time addresses within the object; 0 = absent. */
	u64 symtab, strtab, strsz;
	u64 rela, rela_len, jmprel, jmprel_len;
	u64 gnu_hash, hash;
	u64 debug; /* DT_DEBUG's value, unchecked */
	/* Set by the caller. */
	bool is_exe;
	u64 defines; /* bit per alloc_func that it offers to others */
};

/*
 * The object whose first bytes are in base.  0, -ENOEXEC (no object that is
 * loaded and dynamically linked), -EFAULT (it contradicts itself), -ESRCH, -EPERM.
 */
int got_elf_read(pid_t pid, const struct proc_maps *maps, const struct proc_map *base,
		 struct got_elf *out);
/* Are these len bytes within the object? */
bool got_elf_has(const struct got_elf *o, u64 addr, u64 len);
/* The segment that holds len bytes at addr, or NULL. */
const struct got_seg *got_elf_seg(const struct got_elf *o, u64 addr, u64 len);
/* Does it offer a function of that name to others? */
bool got_elf_defines(pid_t pid, const struct got_elf *o, const char *name);
/* The same, and where it is. */
bool got_elf_find(pid_t pid, const struct got_elf *o, const char *name, u64 *addr);

#endif
