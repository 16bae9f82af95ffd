// SPDX-License-Identifier: BSD-2-Clause
#include "elf_limits.h"

#include <elf.h>
#include <errno.h>
#include <gelf.h>
#include <unistd.h>

/* Far beyond what linkers make.  A sparse file can claim terabytes at no cost. */
#define SECTIONS_MAX (1u << 18)
#define SECTION_MAX  (512ull << 20)

int elf_limits_headers(int fd)
{
	Elf64_Ehdr eh;
	Elf64_Shdr first;

	if (pread(fd, &eh, sizeof(eh), 0) != (ssize_t)sizeof(eh))
		return -ENOEXEC;
	if (eh.e_phnum == PN_XNUM)
		return -EFBIG;
	if (eh.e_shnum || !eh.e_shoff)
		return 0;
	/* More than fit into 16 bits: the first header says how many. */
	if (pread(fd, &first, sizeof(first), (off_t)eh.e_shoff) != (ssize_t)sizeof(first))
		return 0;
	return first.sh_size > SECTIONS_MAX ? -EFBIG : 0;
}

int elf_limits_sections(Elf *elf)
{
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(elf, scn))) {
		GElf_Shdr sh;

		if (!gelf_getshdr(scn, &sh))
			continue;
		switch (sh.sh_type) {
		case SHT_SYMTAB:
		case SHT_DYNSYM:
		case SHT_STRTAB:
		case SHT_DYNAMIC:
		case SHT_NOTE:
		case SHT_GNU_versym:
			if (sh.sh_size > SECTION_MAX)
				return -EFBIG;
		}
	}
	return 0;
}
