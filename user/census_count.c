// SPDX-License-Identifier: BSD-2-Clause
#include "census_count.h"

#include <errno.h>
#include <string.h>

#include "gcwalk.h"

#define BATCH	     1024 /* dict tables that are looked at together */
#define CHUNK_ALIGN  16
#define CHUNK_MIN    32
#define CHUNK_HEADER 8

/* A type's sums. */
struct sum {
	u64 count, bytes, held, spare;
};

/* An object whose table has yet to be read. */
struct waiting {
	u64 keys, values, addr, length;
	u64 bytes; /* of the object without its table */
	u32 type;
};

/* Tables that many dicts share are asked for over and over. */
#define SHARED 4096
struct shared {
	u64 addr;
	struct pykeys keys;
};

struct census_counter {
	struct census_typer *t;
	struct census *c;
	struct sum *sum; /* owned; by type */
	u32 nsum;
	size_t nwaiting;
	struct waiting waiting[BATCH];
	u64 addrs[BATCH];
	u8 heads[BATCH][PYKEYS_HEAD];
	bool ok[BATCH];
	struct shared shared[SHARED];
	struct gcwalk *gc; /* owned; NULL: malloc is walked, and has all large objects */
	u64 data_class[OBMALLOC_CLASSES];
	u64 data_malloc;  /* held by data blocks from malloc */
	u64 other_malloc; /* held by blocks of malloc that hold no object */
};

int census_counter_new(struct census_typer *t, size_t top, struct census *c,
		       struct census_counter **out)
{
	struct census_counter *k = calloc(1, sizeof(*k));

	if (!k)
		return -ENOMEM;
	k->t = t;
	k->c = c;
	c->containers.max = c->strings.max = top;
	c->containers.v = calloc(top + 1, sizeof(*c->containers.v));
	c->strings.v = calloc(top + 1, sizeof(*c->strings.v));
	if (!c->containers.v || !c->strings.v) {
		free(k);
		return -ENOMEM;
	}
	if (!t->h->have_glibc && gcwalk_new(t, &k->gc)) {
		free(k);
		return -ENOMEM;
	}
	*out = k;
	return 0;
}

void census_counter_free(struct census_counter *k)
{
	if (!k)
		return;
	gcwalk_free(k->gc);
	free(k->sum);
	free(k);
}

/* ---- sums */

static void consider_object(struct census_counter *k, u32 index, u64 addr, u64 bytes, u64 length)
{
	const struct pytype *type = pytypes_get(k->t->types, index);
	struct census_large l = {.type = index, .addr = addr, .bytes = bytes, .length = length};
	bool string = type->flags & (PYTYPE_STR | PYTYPE_BYTES) || type->shape == PYSHAPE_BYTEARRAY;

	if (string)
		census_top_add(&k->c->strings, &l);
	else if (type->shape != PYSHAPE_FIXED && type->shape != PYSHAPE_TYPE)
		census_top_add(&k->c->containers, &l);
}

static struct sum *sum_of(struct census_counter *k, u32 index)
{
	if (index >= k->nsum) {
		u32 want = k->nsum ? k->nsum * 2 : 1024;
		struct sum *v;

		while (want <= index)
			want *= 2;
		v = reallocarray(k->sum, want, sizeof(*v));
		if (!v)
			return NULL;
		memset(v + k->nsum, 0, (want - k->nsum) * sizeof(*v));
		k->sum = v;
		k->nsum = want;
	}
	return &k->sum[index];
}

/* A block of data that an object owns; how much memory it takes. */
static u64 count_data(struct census_counter *k, enum census_data kind, u64 bytes)
{
	struct census_data_row *row = &k->c->data[kind];
	const u64 small_max = OBMALLOC_CLASSES * (u64)OBMALLOC_ALIGN;
	u64 asked = bytes + k->t->small.extra, held;

	if (k->c->pymalloc && asked <= small_max) {
		u32 class = asked ? (u32)(asked - 1) / OBMALLOC_ALIGN : 0;

		k->data_class[class]++;
		held = obmalloc_class_size(class);
	} else {
		asked = bytes + k->t->large.extra;
		held = (asked + CHUNK_HEADER + CHUNK_ALIGN - 1) / CHUNK_ALIGN * CHUNK_ALIGN;
		if (held < CHUNK_MIN)
			held = CHUNK_MIN;
		k->data_malloc += held;
	}
	row->blocks++;
	row->bytes += bytes;
	row->held += held;
	return held;
}

