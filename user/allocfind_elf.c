// SPDX-License-Identifier: BSD-2-Clause
#include "allocfind_elf.h"

#include <errno.h>
#include <string.h>

/* Far more than the largest libraries have. */
#define SECTION_MAX (64u << 20)
/* Relocations read for one object, all look-ups together: a crafted file must not hold us up. */
#define SCAN_MAX   (256u << 20)
#define RELA_CHUNK 256

/* A whole section in memory, with a NUL behind it. */
static int read_section(struct elf_file *elf, const char *name, void **data, size_t *len)
{
	AUTO_FREE char *buf = NULL;
	u64 vaddr, size;
	int err = elf_section(elf, name, &vaddr, &size);

	if (err)
		return err;
	if (!size || size > SECTION_MAX)
		return -ENOENT;
	buf = malloc(size + 1);
	if (!buf)
		return -ENOMEM;
	err = elf_read(elf, vaddr, buf, size);
	if (err)
		return err;
	buf[size] = '\0';
	*data = TAKE_PTR(buf);
	*len = size;
	return 0;
}

int dynsyms_read(struct elf_file *elf, struct dynsyms *out)
{
	void *syms = NULL, *names = NULL;
	size_t syms_len, names_len;
	int err = read_section(elf, ".dynsym", &syms, &syms_len);

	if (!err)
		err = read_section(elf, ".dynstr", &names, &names_len);
	if (err) {
		free(syms);
		return err;
	}
	*out = (struct dynsyms){
		.syms = syms,
		.n = syms_len / sizeof(*out->syms),
		.names = names,
		.names_len = names_len,
	};
	return 0;
}

void dynsyms_free(struct dynsyms *d)
{
	free(d->syms);
	free(d->names);
	*d = (struct dynsyms){0};
}

static const char *sym_name(const struct dynsyms *d, size_t i)
{
	if (i >= d->n || d->syms[i].st_name >= d->names_len)
		return NULL;
	return d->names + d->syms[i].st_name;
}

bool dynsyms_defines(const struct dynsyms *d, const char *name)
{
	for (size_t i = 0; i < d->n; i++) {
		const Elf64_Sym *sym = &d->syms[i];
		const char *s = sym_name(d, i);

		/* an indirect function's address is that of its resolver: no place for a probe */
		if (sym->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(sym->st_info) == STT_FUNC && s &&
		    !strcmp(s, name))
			return true;
	}
	return false;
}

/* The GOT slot that a PLT entry jumps through: [endbr64] [bnd] jmp *slot(%rip). */
static bool plt_slot(struct elf_file *elf, u64 vaddr, u64 *slot)
{
	static const u8 endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	u8 code[16];
	size_t at = 0;
	s32 disp;

	if (elf_machine(elf) != EM_X86_64 || elf_read(elf, vaddr, code, sizeof(code)))
		return false;
	if (!memcmp(code, endbr64, sizeof(endbr64)))
		at += sizeof(endbr64);
	if (code[at] == 0xf2)
		at++;
	if (code[at] != 0xff || code[at + 1] != 0x25)
		return false;
	memcpy(&disp, code + at + 2, sizeof(disp));
	*slot = vaddr + at + 6 + (u64)(s64)disp;
	return true;
}

/* The symbol whose address a section of relocations puts into slot. */
static const char *reloc_name(struct dynsyms *d, struct elf_file *elf, const char *section,
			      u64 slot)
{
	Elf64_Rela rela[RELA_CHUNK];
	u64 vaddr, size;

	if (elf_section(elf, section, &vaddr, &size) || size > SECTION_MAX)
		return NULL;
	for (u64 at = 0; at + sizeof(*rela) <= size; at += sizeof(rela)) {
		u64 len = size - at < sizeof(rela) ? size - at : sizeof(rela);

		d->scanned += len;
		if (d->scanned > SCAN_MAX || elf_read(elf, vaddr + at, rela, len))
			return NULL;
		for (size_t i = 0; i < len / sizeof(*rela); i++)
			if (rela[i].r_offset == slot)
				return sym_name(d, ELF64_R_SYM(rela[i].r_info));
	}
	return NULL;
}

const char *dynsyms_plt_name(struct dynsyms *d, struct elf_file *elf, u64 vaddr)
{
	const char *name;
	u64 slot;

	if (!plt_slot(elf, vaddr, &slot))
		return NULL;
	name = reloc_name(d, elf, ".rela.plt", slot);
	return name ? name : reloc_name(d, elf, ".rela.dyn", slot);
}
