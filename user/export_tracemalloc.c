// SPDX-License-Identifier: BSD-2-Clause
/*
 * A pickle that tracemalloc.Snapshot.load() opens, on 3.8 to 3.14.  A trace
 * is one block there, so a stack with n blocks is its trace n times over:
 * written once, repeated while loading.  Traces have three elements in 3.8
 * and four from 3.9 on; the pickle asks Traceback.__init__ which, and cuts.
 * It is built of nothing but tracemalloc, builtins, itertools and operator.
 */
#include <errno.h>
#include <string.h>

#include "export.h"
#include "export_text.h"
#include "log.h"

/* More traces than this would take a reader gigabytes: 8 bytes each and its dictionaries. */
#define MAX_TRACES 4000000.0

enum opcode {
	OP_PROTO = 0x80,
	OP_STACK_GLOBAL = 0x93,
	OP_MEMOIZE = 0x94,
	OP_SHORT_TEXT = 0x8c,
	OP_LONG1 = 0x8a,
	OP_NEWOBJ = 0x81,
	OP_TUPLE1 = 0x85,
	OP_TUPLE2 = 0x86,
	OP_TEXT = 'X',
	OP_INT4 = 'J',
	OP_GET = 'j',
	OP_MARK = '(',
	OP_TUPLE = 't',
	OP_EMPTY_TUPLE = ')',
	OP_EMPTY_LIST = ']',
	OP_APPENDS = 'e',
	OP_EMPTY_DICT = '}',
	OP_SETITEMS = 'u',
	OP_REDUCE = 'R',
	OP_BUILD = 'b',
	OP_NONE = 'N',
	OP_STOP = '.',
};

struct pickle {
	const struct export_input *in;
	FILE *out;
	u32 *frame_memo;	/* frame -> where its tuple is memoized, + 1 */
	struct hashmap strings; /* address -> the same */
	u32 memoized;
	double merge; /* blocks that one trace stands for; 1 unless there are too many */
	bool failed;
};

static void op(const struct pickle *p, enum opcode code)
{
	fputc(code, p->out);
}

static void put_le(const struct pickle *p, u64 v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		fputc(v >> 8 * i & 0xff, p->out);
}

static void put_int(const struct pickle *p, u64 v)
{
	if (v <= INT32_MAX) {
		op(p, OP_INT4);
		put_le(p, v, 4);
	} else {
		op(p, OP_LONG1);
		put_le(p, 9, 1);
		put_le(p, v, 8);
		put_le(p, 0, 1); /* the sign */
	}
}

static void put_text(const struct pickle *p, const char *text)
{
	size_t len = strlen(text);

	op(p, len < 256 ? OP_SHORT_TEXT : OP_TEXT);
	put_le(p, len, len < 256 ? 1 : 4);
	fputs(text, p->out);
}

static void put_global(const struct pickle *p, const char *module, const char *name)
{
	put_text(p, module);
	put_text(p, name);
	op(p, OP_STACK_GLOBAL);
}

/* The callable and its one argument are on the stack. */
static void call1(const struct pickle *p)
{
	op(p, OP_TUPLE1);
	op(p, OP_REDUCE);
}

static void call2(const struct pickle *p)
{
	op(p, OP_TUPLE2);
	op(p, OP_REDUCE);
}

static u32 memoize(struct pickle *p)
{
	op(p, OP_MEMOIZE);
	return ++p->memoized;
}

static void get(const struct pickle *p, uintptr_t memo)
{
	op(p, OP_GET);
	put_le(p, memo - 1, 4);
}

static void put_file(struct pickle *p, const char *file)
{
	char valid[3 * 4096 + 4];
	uintptr_t known = (uintptr_t)hashmap_get(&p->strings, (uintptr_t)file, 0);

	if (known) {
		get(p, known);
		return;
	}
	/* tracemalloc has this for a file that is not known. */
	valid_utf8(valid, sizeof(valid), *file ? file : "<unknown>");
	put_text(p, valid);
	if (hashmap_put(&p->strings, (uintptr_t)file, 0, (void *)(uintptr_t)memoize(p)))
		p->failed = true;
}

static void put_frame(struct pickle *p, u32 frame)
{
	const struct frame *f = stacks_frame(p->in->stacks, frame);

	if (p->frame_memo[frame]) {
		get(p, p->frame_memo[frame]);
		return;
	}
	put_file(p, f->file);
	put_int(p, f->line > 0 ? (u64)f->line : 0);
	op(p, OP_TUPLE2);
	p->frame_memo[frame] = memoize(p);
}

/* tracemalloc numbers Python's own allocations 0. */
static u64 domain_of(const struct snap_row *row)
{
	switch (row->domain) {
	case PHT_DOM_MMAP:
	case PHT_DOM_FAULT:
		return row->domain;
	default:
		return 0;
	}
}

static void put_trace(struct pickle *p, const struct snap_row *row, u64 size)
{
	const struct stacks *stacks = p->in->stacks;
	u32 at = row->stack, depth = 0;

	op(p, OP_MARK);
	put_int(p, domain_of(row));
	put_int(p, size);
	op(p, OP_MARK);
	do { /* innermost first */
		u32 top = stacks_top(stacks, at);

		/* Its tracebacks have no threads. */
		if (stacks_frame(stacks, top)->kind != FRAME_THREAD) {
			put_frame(p, top);
			depth++;
		}
		at = stacks_parent(stacks, at);
	} while (at >= STACK_FIRST);
	op(p, OP_TUPLE);
	put_int(p, depth);
	op(p, OP_TUPLE);
}