/* Tables in a file's data (the empty dict's) belong to nobody. */
static bool is_static(const struct census_counter *k, u64 addr)
{
	return !census_in_arena(k->t->h, addr) && census_place(k->t->h, addr) == PYTYPES_STATIC;
}

/* A dict's or a type's table has been read. */
static int add_keys(struct census_counter *k, const struct waiting *w, const struct pykeys *keys)
{
	const struct pytype *type = pytypes_get(k->t->types, w->type);
	struct sum *s = sum_of(k, w->type);
	bool dict = type->shape == PYSHAPE_DICT;
	u64 bytes = w->bytes, fit;

	if (!s)
		return -ENOMEM;
	/* As getsizeof() has it: a table counts for the only dict that uses it, or for the type. */
	if (!dict || keys->refcnt == 1) {
		if (!is_static(k, w->keys)) {
			s->held += count_data(k, CENSUS_DICT_KEYS, keys->bytes);
			s->bytes += keys->bytes;
			bytes += keys->bytes;
		}
	}
	if (dict && w->values) {
		u64 n = pykeys_values(k->t->l, keys);

		s->held +=
			count_data(k, CENSUS_DICT_VALUES, n * 8 + pykeys_values_head(k->t->l, n));
		s->bytes += n * 8;
		bytes += n * 8;
	}
	fit = pykeys_bytes_for(k->t->l, keys, w->length);
	if (dict && keys->refcnt == 1 && fit < keys->bytes)
		s->spare += keys->bytes - fit;
	if (dict)
		consider_object(k, w->type, w->addr, bytes, w->length);
	return 0;
}

static int flush(struct census_counter *k)
{
	size_t n = k->nwaiting;
	int err;

	k->nwaiting = 0;
	for (size_t i = 0; i < n; i++)
		k->addrs[i] = k->waiting[i].keys;
	err = n ? reader_gather(&k->t->h->r, k->addrs, n, k->heads, PYKEYS_HEAD, k->ok) : 0;
	for (size_t i = 0; i < n && !err; i++) {
		struct shared *sh = &k->shared[(k->addrs[i] >> 4) % SHARED];
		struct pykeys keys;

		if (!k->ok[i] || pykeys_parse(k->t->l, k->heads[i], &keys)) {
			k->c->unread_tables++;
			continue;
		}
		if (keys.refcnt > 1)
			*sh = (struct shared){k->addrs[i], keys};
		err = add_keys(k, &k->waiting[i], &keys);
	}
	return err;
}

static int wait_for_keys(struct census_counter *k, const struct waiting *w)
{
	const struct shared *sh = &k->shared[(w->keys >> 4) % SHARED];

	if (sh->addr == w->keys && w->keys)
		return add_keys(k, w, &sh->keys);
	k->waiting[k->nwaiting++] = *w;
	return k->nwaiting == BATCH ? flush(k) : 0;
}

/* A bytearray's buffer that is a bytes object of its own (3.15): count it once. */
static void uncount_buffer(struct census_counter *k, u64 bytes, u64 held)
{
	u32 index = pytypes_lookup(k->t->types, &k->t->cache, k->t->bytes_type);
	struct sum *s = index == PYTYPES_NONE ? NULL : sum_of(k, index);

	/* It may not have been met yet: the sums wrap, and come out right at the end. */
	if (!s)
		return;
	s->count--;
	s->bytes -= bytes;
	s->held -= held;
}

static int count_object(struct census_counter *k, const struct census_block *b,
			const struct census_object *o)
{
	u64 held = b->where == CENSUS_POOL ? b->size : b->size + CHUNK_HEADER;
	struct sum *s = sum_of(k, o->type);
	enum census_data kinds[3];
	struct census_size size;

	if (!s)
		return -ENOMEM;
	census_measure(k->t, o, &size, kinds);
	k->c->object_held += held;
	s->count++;
	s->bytes += size.bytes;
	s->spare += size.spare;
	for (int i = 0; i < 3; i++) {
		u64 more = size.data[i] ? count_data(k, kinds[i], size.data[i]) : 0;

		if (more && kinds[i] == CENSUS_BYTEARRAY && k->t->l->bytearray_bytes)
			uncount_buffer(k, size.data[i], more);
		held += more;
	}
	/* Counting data may have moved the sums. */
	sum_of(k, o->type)->held += held;
	if (size.keys) {
		struct waiting w = {size.keys,	 size.values, o->addr,
				    size.length, size.bytes,  o->type};

		return wait_for_keys(k, &w);
	}
	consider_object(k, o->type, o->addr, size.bytes, size.length);
	return 0;
}

