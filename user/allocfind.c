// SPDX-License-Identifier: BSD-2-Clause
#include "allocfind.h"

#include <errno.h>
#include <string.h>

#include "allocfind_elf.h"
#include "allocfind_objects.h"
#include "elf.h"
#include "insn_refs.h"
#include "log.h"

/* Code of a function that is read: glibc's realloc has 1.3 KiB. */
#define CODE_MAX     8192
#define CODE_UNKNOWN 64 /* when the file does not say how long it is */
#define TARGETS_MAX  128
/* How far calls are followed. */
#define SEARCH_DEPTH	 3
#define SEARCH_FUNCTIONS 32

struct func_row {
	const char *symbol;
	const char *name; /* for people */
	enum alloc_shape shape;
};

static const struct func_row funcs[AF_NR] = {
	[AF_MALLOC] = {"malloc", "malloc", AS_MALLOC},
	[AF_CALLOC] = {"calloc", "calloc", AS_CALLOC},
	[AF_REALLOC] = {"realloc", "realloc", AS_REALLOC},
	[AF_REALLOCARRAY] = {"reallocarray", "reallocarray", AS_REALLOCARRAY},
	[AF_FREE] = {"free", "free", AS_FREE},
	[AF_POSIX_MEMALIGN] = {"posix_memalign", "posix_memalign", AS_POSIX_MEMALIGN},
	[AF_ALIGNED_ALLOC] = {"aligned_alloc", "aligned_alloc", AS_MEMALIGN},
	[AF_MEMALIGN] = {"memalign", "memalign", AS_MEMALIGN},
	[AF_VALLOC] = {"valloc", "valloc", AS_MALLOC},
	[AF_PVALLOC] = {"pvalloc", "pvalloc", AS_PVALLOC},
	[AF_MMAP] = {"mmap", "mmap", AS_MMAP},
	[AF_MUNMAP] = {"munmap", "munmap", AS_MUNMAP},
	[AF_MREMAP] = {"mremap", "mremap", AS_MREMAP},
	[AF_NEW] = {"_Znwm", "operator new", AS_MALLOC},
	[AF_NEW_ARRAY] = {"_Znam", "operator new[]", AS_MALLOC},
	[AF_DELETE] = {"_ZdlPv", "operator delete", AS_FREE},
	[AF_DELETE_ARRAY] = {"_ZdaPv", "operator delete[]", AS_FREE},
	[AF_NEW_NOTHROW] = {"_ZnwmRKSt9nothrow_t", "operator new, nothrow", AS_MALLOC},
	[AF_NEW_ARRAY_NOTHROW] = {"_ZnamRKSt9nothrow_t", "operator new[], nothrow", AS_MALLOC},
	[AF_NEW_ALIGNED] = {"_ZnwmSt11align_val_t", "operator new, aligned", AS_MALLOC},
	[AF_NEW_ARRAY_ALIGNED] = {"_ZnamSt11align_val_t", "operator new[], aligned", AS_MALLOC},
	[AF_NEW_ALIGNED_NOTHROW] = {"_ZnwmSt11align_val_tRKSt9nothrow_t",
				    "operator new, aligned, nothrow", AS_MALLOC},
	[AF_NEW_ARRAY_ALIGNED_NOTHROW] = {"_ZnamSt11align_val_tRKSt9nothrow_t",
					  "operator new[], aligned, nothrow", AS_MALLOC},
	[AF_DELETE_NOTHROW] = {"_ZdlPvRKSt9nothrow_t", "operator delete, nothrow", AS_FREE},
	[AF_DELETE_ARRAY_NOTHROW] = {"_ZdaPvRKSt9nothrow_t", "operator delete[], nothrow", AS_FREE},
	[AF_DELETE_SIZED] = {"_ZdlPvm", "operator delete, sized", AS_FREE},
	[AF_DELETE_ARRAY_SIZED] = {"_ZdaPvm", "operator delete[], sized", AS_FREE},
	[AF_DELETE_ALIGNED] = {"_ZdlPvSt11align_val_t", "operator delete, aligned", AS_FREE},
	[AF_DELETE_ARRAY_ALIGNED] = {"_ZdaPvSt11align_val_t", "operator delete[], aligned",
				     AS_FREE},
	[AF_DELETE_SIZED_ALIGNED] = {"_ZdlPvmSt11align_val_t", "operator delete, sized, aligned",
				     AS_FREE},
	[AF_DELETE_ARRAY_SIZED_ALIGNED] = {"_ZdaPvmSt11align_val_t",
					   "operator delete[], sized, aligned", AS_FREE},
	[AF_FREE_SIZED] = {"free_sized", "free_sized", AS_FREE},
	[AF_FREE_ALIGNED_SIZED] = {"free_aligned_sized", "free_aligned_sized", AS_FREE},
	[AF_DELETE_ALIGNED_NOTHROW] = {"_ZdlPvSt11align_val_tRKSt9nothrow_t",
				       "operator delete, aligned, nothrow", AS_FREE},
	[AF_DELETE_ARRAY_ALIGNED_NOTHROW] = {"_ZdaPvSt11align_val_tRKSt9nothrow_t",
					     "operator delete[], aligned, nothrow", AS_FREE},
};

