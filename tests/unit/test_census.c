// SPDX-License-Identifier: BSD-2-Clause
/*
 * A census of every interpreter of this host, against what it was told to
 * make; of recorded memory with anything written over it; and its arithmetic.
 * Needs the right to ptrace its own children.  PHT_FUZZ_SECONDS: how long
 * memory is corrupted (default 3).
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "census.h"
#include "census_diff.h"
#include "census_refs.h"
#include "log.h"
#include "mem_image.h"
#include "pythons.h"

/* ---- a Python that says "ready" and waits */

struct child {
	pid_t pid;
	int in, out;
};

/* Until it waits for us, and has for a moment. */
static void wait_asleep(pid_t pid)
{
	char state[64];
	int asleep = 0;

	for (int i = 0; i < 2000 && asleep < 5; i++) {
		assert_int_equal(proc_status(pid, "State", state, sizeof(state)), 0);
		asleep = state[0] == 'S' ? asleep + 1 : 0;
		usleep(5000);
	}
	assert_true(asleep == 5);
}

static void child_start(struct child *c, const char *command, const char *program)
{
	int in[2], out[2];
	char line[6000], word[6] = "";

	snprintf(line, sizeof(line),
		 "exec %s -S -c '%s\nimport sys\nprint(\"ready\", flush=True)\n"
		 "sys.stdin.read()'",
		 command, program);
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	fflush(NULL);
	c->pid = fork();
	assert_true(c->pid >= 0);
	if (!c->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		execl("/bin/sh", "sh", "-c", line, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	c->in = in[1];
	c->out = out[0];
	for (size_t n = 0; n < 5;) {
		ssize_t got = read(c->out, word + n, 5 - n);

		assert_true(got > 0);
		n += (size_t)got;
	}
	assert_string_equal(word, "ready");
	wait_asleep(c->pid);
}

static void child_end(struct child *c)
{
	close(c->in);
	close(c->out);
	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
}

static const struct census_row *row_of(const struct census *c, const char *module, const char *name)
{
	for (size_t i = 0; i < c->nrow; i++)
		if (!strcmp(c->row[i].module, module) && !strcmp(c->row[i].name, name))
			return &c->row[i];
	return NULL;
}

static u64 count_of(const struct census *c, const char *module, const char *name)
{
	const struct census_row *row = row_of(c, module, name);

	return row ? row->count : 0;
}

/* ---- against what was made */

static const char known_contents[] = "class Plain:\n"
				     "    def __init__(self, i):\n"
				     "        self.a = i\n"
				     "class Slots:\n"
				     "    __slots__ = (\"a\", \"b\", \"c\")\n"
				     "class Floats(float):\n"
				     "    pass\n"
				     "plain = [Plain(None) for i in range(3000)]\n"
				     "slots = [Slots() for i in range(7000)]\n"
				     "floats = [Floats(i) for i in range(500)]\n"
				     "big = [b\"x\" * (100000 + i) for i in range(30)]\n"
				     "huge = bytearray(7000000)\n"
				     "wide = [0] * 300000\n"
				     "complexes = [complex(i) for i in range(4000)]\n";

static void check_contents(const struct python *py)
{
	struct census_opts opts = {.top = 5};
	struct child child;
	struct census c;

	print_message("%s (%x)\n", py->command, py->hex);
	child_start(&child, py->command, known_contents);
	assert_int_equal(census_take(child.pid, &opts, &c), 0);
	child_end(&child);

	assert_int_equal(count_of(&c, "__main__", "Plain"), 3000);
	assert_int_equal(count_of(&c, "__main__", "Slots"), 7000);
	assert_int_equal(row_of(&c, "__main__", "Slots")->bytes, 7000 * (16 + 24 + 16));
	assert_int_equal(count_of(&c, "__main__", "Floats"), 500);
	assert_in_range(count_of(&c, "builtins", "complex"), 4000, 4010);
	/* The largest ones. */
	assert_true(c.strings.n == 5 && c.containers.n == 5);
	assert_string_equal(c.strings.v[0].name, "bytearray");
	assert_int_equal(c.strings.v[0].length, 7000000);
	assert_string_equal(c.strings.v[1].name, "bytes");
	assert_int_equal(c.strings.v[1].length, 100029);
	assert_string_equal(c.containers.v[0].name, "list");
	assert_int_equal(c.containers.v[0].length, 300000);
	/* Nearly every small block is accounted for. */
	assert_true(c.other_pool_bytes * 20 < c.object_bytes);
	assert_int_equal(c.heap.torn_pools + c.heap.torn_chunks + c.heap.vanished, 0);
	for (u32 i = 0; i < OBMALLOC_CLASSES; i++)
		assert_int_equal(c.class[i].used, c.class[i].objects + c.class[i].freelist +
							  c.class[i].data + c.class[i].other);
	census_free(&c);
}

static void test_known_contents(void **state)
{
	static struct pythons ps;

	pythons_find(&ps);
	assert_true(ps.n > 0);
	for (size_t i = 0; i < ps.n; i++)
		if (!strstr(ps.v[i].command, "chroot"))
			check_contents(&ps.v[i]);
}

/* ---- referrers */

static const char referring[] = "class Target:\n"
				"    pass\n"
				"class Holder:\n"
				"    __slots__ = (\"t\",)\n"
				"one = Target()\n"
				"items = [one] * 50\n"
				"pair = (one, one)\n"
				"holders = [Holder() for i in range(40)]\n"
				"for h in holders:\n"
				"    h.t = one\n"
				"table = dict((i, one) for i in range(20))\n";

struct request {
	const char *what;
	struct census_refs refs;
	int err;
};

static int ask(void *ctx, struct census_heap *h, struct census_typer *t, const struct census *c)
{
	struct request *r = ctx;

	(void)c;
	r->err = census_refs_find(h, t, r->what, &r->refs);
	return 0;
}

static u64 references_from(const struct census_refs *refs, const char *name)
{
	for (size_t i = 0; i < refs->nrow; i++)
		if (refs->row[i].name && !strcmp(refs->row[i].name, name))
			return refs->row[i].references;
	return 0;
}

static void refer(pid_t pid, struct request *r)
{
	struct census_opts opts = {.top = 1, .then = ask, .ctx = r};
	struct census c;

	assert_int_equal(census_take(pid, &opts, &c), 0);
	census_free(&c);
}

static void test_referrers(void **state)
{
	struct request r = {.what = "__main__.Target"}, none = {.what = "no.such.Type"},
		       bad = {.what = "12monkeys"};
	struct child child;

	child_start(&child, "/usr/bin/python3", referring);
	refer(child.pid, &r);
	refer(child.pid, &none);
	refer(child.pid, &bad);
	child_end(&child);
	assert_int_equal(r.err, 0);
	assert_int_equal(r.refs.targets, 1);
	assert_int_equal(references_from(&r.refs, "Holder"), 40);
	assert_in_range(references_from(&r.refs, "list"), 50, 55);
	assert_in_range(references_from(&r.refs, "tuple"), 2, 6);
	assert_in_range(references_from(&r.refs, "dict"), 21, 30);
	census_refs_free(&r.refs);
	assert_int_equal(none.err, -ENOENT);
	assert_int_equal(bad.err, -EINVAL);
}

/* ---- memory with anything written over it */

struct recorded {
	struct pyinfo info;
	struct pytypes_known known;
	struct mem_image *image;
	struct proc_maps maps;
	struct child child; /* stays, for what is read of /proc */
};

static struct proc_maps copy_maps(const struct proc_maps *maps)
{
	struct proc_maps copy = {calloc(maps->n, sizeof(*copy.v)), maps->n};

	for (size_t i = 0; i < maps->n; i++) {
		copy.v[i] = maps->v[i];
		copy.v[i].path = strdup(maps->v[i].path);
	}
	return copy;
}

static int census_of(const struct recorded *rec, struct census *c, struct request *req)
{
	struct proc_maps maps = copy_maps(&rec->maps);
	struct reader r = image_reader(rec->image);
	struct census_opts opts = {.top = 10, .then = ask, .ctx = req};

	r.deadline = reader_now() + 10ull * 1000000000;
	return census_take_reader(&rec->info, &r, &maps, &rec->known, &opts, c);
}

static void record(struct recorded *rec, const char *command)
{
	struct request req = {.what = "dict"};
	struct reader source;
	struct census c;

	child_start(&rec->child, command,
		    "x = [[i] for i in range(1000)]\ny = dict((str(i), i) for i in x)");
	assert_int_equal(pyinfo_examine(rec->child.pid, &rec->info), 0);
	assert_int_equal(proc_maps_read(rec->child.pid, &rec->maps), 0);
	assert_int_equal(census_find_known(&rec->info, &rec->maps, &rec->known), 0);
	rec->image = calloc(1, sizeof(*rec->image));
	source = reader_proc(&rec->child.pid);
	rec->image->source = &source;
	assert_int_equal(census_of(rec, &c, &req), 0);
	assert_true(c.objects > 5000);
	census_free(&c);
	census_refs_free(&req.refs);
	rec->image->source = NULL;
}

static u64 seed = 1;

static u64 next_random(void)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return seed >> 20;
}

/* Numbers that break things. */
static u64 evil(struct mem_image *m)
{
	const struct image_page *p = &m->slot[next_random() % IMAGE_SLOTS];

	switch (next_random() % 8) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX - next_random() % 64;
	case 2:
		return 1ull << next_random() % 64;
	case 3:
		return 1ull << 40; /* 1 TB */
	case 4:
		return next_random() % 4096;
	case 5:
		return next_random() << 32 | next_random();
	default: /* cycles, and pointers to the wrong thing */
		return p->data ? p->addr + (next_random() % IMAGE_PAGE & ~7ull) : 16;
	}
}

