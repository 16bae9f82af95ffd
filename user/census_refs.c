// SPDX-License-Identifier: BSD-2-Clause
#include "census_refs.h"

#include <errno.h>
#include <string.h>

#include "census_refset.h"

#define PIECE	   65536
#define BLOOM_BITS (1u << 24)
#define STEP_BACK  40 /* the longest head that values lie behind */

struct ref_sum {
	u64 holders, references;
};

struct search {
	struct census_heap *h;
	struct census_typer *t;
	struct census_refs *out;
	bool *wanted; /* owned; by type index; NULL: one address is wanted */
	u32 nwanted;
	struct refset targets, blocks;
	u64 *bloom; /* owned */
	u64 low, high;
	struct ref_sum *sum; /* owned; by type index */
	u32 nsum;
	struct ref_sum other;
	u8 *piece; /* owned */
};

static void add_target(struct search *s, u64 addr)
{
	u64 bit = refset_mix(addr) >> 40;

	if (!refset_add(&s->targets, addr, 0)) {
		s->out->targets_left_out++;
		return;
	}
	s->bloom[bit / 64] |= 1ull << bit % 64;
	if (addr < s->low)
		s->low = addr;
	if (addr > s->high)
		s->high = addr;
	s->out->targets = s->targets.n;
}

static inline bool is_target(const struct search *s, u64 v)
{
	u64 bit;

	if (v < s->low || v > s->high)
		return false;
	bit = refset_mix(v) >> 40;
	return s->bloom[bit / 64] >> bit % 64 & 1 && s->targets.slots[refset_slot(&s->targets, v)];
}

static int collect_target(void *ctx, const struct census_block *b)
{
	struct search *s = ctx;
	struct census_object o;

	if (census_classify(s->t, b, &o) == CENSUS_OBJECT && o.type < s->nwanted &&
	    s->wanted[o.type])
		add_target(s, o.addr);
	return 0;
}

static u64 count_words(const struct search *s, const u8 *p, size_t len)
{
	u64 n = 0;

	for (size_t i = 0; i + 8 <= len; i += 8) {
		u64 v;

		memcpy(&v, p + i, sizeof(v));
		n += is_target(s, v);
	}
	return n;
}

/* References in a whole block, which may be larger than what was read of it. */
static int count_block(struct search *s, const struct census_block *b, u64 *n)
{
	size_t seen = b->avail & ~(size_t)7;

	*n = count_words(s, b->bytes, seen);
	for (u64 at = seen; at < b->size; at += PIECE) {
		size_t len = b->size - at < PIECE ? b->size - at : PIECE;
		int err = reader_read(&s->h->r, b->addr + at, s->piece, len);

		if (err == -EFAULT)
			return 0;
		if (err)
			return err;
		*n += count_words(s, s->piece, len);
	}
	return 0;
}

static struct ref_sum *sum_of(struct search *s, u32 index)
{
	if (index >= s->nsum) {
		u32 want = (index + 1) * 2;
		struct ref_sum *v = reallocarray(s->sum, want, sizeof(*v));

		if (!v)
			return NULL;
		memset(v + s->nsum, 0, (want - s->nsum) * sizeof(*v));
		s->sum = v;
		s->nsum = want;
	}
	return &s->sum[index];
}

static int show_holder(struct search *s, const struct census_object *o, u64 references)
{
	struct census_refs *out = s->out;
	const struct pytype *type;

	if (out->nholder == CENSUS_REFS_SHOWN)
		return 0;
	if (pytypes_name(s->t->types, o->type))
		return -ENOMEM;
	type = pytypes_get(s->t->types, o->type);
	out->holder[out->nholder].addr = o->addr;
	out->holder[out->nholder].references = references;
	out->holder[out->nholder].module = strdup(type->module);
	out->holder[out->nholder].name = strdup(type->name);
	out->nholder++;
	return 0;
}

static int add_holder(struct search *s, const struct census_object *o, u64 references)
{
	struct ref_sum *sum = sum_of(s, o->type);

	if (!sum)
		return -ENOMEM;
	sum->holders++;
	sum->references += references;
	return show_holder(s, o, references);
}

