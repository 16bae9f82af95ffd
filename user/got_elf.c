// SPDX-License-Identifier: BSD-2-Clause
#include "got_elf.h"

#include <errno.h>
#include <string.h>

#include "allocfind_objects.h"
#include "elf.h"

#define PHDRS_MAX   64
#define DYNAMIC_MAX 512
#define CHAIN_MAX   256 /* symbols in one hash bucket */
#define NAME_LEN    32
/* Segments are page-aligned by the largest page the loader uses here. */
#define PAGE 4096ul

#define GOT_MACHINE EM_X86_64

static u64 page_down(u64 v)
{
	return v & ~(PAGE - 1);
}

bool got_elf_has(const struct got_elf *o, u64 addr, u64 len)
{
	u64 size = o->end - o->start;

	return addr >= o->start && len <= size && addr - o->start <= size - len;
}

const struct got_seg *got_elf_seg(const struct got_elf *o, u64 addr, u64 len)
{
	for (size_t i = 0; i < o->nseg; i++) {
		const struct got_seg *s = &o->seg[i];
		u64 size = s->end - s->start;

		if (addr >= s->start && len <= size && addr - s->start <= size - len)
			return s;
	}
	return NULL;
}

/* The headers need not be loaded: linkers and patch tools may put them anywhere. */
static int read_phdrs_file(pid_t pid, const struct proc_map *base, u64 off, Elf64_Phdr *ph,
			   size_t len)
{
	AUTO_CLOSE int fd = proc_open_map(pid, base);

	if (fd < 0 || off > INT64_MAX || pread(fd, ph, len, (off_t)off) != (ssize_t)len)
		return -EFAULT;
	return 0;
}

static int read_phdrs(pid_t pid, const struct proc_map *base, Elf64_Phdr *ph, size_t *n)
{
	u64 room = base->end - base->start;
	Elf64_Ehdr eh;
	size_t len;
	int err;

	if (room < sizeof(eh))
		return -ENOEXEC;
	err = proc_read(pid, base->start, &eh, sizeof(eh));
	if (err)
		return err == -EFAULT ? -ENOEXEC : err;
	if (memcmp(eh.e_ident, ELFMAG, SELFMAG) || eh.e_ident[EI_CLASS] != ELFCLASS64 ||
	    eh.e_machine != GOT_MACHINE || (eh.e_type != ET_DYN && eh.e_type != ET_EXEC) ||
	    eh.e_phentsize != sizeof(*ph) || !eh.e_phnum || eh.e_phnum > PHDRS_MAX)
		return -ENOEXEC;
	len = eh.e_phnum * sizeof(*ph);
	if (eh.e_phoff <= room && len <= room - eh.e_phoff)
		err = proc_read(pid, base->start + eh.e_phoff, ph, len);
	else
		err = read_phdrs_file(pid, base, eh.e_phoff, ph, len);
	*n = eh.e_phnum;
	return err;
}

/* base holds the page of file offset 0: where the segment that starts there was put. */
static int find_bias(const struct proc_map *base, const Elf64_Phdr *ph, size_t n, u64 *bias)
{
	for (size_t i = 0; i < n; i++) {
		if (ph[i].p_type != PT_LOAD || page_down(ph[i].p_offset))
			continue;
		*bias = base->start - page_down(ph[i].p_vaddr);
		return 0;
	}
	return -ENOEXEC;
}

static int add_seg(struct got_elf *o, const Elf64_Phdr *ph)
{
	struct got_seg *s = &o->seg[o->nseg];

	if (o->nseg == GOT_ELF_SEGS)
		return -EFAULT;
	s->start = ph->p_vaddr + o->bias;
	s->end = s->start + ph->p_memsz;
	if (s->end < s->start || s->end > INT64_MAX)
		return -EFAULT;
	s->w = ph->p_flags & PF_W;
	s->x = ph->p_flags & PF_X;
	if (!o->nseg || s->start < o->start)
		o->start = page_down(s->start);
	if (s->end > o->end)
		o->end = page_down(s->end + PAGE - 1);
	o->nseg++;
	return 0;
}

/*
 * A file that was merely mapped to be read looks like an object too, but then
 * its data is not where a loader would have put it.
 */
static bool data_in_place(const struct got_elf *o, const struct proc_maps *maps,
			  const Elf64_Phdr *ph)
{
	u64 page = page_down(ph->p_vaddr + o->bias);
	const struct proc_map *m = proc_maps_find(maps, page);

	return m && object_same(m, o->map) && !m->shared &&
	       m->offset + (page - m->start) == page_down(ph->p_offset);
}

