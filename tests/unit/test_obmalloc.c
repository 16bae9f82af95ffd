// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "obmalloc_image.h"
#include "obmalloc_stats.h"

#define SECOND (IMG_ARENA + 4 * IMG_SIZE + 4096)

struct fixture {
	struct mem_image *image;
	struct reader r;
	struct pyinfo info;
	struct obmalloc ob;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->image = img_make();
	f->r = image_reader(f->image);
	f->info = img_info();
	*state = f;
	return obmalloc_find(&f->info, &f->r, &f->ob);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	image_free(f->image);
	free(f);
	return 0;
}

static void test_find(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(f->ob.n, 1);
	assert_int_equal(f->ob.state[0].arenas, IMG_STATE + 512);
	assert_int_equal(f->ob.state[0].maxarenas, IMG_STATE + 520);
	assert_int_equal(f->ob.interp_field, IMG_FIELD);
	assert_int_equal(f->ob.main_interp, IMG_INTERP);
	assert_int_equal(f->ob.layout.arena_size, IMG_SIZE);
}

static void test_find_by_scan(void **state)
{
	struct fixture *f = *state;

	image_put_u64(f->image, IMG_INTERP + IMG_FIELD, 0);
	assert_int_equal(obmalloc_find(&f->info, &f->r, &f->ob), -ENOENT);
	image_put_u64(f->image, IMG_INTERP + IMG_FIELD + 24, IMG_STATE);
	assert_int_equal(obmalloc_find(&f->info, &f->r, &f->ob), 0);
	assert_int_equal(f->ob.interp_field, IMG_FIELD + 24);
	/* two candidates: neither is believed */
	img_state(f->image, IMG_STATE + 0x100000 - 16, IMG_TABLE, 16);
	image_put_u64(f->image, IMG_INTERP + 512, IMG_STATE + 0x100000 - 16);
	assert_int_equal(obmalloc_find(&f->info, &f->r, &f->ob), -ENOENT);
}

static void test_find_interpreters(void **state)
{
	struct fixture *f = *state;
	const u64 own = IMG_INTERP + 0x10000, shared = IMG_INTERP + 0x20000;

	img_interp(f->image, own, 2, shared, IMG_FIELD, IMG_STATE + 0x80000);
	img_state(f->image, IMG_STATE + 0x80000, IMG_TABLE, 16);
	img_interp(f->image, shared, 1, IMG_INTERP, IMG_FIELD, IMG_STATE);
	image_put_u64(f->image, IMG_RUNTIME + IMG_HEAD, own);
	assert_int_equal(obmalloc_find(&f->info, &f->r, &f->ob), 0);
	assert_int_equal(f->ob.n, 2);
	assert_int_equal(f->ob.state[0].interp, IMG_INTERP);
	assert_int_equal(f->ob.state[1].interp_id, 2);
	/* a list that never ends */
	image_put_u64(f->image, IMG_INTERP + IMG_NEXT, own);
	assert_int_equal(obmalloc_find(&f->info, &f->r, &f->ob), 0);
	assert_true(f->ob.more);
	image_put_u64(f->image, IMG_INTERP + IMG_NEXT, IMG_INTERP);
	image_put_u64(f->image, IMG_RUNTIME + IMG_HEAD, IMG_INTERP);
	assert_int_equal(obmalloc_find(&f->info, &f->r, &f->ob), 0);
	/* and one that leads nowhere */
	image_put_u64(f->image, IMG_INTERP + IMG_NEXT, 0xdead0000);
	assert_int_equal(obmalloc_find(&f->info, &f->r, &f->ob), -ENOENT);
}

static void test_find_larger_arenas(void **state)
{
	struct fixture *f = *state;
	u64 at = IMG_TABLE + 48 * 3;

	image_put_u64(f->image, IMG_TABLE, 0); /* the other arena */
	image_put_u32(f->image, at + 20, 128);
	assert_int_equal(obmalloc_find(&f->info, &f->r, &f->ob), 0);
	assert_int_equal(f->ob.layout.arena_size, 2 * IMG_SIZE);
	image_put_u32(f->image, at + 20, 77);
	assert_int_equal(obmalloc_find(&f->info, &f->r, &f->ob), -ENOENT);
}

