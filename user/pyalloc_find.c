// SPDX-License-Identifier: BSD-2-Clause
#include "pyalloc_find.h"

#include <string.h>

/* Code of an exported function that is looked at; the hot part comes first. */
#define FN_BYTES     1024
#define FN_REFS	     64
#define TABLE_STRIDE 40

static const char *const domain_fns[3][4] = {
	{"PyMem_RawMalloc", "PyMem_RawCalloc", "PyMem_RawRealloc", "PyMem_RawFree"},
	{"PyMem_Malloc", "PyMem_Calloc", "PyMem_Realloc", "PyMem_Free"},
	{"PyObject_Malloc", "PyObject_Calloc", "PyObject_Realloc", "PyObject_Free"},
};

struct fn_refs {
	struct insn_ref v[FN_REFS];
	size_t n;
};

bool pyalloc_is_code(const struct pyalloc_view *v, u64 addr)
{
	const struct proc_map *map = addr ? proc_maps_find(v->maps, addr) : NULL;

	return map && map->x;
}

bool pyalloc_is_own_code(const struct pyalloc_view *v, u64 addr)
{
	return addr >= v->info->object_start && addr < v->info->object_end &&
	       pyalloc_is_code(v, addr);
}

bool pyalloc_read_table(const struct pyalloc_view *v, u64 addr, struct py_allocator *out)
{
	u64 w[5];

	if (!addr || proc_read(v->info->pid, addr, w, sizeof(w)))
		return false;
	for (size_t i = 1; i < ARRAY_SIZE(w); i++)
		if (!pyalloc_is_code(v, w[i]))
			return false;
	*out = (struct py_allocator){
		.addr = addr,
		.ctx = w[0],
		.malloc_fn = w[1],
		.calloc_fn = w[2],
		.realloc_fn = w[3],
		.free_fn = w[4],
	};
	return true;
}

static bool peek(void *ctx, u64 addr, u64 *value)
{
	const struct pyalloc_view *v = ctx;

	return !proc_read(v->info->pid, addr, value, sizeof(*value));
}

/* Code comes from the file: breakpoints of other tracers are not in it. */
static size_t fetch(void *ctx, u64 addr, u8 *buf, size_t len)
{
	const struct pyalloc_view *v = ctx;

	for (; len >= 16; len /= 2)
		if (!elf_read(v->elf, addr - v->info->object_bias, buf, len))
			return len;
	return 0;
}

int pyalloc_facts(const struct pyalloc_view *v, u64 addr, struct insn_facts *out)
{
	return insn_facts(addr, fetch, (void *)v, out);
}

static void read_refs(const struct pyalloc_view *v, const char *fn, struct fn_refs *out)
{
	struct elf_sym sym;
	u8 code[FN_BYTES];
	size_t len;
	u64 addr;

	out->n = 0;
	if (elf_find_sym(v->elf, fn, &sym) || !sym.is_func)
		return;
	addr = sym.value + v->info->object_bias;
	len = sym.size && sym.size < sizeof(code) ? sym.size : sizeof(code);
	len = fetch((void *)v, addr, code, len);
	out->n = insn_refs(code, len, addr, peek, (void *)v, out->v, FN_REFS);
}

/* Position of the first load of 8 bytes at addr, or refs->n. */
static size_t first_load(const struct fn_refs *refs, u64 addr)
{
	size_t i;

	for (i = 0; i < refs->n; i++)
		if (refs->v[i].kind == INSN_REF_LOAD && refs->v[i].value == addr &&
		    refs->v[i].size == 8)
			break;
	return i;
}

/*
 * How many of the four functions load their own entry of a table at addr;
 * *order is smaller the earlier they do (inlined code of the raw domain
 * comes behind a function's own table).
 */
static int score_table(const struct fn_refs refs[4], u64 addr, size_t *order)
{
	int score = 0;

	*order = 0;
	for (size_t i = 0; i < 4; i++) {
		size_t at = first_load(&refs[i], addr + 8 * (i + 1));

		score += at < refs[i].n;
		*order += at;
	}
	return score;
}

static bool is_taken(const struct py_allocator *tables, size_t n, u64 addr)
{
	for (size_t i = 0; i < n; i++)
		if (tables[i].addr == addr)
			return true;
	return false;
}

/* Decode the exported functions of domain d; a table is what at least two agree on. */
static void decode_table(const struct pyalloc_view *v, size_t d, struct py_allocator out[3])
{
	struct fn_refs refs[4];
	int best = 1;
	size_t best_order = 0;

	for (size_t i = 0; i < 4; i++)
		read_refs(v, domain_fns[d][i], &refs[i]);
	for (size_t f = 0; f < 4; f++) {
		for (size_t i = 0; i < refs[f].n; i++) {
			u64 addr = refs[f].v[i].value - 8 * (f + 1);
			struct py_allocator table;
			size_t order;
			int score;

			if (refs[f].v[i].kind != INSN_REF_LOAD || refs[f].v[i].size != 8 ||
			    is_taken(out, d, addr))
				continue;
			score = score_table(refs, addr, &order);
			if (score < best || (score == best && (best == 1 || order >= best_order)))
				continue;
			if (!pyalloc_read_table(v, addr, &table))
				continue;
			out[d] = table;
			best = score;
			best_order = order;
		}
	}
}

