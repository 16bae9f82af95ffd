// SPDX-License-Identifier: BSD-2-Clause
#include "pools.h"

#include <fcntl.h>

/* struct pool_header of Objects/obmalloc.c, the same in 3.7 to 3.15. */
struct pool_header {
	u32 count; /* blocks in use */
	u32 pad0;
	u64 freeblock, nextpool, prevpool;
	u32 arenaindex;
	u32 szidx; /* blocks are 16 * (szidx + 1) bytes */
};

#define POOL_OVERHEAD 48
#define SIZE_CLASSES  32

/* Of a /proc/PID/pagemap entry: present, and not a page of a file. */
#define PM_PRESENT (1ull << 63)
#define PM_SWAPPED (1ull << 62)
#define PM_FILE	   (1ull << 61)

static bool page_is_private(int pagemap, u64 addr)
{
	u64 entry;

	if (pread(pagemap, &entry, sizeof(entry), addr / 4096 * sizeof(entry)) != sizeof(entry))
		return false;
	return (entry & (PM_PRESENT | PM_SWAPPED)) && !(entry & PM_FILE);
}

static struct live_use pool_use(const struct pyinfo *info, u64 pool)
{
	struct pool_header h;
	u64 size;

	if (proc_read(info->pid, pool, &h, sizeof(h)) || h.szidx >= SIZE_CLASSES)
		return (struct live_use){0, 0};
	size = 16 * (h.szidx + 1);
	if (h.count > (info->pool_size - POOL_OVERHEAD) / size)
		return (struct live_use){0, 0};
	return (struct live_use){h.count * size, h.count};
}

/* Bytes from addr on that are still mapped, at most size. */
static u64 still_mapped(const struct proc_maps *maps, u64 addr, u64 size)
{
	u64 end = addr;

	while (end - addr < size) {
		const struct proc_map *map = proc_maps_find(maps, end);

		if (!map)
			break;
		end = map->end;
	}
	return end - addr < size ? end - addr : size;
}

void pools_examine(const struct probes *probes, const struct pyinfo *info, bool alive,
		   const struct drained *d, struct live_use *uses)
{
	struct proc_maps maps = {0};
	char path[48];
	int pagemap;

	if (alive && proc_maps_read(info->pid, &maps))
		alive = false;
	snprintf(path, sizeof(path), "/proc/%d/pagemap", info->pid);
	pagemap = alive ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	for (size_t i = 0; i < d->nlive; i++) {
		const struct live_rec *rec = &d->live[i];

		if (rec->key.tgid != (u32)info->pid)
			continue;
		uses[i] = (struct live_use){rec->v.size, 1};
		if (!alive)
			continue;
		if (rec->v.domain == PHT_DOM_POOL)
			uses[i] = pool_use(info, rec->key.addr);
		else if (rec->v.domain == PHT_DOM_MMAP)
			uses[i].bytes = still_mapped(&maps, rec->key.addr, rec->v.size);
		else if (rec->v.domain == PHT_DOM_FAULT && pagemap >= 0)
			uses[i].bytes = page_is_private(pagemap, rec->key.addr) ? rec->v.size : 0;
		else
			continue;
		if (!uses[i].bytes) {
			uses[i].blocks = 0;
			drain_drop_live(probes, &rec->key);
		}
	}
	if (pagemap >= 0)
		close(pagemap);
	proc_maps_free(&maps);
}
