/* SPDX-License-Identifier: BSD-2-Clause */
/* A small interpreter with pymalloc, laid out as 3.13 does, to be read and broken. */
#ifndef PHT_OBMALLOC_IMAGE_H
#define PHT_OBMALLOC_IMAGE_H

#include "mem_image.h"
#include "obmalloc.h"

#define IMG_RUNTIME 0x100000ull
#define IMG_INTERP  0x200000ull
#define IMG_STATE   0x300000ull
#define IMG_TABLE   0x400000ull
#define IMG_ARENA   0x10000000ull /* aligned; the next one is not */
#define IMG_POOL    16384u
#define IMG_SIZE    (1u << 20)
#define IMG_FIELD   10800u
#define IMG_HEAD    632u
#define IMG_MAIN    640u
#define IMG_NEXT    7264u
#define IMG_ID	    7272u
#define IMG_ARENAS  2u

static inline struct pyinfo img_info(void)
{
	return (struct pyinfo){
		.pid = 1,
		.version = 0x030d00f0,
		.version_str = "3.13.0",
		.runtime = IMG_RUNTIME,
		.off = {.rt_interp_head = IMG_HEAD,
			.rt_interp_main = IMG_MAIN,
			.in_next = IMG_NEXT,
			.in_id = IMG_ID},
		.pool_size = IMG_POOL,
		.arena_size = IMG_SIZE,
	};
}

static inline void img_interp(struct mem_image *m, u64 interp, u64 id, u64 next, u64 field,
			      u64 state)
{
	for (u64 at = 0; at < 20480; at += IMAGE_PAGE)
		image_add_page(m, interp + at);
	image_put_u64(m, interp + IMG_NEXT, next);
	image_put_u64(m, interp + IMG_ID, id);
	image_put_u64(m, interp + field, state);
}

static inline void img_state(struct mem_image *m, u64 state, u64 table, u32 maxarenas)
{
	for (u64 i = 0; i < OBMALLOC_CLASSES; i++) {
		image_put_u64(m, state + 16 * i, state + 16 * i - 16);
		image_put_u64(m, state + 16 * i + 8, state + 16 * i - 16);
	}
	image_put_u64(m, state + 512, table);
	image_put_u32(m, state + 520, maxarenas);
	image_put_u64(m, state + 1072, 7);
	image_put_u64(m, state + 1080, 5);
	image_put_u32(m, state + 1096 + 262144, 1);
	image_put_u32(m, state + 1096 + 262148, 2);
}

static inline void img_arena(struct mem_image *m, u64 table, u32 index, u64 address, u32 carved,
			     u32 nfree)
{
	u64 at = table + 48ull * index, first = (address + IMG_POOL - 1) & ~(u64)(IMG_POOL - 1);

	image_put_u64(m, at, address);
	image_put_u64(m, at + 8, first + (u64)carved * IMG_POOL);
	image_put_u32(m, at + 16, nfree);
	image_put_u32(m, at + 20, (u32)((address + IMG_SIZE - first) / IMG_POOL));
}

/*
 * A pool of which carved blocks were handed out and nfree of these came back:
 * every second one from the first on, linked in that order.
 */
static inline void img_pool(struct mem_image *m, u64 addr, u32 arena, u32 szidx, u32 carved,
			    u32 nfree)
{
	u32 size = (szidx + 1) * 16;
	u64 block = addr + OBMALLOC_HEADER;

	for (u64 at = 0; at < IMG_POOL; at += IMAGE_PAGE)
		image_add_page(m, addr + at);
	image_put_u32(m, addr, carved - nfree);
	image_put_u64(m, addr + 8, nfree ? block : 0);
	image_put_u32(m, addr + 32, arena);
	image_put_u32(m, addr + 36, szidx);
	image_put_u32(m, addr + 40, OBMALLOC_HEADER + carved * size);
	image_put_u32(m, addr + 44, IMG_POOL - size);
	for (u32 i = 0; i < nfree; i++)
		image_put_u64(m, block + 2ull * i * size,
			      i + 1 < nfree ? block + 2ull * (i + 1) * size : 0);
}

/*
 * Two arenas: the first with class 0 (100 of 1021 blocks, 40 of them came
 * back), class 31 (full: 31) and an empty pool; the second, not aligned to pools, with
 * one block of class 3.
 */
static inline struct mem_image *img_make(void)
{
	struct mem_image *m = calloc(1, sizeof(*m));
	const u64 second = IMG_ARENA + 4 * IMG_SIZE + 4096;

	image_put_u64(m, IMG_RUNTIME + IMG_HEAD, IMG_INTERP);
	image_put_u64(m, IMG_RUNTIME + IMG_MAIN, IMG_INTERP);
	img_interp(m, IMG_INTERP, 0, 0, IMG_FIELD, IMG_STATE);
	img_state(m, IMG_STATE, IMG_TABLE, 16);
	for (u64 at = 0; at < 16 * 48; at += 8)
		image_put_u64(m, IMG_TABLE + at, 0);
	img_arena(m, IMG_TABLE, 3, IMG_ARENA, 3, 62);
	img_pool(m, IMG_ARENA, 3, 0, 100, 40);
	img_pool(m, IMG_ARENA + IMG_POOL, 3, 31, 31, 0);
	img_pool(m, IMG_ARENA + 2 * IMG_POOL, 3, 5, 0, 0);
	img_arena(m, IMG_TABLE, 0, second, 1, 62);
	img_pool(m, second - 4096 + IMG_POOL, 0, 3, 1, 0);
	return m;
}

#endif
