// SPDX-License-Identifier: BSD-2-Clause
/* What cmd_pymalloc writes and reads back; free lists in a made-up interpreter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <unistd.h>

#include "cmd_pymalloc.h"
#include "commands.h"
#include "obmalloc_image.h"

static struct pymalloc_moment *make_moment(void)
{
	struct pymalloc_moment *m = calloc(1, sizeof(*m));
	struct mem_image *image = img_make();
	struct reader r = image_reader(image);
	struct pyinfo info = img_info();
	struct freelists_where where;
	struct obmalloc ob;

	m->pid = 4711;
	m->start_time = 99;
	m->time = 1700000000.25;
	m->prints = m->found = true;
	strcpy(m->comm, "worker");
	strcpy(m->version, "3.13.0");
	strcpy(m->allocator, "pymalloc");
	assert_int_equal(obmalloc_find(&info, &r, &ob), 0);
	m->layout = ob.layout;
	assert_int_equal(obmalloc_stats_read(&ob, &ob.state[0], &r, &m->state[0]), 0);
	m->nstates = 1;
	obmalloc_stats_add(&m->total, &m->state[0]);
	image_put_u32(image, IMG_INTERP + IMG_FIELD + 1696, 11);  /* dicts */
	image_put_u32(image, IMG_INTERP + IMG_FIELD + 152, 7);	  /* floats */
	image_put_u32(image, IMG_INTERP + IMG_FIELD + 328, 1999); /* 1-tuples */
	image_put_u32(image, IMG_INTERP + IMG_FIELD + 328 + 4 * 19, 3);
	image_put_u32(image, IMG_INTERP + IMG_FIELD + 1048, 100000); /* lists: no count */
	assert_int_equal(freelists_find(&info, &ob, &where), 0);
	assert_int_equal(freelists_read(&where, &r, IMG_INTERP, &m->main_lists), 0);
	m->lists = m->main_lists;
	image_free(image);
	return m;
}

/* What write() writes, owned by the caller. */
#define WRITTEN(call)                                                                              \
	({                                                                                         \
		char *text_ = NULL;                                                                \
		size_t len_;                                                                       \
		FILE *f = open_memstream(&text_, &len_);                                           \
		call;                                                                              \
		fclose(f);                                                                         \
		text_;                                                                             \
	})

static void test_free_lists(void **state)
{
	struct pymalloc_moment *m = make_moment();
	const struct freelists *l = &m->lists;

	(void)state;
	assert_int_equal(l->n, 24);
	assert_int_equal(l->unknown, 1);
	assert_string_equal(l->v[0].type, "PyDictObject");
	assert_int_equal(l->v[0].count, 11);
	assert_int_equal(l->v[3].count, FREELISTS_UNKNOWN);
	assert_string_equal(l->v[4].type, "PyTupleObject");
	assert_int_equal(l->v[4].items, 1);
	assert_int_equal(l->v[4].size, 32);
	assert_int_equal(l->v[4].count, 1999);
	assert_int_equal(l->v[23].items, 20);
	assert_int_equal(l->v[23].size, 184);
	assert_int_equal(l->v[23].count, 3);
	freelists_add(&m->lists, &m->main_lists);
	assert_int_equal(l->v[0].count, 22);
	assert_int_equal(l->unknown, 1);
	assert_null(freelists_type("PyEvilObject"));
	free(m);
}

static void test_stats_text(void **state)
{
	static const char expected[] =
		"Small block threshold = 512, in 32 size classes.\n"
		"\n"
		"class   size   num pools   blocks in use  avail blocks\n"
		"-----   ----   ---------   -------------  ------------\n"
		"    0     16           1              60           961\n"
		"    3     64           1               1           254\n"
		"   31    512           1              31             0\n"
		"\n"
		"# arenas allocated total           =                    7\n"
		"# arenas reclaimed                 =                    5\n"
		"# arenas highwater mark            =                    5\n"
		"# arenas allocated current         =                    2\n"
		"2 arenas * 1048576 bytes/arena     =            2,097,152\n"
		"\n"
		"# bytes in allocated blocks        =               16,896\n"
		"# bytes in available blocks        =               31,632\n"
		"124 unused pools * 16384 bytes     =            2,031,616\n"
		"# bytes lost to pool headers       =                  144\n"
		"# bytes lost to quantization       =                  480\n"
		"# bytes lost to arena alignment    =               16,384\n"
		"Total                              =            2,097,152\n"
		"\n"
		"arena map counts\n"
		"# arena map mid nodes              =                    1\n"
		"# arena map bot nodes              =                    2\n"
		"\n"
		"# bytes lost to arena map root     =              262,144\n"
		"# bytes lost to arena map mid      =              262,144\n"
		"# bytes lost to arena map bot      =              262,144\n"
		"Total                              =              786,432\n"
		"\n"
		"           11 free PyDictObjects * 48 bytes each =                  528\n"
		"        0 free PyDictKeysObjects * 32 bytes each =                    0\n"
		"           7 free PyFloatObjects * 24 bytes each =                  168\n"
		"1999 free 1-sized PyTupleObjects * 32 bytes each =               63,968\n";
	struct pymalloc_moment *m = make_moment();
	char *text = WRITTEN(pymalloc_write_stats(m, f));

	(void)state;
	assert_true(strlen(text) > strlen(expected));
	assert_memory_equal(text, expected, strlen(expected));
	assert_null(strstr(text, "PyListObject")); /* not known: no line */
	free(text);
	m->prints = false;
	text = WRITTEN(pymalloc_write_stats(m, f));
	assert_memory_equal(text, "           11 free PyDict", 24);
	free(text);
	free(m);
}

