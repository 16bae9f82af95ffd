// SPDX-License-Identifier: BSD-2-Clause
/* ELF files of any bytes through every look-up. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "elf.h"

static void look_up(struct elf_file *elf)
{
	static const u64 at[] = {0, 1, 0x1000, 0x1139, 0x4000, 1ull << 47, ~0ull};
	struct elf_sym sym;
	char hex[41];
	u64 a, b;
	u8 buf[64];

	elf_find_sym(elf, "malloc", &sym);
	if (!elf_find_sym(elf, "main", &sym) && sym.is_func)
		elf_sym_at(elf, sym.value, &sym);
	elf_section(elf, ".PyRuntime", &a, &b);
	elf_section(elf, ".text", &a, &b);
	elf_needs(elf, "libpython");
	elf_build_id(elf, hex, sizeof(hex));
	elf_build_id(elf, hex, 3);
	elf_machine(elf);
	for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
		elf_sym_at(elf, at[i], &sym);
		if (!elf_vaddr_to_offset(elf, at[i], &a))
			elf_offset_to_vaddr(elf, a, &b);
		elf_offset_to_vaddr(elf, at[i], &a);
		elf_read(elf, at[i], buf, sizeof(buf));
		elf_load_bias(elf, 0x7f0000000000, at[i], &a);
	}
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct elf_file *elf;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	if (!elf_open_fd(fd, &elf)) {
		look_up(elf);
		elf_close(elf);
	}
	return 0;
}