struct undo {
	u8 *at;
	u64 was;
};

#define PATCHES 400

static size_t corrupt(struct mem_image *m, struct undo *undo)
{
	size_t n = 0, want = 1 + next_random() % PATCHES;

	while (n < want) {
		struct image_page *p = &m->slot[next_random() % IMAGE_SLOTS];
		u64 value = evil(m);

		if (!p->data)
			continue;
		undo[n].at = p->data + (next_random() % IMAGE_PAGE & ~7ull);
		memcpy(&undo[n].was, undo[n].at, 8);
		memcpy(undo[n].at, &value, 8);
		n++;
	}
	return n;
}

static void test_corrupted(void **state)
{
	const char *env = getenv("PHT_FUZZ_SECONDS");
	u64 seconds = env ? strtoull(env, NULL, 10) : 3;
	u64 end, slowest = 0, rounds = 0, answered = 0, objects = 0;
	struct undo undo[PATCHES];
	static struct recorded rec;

	record(&rec, "/usr/bin/python3");
	seed = env ? reader_now() : 1;
	print_message("seed %llu\n", (unsigned long long)seed);
	end = reader_now() + seconds * 1000000000;
	for (; reader_now() < end; rounds++) {
		struct request req = {.what = rounds % 2 ? "list" : "0x7f0000000010"};
		u64 begin = reader_now(), took;
		size_t n = corrupt(rec.image, undo);
		struct census c;

		if (!census_of(&rec, &c, &req)) {
			answered++;
			objects += c.objects;
			census_free(&c);
			census_refs_free(&req.refs);
		}
		while (n-- > 0)
			memcpy(undo[n].at, &undo[n].was, 8);
		took = reader_now() - begin;
		if (took > slowest)
			slowest = took;
	}
	print_message("%llu rounds, %llu with an answer, of %llu objects; the slowest %.2f s\n",
		      (unsigned long long)rounds, (unsigned long long)answered,
		      (unsigned long long)objects, (double)slowest / 1e9);
	assert_true(answered * 2 > rounds);
	assert_true(objects > 1000 * answered);
	assert_true(slowest < 10ull * 1000000000);
	child_end(&rec.child);
	image_free(rec.image);
	proc_maps_free(&rec.maps);
	pyinfo_free(&rec.info);
}

