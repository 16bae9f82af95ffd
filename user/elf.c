// SPDX-License-Identifier: BSD-2-Clause
#include "elf.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <string.h>
#include <sys/stat.h>

#include "elf_limits.h"

#define MAX_LOADS 64

/* A PT_LOAD segment whose ranges are known not to wrap around. */
struct segment {
	u64 vaddr, offset, filesz;
};

struct elf_file {
	int fd;
	Elf *elf;
	u64 file_size;
	u16 machine;
	size_t nloads;
	struct segment load[MAX_LOADS];
};

/* Symbol sections in the order in which they are searched. */
static const u32 symbol_tables[] = {SHT_DYNSYM, SHT_SYMTAB};

static int read_segments(struct elf_file *f)
{
	size_t n;

	if (elf_getphdrnum(f->elf, &n))
		return -ENOEXEC;
	for (size_t i = 0; i < n && f->nloads < MAX_LOADS; i++) {
		struct segment *s = &f->load[f->nloads];
		GElf_Phdr ph;

		if (!gelf_getphdr(f->elf, (int)i, &ph))
			return -ENOEXEC;
		if (ph.p_type != PT_LOAD || ph.p_offset > f->file_size)
			continue;
		s->vaddr = ph.p_vaddr;
		s->offset = ph.p_offset;
		s->filesz = ph.p_filesz;
		if (s->filesz > f->file_size - s->offset)
			s->filesz = f->file_size - s->offset;
		if (s->vaddr <= UINT64_MAX - s->filesz)
			f->nloads++;
	}
	return 0;
}

static int open_elf(struct elf_file *f)
{
	const char *ident;
	GElf_Ehdr eh;
	struct stat st;
	int err;

	if (f->fd < 0 || fstat(f->fd, &st))
		return -EBADF;
	if (!S_ISREG(st.st_mode))
		return -ENOEXEC;
	f->file_size = (u64)st.st_size;
	/* ELF_C_READ, not _MMAP: a file that shrinks under a mapping kills its reader. */
	if (elf_version(EV_CURRENT) == EV_NONE)
		return -ENOEXEC;
	err = elf_limits_headers(f->fd);
	if (err)
		return err;
	f->elf = elf_begin(f->fd, ELF_C_READ, NULL);
	if (!f->elf || elf_kind(f->elf) != ELF_K_ELF || gelf_getclass(f->elf) != ELFCLASS64)
		return -ENOEXEC;
	ident = elf_getident(f->elf, NULL);
	if (!ident || ident[EI_DATA] != ELFDATA2LSB || !gelf_getehdr(f->elf, &eh))
		return -ENOEXEC;
	f->machine = eh.e_machine;
	err = elf_limits_sections(f->elf);
	return err ? err : read_segments(f);
}

int elf_open_fd(int fd, struct elf_file **out)
{
	struct elf_file *f = calloc(1, sizeof(*f));
	int err;

	if (!f) {
		if (fd >= 0)
			close(fd);
		return -ENOMEM;
	}
	f->fd = fd;
	err = open_elf(f);
	if (err) {
		elf_close(f);
		return err;
	}
	*out = f;
	return 0;
}

void elf_close(struct elf_file *f)
{
	if (!f)
		return;
	if (f->elf)
		elf_end(f->elf);
	if (f->fd >= 0)
		close(f->fd);
	free(f);
}

u16 elf_machine(struct elf_file *f)
{
	return f->machine;
}

/* First section of a type at or after scn's successor; NULL when there is none. */
static Elf_Scn *next_of_type(struct elf_file *f, Elf_Scn *scn, u32 type, GElf_Shdr *sh)
{
	while ((scn = elf_nextscn(f->elf, scn)))
		if (gelf_getshdr(scn, sh) && sh->sh_type == type)
			return scn;
	return NULL;
}

/* One symbol table being walked. */
struct symtab {
	Elf_Data *data;
	Elf_Data *versions; /* .gnu.version, parallel to .dynsym; or NULL */
	size_t strings;	    /* section index of its names */
	size_t n;
};

