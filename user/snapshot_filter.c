// SPDX-License-Identifier: BSD-2-Clause
#include <fnmatch.h>
#include <string.h>

#include "snapshot_group.h"

enum { HIT_INCLUDE = 1, HIT_EXCLUDE = 2 };

static bool match_any(const char *const *patterns, size_t n, const char *file)
{
	for (size_t i = 0; i < n; i++)
		if (!fnmatch(patterns[i], file, FNM_NOESCAPE))
			return true;
	return false;
}

static u8 hits_of(const struct snap_filter *filter, const char *file)
{
	/* What tracemalloc calls the file of a frame that has none. */
	if (!*file)
		file = "<unknown>";
	return (match_any(filter->include, filter->ninclude, file) ? HIT_INCLUDE : 0) |
	       (match_any(filter->exclude, filter->nexclude, file) ? HIT_EXCLUDE : 0);
}

/* What of the patterns each frame's file name matches; each name is looked at once. */
static u8 *frame_hits(const struct stacks *stacks, const struct snap_filter *filter)
{
	u32 n = stacks_frame_count(stacks);
	u8 *hits = calloc(n + 1, 1);
	struct hashmap files = {0}; /* address -> hits + 1 */

	for (u32 i = 0; hits && i < n; i++) {
		const char *file = stacks_frame(stacks, i)->file;
		uintptr_t known = (uintptr_t)hashmap_get(&files, (uintptr_t)file, 0);

		if (!known) {
			known = hits_of(filter, file) + 1;
			if (hashmap_put(&files, (uintptr_t)file, 0, (void *)known)) {
				free(hits);
				hits = NULL;
				break;
			}
		}
		hits[i] = known - 1;
	}
	hashmap_clear(&files, NULL);
	return hits;
}

u8 *snap_filter_stacks(const struct stacks *stacks, const struct snap_filter *filter)
{
	AUTO_FREE u8 *frames = frame_hits(stacks, filter);
	u32 n = stacks_count(stacks);
	u8 *pass = frames ? calloc(n, 1) : NULL;

	/* Parents come first: what a stack hits is what its frames do. */
	for (u32 i = 0; pass && i < n; i++) {
		pass[i] = frames[stacks_top(stacks, i)];
		if (filter->all_frames && i >= STACK_FIRST)
			pass[i] |= pass[stacks_parent(stacks, i)];
	}
	for (u32 i = 0; pass && i < n; i++)
		pass[i] = (!filter->ninclude || pass[i] & HIT_INCLUDE) && !(pass[i] & HIT_EXCLUDE);
	return pass;
}
