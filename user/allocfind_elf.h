/* SPDX-License-Identifier: BSD-2-Clause */
/* Dynamic symbols and PLT entries of one object, for allocfind. */
#ifndef PHT_ALLOCFIND_ELF_H
#define PHT_ALLOCFIND_ELF_H

#include <elf.h>

#include "elf.h"

struct dynsyms {
	Elf64_Sym *syms; /* owned */
	size_t n;
	char *names; /* owned, NUL-terminated */
	size_t names_len;
	u64 scanned; /* bytes of relocations read so far: there is a limit */
};

/* 0; -ENOENT when the object has no dynamic symbols; -errno. */
int dynsyms_read(struct elf_file *elf, struct dynsyms *out);
void dynsyms_free(struct dynsyms *d);
/* True if the object offers a function of that name to others. */
bool dynsyms_defines(const struct dynsyms *d, const char *name);
/* The name that the PLT entry at vaddr leads to, or NULL (not a PLT entry). */
const char *dynsyms_plt_name(struct dynsyms *d, struct elf_file *elf, u64 vaddr);

#endif