/* ---- arithmetic */

static void put(u8 *p, u64 v)
{
	memcpy(p, &v, 8);
}

static void test_old_tables(void **state)
{
	const struct pylayout *l = pylayout_find(0x030803f0);
	u8 head[PYKEYS_HEAD] = {0};
	struct pykeys k;

	put(head, 1);
	put(head + 8, 8);
	put(head + 24, 4);
	put(head + 32, 1);
	assert_int_equal(pykeys_parse(l, head, &k), 0);
	/* sys.getsizeof({1: 1}) is 232: 48 for the dict, 16 for the collector. */
	assert_int_equal(k.bytes, 232 - 48 - 16);
	put(head + 8, 2048);
	put(head + 24, 0);
	put(head + 32, 1000);
	assert_int_equal(pykeys_parse(l, head, &k), 0);
	/* getsizeof(dict.fromkeys(range(1000))) */
	assert_int_equal(k.bytes, 36960 - 48 - 16);
	assert_int_equal(pykeys_bytes_for(l, &k, 5), 168);
	assert_int_equal(pykeys_bytes_for(l, &k, 0), 0);
	/* Nonsense. */
	put(head + 8, 12);
	assert_int_equal(pykeys_parse(l, head, &k), -EINVAL);
	put(head + 8, 1ull << 50);
	assert_int_equal(pykeys_parse(l, head, &k), -EINVAL);
	put(head + 8, 8);
	put(head + 32, 9);
	assert_int_equal(pykeys_parse(l, head, &k), -EINVAL);
}

