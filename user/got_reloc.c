// SPDX-License-Identifier: BSD-2-Clause
#include "got_reloc.h"

#include <errno.h>
#include <string.h>

#include "allocfind_objects.h"
#include "elf.h"
#include "pht_tramp.h"

#define CHUNK	      2048 /* relocations read at once */
#define SYMBOLS_MAX   (1u << 22)
#define SLOTS_MAX     65536
#define OBJ_SLOTS_MAX 4096
#define PAGE	      4096ul
#define CACHE_PAGES   128
#define NAME_LEN      16 /* of the longest symbol below, with its NUL */
#define NOT_PLT	      UINT64_MAX

static const struct {
	const char *symbol;
	int entry;
	const char *alias; /* another name of the same function, or NULL */
} funcs[AF_NR] = {
	[AF_MALLOC] = {"malloc", PHT_TFN_MALLOC},
	[AF_CALLOC] = {"calloc", PHT_TFN_CALLOC},
	[AF_REALLOC] = {"realloc", PHT_TFN_REALLOC},
	[AF_REALLOCARRAY] = {"reallocarray", PHT_TFN_REALLOCARRAY},
	[AF_FREE] = {"free", PHT_TFN_FREE},
	[AF_POSIX_MEMALIGN] = {"posix_memalign", PHT_TFN_POSIX_MEMALIGN},
	[AF_ALIGNED_ALLOC] = {"aligned_alloc", PHT_TFN_ALIGNED_ALLOC},
	[AF_MEMALIGN] = {"memalign", PHT_TFN_MEMALIGN},
	[AF_VALLOC] = {"valloc", PHT_TFN_VALLOC},
	[AF_PVALLOC] = {"pvalloc", PHT_TFN_PVALLOC},
	[AF_MMAP] = {"mmap", PHT_TFN_MMAP, "mmap64"},
	[AF_MUNMAP] = {"munmap", PHT_TFN_MUNMAP},
	[AF_MREMAP] = {"mremap", PHT_TFN_MREMAP},
};

const char *got_func_symbol(enum alloc_func func)
{
	return (size_t)func < AF_NR ? funcs[func].symbol : NULL;
}

const char *got_func_alias(enum alloc_func func)
{
	return (size_t)func < AF_NR ? funcs[func].alias : NULL;
}

bool got_is_mapping(enum alloc_func func)
{
	return func == AF_MMAP || func == AF_MUNMAP || func == AF_MREMAP;
}

int got_entry(enum alloc_func func)
{
	return got_func_symbol(func) ? funcs[func].entry : -ENOENT;
}

/* Pages of the object that were read already: symbols and names come in no useful order. */
struct page_cache {
	u64 at[CACHE_PAGES]; /* address of the page; 0 = empty */
	u8 data[CACHE_PAGES][PAGE];
};

/* What is known of a symbol. */
enum {
	SYM_UNKNOWN,
	SYM_NONE,
	SYM_FUNC, /* + alloc_func */
};

struct walk {
	pid_t pid;
	const struct proc_maps *maps;
	const struct got_elf *o;
	struct got_slots *slots;
	size_t first; /* the object's first slot */
	u32 object;
	bool holds; /* the allocator's code is in it */
	u8 *known;  /* owned: SYM_* by symbol number */
	size_t nknown;
	u64 *budget;
	struct page_cache cache;
	Elf64_Rela rela[CHUNK];
};

static int cached_read(struct walk *w, u64 addr, void *buf, size_t len)
{
	u8 *dst = buf;

	if (!got_elf_has(w->o, addr, len))
		return -EFAULT;
	while (len) {
		u64 skew = addr % PAGE, page = addr - skew;
		size_t i = page / PAGE % CACHE_PAGES, n = PAGE - skew < len ? PAGE - skew : len;

		if (w->cache.at[i] != page) {
			int err = proc_read(w->pid, page, w->cache.data[i], PAGE);

			w->cache.at[i] = err ? 0 : page;
			if (err)
				return err;
		}
		memcpy(dst, w->cache.data[i] + skew, n);
		dst += n;
		addr += n;
		len -= n;
	}
	return 0;
}

