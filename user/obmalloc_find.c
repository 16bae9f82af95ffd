// SPDX-License-Identifier: BSD-2-Clause
#include "obmalloc_find.h"

#include <errno.h>
#include <string.h>

#define MAX_STATICS 128

int pyobject_file_open(const struct pyinfo *info, struct pyobject_file *out)
{
	struct pyobject_file f = {.info = info};
	const struct proc_map *map;
	int err = proc_maps_read(info->pid, &f.maps);

	if (err)
		return err;
	map = proc_maps_find(&f.maps, info->object_start);
	err = map && map->inode ? proc_open_map(info->pid, map) : -ENOENT;
	if (err >= 0)
		err = elf_open_fd(err, &f.elf);
	if (err) {
		proc_maps_free(&f.maps);
		return err == -ESRCH || err == -EPERM ? err : -ENOENT;
	}
	*out = f;
	return 0;
}

void pyobject_file_close(struct pyobject_file *f)
{
	elf_close(f->elf);
	proc_maps_free(&f->maps);
}

bool pyobject_file_is_code(const struct pyobject_file *f, u64 addr)
{
	const struct proc_map *map = proc_maps_find(&f->maps, addr);

	return map && map->x;
}

static bool is_variable(const struct pyobject_file *f, u64 addr)
{
	const struct proc_map *map = proc_maps_find(&f->maps, addr);

	return map && map->w && !map->x && addr % 4 == 0;
}

/* Code comes from the file: breakpoints of other tracers are not in it. */
static size_t fetch(void *ctx, u64 addr, u8 *buf, size_t len)
{
	const struct pyobject_file *f = ctx;

	for (; len >= 16; len /= 2)
		if (!elf_read(f->elf, addr - f->info->object_bias, buf, len))
			return len;
	return 0;
}

static size_t all_statics(const struct pyobject_file *f, const char *function,
			  struct insn_static out[MAX_STATICS])
{
	struct elf_sym sym;

	if (elf_find_sym(f->elf, function, &sym) || !sym.is_func)
		return 0;
	return insn_statics(sym.value + f->info->object_bias, fetch, (void *)f, out, MAX_STATICS);
}

size_t pyobject_file_statics(const struct pyobject_file *f, const char *function,
			     struct insn_static *out, size_t max)
{
	struct insn_static all[MAX_STATICS];
	size_t n = all_statics(f, function, all), kept = 0;

	for (size_t i = 0; i < n && kept < max; i++)
		if (is_variable(f, all[i].addr))
			out[kept++] = all[i];
	return kept;
}

bool pyobject_file_names(const struct pyobject_file *f, const char *function, u64 constant)
{
	struct insn_static all[MAX_STATICS];
	size_t n = all_statics(f, function, all);

	for (size_t i = 0; i < n; i++)
		if (all[i].addr == constant && !all[i].size)
			return true;
	return false;
}

u64 pyobject_file_symbol(const struct pyobject_file *f, const char *name, u64 *size)
{
	static const char *const suffixes[] = {"", ".lto_priv.0"};
	struct elf_sym sym;
	char full[96];

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		snprintf(full, sizeof(full), "%s%s", name, suffixes[i]);
		if (elf_find_sym(f->elf, full, &sym) || sym.is_func ||
		    !is_variable(f, sym.value + f->info->object_bias))
			continue;
		if (size)
			*size = sym.size;
		return sym.value + f->info->object_bias;
	}
	return 0;
}

static int read_u64(const struct reader *r, u64 addr, u64 *out)
{
	return reader_read(r, addr, out, sizeof(*out));
}

int interps_read(const struct pyinfo *info, const struct reader *r, struct interp *v, size_t max,
		 bool *more)
{
	u64 head, main_interp, at;
	size_t n = 0;
	int err = read_u64(r, info->runtime + info->off.rt_interp_head, &head);

	if (!err)
		err = read_u64(r, info->runtime + info->off.rt_interp_main, &main_interp);
	*more = false;
	if (err || !head || !main_interp || !max)
		return err;
	v[n++] = (struct interp){.addr = main_interp};
	at = head;
	/* a list that leads back into itself ends here as well */
	for (size_t steps = 0; !err && at; steps++) {
		if (n == max || steps > max) {
			*more = true;
			break;
		}
		if (at != main_interp)
			v[n++].addr = at;
		err = read_u64(r, at + info->off.in_next, &at);
	}
	for (size_t i = 0; !err && i < n; i++)
		err = reader_read(r, v[i].addr + info->off.in_id, &v[i].id, sizeof(v[i].id));
	return err ? err : (int)n;
}