static bool set_has_table(const struct search *s, const struct census_object *o)
{
	enum census_data kinds[3];
	struct census_size size;

	census_measure(s->t, o, &size, kinds);
	return size.data_addr[0] != 0;
}

/* References that are in objects themselves; those in other blocks are remembered. */
static int find_in_block(void *ctx, const struct census_block *b)
{
	struct search *s = ctx;
	struct census_object o;
	enum census_what what;
	u64 n, type;
	int err = count_block(s, b, &n);

	if (err || !n)
		return err;
	what = census_classify(s->t, b, &o);
	if (what == CENSUS_FREELIST)
		return 0;
	if (what == CENSUS_DATA) {
		if (!refset_add(&s->blocks, b->addr + census_hooks(s->t, b)->front, n)) {
			s->out->blocks_left_out++;
			s->other.holders++;
			s->other.references += n;
		}
		return 0;
	}
	/* Text and numbers hold no references; what looks like one is what was there before. */
	if (pytypes_get(s->t->types, o.type)->flags & (PYTYPE_STR | PYTYPE_BYTES | PYTYPE_LONG) &&
	    !(pytypes_get(s->t->types, o.type)->flags & PYTYPE_HEAP))
		return 0;
	/* A set that has grown leaves its first entries behind in itself. */
	if (pytypes_get(s->t->types, o.type)->shape == PYSHAPE_SET && set_has_table(s, &o))
		return 0;
	/* That an object is of a type is no news. */
	memcpy(&type, o.p + 8, sizeof(type));
	n -= is_target(s, type);
	return n ? add_holder(s, &o, n) : 0;
}

/* The references in the data block at addr, which its owner claims; 0: there are none. */
static u64 take_block(struct search *s, u64 addr)
{
	size_t i = refset_slot(&s->blocks, addr);
	u64 n = s->blocks.slots[i] ? s->blocks.counts[i] : 0;

	if (n)
		s->blocks.counts[i] = 0;
	return n;
}

/* Values of 3.11 and 3.12 lie behind a head, whose last byte tells how long it is. */
static u64 take_values(struct search *s, u64 addr)
{
	u64 n = take_block(s, addr);
	u8 head;

	for (u64 back = 8; !n && back <= STEP_BACK && back < addr; back += 8) {
		if (!s->blocks.slots[refset_slot(&s->blocks, addr - back)] ||
		    reader_read(&s->h->r, addr - 1, &head, 1) || head != back)
			continue;
		n = take_block(s, addr - back);
	}
	return n;
}

/* Objects whose data refers to a target hold it. */
static int find_owner(void *ctx, const struct census_block *b)
{
	struct search *s = ctx;
	enum census_data kinds[3];
	struct census_size size;
	struct census_object o;
	u64 n = 0;

	if (census_classify(s->t, b, &o) != CENSUS_OBJECT)
		return 0;
	census_measure(s->t, &o, &size, kinds);
	for (int i = 0; i < 3; i++)
		if (size.data_addr[i])
			n += kinds[i] == CENSUS_DICT_VALUES ? take_values(s, size.data_addr[i])
							    : take_block(s, size.data_addr[i]);
	if (size.keys)
		n += take_block(s, size.keys);
	if (size.values)
		n += take_values(s, size.values);
	return n ? add_holder(s, &o, n) : 0;
}

static int walk(struct search *s, census_block_fn fn)
{
	struct census_heap_stats ignored = {0};
	int err = census_walk_pools(s->h, fn, s, &ignored);

	return err ? err : census_walk_malloc(s->h, fn, s, &ignored);
}

static bool name_matches(const struct pytype *type, const char *what)
{
	size_t n = strlen(type->module);

	if (!strcmp(type->name, what))
		return true;
	return !strncmp(type->module, what, n) && what[n] == '.' &&
	       !strcmp(type->name, what + n + 1);
}

