// SPDX-License-Identifier: BSD-2-Clause
#include "plan.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "elf.h"
#include "log.h"

enum { OBJ_HEAP, OBJ_MM, OBJ_PYTHON };

static const enum pht_func func_of[] = {
	[AS_MALLOC] = PHT_FN_MALLOC,	[AS_CALLOC] = PHT_FN_CALLOC,
	[AS_REALLOC] = PHT_FN_REALLOC,	[AS_REALLOCARRAY] = PHT_FN_REALLOCARRAY,
	[AS_FREE] = PHT_FN_FREE,	[AS_POSIX_MEMALIGN] = PHT_FN_POSIX_MEMALIGN,
	[AS_MEMALIGN] = PHT_FN_ALIGNED, [AS_PVALLOC] = PHT_FN_PVALLOC,
	[AS_MMAP] = PHT_FN_MMAP,	[AS_MUNMAP] = PHT_FN_MUNMAP,
	[AS_MREMAP] = PHT_FN_MREMAP,
};

static void add(struct plan *plan, int object, u64 offset, enum pht_func func, bool always)
{
	struct plan_probe *p = &plan->probes[plan->nprobes];

	if (plan->nprobes == PLAN_MAX_PROBES)
		return;
	p->object = object;
	p->offset = offset;
	p->func = func;
	p->cookie = PHT_COOKIE(func, plan->nprobes, always);
	p->with_return = func != PHT_FN_FREE && func != PHT_FN_MUNMAP && func != PHT_FN_PY_FREE;
	plan->nprobes++;
	if (always)
		plan->proc.always_return |= 1u << func;
}

static void add_family(struct plan *plan, int object, const struct alloc_family *family)
{
	for (enum alloc_func f = 0; f < AF_NR; f++) {
		const struct alloc_target *t = &family->f[f];

		if (t->present)
			add(plan, object, t->offset, func_of[alloc_func_shape(f)],
			    t->always_return);
	}
}

static int plan_libc(const struct pyinfo *info, const struct proc_maps *maps, struct plan *plan)
{
	struct alloc_family heap = {0}, mm = {0};
	int err = allocfind(info->pid, maps, &heap, &mm);

	if (err)
		return log_err_r(err, "no malloc found in process %d: %s", info->pid,
				 strerror(-err));
	plan->fds[OBJ_HEAP] = proc_open_map(info->pid, &heap.map);
	plan->fds[OBJ_MM] = mm.path ? proc_open_map(info->pid, &mm.map) : -1;
	if (plan->fds[OBJ_HEAP] < 0) {
		err = plan->fds[OBJ_HEAP];
		log_error("cannot open %s of process %d: %s", heap.path, info->pid, strerror(-err));
		goto out;
	}
	log_info("malloc is served by %s (%s)", heap.name, heap.path);
	plan->proc.heap_start = heap.code_start;
	plan->proc.heap_end = heap.code_end;
	plan->proc.libc_start = mm.code_start;
	plan->proc.libc_end = mm.code_end;
	add_family(plan, OBJ_HEAP, &heap);
	add_family(plan, OBJ_MM, &mm);
out:
	alloc_family_free(&heap);
	alloc_family_free(&mm);
	return err;
}

/* A probe on a function of the interpreter, given by its run-time address. */
static int add_python(struct plan *plan, const struct pyinfo *info, struct elf_file *elf, u64 addr,
		      enum pht_func func)
{
	struct elf_sym sym;
	struct prologue_query q = {.nargs = 3, .needs_return = func != PHT_FN_PY_FREE};
	u64 vaddr = addr - info->object_bias, offset;
	u8 code[256];

