// SPDX-License-Identifier: BSD-2-Clause
/* smaps and pagemap, the arithmetic of the report, and its words. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "rss.h"
#include "rss_collect.h"
#include "rss_smaps.h"

#define PAGE 4096ull
#define MIB  (1ull << 20)

/* ---- smaps */

static struct smaps parsed(const char *text)
{
	FILE *f = fmemopen((void *)text, strlen(text), "r");
	struct smaps s;

	assert_non_null(f);
	assert_int_equal(smaps_parse(f, &s), 0);
	fclose(f);
	return s;
}

static void test_smaps(void **state)
{
	struct smaps s =
		parsed("00400000-00600000 r-xp 00001000 fe:00 77    /usr/bin/a b (deleted)\n"
		       "Size:               2048 kB\n"
		       "Rss:                1024 kB\n"
		       "Pss:                 512 kB\n"
		       "Private_Clean:        10 kB\n"
		       "Private_Dirty:        20 kB\n"
		       "Anonymous:             8 kB\n"
		       "VmFlags: rd ex mr mw me\n"
		       "01000000-01021000 rw-p 00000000 00:00 0     [heap]\n"
		       "Rss:                 132 kB\n"
		       "AnonHugePages:      2048 kB\n"
		       "Swap:                 64 kB\n");

	assert_int_equal(s.n, 2);
	assert_string_equal(s.v[0].map.path, "/usr/bin/a b");
	assert_true(s.v[0].map.deleted && s.v[0].map.x && !s.v[0].map.w);
	assert_int_equal(s.v[0].rss, 1024 * 1024);
	assert_int_equal(s.v[0].pss, 512 * 1024);
	assert_int_equal(s.v[0].private, 30 * 1024);
	assert_int_equal(s.v[0].anon, 8 * 1024);
	assert_string_equal(s.v[1].map.path, "[heap]");
	assert_int_equal(s.v[1].map.end, 0x1021000);
	assert_int_equal(s.v[1].thp, 2 * MIB);
	assert_int_equal(s.v[1].swap, 64 * 1024);
	smaps_free(&s);
	/* What is no mapping is left out; absurd numbers do not overflow. */
	s = parsed("hello\nRss: 5 kB\n00002000-00001000 rw-p 0 0:0 0\n"
		   "00001000-00002000 rw-p 00000000 00:00 0\nRss: 99999999999999999999 kB\n");
	assert_int_equal(s.n, 1);
	assert_true(s.v[0].rss < 1ull << 54);
	smaps_free(&s);
}

/* ---- which pages are there */

static void test_residency(void **state)
{
	u8 *p = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	u64 at = (u64)(uintptr_t)p;
	struct residency r;

	assert_true(p != MAP_FAILED);
	madvise(p, 16 * PAGE, MADV_NOHUGEPAGE);
	for (int i = 3; i < 8; i++)
		p[(u64)i * PAGE] = 1;
	assert_int_equal(residency_read(getpid(), at, at + 16 * PAGE, 5 * PAGE, &r), 0);
	assert_int_equal(residency_bytes(&r, at, at + 16 * PAGE), 5 * PAGE);
	assert_int_equal(residency_bytes(&r, at, at + 3 * PAGE), 0);
	assert_int_equal(residency_bytes(&r, at + 3 * PAGE + 100, at + 4 * PAGE + 1), PAGE - 99);
	assert_int_equal(residency_whole_pages(&r, at + 3 * PAGE + 1, at + 6 * PAGE + 5), 2 * PAGE);
	assert_int_equal(residency_next(&r, at, at + 16 * PAGE), at + 3 * PAGE);
	assert_int_equal(residency_next(&r, at + 4 * PAGE, at + 16 * PAGE), at + 4 * PAGE);
	assert_int_equal(residency_next(&r, at + 8 * PAGE, at + 16 * PAGE), at + 16 * PAGE);
	assert_int_equal(residency_next(&r, at, at + 2 * PAGE), at + 2 * PAGE);
	/* Beyond it, backwards, and at the end of the world. */
	assert_int_equal(residency_bytes(&r, 0, UINT64_MAX), 5 * PAGE);
	assert_int_equal(residency_bytes(&r, at + 5 * PAGE, at), 0);
	assert_int_equal(residency_whole_pages(&r, UINT64_MAX - 5, UINT64_MAX), 0);
	residency_free(&r);
	/* smaps and pagemap contradict each other: in proportion. */
	assert_int_equal(residency_read(getpid(), at, at + 16 * PAGE, 12 * PAGE, &r), 0);
	assert_int_equal(residency_bytes(&r, at, at + 8 * PAGE), 6 * PAGE);
	assert_int_equal(residency_next(&r, at, at + 16 * PAGE), at + 16 * PAGE);
	residency_free(&r);
	assert_int_equal(residency_read(getpid(), at, at + 16 * PAGE, 16 * PAGE, &r), 0);
	assert_int_equal(residency_next(&r, at + PAGE, at + 16 * PAGE), at + PAGE);
	residency_free(&r);
	munmap(p, 16 * PAGE);
}

