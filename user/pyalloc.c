// SPDX-License-Identifier: BSD-2-Clause
#include "pyalloc.h"

#include <errno.h>
#include <string.h>

#include "pyalloc_find.h"

/* Wrappers around wrappers: tracemalloc over debug hooks is the deepest CPython builds. */
#define MAX_LAYERS 4

static const char *const mode_names[] = {
	[PY_ALLOC_UNKNOWN] = "unknown",
	[PY_ALLOC_PYMALLOC] = "pymalloc",
	[PY_ALLOC_MALLOC] = "malloc",
	[PY_ALLOC_DEBUG] = "debug",
	[PY_ALLOC_MALLOC_DEBUG] = "malloc_debug",
	[PY_ALLOC_TRACEMALLOC] = "tracemalloc",
	[PY_ALLOC_MIMALLOC] = "mimalloc",
	[PY_ALLOC_HOOKED] = "hooked",
};

const char *py_alloc_mode_name(enum py_alloc_mode mode)
{
	return (size_t)mode < ARRAY_SIZE(mode_names) ? mode_names[mode] : "unknown";
}

/* A domain's allocator with CPython's own wrappers taken off. */
struct layers {
	struct py_allocator base;
	bool debug, traced;
};

/*
 * Debug hooks point to {char domain; table}, tracemalloc's to a table: the
 * allocators they call.  True if one layer was taken off.
 */
static bool peel(const struct pyalloc_view *v, struct layers *l)
{
	u64 ctx = l->base.ctx;
	struct py_allocator inner;
	char domain;

	if (!ctx || !pyalloc_is_own_code(v, l->base.malloc_fn))
		return false;
	if (!proc_read(v->info->pid, ctx, &domain, 1) && domain && strchr("rmo", domain) &&
	    pyalloc_read_table(v, ctx + 8, &inner)) {
		l->debug = true;
	} else if (pyalloc_read_table(v, ctx, &inner)) {
		l->traced = true;
	} else {
		return false;
	}
	l->base = inner;
	return true;
}

static struct layers peel_all(const struct pyalloc_view *v, const struct py_allocator *table)
{
	struct layers l = {.base = *table};

	for (int i = 0; i < MAX_LAYERS && peel(v, &l); i++)
		;
	return l;
}

/* What stands under all wrappers. */
static enum py_alloc_mode base_mode(const struct pyalloc_view *v, const struct layers *l,
				    const struct layers *raw)
{
	if (l->base.ctx || !pyalloc_is_own_code(v, l->base.malloc_fn))
		return PY_ALLOC_HOOKED;
	if (v->info->free_threaded)
		return PY_ALLOC_MIMALLOC;
	if (raw->base.addr && l->base.malloc_fn == raw->base.malloc_fn)
		return PY_ALLOC_MALLOC;
	switch (pyalloc_border(v, l->base.malloc_fn)) {
	case BORDER_PYMALLOC:
		return PY_ALLOC_PYMALLOC;
	case BORDER_MIMALLOC:
		return PY_ALLOC_MIMALLOC;
	default:
		return PY_ALLOC_HOOKED;
	}
}

static enum py_alloc_mode table_mode(const struct pyalloc_view *v, const struct py_allocator *t,
				     const struct layers *raw)
{
	struct layers l = peel_all(v, t);
	enum py_alloc_mode mode = base_mode(v, &l, raw);

	if (mode == PY_ALLOC_HOOKED)
		return mode;
	if (l.traced)
		return PY_ALLOC_TRACEMALLOC;
	if (l.debug)
		return mode == PY_ALLOC_MALLOC ? PY_ALLOC_MALLOC_DEBUG : PY_ALLOC_DEBUG;
	return mode;
}

static enum py_alloc_mode find_mode(const struct pyalloc_view *v, const struct py_allocator t[3])
{
	struct layers raw = {0};
	enum py_alloc_mode mem, obj;

	if (!t[1].addr || !t[2].addr)
		return PY_ALLOC_UNKNOWN;
	if (t[0].addr)
		raw = peel_all(v, &t[0]);
	mem = table_mode(v, &t[1], &raw);
	obj = table_mode(v, &t[2], &raw);
	return mem == obj ? obj : PY_ALLOC_HOOKED;
}

static void store_tables(struct pyinfo *info, const struct py_allocator t[3],
			 enum py_alloc_mode mode)
{
	info->raw = t[0];
	info->mem = t[1];
	info->obj = t[2];
	info->alloc_mode = mode;
}

int pyalloc_examine(struct pyinfo *info, struct elf_file *elf, const struct proc_maps *maps)
{
	const struct pyalloc_view v = {.info = info, .elf = elf, .maps = maps};
	struct py_allocator tables[3];
	struct layers obj;
	u64 ticks, compared, pymalloc_fn;
	int err;

	pyalloc_find_tables(&v, tables);
	obj = peel_all(&v, &tables[2]);
	compared = pyalloc_find_compared(&v);
	pymalloc_fn = compared;
	if (!compared && pyalloc_border(&v, obj.base.malloc_fn) == BORDER_PYMALLOC)
		pymalloc_fn = obj.base.malloc_fn;
	/* nothing of the above is worth anything if the process has left meanwhile */
	err = proc_start_time(info->pid, &ticks);
	if (err)
		return err;
	store_tables(info, tables, find_mode(&v, tables));
	info->inlined = compared != 0;
	info->arena_alloc_fn = pyalloc_find_arena(&v);
	/* pymalloc is in free-threaded builds too, but nobody calls it */
	if (info->free_threaded)
		return 0;
	info->new_pool_fn = pyalloc_new_pool_by_name(&v);
	if (!info->new_pool_fn)
		info->new_pool_fn = pyalloc_new_pool_by_call(&v, pymalloc_fn);
	return 0;
}

/* The mapping that the object's file can be opened through. */
static const struct proc_map *object_map(const struct pyinfo *info, const struct proc_maps *maps)
{
	const struct proc_map *map = proc_maps_find(maps, info->object_start);

	return map && map->inode ? map : NULL;
}

static int reclassify(struct pyinfo *info, struct py_allocator t[3])
{
	struct pyalloc_view v = {.info = info};
	struct proc_maps maps;
	const struct proc_map *map;
	struct elf_file *elf;
	enum py_alloc_mode mode;
	int err = proc_maps_read(info->pid, &maps);

	if (err)
		return err;
	map = object_map(info, &maps);
	err = map ? proc_open_map(info->pid, map) : -ENOENT;
	if (err >= 0)
		err = elf_open_fd(err, &elf);
	if (!err) {
		v.elf = elf;
		v.maps = &maps;
		mode = find_mode(&v, t);
		elf_close(elf);
		store_tables(info, t, mode);
	}
	proc_maps_free(&maps);
	return err;
}

int pyinfo_reread_allocators(struct pyinfo *info)
{
	const struct py_allocator *const old[3] = {&info->raw, &info->mem, &info->obj};
	struct py_allocator t[3] = {info->raw, info->mem, info->obj};
	bool changed = false;

	for (size_t d = 0; d < 3; d++) {
		u64 w[5];
		int err;

		if (!t[d].addr)
			continue;
		err = proc_read(info->pid, t[d].addr, w, sizeof(w));
		if (err)
			return err;
		t[d] = (struct py_allocator){
			.addr = t[d].addr,
			.ctx = w[0],
			.malloc_fn = w[1],
			.calloc_fn = w[2],
			.realloc_fn = w[3],
			.free_fn = w[4],
		};
		changed |= memcmp(&t[d], old[d], sizeof(t[d])) != 0;
	}
	return changed ? reclassify(info, t) : 0;
}