	if (!addr || elf_vaddr_to_offset(elf, vaddr, &offset))
		return -ENOENT;
	q.code = code;
	q.vaddr = vaddr;
	q.len = sizeof(code);
	while (q.len && elf_read(elf, vaddr, code, q.len))
		q.len /= 2;
	if (!elf_sym_at(elf, vaddr, &sym) && sym.value == vaddr)
		q.size = sym.size;
	if (q.size && q.size < q.len)
		q.len = q.size;
	offset += insn_probe_site(&q).offset;
	for (size_t i = 0; i < plan->nprobes; i++)
		if (plan->probes[i].object == OBJ_PYTHON && plan->probes[i].offset == offset)
			return 0; /* mem and obj share their functions */
	/*
	 * A grant that is not sampled still ends what was there before.  Python's
	 * realloc calls its malloc for the new block: count one of the two.
	 */
	add(plan, OBJ_PYTHON, offset, func, func == PHT_FN_PY_POOL || func == PHT_FN_PY_REALLOC);
	return 0;
}

static int add_table(struct plan *plan, const struct pyinfo *info, struct elf_file *elf,
		     const struct py_allocator *table)
{
	return add_python(plan, info, elf, table->malloc_fn, PHT_FN_PY_MALLOC) ?:
	       add_python(plan, info, elf, table->calloc_fn, PHT_FN_PY_CALLOC) ?:
	       add_python(plan, info, elf, table->realloc_fn, PHT_FN_PY_REALLOC) ?:
	       add_python(plan, info, elf, table->free_fn, PHT_FN_PY_FREE);
}

/* The functions that CPython's own tables point to see what goes through the tables. */
static int plan_tables(struct plan *plan, const struct pyinfo *info, struct elf_file *elf,
		       u64 small_max, const char *what)
{
	const struct plan before = *plan;
	int err;

	plan->proc.small_max = small_max;
	if (info->raw.malloc_fn == info->obj.malloc_fn && info->raw.ctx != info->obj.ctx)
		plan->proc.raw_ctx = info->raw.ctx;
	err = add_table(plan, info, elf, &info->mem) ?: add_table(plan, info, elf, &info->obj);
	if (err) {
		/* All or none: beside pool grants they would count twice. */
		*plan = before;
		return err;
	}
	plan->complete = true;
	snprintf(plan->coverage, sizeof(plan->coverage),
		 "every libc allocation and mapping, and every small Python block (%s)", what);
	return 0;
}

/* What is under somebody's wrappers; mimalloc passes nothing on to libc, whatever its size. */
static int plan_wrapped(struct plan *plan, const struct pyinfo *info, struct elf_file *elf,
			u64 small_max, const char *wrapper)
{
	char what[64];

	snprintf(what, sizeof(what), "%s under %s", info->free_threaded ? "mimalloc" : "pymalloc",
		 wrapper);
	return plan_tables(plan, info, elf, info->free_threaded ? ~0ull : small_max, what);
}

static void plan_pools(struct plan *plan, const struct pyinfo *info, struct elf_file *elf)
{
	const char *rest = "libc allocations and mappings (Python blocks over 512 bytes included) "
			   "one by one; ";

	if (info->free_threaded) {
		snprintf(plan->coverage, sizeof(plan->coverage),
			 "libc allocations and mappings one by one; Python's own blocks not at "
			 "all, this interpreter inlines its allocator");
		return;
	}
	if (!add_python(plan, info, elf, info->new_pool_fn, PHT_FN_PY_POOL)) {
		snprintf(plan->coverage, sizeof(plan->coverage),
			 "%ssmall Python blocks only as whole %u KiB pools, this "
			 "interpreter inlines its allocator",
			 rest, info->pool_size / 1024);
		return;
	}
	snprintf(plan->coverage, sizeof(plan->coverage), "%ssmall Python blocks not at all", rest);
}

