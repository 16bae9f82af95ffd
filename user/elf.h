/* SPDX-License-Identifier: BSD-2-Clause */
/* Look-ups in one ELF file (libelf).  The file is hostile input. */
/*
 * Outside the guard: with -Iuser this file also answers to <elf.h>, which
 * libelf's and libc's headers ask for.
 */
#include_next <elf.h>
#ifndef PHT_ELF_H
#define PHT_ELF_H

#include <stdbool.h>

#include "util.h"

struct elf_file; /* opaque */

struct elf_sym {
	u64 value; /* virtual address in the file */
	u64 size;  /* 0 when the file does not say */
	bool is_func;
};

/* Takes ownership of fd in any case.  0, -ENOEXEC (not a 64-bit ELF), -EFBIG, -errno. */
int elf_open_fd(int fd, struct elf_file **out);
void elf_close(struct elf_file *elf);

/* A defined symbol by exact name; .dynsym first, then .symtab.  0 or -ENOENT. */
int elf_find_sym(struct elf_file *elf, const char *name, struct elf_sym *out);
/* The smallest function symbol that covers vaddr (either table).  0 or -ENOENT. */
int elf_sym_at(struct elf_file *elf, u64 vaddr, struct elf_sym *out);
/* Virtual address <-> file offset, through the PT_LOAD headers.  0 or -ENOENT. */
int elf_vaddr_to_offset(struct elf_file *elf, u64 vaddr, u64 *offset);
int elf_offset_to_vaddr(struct elf_file *elf, u64 offset, u64 *vaddr);
/* Copy len bytes of the file image at vaddr; -EFAULT if not wholly in the file. */
int elf_read(struct elf_file *elf, u64 vaddr, void *buf, size_t len);
/* Section by name: its address and size.  0 or -ENOENT. */
int elf_section(struct elf_file *elf, const char *name, u64 *vaddr, u64 *size);
/* True if some DT_NEEDED starts with prefix. */
bool elf_needs(struct elf_file *elf, const char *prefix);
/* Build id as lower-case hex; -ENOENT when there is none. */
int elf_build_id(struct elf_file *elf, char *hex, size_t len);
u16 elf_machine(struct elf_file *elf); /* EM_X86_64, EM_AARCH64 */

/*
 * load bias of a mapped file: run-time address = vaddr + bias.  start and
 * offset are those of any one of its mappings.
 */
int elf_load_bias(struct elf_file *elf, u64 map_start, u64 map_offset, u64 *bias);

#endif
