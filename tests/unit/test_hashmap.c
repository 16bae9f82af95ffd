// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "hashmap.h"

static void test_empty(void **state)
{
	struct hashmap map = {0};

	(void)state;
	assert_null(hashmap_get(&map, 0, 0));
	hashmap_clear(&map, free);
	assert_int_equal(map.cap, 0);
}

static void test_put_get(void **state)
{
	struct hashmap map = {0};
	int v[4];

	(void)state;
	assert_int_equal(hashmap_put(&map, 0, 0, &v[0]), 0);
	assert_int_equal(hashmap_put(&map, 0, 1, &v[1]), 0);
	assert_int_equal(hashmap_put(&map, 1, 0, &v[2]), 0);
	assert_ptr_equal(hashmap_get(&map, 0, 0), &v[0]);
	assert_ptr_equal(hashmap_get(&map, 0, 1), &v[1]);
	assert_ptr_equal(hashmap_get(&map, 1, 0), &v[2]);
	assert_null(hashmap_get(&map, 1, 1));
	assert_int_equal(map.n, 3);
	/* Replaced, not added. */
	assert_int_equal(hashmap_put(&map, 0, 1, &v[3]), 0);
	assert_ptr_equal(hashmap_get(&map, 0, 1), &v[3]);
	assert_int_equal(map.n, 3);
	hashmap_clear(&map, NULL);
	assert_null(hashmap_get(&map, 0, 0));
}

/* Addresses differ in few bits, all of them in the middle. */
static void key(int pattern, u64 i, u64 *a, u64 *b)
{
	static const u64 steps[][2] = {{1, 0}, {64, 0}, {1ull << 40, 1ull << 56}, {0, 1}};

	*a = 0x7f0000000000 + i * steps[pattern][0];
	*b = i * steps[pattern][1];
}

static void test_growth(void **state)
{
	(void)state;
	for (int pattern = 0; pattern < 4; pattern++) {
		struct hashmap map = {0};
		u64 a, b, n = 20000;

		for (u64 i = 0; i < n; i++) {
			u64 *value = malloc(sizeof(*value));

			assert_non_null(value);
			*value = i;
			key(pattern, i, &a, &b);
			assert_int_equal(hashmap_put(&map, a, b, value), 0);
			assert_int_equal(map.n, i + 1);
			/* Never so full that a look-up for what is not there would not end. */
			assert_true(map.n * 4 <= map.cap * 3);
		}
		for (u64 i = 0; i < n; i++) {
			const u64 *value;

			key(pattern, i, &a, &b);
			value = hashmap_get(&map, a, b);
			assert_non_null(value);
			assert_int_equal(*value, i);
			assert_null(hashmap_get(&map, a, ~b));
			assert_null(hashmap_get(&map, ~a, b));
		}
		hashmap_clear(&map, free);
		assert_int_equal(map.n, 0);
	}
}

static int freed;

static void count_free(void *value)
{
	free(value);
	freed++;
}

static void test_clear_frees_each_once(void **state)
{
	struct hashmap map = {0};

	(void)state;
	for (u64 i = 0; i < 100; i++)
		assert_int_equal(hashmap_put(&map, i, 0, malloc(1)), 0);
	freed = 0;
	hashmap_clear(&map, count_free);
	assert_int_equal(freed, 100);
	assert_null(map.slots);
	hashmap_clear(&map, count_free);
	assert_int_equal(freed, 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_put_get),
		cmocka_unit_test(test_growth),
		cmocka_unit_test(test_clear_frees_each_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