static int plan_python(const struct pyinfo *info, struct plan *plan, struct elf_file *elf)
{
	switch (info->alloc_mode) {
	case PY_ALLOC_MALLOC:
	case PY_ALLOC_MALLOC_DEBUG:
		plan->complete = true;
		snprintf(plan->coverage, sizeof(plan->coverage),
			 "every libc allocation and mapping; Python takes all its "
			 "memory there (%s)",
			 py_alloc_mode_name(info->alloc_mode));
		return 0;
	case PY_ALLOC_PYMALLOC:
		if (!info->inlined && !plan_tables(plan, info, elf, 512, "pymalloc"))
			return 0;
		break;
	case PY_ALLOC_DEBUG:
		if (!plan_wrapped(plan, info, elf, 488, "debug hooks"))
			return 0;
		break;
	case PY_ALLOC_TRACEMALLOC:
		if (!plan_wrapped(plan, info, elf, 512, "tracemalloc"))
			return 0;
		break;
	case PY_ALLOC_MIMALLOC:
		/* Compared with, and so inlined, is the default: mimalloc without a GIL only. */
		if (!(info->free_threaded && info->inlined) &&
		    !plan_tables(plan, info, elf, ~0ull, "mimalloc"))
			return 0;
		break;
	default:
		break;
	}
	plan_pools(plan, info, elf);
	return 0;
}

void plan_proc(const struct pyinfo *info, u64 interval, struct pht_proc *proc)
{
	*proc = (struct pht_proc){
		.runtime = info->runtime,
		.interval = interval,
		.tls_offset = info->tls_offset,
		.tls_kind = info->tls_kind,
		.tls_module = info->tls_module,
		.tss_key = info->tss_key,
		.anchor = (u32)info->pid,
		.flags = PHT_PROC_ENABLED | (info->musl ? PHT_PROC_MUSL : 0),
		.pool_size = info->pool_size,
		.arena_size = info->arena_size,
		.small_max = 512,
		.python_start = info->object_start,
		.python_end = info->object_end,
		.off = info->off,
	};
}

int plan_make(const struct pyinfo *info, u64 interval, struct plan *out)
{
	struct plan plan = {.fds = {-1, -1, -1}};
	struct proc_maps maps = {0};
	struct elf_file *elf = NULL;
	const struct proc_map *map;
	int err, fd;

	plan_proc(info, interval, &plan.proc);
	err = proc_maps_read(info->pid, &maps);
	if (err)
		return log_err_r(err, "process %d: %s", info->pid, strerror(-err));
	err = plan_libc(info, &maps, &plan);
	if (err)
		goto out;
	map = proc_maps_find(&maps, info->runtime);
	for (size_t i = 0; i < maps.n && info->object_path; i++)
		if (!strcmp(maps.v[i].path, info->object_path)) {
			map = &maps.v[i];
			break;
		}
	fd = map ? proc_open_map(info->pid, map) : -ENOENT;
	if (fd < 0) {
		err = log_err_r(fd, "cannot open the interpreter of process %d: %s", info->pid,
				strerror(-fd));
		goto out;
	}
	plan.fds[OBJ_PYTHON] = fd;
	err = elf_open_fd(dup(fd), &elf);
	if (!err)
		err = plan_python(info, &plan, elf);
	else
		log_error("cannot read %s: %s", info->object_path, strerror(-err));
out:
	elf_close(elf);
	proc_maps_free(&maps);
	if (err)
		plan_free(&plan);
	else
		*out = plan;
	return err;
}

struct plan *plan_copy(const struct plan *plan)
{
	struct plan *copy = malloc(sizeof(*copy));
	bool failed = false;

	if (!copy)
		return NULL;
	*copy = *plan;
	for (size_t i = 0; i < ARRAY_SIZE(copy->fds); i++) {
		copy->fds[i] = plan->fds[i] < 0 ? -1 : fcntl(plan->fds[i], F_DUPFD_CLOEXEC, 3);
		failed |= plan->fds[i] >= 0 && copy->fds[i] < 0;
	}
	if (!failed)
		return copy;
	plan_free(copy);
	free(copy);
	return NULL;
}

void plan_free(struct plan *plan)
{
	for (size_t i = 0; i < ARRAY_SIZE(plan->fds); i++)
		if (plan->fds[i] >= 0)
			close(plan->fds[i]);
	*plan = (struct plan){.fds = {-1, -1, -1}};
}