/* What a probe's program reads: integer arguments, and whether it wants the result. */
static const struct {
	u8 nargs;
	bool needs_return;
} shapes[] = {
	[AS_MALLOC] = {1, true},       [AS_CALLOC] = {2, true},	 [AS_REALLOC] = {2, true},
	[AS_REALLOCARRAY] = {3, true}, [AS_FREE] = {1, false},	 [AS_POSIX_MEMALIGN] = {3, true},
	[AS_MEMALIGN] = {2, true},     [AS_PVALLOC] = {1, true}, [AS_MMAP] = {6, true},
	[AS_MUNMAP] = {2, false},      [AS_MREMAP] = {5, true},
};

const char *alloc_func_name(enum alloc_func f)
{
	return (size_t)f < AF_NR ? funcs[f].name : "?";
}

enum alloc_shape alloc_func_shape(enum alloc_func f)
{
	return funcs[f].shape;
}

static bool is_mm(enum alloc_func f)
{
	return f == AF_MMAP || f == AF_MUNMAP || f == AF_MREMAP;
}

/* One object while it is looked through. */
struct object {
	const struct proc_map *map;
	struct elf_file *elf;
	struct dynsyms dyn;
	bool is_static; /* an executable without a linker: its symbols need not be dynamic */
};

static void object_close(struct object *o)
{
	elf_close(o->elf);
	dynsyms_free(&o->dyn);
}

static int object_open(pid_t pid, const struct proc_map *map, bool executable, struct object *out)
{
	struct object o = {.map = map};
	u64 vaddr, size;
	int err, fd = proc_open_map(pid, map);

	if (fd < 0)
		return fd;
	err = elf_open_fd(fd, &o.elf);
	if (err)
		return err;
	err = dynsyms_read(o.elf, &o.dyn);
	o.is_static = executable && elf_section(o.elf, ".interp", &vaddr, &size);
	if (err && !o.is_static) {
		elf_close(o.elf);
		return err;
	}
	*out = o;
	return 0;
}

static bool object_find(const struct object *o, const char *name, struct elf_sym *sym)
{
	if (!o->is_static && !dynsyms_defines(&o->dyn, name))
		return false;
	return !elf_find_sym(o->elf, name, sym) && sym->is_func && sym->value;
}

/* The first of these that an object has names the allocator. */
static const char *allocator_name(const struct object *o)
{
	static const struct {
		const char *symbol, *name;
	} marks[] = {
		{"mallctl", "jemalloc"},
		{"tc_malloc", "tcmalloc"},
		{"TCMallocInternalMalloc", "tcmalloc"},
		{"mi_malloc", "mimalloc"},
		{"gnu_get_libc_version", "glibc"},
		{"__libc_start_main", "musl"},
	};
	struct elf_sym sym;

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (object_find(o, marks[i].symbol, &sym))
			return marks[i].name;
	return "unknown";
}