int got_func_by_name(const char *name)
{
	for (int f = 0; f < AF_NR; f++)
		if (funcs[f].symbol && (!strcmp(funcs[f].symbol, name) ||
					(funcs[f].alias && !strcmp(funcs[f].alias, name))))
			return f;
	return -ENOENT;
}

static int func_by_address(const struct got_slots *slots, u64 addr)
{
	for (int f = 0; f < AF_NR; f++)
		if (addr && slots->real[f] == addr)
			return f;
	return -ENOENT;
}

/* Look at a symbol of the object: a member of the family, or not (-ENOENT). */
static int read_symbol(struct walk *w, u32 index)
{
	char name[NAME_LEN] = "";
	const struct got_elf *o = w->o;
	Elf64_Sym sym;
	size_t len;
	int f;

	if (!o->symtab || cached_read(w, o->symtab + (u64)index * sizeof(sym), &sym, sizeof(sym)))
		return -ENOENT;
	/* most symbols of a large library are its own, and none of our business */
	if (sym.st_name >= o->strsz || (sym.st_shndx != SHN_UNDEF && !o->defines))
		return -ENOENT;
	len = o->strsz - sym.st_name < sizeof(name) ? o->strsz - sym.st_name : sizeof(name);
	if (cached_read(w, o->strtab + sym.st_name, name, len))
		return -ENOENT;
	f = memchr(name, '\0', len) ? got_func_by_name(name) : -ENOENT;
	/* an executable's PLT entry that serves as the function's address everywhere */
	if (f >= 0 && o->is_exe && sym.st_shndx == SHN_UNDEF && sym.st_value &&
	    got_elf_has(o, o->bias + sym.st_value, 1))
		w->slots->via_exe[f] = o->bias + sym.st_value;
	return f;
}

static int symbol_func(struct walk *w, u32 index)
{
	if (index >= SYMBOLS_MAX)
		return -ENOENT;
	if (index >= w->nknown) {
		size_t want = (size_t)index * 2 + 256;
		u8 *known = realloc(w->known, want);

		if (!known)
			return -ENOMEM;
		memset(known + w->nknown, SYM_UNKNOWN, want - w->nknown);
		w->known = known;
		w->nknown = want;
	}
	if (w->known[index] == SYM_UNKNOWN) {
		int f = read_symbol(w, index);

		w->known[index] = f < 0 ? SYM_NONE : SYM_FUNC + f;
	}
	return w->known[index] == SYM_NONE ? -ENOENT : w->known[index] - SYM_FUNC;
}

/* A lazy slot holds the address of: [endbr64] push $number-of-its-relocation. */
static bool is_stub(struct walk *w, u64 value, u64 plt_index)
{
	static const u8 endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	const struct got_seg *seg = got_elf_seg(w->o, value, 9);
	u8 code[9];
	size_t at = 0;
	u32 pushed;

	if (plt_index > INT32_MAX || !seg || !seg->x || seg->w ||
	    proc_read(w->pid, value, code, sizeof(code)))
		return false;
	if (!memcmp(code, endbr64, sizeof(endbr64)))
		at = sizeof(endbr64);
	memcpy(&pushed, code + at + 1, sizeof(pushed));
	return code[at] == 0x68 && pushed == plt_index;
}

static struct got_slot *append(struct got_slots *slots)
{
	/* grow when the count reaches a power of two */
	if (!(slots->n & (slots->n - 1)) && (slots->n >= 64 || !slots->n)) {
		size_t want = slots->n ? slots->n * 2 : 64;
		struct got_slot *v = reallocarray(slots->v, want, sizeof(*v));

		if (!v)
			return NULL;
		slots->v = v;
	}
	return &slots->v[slots->n];
}

static bool is_listed(const struct walk *w, u64 addr)
{
	for (size_t i = w->first; i < w->slots->n; i++)
		if (w->slots->v[i].addr == addr)
			return true;
	return false;
}

