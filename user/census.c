// SPDX-License-Identifier: BSD-2-Clause
#include "census.h"

#include <errno.h>
#include <string.h>

#include "census_count.h"
#include "elf.h"
#include "freeze.h"
#include "log.h"
#include "progress.h"

#define DEADLINE_NS (120ull * 1000000000)
#define FREEZE_MS   1000
#define TYPE_LEAD   16	/* a heap type has a GC header */
#define TYPE_MIN    848 /* the smallest PyHeapTypeObject */

static const char *const data_keys[CENSUS_DATA_KINDS] = {
	[CENSUS_LIST_ITEMS] = "list_items",	  [CENSUS_DICT_KEYS] = "dict_keys",
	[CENSUS_DICT_VALUES] = "dict_values",	  [CENSUS_SET_TABLE] = "set_tables",
	[CENSUS_BYTEARRAY] = "bytearray_buffers", [CENSUS_STR_DATA] = "str_data",
	[CENSUS_DEQUE_BLOCKS] = "deque_blocks",
};

static const char *const data_names[CENSUS_DATA_KINDS] = {
	[CENSUS_LIST_ITEMS] = "items of lists",
	[CENSUS_DICT_KEYS] = "tables of dicts",
	[CENSUS_DICT_VALUES] = "attributes of instances",
	[CENSUS_SET_TABLE] = "tables of sets",
	[CENSUS_BYTEARRAY] = "buffers of bytearrays",
	[CENSUS_STR_DATA] = "text outside its str",
	[CENSUS_DEQUE_BLOCKS] = "blocks of deques",
};

const char *census_data_key(enum census_data kind)
{
	return data_keys[kind];
}

const char *census_data_name(enum census_data kind)
{
	return data_names[kind];
}

/* ---- heap types, before anything else is looked at */

static u64 word(const u8 *p)
{
	u64 v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* A GC header and a reference count: most large blocks are told apart by these. */
static bool may_be_type(const u8 *p)
{
	u64 refcnt = word(p + TYPE_LEAD);

	return word(p) < 1ull << 47 && word(p + 8) < 1ull << 47 && (u32)refcnt &&
	       !(refcnt >> 32 & 0xffff);
}

static int note_type(void *ctx, const struct census_block *b)
{
	const struct census_typer *t = ctx;
	u32 front = census_hooks(t, b)->front, offset = front + TYPE_LEAD;

	if (b->size < TYPE_MIN + offset || b->avail < offset + 16 || !may_be_type(b->bytes + front))
		return 0;
	return pytypes_add_heap(t->types, b->addr + offset, word(b->bytes + offset + 8));
}

static int find_heap_types(struct census_heap *h, struct census_typer *t)
{
	struct census_heap_stats ignored = {0};
	int err = 0;

	/* Elsewhere they are found as they are met. */
	if (!h->have_glibc)
		return 0;
	err = census_walk_malloc(h, note_type, t, &ignored);
	if (!err)
		pytypes_heap_done(t->types);
	return err;
}

/* ---- one census */

/* Debug hooks: the size and a mark in front, a mark behind. */
#define HOOKS_FRONT 16
#define HOOKS_EXTRA 24

static void set_hooks(struct census_typer *t, enum py_alloc_mode mode)
{
	const struct census_hooks once = {HOOKS_FRONT, HOOKS_EXTRA};

	if (mode == PY_ALLOC_MALLOC_DEBUG)
		t->large = once;
	if (mode != PY_ALLOC_DEBUG)
		return;
	t->small = once;
	/* pymalloc passes large requests on to the raw domain, which is hooked as well. */
	t->large = (struct census_hooks){2 * HOOKS_FRONT, 2 * HOOKS_EXTRA};
}

static int look(struct census_heap *h, struct census_typer *t, const struct census_opts *opts,
		struct census *c)
{
	struct census_counter *k = NULL;
	int err = find_heap_types(h, t);

	if (!err)
		err = census_counter_new(t, opts->top, c, &k);
	if (!err)
		err = census_walk_pools(h, census_count_block, k, &c->heap);
	if (!err)
		err = census_walk_malloc(h, census_count_block, k, &c->heap);
	if (!err)
		err = census_counter_finish(k);
	if (!err && opts->then)
		err = opts->then(opts->ctx, h, t, c);
	census_counter_free(k);
	return err;
}

int census_take_reader(const struct pyinfo *info, const struct reader *r, struct proc_maps *maps,
		       const struct pytypes_known *known, const struct census_opts *opts,
		       struct census *out)
{
	struct census c = {.pid = info->pid, .alloc_mode = py_alloc_mode_name(info->alloc_mode)};
	struct census_typer *t = calloc(1, sizeof(*t));
	struct census_heap h = {0};
	int err = t ? census_heap_open(info, r, maps, &h) : -ENOMEM;

	if (!err) {
		t->h = &h;
		t->l = pylayout_find(info->version);
		t->bytes_type = known->bytes_type;
		set_hooks(t, info->alloc_mode);
		c.malloc = h.have_glibc;
		c.pymalloc = h.ob && info->alloc_mode != PY_ALLOC_MALLOC &&
			     info->alloc_mode != PY_ALLOC_MALLOC_DEBUG;
		snprintf(c.python, sizeof(c.python), "%s", info->version_str);
		err = t->l ? pytypes_new(t->l, &h.r, known, census_place, &h, &t->types) : -ENOTSUP;
	}
	if (!err)
		err = look(&h, t, opts, &c);
	if (t)
		pytypes_free(t->types);
	free(t);
	census_heap_close(&h);
	proc_maps_free(maps);
	if (err) {
		census_free(&c);
		return err;
	}
	*out = c;
	return 0;
}

/* ---- of a process */

/* Exported by every build. */
int census_find_known(const struct pyinfo *info, const struct proc_maps *maps,
		      struct pytypes_known *known)
{
	const struct {
		const char *name;
		u64 *addr;
	} wanted[] = {
		{"PyType_Type", &known->type_type},
		{"PySet_Type", &known->set_type},
		{"PyFrozenSet_Type", &known->frozenset_type},
		{"PyByteArray_Type", &known->bytearray_type},
		{"PyBytes_Type", &known->bytes_type},
	};
	const struct proc_map *m = proc_maps_find(maps, info->object_start);
	struct elf_file *elf;
	int fd, err;

	if (!m)
		return -ENOENT;
	fd = proc_open_map(info->pid, m);
	if (fd < 0)
		return fd;
	err = elf_open_fd(fd, &elf);
	if (err)
		return err;
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		struct elf_sym sym;

		if (!elf_find_sym(elf, wanted[i].name, &sym))
			*wanted[i].addr = sym.value + info->object_bias;
	}
	elf_close(elf);
	return known->type_type ? 0 : -ENOENT;
}