static size_t read_code(const struct object *o, const struct alloc_target *t, u8 *buf)
{
	size_t len = t->size ? t->size : CODE_UNKNOWN;

	if (len > CODE_MAX)
		len = CODE_MAX;
	for (; len >= 4; len /= 2)
		if (!elf_read(o->elf, t->vaddr, buf, len))
			return len;
	return 0;
}

/* A search through the code of one object for ways from one member to another. */
struct search {
	const struct alloc_family *fam;
	struct object *o;
	int budget; /* functions that may still be read */
	bool follow_calls;
};

static bool in_family(const struct alloc_family *fam, u64 vaddr)
{
	for (size_t f = 0; f < AF_NR; f++)
		if (vaddr && fam->f[f].vaddr == vaddr)
			return true;
	return false;
}

/* Where a branch ends when it goes through the PLT back into the same object; 0 = elsewhere. */
static u64 resolve(struct object *o, u64 target)
{
	const char *name = dynsyms_plt_name(&o->dyn, o->elf, target);
	struct elf_sym sym;

	if (!name)
		return target;
	return object_find(o, name, &sym) ? sym.value : 0;
}

/* No further than the function goes, so that a jump to its neighbour is seen as one. */
static size_t fetch(void *ctx, u64 vaddr, u8 *buf, size_t len)
{
	const struct search *s = ctx;
	struct elf_sym sym;

	if (!elf_sym_at(s->o->elf, vaddr, &sym) && sym.size && sym.size < len + vaddr - sym.value)
		len = sym.size - (vaddr - sym.value);
	for (; len; len /= 2)
		if (!elf_read(s->o->elf, vaddr, buf, len))
			return len;
	return 0;
}

static bool leads_to_family(struct search *s, u64 vaddr, int depth);

static bool any_leads(struct search *s, const u64 *targets, size_t n, bool follow, int depth)
{
	for (size_t i = 0; i < n; i++) {
		u64 target = resolve(s->o, targets[i]);

		if (in_family(s->fam, target) ||
		    (target && follow && depth > 0 && leads_to_family(s, target, depth - 1)))
			return true;
	}
	return false;
}

/* Tail calls are the rest of the function and always followed. */
static bool leads_to_family(struct search *s, u64 vaddr, int depth)
{
	struct insn_facts facts;

	if (s->budget-- <= 0 || insn_facts(vaddr, fetch, s, &facts))
		return false;
	return any_leads(s, facts.calls, facts.ncalls, s->follow_calls, depth) ||
	       any_leads(s, facts.jumps, facts.njumps, true, depth);
}

/*
 * Does it go on to another member of the family?  In functions that are
 * seldom called (glibc's posix_memalign: a helper calls malloc) a wrong yes
 * costs nothing; in malloc and the like it would, so helpers are not looked at.
 */
static bool calls_family(const struct alloc_family *fam, struct object *o, enum alloc_func f,
			 const u8 *code, size_t len)
{
	enum alloc_shape shape = funcs[f].shape;
	bool hot = f != AF_VALLOC && (shape == AS_MALLOC || shape == AS_CALLOC);
	struct search s = {.fam = fam, .o = o, .budget = SEARCH_FUNCTIONS, .follow_calls = !hot};
	u64 targets[TARGETS_MAX];
	size_t n = insn_branch_targets(code, len, fam->f[f].vaddr, targets, TARGETS_MAX);

	return any_leads(&s, targets, n, false, 0) ||
	       leads_to_family(&s, fam->f[f].vaddr, SEARCH_DEPTH);
}