static int symtab_open(struct elf_file *f, u32 type, struct symtab *t)
{
	GElf_Shdr sh, vsh;
	Elf_Scn *scn = next_of_type(f, NULL, type, &sh), *vscn;

	if (!scn)
		return -ENOENT;
	*t = (struct symtab){.data = elf_getdata(scn, NULL), .strings = sh.sh_link};
	if (!t->data || t->data->d_type != ELF_T_SYM)
		return -ENOENT;
	t->n = t->data->d_size / sizeof(Elf64_Sym);
	if (t->n > INT32_MAX)
		return -ENOENT;
	vscn = type == SHT_DYNSYM ? next_of_type(f, NULL, SHT_GNU_versym, &vsh) : NULL;
	if (vscn)
		t->versions = elf_getdata(vscn, NULL);
	return 0;
}

/* A symbol that stands for bytes of the loaded image. */
static bool symtab_get(const struct symtab *t, size_t i, GElf_Sym *sym)
{
	int type;

	if (!gelf_getsym(t->data, (int)i, sym))
		return false;
	type = GELF_ST_TYPE(sym->st_info);
	if (sym->st_shndx == SHN_UNDEF || sym->st_shndx == SHN_ABS || sym->st_shndx == SHN_COMMON)
		return false;
	return type != STT_TLS && type != STT_SECTION && type != STT_FILE;
}

/* Not what the linker would bind a new reference to (an old version, as in name@VER). */
static bool symtab_hidden(const struct symtab *t, size_t i)
{
	GElf_Versym v;

	return t->versions && gelf_getversym(t->versions, (int)i, &v) && (v & 0x8000);
}

static void fill_sym(struct elf_sym *out, const GElf_Sym *sym)
{
	out->value = sym->st_value;
	out->size = sym->st_size;
	out->is_func = GELF_ST_TYPE(sym->st_info) == STT_FUNC;
}

int elf_find_sym(struct elf_file *f, const char *name, struct elf_sym *out)
{
	for (size_t k = 0; k < ARRAY_SIZE(symbol_tables); k++) {
		struct symtab t;
		bool found = false;

		if (symtab_open(f, symbol_tables[k], &t))
			continue;
		for (size_t i = 1; i < t.n; i++) {
			GElf_Sym sym;
			const char *s;

			if (!symtab_get(&t, i, &sym))
				continue;
			s = elf_strptr(f->elf, t.strings, sym.st_name);
			if (!s || strcmp(s, name))
				continue;
			if (found && symtab_hidden(&t, i))
				continue;
			fill_sym(out, &sym);
			found = true;
			if (!symtab_hidden(&t, i))
				break;
		}
		if (found)
			return 0;
	}
	return -ENOENT;
}

/* How well a symbol covers vaddr: its size, or the worst grade for an unsized one at vaddr. */
static bool covers(const GElf_Sym *sym, u64 vaddr, u64 *grade)
{
	if (GELF_ST_TYPE(sym->st_info) != STT_FUNC || sym->st_value > vaddr)
		return false;
	*grade = sym->st_size ? sym->st_size : UINT64_MAX;
	return sym->st_size ? vaddr - sym->st_value < sym->st_size : sym->st_value == vaddr;
}

int elf_sym_at(struct elf_file *f, u64 vaddr, struct elf_sym *out)
{
	struct elf_sym best = {0};
	u64 best_grade = 0;
	bool found = false;

	for (size_t k = 0; k < ARRAY_SIZE(symbol_tables); k++) {
		struct symtab t;

		if (symtab_open(f, symbol_tables[k], &t))
			continue;
		for (size_t i = 1; i < t.n; i++) {
			GElf_Sym sym;
			u64 grade;

			if (!symtab_get(&t, i, &sym) || !covers(&sym, vaddr, &grade))
				continue;
			if (found && grade >= best_grade)
				continue;
			fill_sym(&best, &sym);
			best_grade = grade;
			found = true;
		}
	}
	if (!found)
		return -ENOENT;
	*out = best;
	return 0;
}

int elf_vaddr_to_offset(struct elf_file *f, u64 vaddr, u64 *offset)
{
	for (size_t i = 0; i < f->nloads; i++) {
		const struct segment *s = &f->load[i];

		if (vaddr >= s->vaddr && vaddr - s->vaddr < s->filesz) {
			*offset = s->offset + (vaddr - s->vaddr);
			return 0;
		}
	}
	return -ENOENT;
}

int elf_offset_to_vaddr(struct elf_file *f, u64 offset, u64 *vaddr)
{
	for (size_t i = 0; i < f->nloads; i++) {
		const struct segment *s = &f->load[i];

		if (offset >= s->offset && offset - s->offset < s->filesz) {
			*vaddr = s->vaddr + (offset - s->offset);
			return 0;
		}
	}
	return -ENOENT;
}

