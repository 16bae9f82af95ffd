// SPDX-License-Identifier: BSD-2-Clause
/*
 * pymalloc's structures with anything written over them: an answer or an
 * error, in bounded time and memory, and never a byte counted twice.
 */
#include <stdlib.h>
#include <string.h>

#include "../unit/obmalloc_image.h"
#include "freelists.h"
#include "obmalloc_stats.h"

/* Where a patch goes: places that hold something, so that few bytes do much. */
static const u64 places[] = {
	IMG_RUNTIME + IMG_HEAD,
	IMG_INTERP,
	IMG_INTERP + IMG_NEXT,
	IMG_INTERP + IMG_FIELD,
	IMG_STATE,
	IMG_STATE + 512,
	IMG_STATE + 1072,
	IMG_STATE + 1096 + 262144,
	IMG_TABLE,
	IMG_TABLE + 144,
	IMG_ARENA,
	IMG_ARENA + OBMALLOC_HEADER,
	IMG_ARENA + IMG_POOL,
	IMG_ARENA + 2 * IMG_POOL,
	IMG_ARENA + 4 * IMG_SIZE,
};

/* place, offset (two bytes), value (eight bytes) */
#define PATCH 11

static void patch(struct mem_image *m, const u8 *data, size_t size)
{
	for (; size >= PATCH; data += PATCH, size -= PATCH) {
		u64 at = places[data[0] % ARRAY_SIZE(places)];
		u16 offset;

		memcpy(&offset, data + 1, sizeof(offset));
		image_write(m, at + offset % 32768, data + 3, 8);
	}
}

struct context {
	const struct obmalloc *ob;
	const struct reader *r;
	u64 bytes;
};

static int visit(void *ctx, const struct obmalloc_arena *arena, enum obmalloc_pool_state state,
		 const struct obmalloc_pool *pool)
{
	struct context *c = ctx;
	u32 size = c->ob->layout.pool_size;
	u64 map[OBMALLOC_MAP_WORDS];
	u8 *bytes;
	int n;

	if (pool->address < arena->first_pool ||
	    pool->address - arena->address > c->ob->layout.arena_size - size)
		abort();
	if (state != OBMALLOC_POOL_OK)
		return 0;
	if (pool->used > pool->nblocks || pool->szidx >= OBMALLOC_CLASSES)
		abort();
	c->bytes += (u64)pool->used * pool->block_size;
	/* a copy of exactly that size, for ASan to see the end */
	bytes = malloc(size);
	if (bytes && !reader_read(c->r, pool->address, bytes, size)) {
		n = obmalloc_pool_free_map(c->ob, pool, bytes, map);
		if (n >= 0 && (u32)n != pool->nblocks - pool->used)
			abort();
	}
	free(bytes);
	return 0;
}

static void walk(const struct obmalloc *ob, const struct obmalloc_state *state,
		 const struct reader *r)
{
	struct context c = {.ob = ob, .r = r};
	struct obmalloc_arenas arenas;
	struct obmalloc_walk_stats ws;
	struct obmalloc_stats s;

	if (obmalloc_arenas_read(ob, state, r, &arenas))
		return;
	for (size_t i = 1; i < arenas.n; i++)
		if (arenas.v[i].address - arenas.v[i - 1].address < ob->layout.arena_size)
			abort();
	obmalloc_walk(ob, &arenas, r, visit, &c, &ws);
	if (c.bytes > arenas.n * (u64)ob->layout.arena_size)
		abort();
	obmalloc_arenas_free(&arenas);
	if (obmalloc_stats_read(ob, state, r, &s))
		return;
	if (obmalloc_stats_bytes(&ob->layout, &s).used != c.bytes)
		abort();
	obmalloc_stats_fragmentation(&ob->layout, &s);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct mem_image *m = img_make();
	struct reader r = image_reader(m);
	struct pyinfo info = img_info();
	struct freelists_where where;
	struct freelists lists;
	struct obmalloc ob;

	patch(m, data, size);
	if (!obmalloc_find(&info, &r, &ob)) {
		for (size_t i = 0; i < ob.n; i++)
			walk(&ob, &ob.state[i], &r);
		if (!freelists_find(&info, &ob, &where))
			freelists_read(&where, &r, ob.main_interp, &lists);
	}
	image_free(m);
	return 0;
}
