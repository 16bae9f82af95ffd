/* SPDX-License-Identifier: BSD-2-Clause */
/* What libelf may be trusted with: it allocates whatever a file claims to hold. */
#ifndef PHT_ELF_LIMITS_H
#define PHT_ELF_LIMITS_H

#include <libelf.h>

/* Before elf_begin(): the numbers of headers.  0, -ENOEXEC or -EFBIG. */
int elf_limits_headers(int fd);
/* Before any data is asked for: the sizes of what we look at.  0 or -EFBIG. */
int elf_limits_sections(Elf *elf);

#endif
