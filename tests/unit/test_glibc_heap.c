// SPDX-License-Identifier: BSD-2-Clause
/*
 * glibc's heap from outside: of a live program that frees every other block,
 * against what malloc itself says; and of made-up memory that lies.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "glibc_heap.h"
#include "mem_image.h"

/* ---- a live heap: a Python with everything in malloc */

struct child {
	pid_t pid;
	int out, in;
};

/* Prints mallinfo2() of glibc 2.33+: in use and free in the heaps, in mappings; or zeros. */
static const char program[] =
	"import ctypes, sys\n"
	"class Info(ctypes.Structure):\n"
	"    _fields_ = [(n, ctypes.c_size_t) for n in (\"arena\", \"ordblks\", \"smblks\", "
	"\"hblks\", \"hblkhd\", \"usmblks\", \"fsmblks\", \"uordblks\", \"fordblks\", \"keep\")]\n"
	"libc = ctypes.CDLL(None)\n"
	"blocks = [bytearray(700 + i % 3000) for i in range(20000)]\n"
	"large = [bytearray(n) for n in (1000000, 2000000, 5000000)]\n"
	"kept = blocks[::2]\n"
	"del blocks\n"
	"f = getattr(libc, \"mallinfo2\", None)\n"
	"if f:\n"
	"    f.restype = Info\n"
	"    i = f()\n"
	"    print(i.arena, i.uordblks, i.fordblks, i.hblkhd, flush=True)\n"
	"else:\n"
	"    print(0, 0, 0, 0, flush=True)\n"
	"sys.stdin.read()\n";