/* ---- giving pages to kinds */

static struct smap two_maps[] = {
	{.map = {.start = 0x10000, .end = 0x20000}, .rss = 0x10000},
	{.map = {.start = 0x20000, .end = 0x30000}, .rss = 0x8000},
};

static void test_giving(void **state)
{
	struct rss_map maps[2] = {
		{.s = &two_maps[0], .res = {0x10000, 0x20000, NULL, 1}},
		{.s = &two_maps[1], .res = {0x20000, 0x30000, NULL, 0.5}},
	};
	struct rss_view v = {.smaps = {two_maps, 2}, .map = maps};

	assert_int_equal(rss_give(&v, 0x18000, 0x24000, RSS_MALLOC_USED), 0x8000 + 0x2000);
	assert_int_equal(maps[0].kind[RSS_MALLOC_USED], 0x8000);
	assert_int_equal(maps[1].kind[RSS_MALLOC_USED], 0x2000);
	assert_int_equal(
		rss_give_split(&v, 0x10000, 0x12000, 0x500, RSS_PYMALLOC_USED, RSS_PYMALLOC_PARTLY),
		0x2000);
	assert_int_equal(maps[0].kind[RSS_PYMALLOC_USED], 0x500);
	assert_int_equal(maps[0].kind[RSS_PYMALLOC_PARTLY], 0x2000 - 0x500);
	assert_int_equal(rss_give(&v, 0x40000, 0x50000, RSS_ANON), 0);
	/* Memory has one owner. */
	assert_int_equal(rss_claim(&v, 0x10000, 0x11000), 0);
	assert_int_equal(rss_claim(&v, 0x14000, 0x15000), 0);
	assert_int_equal(rss_claim(&v, 0x12000, 0x13000), 0);
	assert_int_equal(rss_claim(&v, 0x12800, 0x12900), -EEXIST);
	assert_int_equal(rss_claim(&v, 0x10800, 0x12001), -EEXIST);
	assert_int_equal(rss_claim(&v, 0x11000, 0x12000), 0);
	assert_int_equal(rss_claim(&v, 5, 5), -EEXIST);
	assert_true(rss_claimed(&v, 0x10000, 0x20000));
	assert_false(rss_claimed(&v, 0x15000, 0x20000));
	free(v.claim);
}

/* ---- words */

static bool says(const struct rss *r, const char *word, bool *fragmentation)
{
	struct rss_finding f[RSS_FINDINGS_MAX];
	size_t n = rss_advise(r, f);
	bool found = false;

	*fragmentation = false;
	for (size_t i = 0; i < n; i++) {
		found |= strstr(f[i].text, word) != NULL;
		*fragmentation |= f[i].fragmentation;
	}
	return found;
}

static void test_words(void **state)
{
	struct rss_arena arenas[2] = {{.main = true}, {.free_resident = 60 * MIB}};
	struct rss r = {.rss = 200 * MIB, .arenas_resident = 150 * MIB, .arenas = 150};
	bool fragmentation;

	r.kind[RSS_PYMALLOC_USED] = 140 * MIB;
	r.kind[RSS_PYMALLOC_PARTLY] = 10 * MIB;
	assert_true(says(&r, "in use by live blocks", &fragmentation));
	assert_false(fragmentation);

	r.kind[RSS_PYMALLOC_USED] = 30 * MIB;
	r.kind[RSS_PYMALLOC_PARTLY] = 100 * MIB;
	r.kind[RSS_PYMALLOC_FREE] = 20 * MIB;
	assert_true(says(&r, "PYTHONMALLOC=malloc", &fragmentation));
	assert_true(fragmentation);

	r = (struct rss){.rss = 200 * MIB, .arena = arenas, .narena = 2, .trimmable = 50 * MIB};
	r.kind[RSS_MALLOC_USED] = 80 * MIB;
	r.kind[RSS_MALLOC_FREE] = 70 * MIB;
	assert_true(says(&r, "malloc_trim(0) would give back 50.0 MiB", &fragmentation));
	assert_true(fragmentation);
	assert_true(says(&r, "MALLOC_ARENA_MAX", &fragmentation));
	r.trimmable = 0;
	assert_true(says(&r, "smaller than a page", &fragmentation));

	/* Too little to be worth a word. */
	r = (struct rss){.rss = 20 * MIB};
	r.kind[RSS_MALLOC_FREE] = 2 * MIB;
	assert_false(says(&r, "malloc_trim", &fragmentation));
	assert_false(fragmentation);
}

static void test_names(void **state)
{
	struct rss r = {.rss = 100};

	for (int k = 0; k < RSS_KINDS; k++) {
		assert_non_null(rss_kind_key(k));
		assert_non_null(rss_kind_name(k));
		r.kind[k] = 1;
	}
	assert_int_equal(rss_explained(&r), RSS_KINDS - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_smaps),  cmocka_unit_test(test_residency),
		cmocka_unit_test(test_giving), cmocka_unit_test(test_words),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