static void test_new_tables(void **state)
{
	const struct pylayout *l = pylayout_find(0x030d00f0);
	u8 head[PYKEYS_HEAD] = {0};
	struct pykeys k;

	put(head, 1);
	head[8] = 3;
	head[9] = 3;
	head[10] = 1; /* str keys */
	put(head + 16, 4);
	put(head + 24, 1);
	assert_int_equal(pykeys_parse(l, head, &k), 0);
	assert_int_equal(k.bytes, 184 - 48 - 16); /* getsizeof({"a": 1}) */
	head[10] = 0;
	assert_int_equal(pykeys_parse(l, head, &k), 0);
	assert_int_equal(k.bytes, 224 - 48 - 16); /* getsizeof({1: 1}) */
	head[8] = 200;
	assert_int_equal(pykeys_parse(l, head, &k), -EINVAL);
	head[8] = 3;
	head[9] = 255;
	assert_int_equal(pykeys_parse(l, head, &k), -EINVAL);
	head[9] = 3;
	put(head + 16, UINT64_MAX);
	assert_int_equal(pykeys_parse(l, head, &k), -EINVAL);
	assert_null(pylayout_find(0x030700f0));
	assert_null(pylayout_find(0x02070000));
}

/* ---- two moments */

static struct census_rows parsed(const char *text)
{
	struct census_rows rows;

	assert_int_equal(census_rows_parse(text, strlen(text), &rows), 0);
	return rows;
}

static void test_diff(void **state)
{
	struct census_rows a =
		parsed("{\"types\":[{\"module\":\"m\",\"name\":\"A\",\"count\":10,"
		       "\"bytes\":1000},{\"module\":\"m\",\"name\":\"B\",\"count\":5,"
		       "\"bytes\":50},{\"module\":\"n\",\"name\":\"A\",\"count\":1,"
		       "\"bytes\":9}]}");
	struct census_rows b =
		parsed("{\"types\":[{\"module\":\"m\",\"name\":\"A\",\"count\":11,"
		       "\"bytes\":1100},{\"module\":\"m\",\"name\":\"C\",\"count\":5,"
		       "\"bytes\":5000},{\"module\":\"n\",\"name\":\"A\",\"count\":1,"
		       "\"bytes\":9}]}");
	struct census_delta *d;
	size_t n;

	assert_int_equal(census_compare(&a, &b, &d, &n), 0);
	assert_int_equal(n, 3);
	assert_string_equal(d[0].name, "C");
	assert_int_equal(d[0].bytes[0], 0);
	assert_int_equal(d[0].bytes[1], 5000);
	assert_string_equal(d[1].name, "A");
	assert_string_equal(d[1].module, "m");
	assert_int_equal(d[1].count[0], 10);
	assert_int_equal(d[1].count[1], 11);
	assert_string_equal(d[2].name, "B");
	assert_int_equal(d[2].count[1], 0);
	free(d);
	census_rows_clear(&a);
	census_rows_clear(&b);
}

static void test_bad_files(void **state)
{
	static const char *const bad[] = {
		"",
		"[]",
		"{}",
		"{\"types\":3}",
		"{\"types\":[1]}",
		"{\"types\":[{\"module\":\"m\"}]}",
		"{\"types\":[{\"module\":1,\"name\":\"x\"}]}",
		"{\"types\":[{\"module\":\"m\",\"name\":\"x\"}",
		"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
	};
	struct census_rows rows;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_not_equal(census_rows_parse(bad[i], strlen(bad[i]), &rows), 0);
	rows = parsed(
		"{\"types\":[{\"module\":\"m\",\"name\":\"x\",\"count\":-5,\"bytes\":1e300}]}");
	assert_int_equal(rows.v[0].count, 0);
	census_rows_clear(&rows);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_old_tables),     cmocka_unit_test(test_new_tables),
		cmocka_unit_test(test_diff),	       cmocka_unit_test(test_bad_files),
		cmocka_unit_test(test_known_contents), cmocka_unit_test(test_referrers),
		cmocka_unit_test(test_corrupted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