static int take(const struct pyinfo *info, const struct census_opts *opts, struct census *out)
{
	struct pytypes_known known = {0};
	struct proc_maps maps = {0};
	struct freeze *f = NULL;
	pid_t pid = info->pid;
	struct reader r = reader_proc(&pid);
	u64 begin = reader_now(), frozen = 0;
	int err = proc_maps_read(pid, &maps);

	r.deadline = begin + DEADLINE_NS;
	if (!err)
		err = census_find_known(info, &maps, &known);
	if (!err && opts->freeze) {
		err = freeze_start(pid, FREEZE_MS, &f);
		/* Mappings as they are now that it stands still. */
		proc_maps_free(&maps);
		if (!err)
			err = proc_maps_read(pid, &maps);
	}
	if (!err)
		err = census_take_reader(info, &r, &maps, &known, opts, out);
	if (f)
		frozen = freeze_end(f);
	progress_end();
	proc_maps_free(&maps);
	if (err)
		return err;
	out->took_ns = reader_now() - begin;
	out->frozen_ns = frozen;
	proc_comm(pid, out->comm, sizeof(out->comm));
	proc_rss(pid, &out->rss);
	return 0;
}

static const char *reason(int err)
{
	switch (err) {
	case -ESRCH:
		return "it has exited";
	case -ETIMEDOUT:
		return "it took too long, or its threads did not stop";
	case -ENOTSUP:
		return "objects of this Python version are not known";
	default:
		return strerror(-err);
	}
}

int census_take(pid_t pid, const struct census_opts *opts, struct census *out)
{
	struct pyinfo info;
	int err = pyinfo_examine(pid, &info);

	if (err)
		return err;
	if (info.free_threaded)
		err = log_err_r(-ENOTSUP,
				"process %d runs a free-threaded Python: its objects are "
				"in mimalloc's heaps, which census does not read",
				(int)pid);
	else
		err = take(&info, opts, out);
	if (err && !info.free_threaded)
		log_error("cannot take a census of process %d: %s", (int)pid, reason(err));
	pyinfo_free(&info);
	return err;
}

static void free_top(struct census_top *top)
{
	for (size_t i = 0; top->v && i < top->n; i++) {
		free(top->v[i].module);
		free(top->v[i].name);
	}
	free(top->v);
}

void census_free(struct census *c)
{
	census_rows_free(c->row, c->nrow);
	census_rows_free(c->module, c->nmodule);
	free_top(&c->containers);
	free_top(&c->strings);
	*c = (struct census){0};
}
