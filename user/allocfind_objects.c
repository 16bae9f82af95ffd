// SPDX-License-Identifier: BSD-2-Clause
#include "allocfind_objects.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#define MAX_PHDRS   64
#define MAX_DYNAMIC 512

bool object_same(const struct proc_map *a, const struct proc_map *b)
{
	return a->inode && a->inode == b->inode && a->dev_major == b->dev_major &&
	       a->dev_minor == b->dev_minor;
}

void object_list_free(struct object_list *list)
{
	free(list->v);
	*list = (struct object_list){0};
}

/* The mapping that the file's first bytes are in, at or below map. */
static const struct proc_map *lowest_mapping(const struct proc_maps *maps,
					     const struct proc_map *map)
{
	const struct proc_map *low = map;

	for (size_t i = (size_t)(map - maps->v); i-- > 0 && low->offset;)
		if (object_same(&maps->v[i], map) && maps->v[i].offset < low->offset)
			low = &maps->v[i];
	return low;
}

static void add_object(struct object_list *list, const struct proc_maps *maps,
		       const struct proc_map *map)
{
	if (!map || !map->inode || list->n == OBJECTS_MAX)
		return;
	for (size_t i = 0; i < list->n; i++)
		if (object_same(list->v[i], map))
			return;
	list->v[list->n++] = lowest_mapping(maps, map);
}

/* Where the kernel put the program headers of the executable. */
static int read_auxv(pid_t pid, u64 *phdr, u64 *phnum)
{
	AUTO_FCLOSE FILE *f = NULL;
	char path[64];
	u64 pair[2];

	snprintf(path, sizeof(path), "/proc/%d/auxv", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	*phdr = *phnum = 0;
	while (fread(pair, sizeof(pair), 1, f) == 1 && pair[0] != AT_NULL) {
		if (pair[0] == AT_PHDR)
			*phdr = pair[1];
		else if (pair[0] == AT_PHNUM)
			*phnum = pair[1];
	}
	return *phdr && *phnum ? 0 : -ENOENT;
}

/* Run-time address of the executable's dynamic section, and its entries. */
static int find_dynamic(pid_t pid, u64 *addr, u64 *count)
{
	Elf64_Phdr ph[MAX_PHDRS];
	u64 at, n, self = 0, dynamic = 0;
	int err = read_auxv(pid, &at, &n);

	if (err)
		return err;
	if (n > MAX_PHDRS)
		n = MAX_PHDRS;
	err = proc_read(pid, at, ph, n * sizeof(*ph));
	if (err)
		return err;
	*count = 0;
	for (u64 i = 0; i < n; i++) {
		if (ph[i].p_type == PT_PHDR) {
			self = ph[i].p_vaddr;
		} else if (ph[i].p_type == PT_DYNAMIC) {
			dynamic = ph[i].p_vaddr;
			*count = ph[i].p_memsz / sizeof(Elf64_Dyn);
		}
	}
	if (!self || !*count)
		return -ENOENT;
	*addr = dynamic + (at - self);
	return 0;
}

/* The debugger's view of the loaded objects: DT_DEBUG points to it once they are loaded. */
static int find_link_map(pid_t pid, u64 *first)
{
	u64 addr, count, map = 0;
	struct r_debug debug;
	Elf64_Dyn dyn;
	int err = find_dynamic(pid, &addr, &count);

	for (u64 i = 0; !err && i < count && i < MAX_DYNAMIC; i++) {
		err = proc_read(pid, addr + i * sizeof(dyn), &dyn, sizeof(dyn));
		if (err || dyn.d_tag == DT_NULL)
			break;
		if (dyn.d_tag != DT_DEBUG)
			continue;
		err = proc_read(pid, dyn.d_un.d_ptr, &debug, sizeof(debug));
		map = err ? 0 : (u64)(uintptr_t)debug.r_map;
		break;
	}
	if (err)
		return err;
	*first = map;
	return map ? 0 : -ENOENT;
}

static void add_link_map(pid_t pid, const struct proc_maps *maps, struct object_list *list)
{
	struct link_map lm;
	u64 at;

	if (find_link_map(pid, &at))
		return;
	/* the chain may be crafted into a ring: go no further than the list can take */
	for (int i = 0; at && i < OBJECTS_MAX; i++) {
		if (proc_read(pid, at, &lm, sizeof(lm)))
			return;
		add_object(list, maps, proc_maps_find(maps, (u64)(uintptr_t)lm.l_ld));
		at = (u64)(uintptr_t)lm.l_next;
	}
}

static bool is_linker(const struct proc_map *map)
{
	const char *slash = strrchr(map->path, '/');

	return !strncmp(slash ? slash + 1 : map->path, "ld-linux", 8);
}

/*
 * Without the linker's own list: the executable, then from high to low (that
 * is how mmap places what is loaded one after another), the linker last.
 */
static void add_by_address(const struct proc_maps *maps, struct object_list *list)
{
	for (int linker = 0; linker < 2; linker++)
		for (size_t i = maps->n; i-- > 0;)
			if (maps->v[i].x && maps->v[i].inode && is_linker(&maps->v[i]) == linker)
				add_object(list, maps, &maps->v[i]);
}

static const struct proc_map *executable_map(pid_t pid, const struct proc_maps *maps)
{
	u64 phdr, phnum;

	return read_auxv(pid, &phdr, &phnum) ? NULL : proc_maps_find(maps, phdr);
}

int object_list_read(pid_t pid, const struct proc_maps *maps, struct object_list *out)
{
	struct object_list list = {.v = calloc(OBJECTS_MAX, sizeof(*list.v))};

	if (!list.v)
		return -ENOMEM;
	add_object(&list, maps, executable_map(pid, maps));
	add_link_map(pid, maps, &list);
	if (list.n <= 1)
		add_by_address(maps, &list);
	*out = list;
	return 0;
}