static void test_find_not_supported(void **state)
{
	struct fixture *f = *state;

	f->info.version = 0x030700f0;
	assert_int_equal(obmalloc_find(&f->info, &f->r, &f->ob), -ENOTSUP);
	f->info.version = 0x036300f0;
	assert_int_equal(obmalloc_find(&f->info, &f->r, &f->ob), -ENOTSUP);
	f->info = img_info();
	f->info.free_threaded = true;
	assert_int_equal(obmalloc_find(&f->info, &f->r, &f->ob), -ENOTSUP);
}

static void test_arenas(void **state)
{
	struct fixture *f = *state;
	struct obmalloc_arenas a;

	assert_int_equal(obmalloc_arenas_read(&f->ob, &f->ob.state[0], &f->r, &a), 0);
	assert_int_equal(a.n, 2);
	assert_int_equal(a.torn, 0);
	assert_int_equal(a.ntimes, 7);
	assert_int_equal(a.highwater, 5);
	assert_int_equal(a.map_mid, 1);
	assert_int_equal(a.map_bot, 2);
	assert_int_equal(a.v[0].address, IMG_ARENA);
	assert_int_equal(a.v[0].index, 3);
	assert_int_equal(a.v[0].carved, 3);
	assert_int_equal(a.v[0].ntotal, 64);
	assert_int_equal(a.v[1].address, SECOND);
	assert_int_equal(a.v[1].first_pool, SECOND - 4096 + IMG_POOL);
	assert_int_equal(a.v[1].ntotal, 63);
	assert_ptr_equal(obmalloc_arena_at(&f->ob, &a, IMG_ARENA), &a.v[0]);
	assert_ptr_equal(obmalloc_arena_at(&f->ob, &a, IMG_ARENA + 3 * IMG_POOL - 1), &a.v[0]);
	assert_null(obmalloc_arena_at(&f->ob, &a, IMG_ARENA + 3 * IMG_POOL));
	assert_null(obmalloc_arena_at(&f->ob, &a, IMG_ARENA - 1));
	assert_null(obmalloc_arena_at(&f->ob, &a, SECOND));
	assert_null(obmalloc_arena_at(&f->ob, &a, UINT64_MAX));
	assert_ptr_equal(obmalloc_arena_at(&f->ob, &a, a.v[1].first_pool), &a.v[1]);
	obmalloc_arenas_free(&a);
	assert_null(a.v);
}

static void expect_arenas(struct fixture *f, int err, size_t n, u64 torn)
{
	struct obmalloc_arenas a = {.n = 77};

	assert_int_equal(obmalloc_arenas_read(&f->ob, &f->ob.state[0], &f->r, &a), err);
	assert_int_equal(a.n, err ? 77 : n); /* untouched on failure */
	if (err)
		return;
	assert_int_equal(a.torn, torn);
	obmalloc_arenas_free(&a);
}

static void test_arenas_torn(void **state)
{
	struct fixture *f = *state;
	u64 at = IMG_TABLE + 48 * 3;
	const struct {
		u64 offset, value;
	} wrong[] = {
		{0, IMG_ARENA + 8},
		{0, 1ull << 62},
		{0, UINT64_MAX},
		{8, IMG_ARENA - IMG_POOL},
		{8, IMG_ARENA + 65 * IMG_POOL},
		{8, IMG_ARENA + 5},
		{16, 65 | 64ull << 32},
		{16, 1 | 62ull << 32},
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		u64 before;

		assert_int_equal(reader_read(&f->r, at + wrong[i].offset, &before, 8), 0);
		image_put_u64(f->image, at + wrong[i].offset, wrong[i].value);
		expect_arenas(f, 0, 1, 1);
		image_put_u64(f->image, at + wrong[i].offset, before);
	}
	expect_arenas(f, 0, 2, 0);
	/* the same memory twice, and half of it again */
	img_arena(f->image, IMG_TABLE, 7, IMG_ARENA, 3, 62);
	img_arena(f->image, IMG_TABLE, 8, IMG_ARENA + IMG_SIZE / 2, 3, 62);
	expect_arenas(f, 0, 2, 2);
}