static void test_large_numbers(void **state)
{
	struct pymalloc_moment *m = make_moment();
	char *text;

	(void)state;
	m->state[0].ntimes = UINT64_MAX;
	m->state[0].highwater = 1234567890123456;
	text = WRITTEN(pymalloc_write_stats(m, f));
	assert_non_null(strstr(text, "highwater mark            =1,234,567,890,123,456\n"));
	assert_non_null(strstr(text, "total           =6,744,073,709,551,615\n"));
	free(text);
	free(m);
}

static char *write_file(const struct pymalloc_moment *m, char path[64])
{
	FILE *f;

	strcpy(path, "/tmp/pht-test-XXXXXX");
	f = fdopen(mkstemp(path), "w");
	assert_non_null(f);
	assert_int_equal(pymalloc_write_json(NULL, m, f), 0);
	fclose(f);
	return path;
}

static void test_json_and_back(void **state)
{
	struct pymalloc_moment *m = make_moment(), *back = calloc(1, sizeof(*back));
	struct obmalloc_bytes x, y;
	char path[64], *text;

	(void)state;
	write_file(m, path);
	assert_int_equal(pymalloc_load_json(path, back), 0);
	unlink(path);
	assert_int_equal(back->pid, 4711);
	assert_int_equal(back->start_time, 99);
	assert_true(back->time == m->time);
	assert_string_equal(back->version, "3.13.0");
	x = obmalloc_stats_bytes(&m->layout, &m->total);
	y = obmalloc_stats_bytes(&back->layout, &back->total);
	assert_memory_equal(&x, &y, sizeof(x));
	assert_int_equal(back->total.ntimes, m->total.ntimes);
	assert_int_equal(back->lists.n, m->lists.n);
	for (size_t i = 0; i < m->lists.n; i++)
		assert_int_equal(back->lists.v[i].count, m->lists.v[i].count);
	/* nothing differs */
	text = WRITTEN(pymalloc_write_text_diff(back, m, f));
	assert_non_null(strstr(text, "what changed"));
	assert_null(strstr(text, "class "));
	assert_null(strstr(text, "free "));
	free(text);
	free(back);
	free(m);
}

static void test_diff(void **state)
{
	struct pymalloc_moment *a = make_moment(), *b = make_moment();
	char *text;

	(void)state;
	b->total.class[3].used += 1000;
	b->total.class[31].used -= 30;
	b->lists.v[0].count = 2;
	b->time += 61;
	text = WRITTEN(pymalloc_write_text_diff(a, b, f));
	assert_non_null(strstr(text,
			       "class 3 (64 bytes): in use                        1             "
			       "1001            +1000\n"));
	assert_non_null(strstr(text,
			       "class 31 (512 bytes): in use                     31             "
			       "   1              -30\n"));
	assert_non_null(strstr(text,
			       "free PyDictObjects                               11             "
			       "   2               -9\n"));
	assert_non_null(strstr(text, "1 min 01 s"));
	assert_null(strstr(text, "class 0 "));
	free(text);
	text = WRITTEN(assert_int_equal(pymalloc_write_json(a, b, f), 0));
	assert_non_null(strstr(text, "\"size\":64,\"pools\":[1,1,0],\"in_use\":[1,1001,1000]"));
	assert_non_null(strstr(text, "\"type\":\"PyDictObject\",\"items\":0,\"count\":[11,2,-9]"));
	free(text);
	free(a);
	free(b);
}

static void test_text(void **state)
{
	struct pymalloc_moment *m = make_moment();
	char *text = WRITTEN(pymalloc_write_text(m, f));

	(void)state;
	assert_non_null(strstr(text, "stopped for 0 ms"));
	assert_non_null(strstr(text, "packed, the blocks in use would fill 1 of the 2 arenas"));
	assert_non_null(strstr(text, "1 of 24 lists could not be found"));
	free(text);
	m->found = false;
	text = WRITTEN(pymalloc_write_text(m, f));
	assert_non_null(strstr(text, "pymalloc holds no arenas"));
	free(text);
	free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_free_lists),    cmocka_unit_test(test_stats_text),
		cmocka_unit_test(test_large_numbers), cmocka_unit_test(test_json_and_back),
		cmocka_unit_test(test_diff),	      cmocka_unit_test(test_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