static int read_segments(struct got_elf *o, const struct proc_maps *maps, const Elf64_Phdr *ph,
			 size_t n)
{
	int err;

	for (size_t i = 0; i < n; i++) {
		if (ph[i].p_type != PT_LOAD || !ph[i].p_memsz)
			continue;
		if ((ph[i].p_flags & PF_W) && ph[i].p_filesz && !data_in_place(o, maps, &ph[i]))
			return -ENOEXEC;
		err = add_seg(o, &ph[i]);
		if (err)
			return err;
	}
	return o->nseg ? 0 : -ENOEXEC;
}

/* Linkers write run-time addresses into the dynamic section, or leave it as it was. */
static u64 dyn_addr(const struct got_elf *o, u64 value)
{
	if (got_elf_has(o, value, 1))
		return value;
	return got_elf_has(o, value + o->bias, 1) ? value + o->bias : 0;
}

static void take_entry(struct got_elf *o, const Elf64_Dyn *d, bool *bad)
{
	u64 v = d->d_un.d_val;
	const struct {
		Elf64_Sxword tag;
		u64 *to;
		bool is_addr;
	} fields[] = {
		{DT_SYMTAB, &o->symtab, true},
		{DT_STRTAB, &o->strtab, true},
		{DT_STRSZ, &o->strsz, false},
		{DT_RELA, &o->rela, true},
		{DT_RELASZ, &o->rela_len, false},
		{DT_JMPREL, &o->jmprel, true},
		{DT_PLTRELSZ, &o->jmprel_len, false},
		{DT_GNU_HASH, &o->gnu_hash, true},
		{DT_HASH, &o->hash, true},
		{DT_DEBUG, &o->debug, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (d->d_tag == fields[i].tag)
			*fields[i].to = fields[i].is_addr ? dyn_addr(o, v) : v;
	*bad |= (d->d_tag == DT_RELAENT && v != sizeof(Elf64_Rela)) ||
		(d->d_tag == DT_SYMENT && v != sizeof(Elf64_Sym)) ||
		(d->d_tag == DT_PLTREL && v != DT_RELA);
}

/* Tables that do not lie within the object are no tables. */
static void drop_outsiders(struct got_elf *o)
{
	if (!o->rela || !got_elf_has(o, o->rela, o->rela_len))
		o->rela = o->rela_len = 0;
	if (!o->jmprel || !got_elf_has(o, o->jmprel, o->jmprel_len))
		o->jmprel = o->jmprel_len = 0;
	if (!o->strtab || !o->symtab || !got_elf_has(o, o->strtab, o->strsz))
		o->strtab = o->strsz = o->symtab = 0;
}

static int read_dynamic(pid_t pid, struct got_elf *o, u64 len)
{
	AUTO_FREE Elf64_Dyn *d = NULL;
	size_t n = len / sizeof(*d);
	bool bad = false;
	int err;

	if (n > DYNAMIC_MAX)
		n = DYNAMIC_MAX;
	if (!n || !got_elf_has(o, o->dynamic, n * sizeof(*d)))
		return -EFAULT;
	d = calloc(n, sizeof(*d));
	if (!d)
		return -ENOMEM;
	err = proc_read(pid, o->dynamic, d, n * sizeof(*d));
	if (err)
		return err;
	for (size_t i = 0; i < n && d[i].d_tag != DT_NULL; i++)
		take_entry(o, &d[i], &bad);
	if (bad)
		return -EFAULT;
	drop_outsiders(o);
	return 0;
}

int got_elf_read(pid_t pid, const struct proc_maps *maps, const struct proc_map *base,
		 struct got_elf *out)
{
	struct got_elf o = {.map = base};
	Elf64_Phdr ph[PHDRS_MAX];
	u64 dynamic_len = 0;
	size_t n;
	int err = read_phdrs(pid, base, ph, &n);

	if (!err)
		err = find_bias(base, ph, n, &o.bias);
	if (!err)
		err = read_segments(&o, maps, ph, n);
	if (err)
		return err;
	for (size_t i = 0; i < n; i++) {
		if (ph[i].p_type == PT_DYNAMIC) {
			o.dynamic = ph[i].p_vaddr + o.bias;
			dynamic_len = ph[i].p_memsz;
		} else if (ph[i].p_type == PT_GNU_RELRO &&
			   got_elf_has(&o, ph[i].p_vaddr + o.bias, ph[i].p_memsz)) {
			o.relro_start = page_down(ph[i].p_vaddr + o.bias);
			o.relro_end = page_down(ph[i].p_vaddr + o.bias + ph[i].p_memsz);
		}
	}
	if (!o.dynamic)
		return -ENOEXEC;
	err = read_dynamic(pid, &o, dynamic_len);
	if (err)
		return err;
	*out = o;
	return 0;
}

/* Read something that must lie within the object. */
static bool peek(pid_t pid, const struct got_elf *o, u64 addr, void *buf, size_t len)
{
	return got_elf_has(o, addr, len) && !proc_read(pid, addr, buf, len);
}

static bool is_definition(pid_t pid, const struct got_elf *o, u32 index, const char *name,
			  u64 *addr)
{
	char text[NAME_LEN] = "";
	size_t len = strlen(name) + 1;
	Elf64_Sym sym;

	if (!o->symtab || len > sizeof(text) ||
	    !peek(pid, o, o->symtab + (u64)index * sizeof(sym), &sym, sizeof(sym)))
		return false;
	if (sym.st_shndx == SHN_UNDEF || sym.st_name >= o->strsz || len > o->strsz - sym.st_name)
		return false;
	if (!peek(pid, o, o->strtab + sym.st_name, text, len) || memcmp(text, name, len))
		return false;
	*addr = o->bias + sym.st_value;
	return true;
}

static u32 hash_gnu(const char *name)
{
	u32 h = 5381;

	for (; *name; name++)
		h = h * 33 + (u8)*name;
	return h;
}

static u32 hash_sysv(const char *name)
{
	u32 h = 0;

	for (; *name; name++) {
		h = (h << 4) + (u8)*name;
		h = (h ^ ((h & 0xf0000000) >> 24)) & 0x0fffffff;
	}
	return h;
}

/* DT_GNU_HASH: {buckets, first symbol, filter words, shift}, filter, buckets, chains. */
static bool find_gnu(pid_t pid, const struct got_elf *o, const char *name, u64 *addr)
{
	u32 head[4], h = hash_gnu(name), i, c;
	u64 filter = o->gnu_hash + sizeof(head), buckets, chains, word;

	if (!peek(pid, o, o->gnu_hash, head, sizeof(head)) || !head[0] || !head[2])
		return false;
	if (peek(pid, o, filter + h / 64 % head[2] * 8ul, &word, sizeof(word)) &&
	    !(word >> (h % 64) & word >> ((h >> (head[3] % 32)) % 64) & 1))
		return false;
	buckets = filter + head[2] * 8ul;
	chains = buckets + head[0] * 4ul;
	if (!peek(pid, o, buckets + h % head[0] * 4ul, &i, sizeof(i)) || i < head[1])
		return false;
	for (int left = CHAIN_MAX; left-- > 0; i++) {
		if (!peek(pid, o, chains + (u64)(i - head[1]) * 4, &c, sizeof(c)))
			return false;
		if ((c | 1) == (h | 1) && is_definition(pid, o, i, name, addr))
			return true;
		if (c & 1)
			return false;
	}
	return false;
}

/* DT_HASH: {buckets, symbols}, buckets, chains. */
static bool find_sysv(pid_t pid, const struct got_elf *o, const char *name, u64 *addr)
{
	u32 head[2], h = hash_sysv(name), i;
	u64 buckets = o->hash + sizeof(head);

	if (!peek(pid, o, o->hash, head, sizeof(head)) || !head[0] ||
	    !peek(pid, o, buckets + h % head[0] * 4ul, &i, sizeof(i)))
		return false;
	for (int left = CHAIN_MAX; i && left-- > 0;) {
		if (is_definition(pid, o, i, name, addr))
			return true;
		if (!peek(pid, o, buckets + head[0] * 4ul + i * 4ul, &i, sizeof(i)))
			return false;
	}
	return false;
}

bool got_elf_find(pid_t pid, const struct got_elf *o, const char *name, u64 *addr)
{
	if (o->gnu_hash)
		return find_gnu(pid, o, name, addr);
	return o->hash && find_sysv(pid, o, name, addr);
}

bool got_elf_defines(pid_t pid, const struct got_elf *o, const char *name)
{
	u64 addr;

	return got_elf_find(pid, o, name, &addr);
}