static void test_arenas_absurd(void **state)
{
	struct fixture *f = *state;

	image_put_u32(f->image, IMG_STATE + 520, UINT32_MAX);
	expect_arenas(f, -EINVAL, 0, 0);
	image_put_u32(f->image, IMG_STATE + 520, 3);
	expect_arenas(f, -EINVAL, 0, 0);
	image_put_u32(f->image, IMG_STATE + 520, OBMALLOC_ARENAS_MAX);
	expect_arenas(f, -EFAULT, 0, 0);
	image_put_u64(f->image, IMG_STATE + 512, UINT64_MAX - 100);
	expect_arenas(f, -EFAULT, 0, 0);
	image_put_u64(f->image, IMG_STATE + 512, 0);
	expect_arenas(f, -EINVAL, 0, 0);
	image_put_u32(f->image, IMG_STATE + 520, 0);
	expect_arenas(f, 0, 0, 0);
	f->r.deadline = 1;
	expect_arenas(f, -ETIMEDOUT, 0, 0);
}

static void read_pool(struct fixture *f, u64 addr, u8 bytes[IMG_POOL])
{
	assert_int_equal(reader_read(&f->r, addr, bytes, IMG_POOL), 0);
}

static void test_pool(void **state)
{
	struct fixture *f = *state;
	struct obmalloc_arena arena = {.index = 3};
	struct obmalloc_pool p;
	u64 map[OBMALLOC_MAP_WORDS];
	static u8 bytes[IMG_POOL];

	read_pool(f, IMG_ARENA, bytes);
	assert_int_equal(obmalloc_pool_parse(&f->ob, &arena, IMG_ARENA, bytes, &p),
			 OBMALLOC_POOL_OK);
	assert_int_equal(p.block_size, 16);
	assert_int_equal(p.nblocks, 1021);
	assert_int_equal(p.used, 60);
	assert_int_equal(obmalloc_pool_free_map(&f->ob, &p, bytes, map), 961);
	for (u32 i = 0; i < 1021; i++) {
		bool is_free = i >= 100 || (i < 80 && i % 2 == 0);

		assert_int_equal(map[i / 64] >> (i % 64) & 1, is_free);
	}
	read_pool(f, IMG_ARENA + IMG_POOL, bytes);
	assert_int_equal(obmalloc_pool_parse(&f->ob, &arena, IMG_ARENA + IMG_POOL, bytes, &p),
			 OBMALLOC_POOL_OK);
	assert_int_equal(obmalloc_pool_free_map(&f->ob, &p, bytes, map), 0);
	read_pool(f, IMG_ARENA + 2 * IMG_POOL, bytes);
	assert_int_equal(obmalloc_pool_parse(&f->ob, &arena, IMG_ARENA, bytes, &p),
			 OBMALLOC_POOL_EMPTY);
}

static void test_pool_torn(void **state)
{
	struct fixture *f = *state;
	struct obmalloc_arena arena = {.index = 3};
	struct obmalloc_pool p;
	static u8 good[IMG_POOL], bad[IMG_POOL];
	const struct {
		u32 offset, value;
	} wrong[] = {{0, 1022}, {0, UINT32_MAX}, {32, 4},     {36, 32},
		     {36, ~0u}, {40, 47},	 {40, 16385}, {40, 56}};

	read_pool(f, IMG_ARENA, good);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		memcpy(bad, good, IMG_POOL);
		memcpy(bad + wrong[i].offset, &wrong[i].value, 4);
		assert_int_equal(obmalloc_pool_parse(&f->ob, &arena, IMG_ARENA, bad, &p),
				 OBMALLOC_POOL_TORN);
	}
}

static void test_free_list_astray(void **state)
{
	struct fixture *f = *state;
	struct obmalloc_arena arena = {.index = 3};
	struct obmalloc_pool p;
	u64 map[OBMALLOC_MAP_WORDS];
	static u8 bytes[IMG_POOL];
	const u64 block = IMG_ARENA + OBMALLOC_HEADER;
	const u64 links[] = {
		block,	    block + 32, block + 8, block - 16, block + 16 * 100, block + IMG_POOL,
		UINT64_MAX, 1,		IMG_ARENA, 0};

	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		read_pool(f, IMG_ARENA, bytes);
		memcpy(bytes + OBMALLOC_HEADER + 32, &links[i], 8);
		obmalloc_pool_parse(&f->ob, &arena, IMG_ARENA, bytes, &p);
		assert_int_equal(obmalloc_pool_free_map(&f->ob, &p, bytes, map), -EAGAIN);
	}
}