/* By type: mark the types of that name, then collect their instances. */
static int want_type(struct search *s, const char *what)
{
	u32 n = pytypes_count(s->t->types);
	bool found = false;

	s->wanted = calloc(n + 1, sizeof(*s->wanted));
	if (!s->wanted)
		return -ENOMEM;
	s->nwanted = n;
	for (u32 i = 0; i < n; i++) {
		if (pytypes_name(s->t->types, i))
			return -ENOMEM;
		s->wanted[i] = name_matches(pytypes_get(s->t->types, i), what);
		found |= s->wanted[i];
	}
	return found ? walk(s, collect_target) : -ENOENT;
}

static int want(struct search *s, const char *what)
{
	char *end;
	u64 addr;

	if (what[0] < '0' || what[0] > '9')
		return want_type(s, what);
	errno = 0;
	addr = strtoull(what, &end, 0);
	if (errno || *end || !addr)
		return -EINVAL;
	add_target(s, addr);
	return 0;
}

static int most_first(const void *a, const void *b)
{
	const struct census_ref_row *x = a, *y = b;

	return x->references < y->references ? 1 : x->references > y->references ? -1 : 0;
}

static int make_rows(struct search *s)
{
	struct census_refs *out = s->out;

	for (size_t i = 0; i < s->blocks.cap; i++)
		if (s->blocks.slots[i] && s->blocks.counts[i]) {
			s->other.holders++;
			s->other.references += s->blocks.counts[i];
		}
	out->row = calloc((size_t)s->nsum + 1, sizeof(*out->row));
	if (!out->row)
		return -ENOMEM;
	for (u32 i = 0; i < s->nsum; i++) {
		struct census_ref_row *row = &out->row[out->nrow];

		if (!s->sum[i].holders)
			continue;
		out->nrow++;
		if (pytypes_name(s->t->types, i))
			return -ENOMEM;
		row->module = strdup(pytypes_get(s->t->types, i)->module);
		row->name = strdup(pytypes_get(s->t->types, i)->name);
		row->holders = s->sum[i].holders;
		row->references = s->sum[i].references;
		if (!row->module || !row->name)
			return -ENOMEM;
	}
	if (s->other.holders)
		out->row[out->nrow++] = (struct census_ref_row){.holders = s->other.holders,
								.references = s->other.references};
	qsort(out->row, out->nrow, sizeof(*out->row), most_first);
	return 0;
}

static int search(struct search *s, const char *what)
{
	int err = refset_new(&s->targets, CENSUS_REFS_TARGETS, false);

	if (!err)
		err = refset_new(&s->blocks, CENSUS_REFS_BLOCKS, true);
	s->bloom = calloc(BLOOM_BITS / 64, sizeof(*s->bloom));
	s->piece = malloc(PIECE);
	s->out->what = strdup(what);
	if (!s->bloom || !s->piece || !s->out->what)
		err = -ENOMEM;
	if (!err)
		err = want(s, what);
	if (!err)
		err = walk(s, find_in_block);
	if (!err)
		err = walk(s, find_owner);
	return err ? err : make_rows(s);
}

int census_refs_find(struct census_heap *h, struct census_typer *t, const char *what,
		     struct census_refs *out)
{
	struct census_refs refs = {0};
	struct search s = {.h = h, .t = t, .out = &refs, .low = UINT64_MAX};
	int err = search(&s, what);

	refset_free(&s.targets);
	refset_free(&s.blocks);
	free(s.bloom);
	free(s.piece);
	free(s.wanted);
	free(s.sum);
	if (err) {
		census_refs_free(&refs);
		return err;
	}
	*out = refs;
	return 0;
}

void census_refs_free(struct census_refs *refs)
{
	for (size_t i = 0; i < refs->nrow; i++) {
		free(refs->row[i].module);
		free(refs->row[i].name);
	}
	for (size_t i = 0; i < refs->nholder; i++) {
		free(refs->holder[i].module);
		free(refs->holder[i].name);
	}
	free(refs->row);
	free(refs->what);
	*refs = (struct census_refs){0};
}
