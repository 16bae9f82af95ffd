// SPDX-License-Identifier: BSD-2-Clause
/* user/pools.c against this process's own memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "pools.h"

#define POOL 16384
#define PAGE 4096

/* Stands for drain.c: remembers what it was told to drop. */
static struct pht_live_key dropped[16];
static size_t ndropped;

void drain_drop_live(const struct probes *probes, const struct pht_live_key *key)
{
	(void)probes;
	assert_true(ndropped < ARRAY_SIZE(dropped));
	dropped[ndropped++] = *key;
}

static struct live_use examine(pid_t pid, bool alive, void *addr, u64 size, u32 domain)
{
	struct live_rec rec = {
		.key = {.addr = (uintptr_t)addr, .tgid = pid},
		.v = {.size = size, .drawn_size = size, .domain = domain},
	};
	const struct pyinfo info = {.pid = pid, .pool_size = POOL};
	const struct drained d = {.live = &rec, .nlive = 1};
	struct live_use use = {~0ull, ~0ull};

	ndropped = 0;
	pools_examine(NULL, &info, alive, &d, &use);
	if (ndropped)
		assert_memory_equal(&dropped[0], &rec.key, sizeof(rec.key));
	return use;
}

static void assert_use(struct live_use use, u64 bytes, u64 blocks)
{
	assert_int_equal(use.bytes, bytes);
	assert_int_equal(use.blocks, blocks);
	assert_int_equal(ndropped, !bytes);
}

static u8 *map(size_t size)
{
	u8 *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

/* count at 0 and szidx at 36 are what pool_header of CPython holds there. */
static void pool_set(u8 *pool, u32 count, u32 szidx)
{
	memcpy(pool, &count, sizeof(count));
	memcpy(pool + 36, &szidx, sizeof(szidx));
}

static void test_pool(void **state)
{
	pid_t pid = getpid();
	u8 *pool = map(POOL);

	(void)state;
	pool_set(pool, 10, 0);
	assert_use(examine(pid, true, pool, POOL, PHT_DOM_POOL), 160, 10);
	pool_set(pool, 31, 31); /* as many blocks of 512 bytes as there can be */
	assert_use(examine(pid, true, pool, POOL, PHT_DOM_POOL), 31 * 512, 31);
	pool_set(pool, 32, 31);
	assert_use(examine(pid, true, pool, POOL, PHT_DOM_POOL), 0, 0);
	pool_set(pool, 1, 32);
	assert_use(examine(pid, true, pool, POOL, PHT_DOM_POOL), 0, 0);
	pool_set(pool, ~0u, ~0u);
	assert_use(examine(pid, true, pool, POOL, PHT_DOM_POOL), 0, 0);
	pool_set(pool, 0, 3); /* empty: given back to its arena */
	assert_use(examine(pid, true, pool, POOL, PHT_DOM_POOL), 0, 0);
	munmap(pool, POOL); /* its arena was unmapped */
	assert_use(examine(pid, true, pool, POOL, PHT_DOM_POOL), 0, 0);
	/* Nobody to ask: all of it. */
	assert_use(examine(pid, false, pool, POOL, PHT_DOM_POOL), POOL, 1);
}

static void test_mapping(void **state)
{
	pid_t pid = getpid();
	u8 *p = map(8 * PAGE);

	(void)state;
	assert_use(examine(pid, true, p, 8 * PAGE, PHT_DOM_MMAP), 8 * PAGE, 1);
	assert_use(examine(pid, true, p, 8 * PAGE - 100, PHT_DOM_MMAP), 8 * PAGE - 100, 1);
	/* Pieces with other rights are other entries of the map, but still mapped. */
	assert_int_equal(mprotect(p + PAGE, PAGE, PROT_READ), 0);
	assert_use(examine(pid, true, p, 8 * PAGE, PHT_DOM_MMAP), 8 * PAGE, 1);
	assert_int_equal(munmap(p + 5 * PAGE, PAGE), 0);
	assert_use(examine(pid, true, p, 8 * PAGE, PHT_DOM_MMAP), 5 * PAGE, 1);
	assert_use(examine(pid, false, p, 8 * PAGE, PHT_DOM_MMAP), 8 * PAGE, 1);
	assert_int_equal(munmap(p, 8 * PAGE), 0);
	assert_use(examine(pid, true, p, 8 * PAGE, PHT_DOM_MMAP), 0, 0);
}

static void test_others(void **state)
{
	struct live_rec rec = {.key = {.addr = 16, .tgid = getpid() + 1},
			       .v = {.size = 100, .domain = PHT_DOM_POOL}};
	const struct pyinfo info = {.pid = getpid(), .pool_size = POOL};
	const struct drained d = {.live = &rec, .nlive = 1};
	struct live_use use = {7, 8};

	(void)state;
	/* Blocks of libc and of pymalloc have frees that are seen. */
	assert_use(examine(getpid(), true, (void *)16, 100, PHT_DOM_LIBC), 100, 1);
	assert_use(examine(getpid(), true, (void *)16, 100, PHT_DOM_PYMALLOC), 100, 1);
	/* An empty one is no sign of its end. */
	assert_int_equal(examine(getpid(), true, (void *)16, 0, PHT_DOM_LIBC).blocks, 1);
	assert_int_equal(ndropped, 0);
	/* Another process's records are not touched. */
	pools_examine(NULL, &info, true, &d, &use);
	assert_int_equal(use.bytes, 7);
	assert_int_equal(use.blocks, 8);
	assert_int_equal(ndropped, 0);
}

/* It died before anybody noticed: keep what was seen. */
static void test_gone(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	if (!pid)
		_exit(0);
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_use(examine(pid, true, (void *)0x10000, POOL, PHT_DOM_POOL), POOL, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pool),
		cmocka_unit_test(test_mapping),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