void pyalloc_find_tables(const struct pyalloc_view *v, struct py_allocator out[3])
{
	const struct pyinfo *info = v->info;

	memset(out, 0, 3 * sizeof(*out));
	for (size_t d = 0; d < 3; d++) {
		u64 addr = info->runtime + info->off.rt_alloc_raw + d * TABLE_STRIDE;

		if (info->off.rt_alloc_raw == PHT_ABSENT || !pyalloc_read_table(v, addr, &out[d]))
			decode_table(v, d, out);
	}
}

/* {ctx, alloc, free}: alloc, if both are code. */
static u64 read_arena(const struct pyalloc_view *v, u64 addr)
{
	u64 w[3];

	if (proc_read(v->info->pid, addr, w, sizeof(w)) || !pyalloc_is_code(v, w[1]) ||
	    !pyalloc_is_code(v, w[2]))
		return 0;
	return w[1];
}

u64 pyalloc_find_arena(const struct pyalloc_view *v)
{
	const struct pyinfo *info = v->info;
	struct fn_refs refs;
	u64 fn = 0;

	if (info->off.rt_alloc_arena != PHT_ABSENT)
		fn = read_arena(v, info->runtime + info->off.rt_alloc_arena);
	if (fn)
		return fn;
	/* it copies the struct: the lowest address that it loads from is the struct's */
	read_refs(v, "PyObject_GetArenaAllocator", &refs);
	for (size_t i = 0; i < refs.n && !fn; i++)
		if (refs.v[i].kind == INSN_REF_LOAD)
			fn = read_arena(v, refs.v[i].value);
	return fn;
}

bool pyalloc_is_plt(const struct pyalloc_view *v, u64 addr)
{
	static const char *const sections[] = {".plt", ".plt.sec", ".plt.got"};
	u64 start, size;

	for (size_t i = 0; i < ARRAY_SIZE(sections); i++)
		if (!elf_section(v->elf, sections[i], &start, &size) &&
		    addr - v->info->object_bias - start < size)
			return true;
	return false;
}

static enum pyalloc_border own_border(const struct insn_facts *facts)
{
	if (facts->small_limit)
		return BORDER_PYMALLOC;
	return facts->mi_limit ? BORDER_MIMALLOC : BORDER_NONE;
}

/* The first border that one of the targets has. */
static enum pyalloc_border first_border(const struct pyalloc_view *v, const u64 *targets, size_t n)
{
	enum pyalloc_border border = BORDER_NONE;
	struct insn_facts facts;

	for (size_t i = 0; i < n && border == BORDER_NONE; i++)
		if (!pyalloc_is_plt(v, targets[i]) && pyalloc_is_own_code(v, targets[i]) &&
		    !pyalloc_facts(v, targets[i], &facts))
			border = own_border(&facts);
	return border;
}

enum pyalloc_border pyalloc_border(const struct pyalloc_view *v, u64 fn)
{
	enum pyalloc_border border;
	struct insn_facts facts;

	if (!pyalloc_is_own_code(v, fn) || pyalloc_facts(v, fn, &facts))
		return BORDER_NONE;
	/* 3.8's pymalloc decides in a function of its own; 3.13's mimalloc is behind a jump */
	border = own_border(&facts);
	if (border == BORDER_NONE)
		border = first_border(v, facts.jumps, facts.njumps);
	if (border == BORDER_NONE)
		border = first_border(v, facts.calls, facts.ncalls);
	return border;
}

u64 pyalloc_find_compared(const struct pyalloc_view *v)
{
	const enum pyalloc_border border =
		v->info->free_threaded ? BORDER_MIMALLOC : BORDER_PYMALLOC;
	struct fn_refs refs;

	read_refs(v, "PyObject_Malloc", &refs);
	for (size_t i = 0; i < refs.n; i++)
		if (refs.v[i].kind == INSN_REF_CMP && pyalloc_border(v, refs.v[i].value) == border)
			return refs.v[i].value;
	return 0;
}

u64 pyalloc_new_pool_by_name(const struct pyalloc_view *v)
{
	static const char *const names[] = {
		"allocate_from_new_pool",
		"allocate_from_new_pool.isra.0",
		"allocate_from_new_pool.constprop.0",
		"allocate_from_new_pool.lto_priv.0",
		"allocate_from_new_pool.isra.0.lto_priv.0",
	};
	struct elf_sym sym;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!elf_find_sym(v->elf, names[i], &sym) && sym.is_func)
			return sym.value + v->info->object_bias;
	return 0;
}

u64 pyalloc_new_pool_by_call(const struct pyalloc_view *v, u64 pymalloc_fn)
{
	struct insn_facts facts;
	struct elf_sym raw;
	u64 raw_fn = 0, found = 0;

	if (!pymalloc_fn || pyalloc_facts(v, pymalloc_fn, &facts))
		return 0;
	if (!elf_find_sym(v->elf, "PyMem_RawMalloc", &raw))
		raw_fn = raw.value + v->info->object_bias;
	for (size_t i = 0; i < facts.ncalls; i++) {
		u64 fn = facts.calls[i];
		struct insn_facts callee;

		if (fn == raw_fn || pyalloc_is_plt(v, fn) || !pyalloc_is_own_code(v, fn))
			continue;
		/* that would be pymalloc itself, with the new pool inlined (3.8) */
		if (found || pyalloc_facts(v, fn, &callee) || callee.small_limit)
			return 0;
		found = fn;
	}
	return found;
}
