// SPDX-License-Identifier: BSD-2-Clause
#include "probe_maps.h"

#include <bpf/libbpf.h>
#include <stdlib.h>
#include <string.h>

#include "pyheaptrace.skel.h"

/* Live samples grow as the interval shrinks. */
static u32 live_entries(u64 interval)
{
	if (interval >= 256 * 1024)
		return 256 * 1024;
	return interval >= 16 * 1024 ? 1024 * 1024 : 4 * 1024 * 1024;
}

/* Where a map takes all its memory when it is made, make less of the big ones. */
static void preallocate(struct pyheaptrace_bpf *skel)
{
	const struct {
		struct bpf_map *map;
		u32 most;
	} maps[] = {
		{skel->maps.threads, 4096},	 {skel->maps.live, 1024 * 1024},
		{skel->maps.stacks, UINT32_MAX}, {skel->maps.sites, UINT32_MAX},
		{skel->maps.lives, 4096},
	};

	for (size_t i = 0; i < ARRAY_SIZE(maps); i++) {
		u32 flags = bpf_map__map_flags(maps[i].map);

		bpf_map__set_map_flags(maps[i].map, flags & ~BPF_F_NO_PREALLOC);
		if (bpf_map__max_entries(maps[i].map) > maps[i].most)
			bpf_map__set_max_entries(maps[i].map, maps[i].most);
	}
}

/* Threads of a pool do the same: there are more stacks than places. */
static void make_room_for_threads(struct pyheaptrace_bpf *skel)
{
	struct bpf_map *maps[] = {skel->maps.stacks, skel->maps.sites, skel->maps.lives};

	for (size_t i = 0; i < ARRAY_SIZE(maps); i++)
		bpf_map__set_max_entries(maps[i], 2 * bpf_map__max_entries(maps[i]));
}

void probe_maps_size(struct pyheaptrace_bpf *skel, u64 interval, bool threads, bool growth)
{
	const char *forced = getenv("PHT_MAPS"); /* for tests: preallocated */

	bpf_map__set_max_entries(skel->maps.live, live_entries(interval));
	if (threads)
		make_room_for_threads(skel);
	if (!growth || (forced && !strcmp(forced, "preallocated")))
		preallocate(skel);
}