static struct obmalloc_stats read_stats(struct fixture *f)
{
	struct obmalloc_stats s;

	assert_int_equal(obmalloc_stats_read(&f->ob, &f->ob.state[0], &f->r, &s), 0);
	return s;
}

static void test_stats(void **state)
{
	struct fixture *f = *state;
	struct obmalloc_stats s = read_stats(f);
	struct obmalloc_bytes b = obmalloc_stats_bytes(&f->ob.layout, &s);
	struct obmalloc_fragmentation fr = obmalloc_stats_fragmentation(&f->ob.layout, &s);

	assert_int_equal(s.tries, 1);
	assert_int_equal(s.torn + s.vanished, 0);
	assert_int_equal(s.class[0].used, 60);
	assert_int_equal(s.class[0].avail, 961);
	assert_int_equal(s.class[31].used, 31);
	assert_int_equal(s.class[3].pools, 1);
	assert_int_equal(b.used, 60 * 16 + 31 * 512 + 64);
	assert_int_equal(b.avail, 961 * 16 + 254 * 64);
	assert_int_equal(b.headers, 3 * 48);
	assert_int_equal(b.quantization, 0 + 16336 % 512 + 16336 % 64);
	assert_int_equal(b.alignment, IMG_POOL);
	assert_int_equal(b.unused_pools, 124 * IMG_POOL);
	assert_int_equal(b.total, 2 * IMG_SIZE);
	assert_int_equal(s.bucket[0].arenas, 2);
	assert_int_equal(s.bucket[0].used_bytes, b.used);
	assert_int_equal(fr.sparse_arenas, 2);
	assert_int_equal(fr.sparse_pools, 2);
	assert_int_equal(fr.sparse_pool_used, 60 * 16 + 64);
	assert_int_equal(fr.needed_arenas, 1);
	assert_int_equal(fr.excess_bytes, IMG_SIZE);
	obmalloc_stats_add(&s, &s);
	assert_int_equal(s.class[31].used, 62);
	assert_int_equal(s.arenas, 4);
}

static void test_stats_of_what_vanished(void **state)
{
	struct fixture *f = *state;
	struct obmalloc_stats s;

	image_put_u32(f->image, IMG_ARENA + 36, 99);
	image_put_u64(f->image, IMG_TABLE + 48 * 3 + 8, IMG_ARENA + 5 * IMG_POOL);
	s = read_stats(f);
	assert_int_equal(s.torn, 1);
	assert_int_equal(s.vanished, 2);
	assert_true(s.tries > 1);
	assert_int_equal(s.class[0].pools, 0);
	assert_int_equal(s.class[31].pools, 1);
}

static int stop_at_once(void *ctx, const struct obmalloc_arena *arena,
			enum obmalloc_pool_state pool_state, const struct obmalloc_pool *pool)
{
	(void)arena;
	(void)pool_state;
	(void)pool;
	return ++*(int *)ctx == 2 ? 42 : 0;
}

static void test_walk_ends_when_told(void **state)
{
	struct fixture *f = *state;
	struct obmalloc_walk_stats walk;
	struct obmalloc_arenas a;
	int visits = 0;

	assert_int_equal(obmalloc_arenas_read(&f->ob, &f->ob.state[0], &f->r, &a), 0);
	assert_int_equal(obmalloc_walk(&f->ob, &a, &f->r, stop_at_once, &visits, &walk), 42);
	assert_int_equal(visits, 2);
	obmalloc_arenas_free(&a);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_find),
		TEST(test_find_by_scan),
		TEST(test_find_interpreters),
		TEST(test_find_larger_arenas),
		TEST(test_find_not_supported),
		TEST(test_arenas),
		TEST(test_arenas_torn),
		TEST(test_arenas_absurd),
		TEST(test_pool),
		TEST(test_pool_torn),
		TEST(test_free_list_astray),
		TEST(test_stats),
		TEST(test_stats_of_what_vanished),
		TEST(test_walk_ends_when_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