static int read_at(int fd, u64 offset, u8 *dst, size_t len)
{
	while (len) {
		ssize_t n = pread(fd, dst, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -EFAULT;
		dst += n;
		offset += (u64)n;
		len -= (size_t)n;
	}
	return 0;
}

int elf_read(struct elf_file *f, u64 vaddr, void *buf, size_t len)
{
	for (size_t i = 0; i < f->nloads; i++) {
		const struct segment *s = &f->load[i];
		u64 skip = vaddr - s->vaddr;

		if (vaddr < s->vaddr || skip >= s->filesz)
			continue;
		if (len > s->filesz - skip)
			return -EFAULT;
		return read_at(f->fd, s->offset + skip, buf, len);
	}
	return -EFAULT;
}

int elf_section(struct elf_file *f, const char *name, u64 *vaddr, u64 *size)
{
	Elf_Scn *scn = NULL;
	size_t strings;

	if (elf_getshdrstrndx(f->elf, &strings))
		return -ENOENT;
	while ((scn = elf_nextscn(f->elf, scn))) {
		GElf_Shdr sh;
		const char *s = NULL;

		if (gelf_getshdr(scn, &sh))
			s = elf_strptr(f->elf, strings, sh.sh_name);
		if (s && !strcmp(s, name)) {
			*vaddr = sh.sh_addr;
			*size = sh.sh_size;
			return 0;
		}
	}
	return -ENOENT;
}

bool elf_needs(struct elf_file *f, const char *prefix)
{
	GElf_Shdr sh;
	Elf_Scn *scn = next_of_type(f, NULL, SHT_DYNAMIC, &sh);
	Elf_Data *data = scn ? elf_getdata(scn, NULL) : NULL;
	size_t n = data ? data->d_size / sizeof(Elf64_Dyn) : 0;

	for (size_t i = 0; i < n && i < INT32_MAX; i++) {
		GElf_Dyn dyn;
		const char *s;

		if (!gelf_getdyn(data, (int)i, &dyn) || dyn.d_tag == DT_NULL)
			break;
		if (dyn.d_tag != DT_NEEDED)
			continue;
		s = elf_strptr(f->elf, sh.sh_link, dyn.d_un.d_val);
		if (s && !strncmp(s, prefix, strlen(prefix)))
			return true;
	}
	return false;
}

/* The build id inside one note section. */
static int note_build_id(Elf_Data *data, char *hex, size_t len)
{
	size_t at = 0, name_at, desc_at;
	GElf_Nhdr nh;

	while ((at = gelf_getnote(data, at, &nh, &name_at, &desc_at))) {
		const u8 *base = data->d_buf;

		if (nh.n_type != NT_GNU_BUILD_ID || nh.n_namesz != 4 ||
		    memcmp(base + name_at, "GNU", 4))
			continue;
		if (!nh.n_descsz || len / 2 < nh.n_descsz || len < 2ull * nh.n_descsz + 1)
			return -ENOSPC;
		for (u32 i = 0; i < nh.n_descsz; i++)
			snprintf(hex + 2 * i, 3, "%02x", base[desc_at + i]);
		return 0;
	}
	return -ENOENT;
}

int elf_build_id(struct elf_file *f, char *hex, size_t len)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;

	while ((scn = next_of_type(f, scn, SHT_NOTE, &sh))) {
		Elf_Data *data = elf_getdata(scn, NULL);
		int err = data && data->d_buf ? note_build_id(data, hex, len) : -ENOENT;

		if (err != -ENOENT)
			return err;
	}
	return -ENOENT;
}

/*
 * Two segments can share a page of the file; the mapping is then taken to be
 * the one with the lower address.  Pass an object's lowest mapping to be certain.
 */
int elf_load_bias(struct elf_file *f, u64 map_start, u64 map_offset, u64 *bias)
{
	u64 page = (u64)sysconf(_SC_PAGESIZE);
	const struct segment *best = NULL;

	for (size_t i = 0; i < f->nloads; i++) {
		const struct segment *s = &f->load[i];
		u64 first = s->offset & ~(page - 1);

		if (map_offset < first || map_offset >= s->offset + s->filesz)
			continue;
		if (!best || s->vaddr < best->vaddr)
			best = s;
	}
	if (!best)
		return -ENOENT;
	*bias = map_start - (best->vaddr - best->offset + map_offset);
	return 0;
}