/* How many traces a row becomes, and their sizes, which add up to its bytes. */
struct share {
	u64 traces, size, larger; /* so many are one byte larger */
};

static struct share share_of(const struct pickle *p, const struct snap_row *row)
{
	u64 bytes = export_whole(row->live.bytes);
	struct share s = {.traces = export_whole(row->live.blocks / p->merge)};

	if (!s.traces && (bytes || row->live.blocks >= 0.5))
		s.traces = 1;
	if (s.traces) {
		s.size = bytes / s.traces;
		s.larger = bytes % s.traces;
	}
	return s;
}

static void put_list(struct pickle *p, void (*each)(struct pickle *, const struct snap_row *,
						    const struct share *, bool larger))
{
	op(p, OP_EMPTY_LIST);
	op(p, OP_MARK);
	for (size_t i = 0; i < p->in->nrows; i++) {
		const struct snap_row *row = &p->in->rows[i];
		struct share s = share_of(p, row);

		if (s.larger)
			each(p, row, &s, true);
		if (s.traces > s.larger)
			each(p, row, &s, false);
	}
	op(p, OP_APPENDS);
}

static void each_trace(struct pickle *p, const struct snap_row *row, const struct share *s,
		       bool larger)
{
	put_trace(p, row, s->size + larger);
}

static void each_count(struct pickle *p, const struct snap_row *row, const struct share *s,
		       bool larger)
{
	(void)row;
	put_int(p, larger ? s->larger : s->traces - s->larger);
}

/* slice(None, 3) in 3.8, slice(None, 4) later: Traceback() has a parameter more there. */
static void put_slice(const struct pickle *p)
{
	put_global(p, "builtins", "slice");
	op(p, OP_NONE);
	put_global(p, "operator", "add");
	put_global(p, "operator", "attrgetter");
	put_text(p, "__init__.__code__.co_argcount");
	call1(p);
	put_global(p, "tracemalloc", "Traceback");
	call1(p);
	put_int(p, 1);
	call2(p);
	call2(p);
}

/* list(chain.from_iterable(starmap(repeat, zip(map(itemgetter(slice), traces), counts)))) */
static void put_traces(struct pickle *p)
{
	put_global(p, "builtins", "list");
	put_global(p, "itertools", "chain.from_iterable");
	put_global(p, "itertools", "starmap");
	put_global(p, "itertools", "repeat");
	put_global(p, "builtins", "zip");
	put_global(p, "builtins", "map");
	put_global(p, "operator", "itemgetter");
	put_slice(p);
	call1(p);
	put_list(p, each_trace);
	call2(p);
	put_list(p, each_count);
	call2(p);
	call2(p);
	call1(p);
	call1(p);
}

static u32 deepest(const struct export_input *in)
{
	u32 most = 1;

	for (size_t i = 0; i < in->nrows; i++)
		if (stacks_depth(in->stacks, in->rows[i].stack) > most)
			most = stacks_depth(in->stacks, in->rows[i].stack);
	return most;
}

/* An object of a class of tracemalloc, made without its __init__. */
static void put_object(const struct pickle *p, const char *class)
{
	put_global(p, "tracemalloc", class);
	op(p, OP_EMPTY_TUPLE);
	op(p, OP_NEWOBJ);
	op(p, OP_EMPTY_DICT);
	op(p, OP_MARK);
}

static void put_snapshot(struct pickle *p)
{
	op(p, OP_PROTO);
	put_le(p, 4, 1);
	put_object(p, "Snapshot");
	put_text(p, "traces");
	put_object(p, "_Traces");
	put_text(p, "_traces");
	put_traces(p);
	op(p, OP_SETITEMS);
	op(p, OP_BUILD);
	put_text(p, "traceback_limit");
	put_int(p, deepest(p->in));
	op(p, OP_SETITEMS);
	op(p, OP_BUILD);
	op(p, OP_STOP);
}

static double count_blocks(const struct export_input *in)
{
	double blocks = 0;

	for (size_t i = 0; i < in->nrows; i++)
		blocks += in->rows[i].live.blocks;
	return blocks;
}

static int export(FILE *out, const struct export_input *in)
{
	struct pickle p = {.in = in, .out = out, .merge = 1};
	double blocks = count_blocks(in);

	p.frame_memo = calloc(stacks_frame_count(in->stacks), sizeof(*p.frame_memo));
	if (!p.frame_memo)
		return -ENOMEM;
	if (blocks > MAX_TRACES) {
		p.merge = blocks / MAX_TRACES;
		log_warn("%.0f blocks are too many for tracemalloc: one trace stands for %.1f of "
			 "them, sizes stay right",
			 blocks, p.merge);
	}
	put_snapshot(&p);
	free(p.frame_memo);
	hashmap_clear(&p.strings, NULL);
	return p.failed ? -ENOMEM : ferror(out) ? -EIO : 0;
}

const struct exporter export_tracemalloc = {
	"tracemalloc", "a pickle for tracemalloc.Snapshot.load(), Python 3.8 to 3.14", export,
	true};