/* What is not plainly a word of this object's data is left alone. */
static int add_slot(struct walk *w, u64 addr, enum alloc_func f, enum got_kind kind, u64 plt_index)
{
	const struct got_elf *o = w->o;
	const struct got_seg *seg = got_elf_seg(o, addr, sizeof(u64));
	const struct proc_map *m = proc_maps_find(w->maps, addr);
	struct got_slot *s;
	u64 value;

	if (!seg || !seg->w || seg->x || addr % sizeof(u64) || !m || !object_same(m, o->map) ||
	    !m->r || m->x || m->shared || is_listed(w, addr) ||
	    proc_read(w->pid, addr, &value, sizeof(value)))
		return 0;
	if (w->slots->n >= SLOTS_MAX || w->slots->n - w->first >= OBJ_SLOTS_MAX)
		return -E2BIG;
	s = append(w->slots);
	if (!s)
		return -ENOMEM;
	*s = (struct got_slot){
		.addr = addr,
		.value = value,
		.stub = kind == GOT_JUMP_SLOT && is_stub(w, value, plt_index) ? value : 0,
		.func = f,
		.kind = kind,
		.object = w->object,
		.writable = m->w,
		.relro = addr >= o->relro_start && addr < o->relro_end,
		.seg_start = seg->start,
		.seg_end = seg->end,
		.inode = m->inode,
		.dev_major = m->dev_major,
		.dev_minor = m->dev_minor,
	};
	w->slots->n++;
	return 0;
}

static int take_reloc(struct walk *w, const Elf64_Rela *r, u64 plt_index)
{
	static const struct {
		u32 type;
		enum got_kind kind;
		bool has_addend;
	} types[] = {
		{R_X86_64_JUMP_SLOT, GOT_JUMP_SLOT, false},
		{R_X86_64_GLOB_DAT, GOT_GLOB_DAT, false},
		{R_X86_64_64, GOT_DATA, true},
	};
	u64 addr = w->o->bias + r->r_offset;
	u32 type = ELF64_R_TYPE(r->r_info);
	int f;

	/* only the object that has the allocator in it can refer to it by a mere distance */
	if (type == R_X86_64_RELATIVE && w->holds) {
		f = func_by_address(w->slots, w->o->bias + (u64)r->r_addend);
		return f < 0 ? 0 : add_slot(w, addr, f, GOT_DATA, NOT_PLT);
	}
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		if (type != types[i].type || (types[i].has_addend && r->r_addend))
			continue;
		f = symbol_func(w, ELF64_R_SYM(r->r_info));
		if (f == -ENOMEM)
			return f;
		return f < 0 ? 0 : add_slot(w, addr, f, types[i].kind, plt_index);
	}
	return 0;
}

static int walk_table(struct walk *w, u64 at, u64 len, bool plt)
{
	u64 n = len / sizeof(*w->rela);

	if (n > *w->budget)
		return -E2BIG;
	*w->budget -= n;
	for (u64 done = 0; done < n;) {
		u64 now = n - done < CHUNK ? n - done : CHUNK;
		int err = proc_read(w->pid, at + done * sizeof(*w->rela), w->rela,
				    now * sizeof(*w->rela));

		for (u64 i = 0; !err && i < now; i++)
			err = take_reloc(w, &w->rela[i], plt ? done + i : NOT_PLT);
		if (err)
			return err;
		done += now;
	}
	return 0;
}

int got_reloc_scan(pid_t pid, const struct proc_maps *maps, const struct got_elf *o, u32 object,
		   u64 *budget, struct got_slots *slots)
{
	AUTO_FREE struct walk *w = calloc(1, sizeof(*w));
	int err;

	if (!w)
		return -ENOMEM;
	w->pid = pid;
	w->maps = maps;
	w->o = o;
	w->slots = slots;
	w->first = slots->n;
	w->object = object;
	for (int f = 0; f < AF_NR; f++)
		w->holds |= slots->real[f] && got_elf_has(o, slots->real[f], 1);
	w->budget = budget;
	err = walk_table(w, o->jmprel, o->jmprel_len, true);
	if (!err)
		err = walk_table(w, o->rela, o->rela_len, false);
	free(w->known);
	return err;
}
