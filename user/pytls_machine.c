// SPDX-License-Identifier: BSD-2-Clause
#include "pytls_machine.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "elf.h"

/* aarch64's BPF programs take whatever lies within a page for the thread's own. */
#define DESCRIPTOR_MIN 256
#define DESCRIPTOR_MAX 4095

static const struct {
	u16 machine;
	bool below; /* the descriptor ends at the thread pointer; else it begins there */
	u64 dtv;
} machines[] = {
	{EM_X86_64, false, 8},
	{EM_AARCH64, true, 0},
};

/* The one that debuggers read. */
static int read_size(pid_t pid, const struct proc_map *map, u64 *size)
{
	struct elf_file *elf;
	struct elf_sym sym;
	u32 value;
	int err, fd = proc_open_map(pid, map);

	if (fd < 0)
		return -ENOENT;
	if (elf_open_fd(fd, &elf))
		return -ENOENT;
	err = elf_find_sym(elf, "_thread_db_sizeof_pthread", &sym);
	if (!err)
		err = elf_read(elf, sym.value, &value, sizeof(value));
	elf_close(elf);
	if (err || value < DESCRIPTOR_MIN || value > DESCRIPTOR_MAX || value & 15)
		return -ENOENT;
	*size = value;
	return 0;
}

/* Since 2.34 in libc, before in libpthread. */
static bool may_tell(const struct proc_map *map)
{
	const char *name = strrchr(map->path, '/');

	return name && !map->offset &&
	       (!strncmp(name, "/libc.so", 8) || !strncmp(name, "/libc-", 6) ||
		!strncmp(name, "/libpthread", 11));
}

int pytls_descriptor_size(pid_t pid, u64 *size)
{
	struct proc_maps maps = {0};
	int err = proc_maps_read(pid, &maps) ? -ENOENT : 0;
	bool found = false;

	for (size_t i = 0; !err && i < maps.n && !found; i++)
		found = may_tell(&maps.v[i]) && !read_size(pid, &maps.v[i], size);
	proc_maps_free(&maps);
	return found ? 0 : -ENOENT;
}

int pytls_machine(pid_t pid, u16 machine, struct pytls_machine *out)
{
	for (size_t i = 0; i < ARRAY_SIZE(machines); i++) {
		u64 size = 0;

		if (machines[i].machine != machine)
			continue;
		if (machines[i].below && pytls_descriptor_size(pid, &size))
			return -ENOENT;
		*out = (struct pytls_machine){.tp = size, .dtv = machines[i].dtv};
		return 0;
	}
	return -ENOENT;
}