static bool place_probe(struct alloc_family *fam, struct object *o, enum alloc_func f)
{
	struct alloc_target *t = &fam->f[f];
	enum alloc_shape shape = funcs[f].shape;
	u8 code[CODE_MAX];
	size_t len = read_code(o, t, code);
	const struct prologue_query q = {
		.code = code,
		.len = len,
		.vaddr = t->vaddr,
		.size = t->size,
		.nargs = shapes[shape].nargs,
		.needs_return = shapes[shape].needs_return,
		.null_skip_ok = shape == AS_FREE,
	};

	if (!len)
		return false;
	t->site = insn_probe_site(&q);
	t->always_return = f == AF_REALLOC || (shapes[shape].needs_return && !is_mm(f) &&
					       calls_family(fam, o, f, code, len));
	return !elf_vaddr_to_offset(o->elf, t->vaddr + t->site.offset, &t->offset);
}

/* One address under several names gets one probe. */
static bool is_alias(const struct alloc_family *fam, enum alloc_func f)
{
	for (size_t i = 0; i < f; i++)
		if (fam->f[i].present && fam->f[i].vaddr == fam->f[f].vaddr)
			return true;
	return false;
}

static void find_functions(struct alloc_family *fam, struct object *o, bool mm)
{
	struct elf_sym sym;

	for (size_t f = 0; f < AF_NR; f++) {
		if (is_mm(f) != mm || !object_find(o, funcs[f].symbol, &sym))
			continue;
		fam->f[f].vaddr = sym.value;
		fam->f[f].size = sym.size;
	}
	for (size_t f = 0; f < AF_NR; f++)
		if (fam->f[f].vaddr && !is_alias(fam, f))
			fam->f[f].present = place_probe(fam, o, f);
}

static int fill_family(struct alloc_family *out, struct object *o, const struct proc_maps *maps,
		       bool mm)
{
	struct alloc_family fam = {.map = *o->map, .name = allocator_name(o)};
	int err = elf_load_bias(o->elf, o->map->start, o->map->offset, &fam.bias);

	if (err)
		return err;
	for (size_t i = 0; i < maps->n; i++) {
		const struct proc_map *m = &maps->v[i];

		if (!m->x || !object_same(m, o->map))
			continue;
		if (!fam.code_start)
			fam.code_start = m->start;
		fam.code_end = m->end;
	}
	fam.path = strdup(o->map->path);
	if (!fam.path)
		return -ENOMEM;
	fam.map.path = fam.path;
	find_functions(&fam, o, mm);
	*out = fam;
	return 0;
}

void alloc_family_free(struct alloc_family *family)
{
	free(family->path);
	*family = (struct alloc_family){0};
}

/* The first object that has the family's chief member serves it. */
static int try_object(struct alloc_family *fam, struct object *o, const struct proc_maps *maps,
		      bool mm)
{
	struct elf_sym sym;

	if (fam->path || !object_find(o, funcs[mm ? AF_MMAP : AF_MALLOC].symbol, &sym))
		return 0;
	return fill_family(fam, o, maps, mm);
}

int allocfind(pid_t pid, const struct proc_maps *maps, struct alloc_family *heap,
	      struct alloc_family *mm)
{
	struct alloc_family h = {0}, m = {0};
	struct object_list list;
	int err = object_list_read(pid, maps, &list);

	if (err)
		return err;
	for (size_t i = 0; !err && i < list.n && !(h.path && m.path); i++) {
		struct object o;

		/* what cannot be opened is no reason to give up: fonts and archives are mapped too
		 */
		if (object_open(pid, list.v[i], i == 0, &o)) {
			log_debug("skipping %s: not readable as ELF", list.v[i]->path);
			continue;
		}
		err = try_object(&h, &o, maps, false);
		if (!err)
			err = try_object(&m, &o, maps, true);
		object_close(&o);
	}
	object_list_free(&list);
	if (!err && !h.path)
		err = -ENOENT;
	if (err) {
		alloc_family_free(&h);
		alloc_family_free(&m);
		return err;
	}
	*heap = h;
	*mm = m;
	return 0;
}