int census_count_block(void *counter, const struct census_block *b)
{
	struct census_counter *k = counter;
	struct census_object o;
	enum census_what what = census_classify(k->t, b, &o);
	struct census_class *class = &k->c->class[b->szidx % OBMALLOC_CLASSES];

	if (what == CENSUS_FREELIST) {
		k->c->freelist_blocks++;
		k->c->freelist_bytes += b->size;
	}
	if (b->where == CENSUS_POOL) {
		class->objects += what == CENSUS_OBJECT;
		class->freelist += what == CENSUS_FREELIST;
	} else if (what == CENSUS_DATA) {
		k->other_malloc += b->size + CHUNK_HEADER;
	}
	if (what != CENSUS_OBJECT)
		return 0;
	if (k->gc && b->where == CENSUS_POOL && gcwalk_note(k->gc, &o))
		return -ENOMEM;
	return count_object(k, b, &o);
}

/* ---- the end */

static void finish_classes(struct census_counter *k)
{
	struct census *c = k->c;

	for (u32 i = 0; i < OBMALLOC_CLASSES; i++) {
		struct census_class *class = &c->class[i];
		u64 rest;

		class->used = c->heap.used_blocks[i];
		class->free = c->heap.free_blocks[i];
		rest = class->used - class->objects - class->freelist;
		class->data = k->data_class[i] < rest ? k->data_class[i] : rest;
		class->other = rest - class->data;
		c->other_pool_bytes += class->other * obmalloc_class_size(i);
	}
	c->other_malloc_bytes =
		k->other_malloc > k->data_malloc ? k->other_malloc - k->data_malloc : 0;
}

static int fill_row(struct census_row *row, const struct sum *s, const char *module,
		    const char *name)
{
	*row = (struct census_row){.module = strdup(module),
				   .name = name ? strdup(name) : NULL,
				   .count = s->count,
				   .bytes = s->bytes,
				   .held = s->held,
				   .spare = s->spare};
	return row->module && (row->name || !name) ? 0 : -ENOMEM;
}

static int make_rows(struct census_counter *k)
{
	struct census *c = k->c;
	u32 n = pytypes_count(k->t->types);

	c->row = calloc(n + 1, sizeof(*c->row));
	c->module = calloc(n + 1, sizeof(*c->module));
	if (!c->row || !c->module)
		return -ENOMEM;
	for (u32 i = 0; i < n && i < k->nsum; i++) {
		const struct sum *s = &k->sum[i];
		const struct pytype *type;
		int err;

		if (!s->count)
			continue;
		err = pytypes_name(k->t->types, i);
		type = pytypes_get(k->t->types, i);
		if (!err)
			err = fill_row(&c->row[c->nrow++], s, type->module, type->name);
		if (!err)
			err = fill_row(&c->module[c->nmodule++], s, type->module, NULL);
		if (err)
			return err;
		c->objects += s->count;
		c->object_bytes += s->bytes;
	}
	c->types = c->nrow;
	c->nrow = census_rows_merge(c->row, c->nrow);
	c->nmodule = census_rows_merge(c->module, c->nmodule);
	return 0;
}

int census_counter_finish(struct census_counter *k)
{
	struct census *c = k->c;
	struct gcwalk_stats stats = {0};
	int err = k->gc ? gcwalk_run(k->gc, census_count_block, k, &stats) : 0;

	if (!err)
		err = flush(k);
	if (err)
		return err;
	c->linked = stats.objects;
	c->linked_left_out = stats.left_out + stats.nonsense;
	finish_classes(k);
	c->types_refused = pytypes_refused(k->t->types);
	err = census_top_finish(&c->containers, k->t->types);
	if (!err)
		err = census_top_finish(&c->strings, k->t->types);
	return err ? err : make_rows(k);
}