static void child_start(struct child *c)
{
	int in[2], out[2];

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	fflush(NULL);
	c->pid = fork();
	assert_true(c->pid >= 0);
	if (!c->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		execl("/usr/bin/python3", "python3", "-S", "-c", program, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	c->in = in[1];
	c->out = out[0];
}

static void child_end(struct child *c)
{
	close(c->in);
	close(c->out);
	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
}

struct sums {
	u64 used, free, top, mapped, last_end;
	size_t tops;
};

static int add_chunk(void *ctx, const struct glibc_chunk *c)
{
	struct sums *s = ctx;

	assert_true(c->size >= 16 && c->avail >= 16);
	assert_true(c->addr >= s->last_end);
	s->last_end = c->addr + c->size;
	if (c->kind == GLIBC_USED)
		s->used += c->size;
	else if (c->kind == GLIBC_FREE)
		s->free += c->size;
	else
		s->top += c->size;
	s->tops += c->kind == GLIBC_TOP;
	return 0;
}

static u64 mapped_bytes(const struct reader *r, const struct proc_maps *maps)
{
	u64 sum = 0, user;

	for (size_t i = 0; i < maps->n; i++) {
		const struct proc_map *m = &maps->v[i];
		u64 at = m->start;

		if (m->inode || !m->w || m->path[0])
			continue;
		while (at < m->end) {
			u8 head[GLIBC_MMAPPED_HEAD];
			u64 size = 0;

			if (!reader_read(r, at, head, sizeof(head)))
				size = glibc_mmapped_chunk(head, at, m->end, &user);
			sum += size;
			at += size ? size : 4096;
		}
	}
	return sum;
}

static bool near(u64 a, u64 b, u64 slack)
{
	return (a > b ? a - b : b - a) <= slack;
}

static void test_live(void **state)
{
	unsigned long long arena, used, free_bytes, mapped;
	struct glibc_walk_stats stats;
	struct proc_maps maps;
	struct glibc_heap heap;
	struct sums sums = {0};
	struct child child;
	struct reader r;
	FILE *f;

	child_start(&child);
	f = fdopen(dup(child.out), "r");
	assert_int_equal(fscanf(f, "%llu %llu %llu %llu", &arena, &used, &free_bytes, &mapped), 4);
	fclose(f);
	usleep(200000);
	r = reader_proc(&child.pid);
	assert_int_equal(proc_maps_read(child.pid, &maps), 0);
	assert_int_equal(glibc_heap_find(&r, &maps, &heap), 0);
	assert_true(heap.narenas >= 1 && heap.arenas[0].main && !heap.truncated);
	assert_int_equal(glibc_heap_walk(&heap, &r, add_chunk, &sums, &stats), 0);
	assert_int_equal(stats.torn, 0);
	assert_int_equal(sums.tops, 1);
	assert_true(sums.free > 10u << 20 && sums.used > 10u << 20);
	if (arena) {
		/* Printing and reading took a few blocks more. */
		assert_true(near(sums.used + sums.free + sums.top, arena, 64));
		assert_true(near(sums.used - stats.tcache_bytes, used - stats.tcache_bytes, 65536));
		assert_true(near(sums.free + sums.top, free_bytes, 65536));
		assert_true(near(mapped_bytes(&r, &maps), mapped, 65536));
		assert_true(stats.tcache_chunks > 0);
	}
	glibc_heap_free(&heap);
	proc_maps_free(&maps);
	child_end(&child);
}

/* ---- a made-up one */

#define DATA	0x7f0000100000ull /* of "libc.so.6" */
#define HEAP	0x10000000ull
#define THREADS 0x7f1000000000ull /* the heap of another arena */
#define ARENA	(DATA + 0x100)
#define BINS	112
#define NEXT	(BINS + 2032 + 16)

static struct proc_map map_list[] = {
	{.start = HEAP, .end = HEAP + 0x21000, .r = true, .w = true, .path = "[heap]"},
	{.start = DATA,
	 .end = DATA + 0x2000,
	 .r = true,
	 .w = true,
	 .inode = 7,
	 .path = "/lib/libc.so.6"},
	{.start = THREADS, .end = THREADS + 0x21000, .r = true, .w = true, .path = ""},
};
static const struct proc_maps made_up_maps = {map_list, 3};

static void put_arena(struct mem_image *m, u64 addr, u64 top, u64 next)
{
	image_put_u64(m, addr + 96, top);
	for (u64 i = 0; i < 127; i++) {
		u64 self = addr + BINS + 16 * i - 16;

		image_put_u64(m, addr + BINS + 16 * i, self);
		image_put_u64(m, addr + BINS + 16 * i + 8, self);
	}
	image_put_u64(m, addr + NEXT, next);
	image_put_u64(m, addr + NEXT + 24, 0x21000);
}

static struct mem_image *made_up(void)
{
	struct mem_image *m = calloc(1, sizeof(*m));
	u64 arena2 = THREADS + 48;

	for (size_t i = 0; i < 3; i++)
		for (u64 a = map_list[i].start; a < map_list[i].end; a += IMAGE_PAGE)
			image_add_page(m, a);
	put_arena(m, ARENA, HEAP + 0x1000, arena2);
	put_arena(m, arena2, THREADS + 0x2000, ARENA);
	/* main: one in use, one free, one in use, the top */
	image_put_u64(m, HEAP + 8, 0x401);
	image_put_u64(m, HEAP + 0x408, 0x801);
	image_put_u64(m, HEAP + 0xc08, 0x400);
	image_put_u64(m, HEAP + 0x1008, 0x20001);
	/* the other: descriptor, arena, one in use, the top */
	image_put_u64(m, THREADS, arena2);
	image_put_u64(m, THREADS + 16, 0x21000);
	image_put_u64(m, THREADS + 48 + 2200 + 8 + 8, 0x2000 - (48 + 2200 + 8) + 5);
	image_put_u64(m, THREADS + 0x2008, 0x1f001);
	return m;
}

static void test_made_up(void **state)
{
	struct mem_image *m = made_up();
	struct reader r = image_reader(m);
	struct glibc_walk_stats stats;
	struct glibc_heap heap;
	struct sums sums = {0};

	assert_int_equal(glibc_heap_find(&r, &made_up_maps, &heap), 0);
	assert_int_equal(heap.narenas, 2);
	assert_int_equal(heap.nranges, 2);
	assert_int_equal(heap.arenas[0].addr, ARENA);
	assert_int_equal(heap.arenas[0].system_mem, 0x21000);
	assert_int_equal(glibc_heap_walk(&heap, &r, add_chunk, &sums, &stats), 0);
	assert_int_equal(stats.torn, 0);
	assert_int_equal(sums.used, 0x400 + 0x400 + 0x2000 - (48 + 2200 + 8));
	assert_int_equal(sums.free, 0x800);
	assert_int_equal(sums.top, 0x20000 + 0x1f000);
	glibc_heap_free(&heap);
	image_free(m);
}

static int find_and_walk(struct mem_image *m, struct glibc_walk_stats *stats, bool *truncated)
{
	struct reader r = image_reader(m);
	struct glibc_heap heap;
	struct sums sums = {0};
	int err = glibc_heap_find(&r, &made_up_maps, &heap);

	*stats = (struct glibc_walk_stats){0};
	if (err)
		return err;
	*truncated = heap.truncated;
	err = glibc_heap_walk(&heap, &r, add_chunk, &sums, stats);
	glibc_heap_free(&heap);
	return err;
}

static void test_lies(void **state)
{
	static const struct {
		u64 addr, value;
		int err;
		u64 torn;
	} lies[] = {
		{ARENA + BINS + 16 * 126, 0, -ENOENT, 0},     /* not the bins of an arena */
		{ARENA + NEXT, THREADS + 0x5000, -ENOENT, 0}, /* no arena there */
		{ARENA + NEXT, 1, -ENOENT, 0},
		{THREADS + 48 + NEXT, THREADS + 48, -ENOENT, 0}, /* a ring without the main one */
		{HEAP + 0x408, 0x7fffffffffffff01ull, 0, 1},	 /* far too large */
		{HEAP + 0x408, 0x1000000000001ull, 0, 1},	 /* a terabyte and more */
		{HEAP + 0x408, 0x819, 0, 1},			 /* not a multiple of 16 */
		{HEAP + 0x408, 1, 0, 0},			 /* nothing: the end */
		{THREADS + 16, UINT64_MAX, 0, 0},		 /* heap without end: not one */
		{THREADS, ARENA, 0, 0},				 /* somebody else's heap */
	};
	bool truncated;

	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		struct mem_image *m = made_up();
		struct glibc_walk_stats stats;

		image_put_u64(m, lies[i].addr, lies[i].value);
		assert_int_equal(find_and_walk(m, &stats, &truncated), lies[i].err);
		assert_int_equal(stats.torn, lies[i].torn);
		image_free(m);
	}
}

/* Lists of fast bins that lead to themselves end. */
static void test_cycles(void **state)
{
	struct mem_image *m = made_up();
	struct glibc_walk_stats stats;
	bool truncated;

	image_put_u64(m, ARENA + 16, HEAP + 0x2000);
	image_put_u64(m, HEAP + 0x2008, 0x21);
	image_put_u64(m, HEAP + 0x2010, HEAP + 0x2000);
	assert_int_equal(find_and_walk(m, &stats, &truncated), 0);
	/* A heap that says it comes after itself. */
	image_put_u64(m, THREADS + 48 + 96, THREADS + 0x4000000 + 0x2000);
	assert_int_equal(find_and_walk(m, &stats, &truncated), 0);
	image_free(m);
}

static void test_mapped(void **state)
{
	u8 head[GLIBC_MMAPPED_HEAD] = {0};
	u64 size = 0x5002, user, at = 0x7f0000000000ull;

	memcpy(head + 8, &size, 8);
	assert_int_equal(glibc_mmapped_chunk(head, at, at + 0x5000, &user), 0x5000);
	assert_int_equal(user, at + 16);
	assert_int_equal(glibc_mmapped_chunk(head, at, at + 0x4000, &user), 0);
	assert_int_equal(glibc_mmapped_chunk(head, at + 16, at + 0x9000, &user), 0);
	size = 0x4ff2; /* 2.43 leaves the header out */
	memcpy(head + 8, &size, 8);
	assert_int_equal(glibc_mmapped_chunk(head, at, at + 0x5000, &user), 0x5000);
	size = 0x5003; /* of a heap */
	memcpy(head + 8, &size, 8);
	assert_int_equal(glibc_mmapped_chunk(head, at, at + 0x6000, &user), 0);
	size = UINT64_MAX & ~0xfffull;
	size |= 2;
	memcpy(head + 8, &size, 8);
	assert_int_equal(glibc_mmapped_chunk(head, at, UINT64_MAX, &user), 0);
	/* Aligned to 64: the chunk lies further in. */
	memset(head, 0, sizeof(head));
	size = 0x30;
	memcpy(head + 0x30, &size, 8);
	size = (0x5000 - 0x30) | 2;
	memcpy(head + 0x38, &size, 8);
	assert_int_equal(glibc_mmapped_chunk(head, at, at + 0x5000, &user), 0x5000);
	assert_int_equal(user, at + 0x40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_live),   cmocka_unit_test(test_made_up),
		cmocka_unit_test(test_lies),   cmocka_unit_test(test_cycles),
		cmocka_unit_test(test_mapped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
