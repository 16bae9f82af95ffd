// SPDX-License-Identifier: BSD-2-Clause
#include "freelists.h"

#include <errno.h>
#include <string.h>

#include "obmalloc_find.h"
#include "pyoffsets.h"

#define MAX_STATICS 16
/* More than CPython ever keeps; a count beyond is not a count. */
#define SANE_OBJECTS 256
#define SANE_TUPLES  2000

/*
 * One kind in the order of printing.  at: offset of the int; from the
 * interpreter (3.10, 3.11) or from the field that holds pymalloc's state
 * (3.12+), whose place moved between micro versions with the lists behind it.
 */
struct kind {
	const char *type;
	u32 size; /* bytes; of an empty tuple */
	u32 at;
};

enum base { BASE_STATIC, BASE_INTERP, BASE_OBMALLOC };

struct row {
	enum base base;
	struct kind kinds[FREELISTS_KINDS]; /* tuples last; the rest is empty */
	u32 first_tuple, last_tuple;	    /* sizes printed */
	u32 tuple_skip;			    /* elements of the array before the first of them */
	u32 stride;			    /* bytes between them */
};

static const struct row rows[] = {
	[8] = {BASE_STATIC,
	       {{"PyCFunctionObject", 56, 0},
		{"PyDictObject", 48, 0},
		{"PyFloatObject", 24, 0},
		{"PyFrameObject", 368, 0},
		{"PyListObject", 40, 0},
		{"PyMethodObject", 48, 0},
		{"PyTupleObject", 24, 0}},
	       1,
	       19,
	       1,
	       4},
	[9] = {BASE_STATIC,
	       {{"PyDictObject", 48, 0},
		{"PyFloatObject", 24, 0},
		{"PyFrameObject", 368, 0},
		{"PyListObject", 40, 0},
		{"PyTupleObject", 24, 0}},
	       1,
	       19,
	       1,
	       4},
	[10] = {BASE_INTERP,
		{{"PyDictObject", 48, 11328},
		 {"PyFloatObject", 24, 9776},
		 {"PyFrameObject", 360, 11992},
		 {"PyListObject", 40, 10680},
		 {"PyTupleObject", 24, 9960}},
		1,
		19,
		1,
		4},
	[11] = {BASE_INTERP,
		{{"PyDictObject", 48, 5160},
		 {"PyFloatObject", 24, 3608},
		 {"PyListObject", 40, 4512},
		 {"PyTupleObject", 24, 3792}},
		1,
		20,
		0,
		4},
	[12] = {BASE_OBMALLOC,
		{{"PyDictObject", 48, 268056},
		 {"PyFloatObject", 24, 263448},
		 {"PyListObject", 40, 266752},
		 {"PyTupleObject", 24, 266032}},
		1,
		20,
		0,
		4},
	[13] = {BASE_OBMALLOC,
		{{"PyDictObject", 48, 1696},
		 {"PyDictKeysObject", 32, 2344},
		 {"PyFloatObject", 24, 152},
		 {"PyListObject", 40, 1048},
		 {"PyTupleObject", 24, 328}},
		1,
		20,
		0,
		4},
	[14] = {BASE_OBMALLOC,
		{{"PyDictObject", 48, 624},
		 {"PyDictKeysObject", 32, 640},
		 {"PyFloatObject", 24, 224},
		 {"PyListObject", 40, 576},
		 {"PyTupleObject", 32, 256}},
		1,
		20,
		0,
		16},
	/* 3.15 counts the 16 bytes of the GC header */
	[15] = {BASE_OBMALLOC,
		{{"PyDictObject", 64, 640},
		 {"PyDictKeysObject", 32, 656},
		 {"PyFloatObject", 24, 224},
		 {"PyListObject", 56, 592},
		 {"PyTupleObject", 48, 272}},
		1,
		20,
		0,
		16},
};

static const char tuple_type[] = "PyTupleObject";

static bool is_tuple(const struct kind *kind)
{
	return !strcmp(kind->type, tuple_type);
}

/* Up to 3.9: the function that prints a type's list names its count, or the tuples' array. */
static u64 find_static(const struct pyobject_file *f, const struct kind *kind)
{
	struct insn_static st[MAX_STATICS];
	char function[64];
	size_t n;

	/* PyDictObject: _PyDict_DebugMallocStats */
	snprintf(function, sizeof(function), "_%.*s_DebugMallocStats",
		 (int)(strlen(kind->type) - strlen("Object")), kind->type);
	n = pyobject_file_statics(f, function, st, MAX_STATICS);
	for (size_t i = 0; i < n; i++)
		if (st[i].size == (is_tuple(kind) ? 0 : 4))
			return st[i].addr;
	return 0;
}

static int find_statics(const struct pyinfo *info, const struct row *row,
			struct freelists_where *where)
{
	struct pyobject_file f;
	int err = pyobject_file_open(info, &f);

	if (err)
		return err == -ENOENT ? 0 : err;
	for (size_t i = 0; i < FREELISTS_KINDS && row->kinds[i].type; i++)
		where->at[i] = find_static(&f, &row->kinds[i]);
	pyobject_file_close(&f);
	return 0;
}

int freelists_find(const struct pyinfo *info, const struct obmalloc *ob,
		   struct freelists_where *out)
{
	u32 minor = info->version >> 16 & 0xff;
	struct freelists_where where = {.minor = minor};
	const struct row *row;
	u64 base = 0;
	int err = 0;

	if (info->version >> 24 != 3 || minor < PY_MINOR_MIN || minor >= ARRAY_SIZE(rows) ||
	    info->free_threaded)
		return -ENOTSUP;
	row = &rows[minor];
	if (row->base == BASE_OBMALLOC)
		base = ob ? ob->interp_field : 0;
	where.per_interpreter = row->base != BASE_STATIC;
	if (row->base == BASE_STATIC)
		err = find_statics(info, row, &where);
	else if (row->base == BASE_INTERP || base)
		for (size_t i = 0; i < FREELISTS_KINDS && row->kinds[i].type; i++)
			where.at[i] = base + row->kinds[i].at;
	if (!err)
		*out = where;
	return err;
}

static int read_count(const struct reader *r, u64 addr, u32 limit, u32 *count)
{
	u32 value;
	int err = addr ? reader_read(r, addr, &value, sizeof(value)) : -EFAULT;

	if (err && err != -EFAULT)
		return err;
	*count = !err && value <= limit ? value : FREELISTS_UNKNOWN;
	return 0;
}

static int read_list(struct freelists *out, const struct reader *r, u64 addr,
		     const struct kind *kind, u32 items)
{
	struct freelist *l = &out->v[out->n];
	int err;

	*l = (struct freelist){.type = kind->type, .items = items, .size = kind->size + 8 * items};
	err = read_count(r, addr, items ? SANE_TUPLES : SANE_OBJECTS, &l->count);
	if (err)
		return err;
	out->n++;
	out->unknown += l->count == FREELISTS_UNKNOWN;
	return 0;
}

int freelists_read(const struct freelists_where *where, const struct reader *r, u64 interp,
		   struct freelists *out)
{
	const struct row *row = &rows[where->minor];
	struct freelists lists = {0};
	int err = 0;

	for (size_t i = 0; !err && i < FREELISTS_KINDS && row->kinds[i].type; i++) {
		const struct kind *kind = &row->kinds[i];
		u64 at = where->at[i] && where->per_interpreter ? where->at[i] + interp
								: where->at[i];

		if (!is_tuple(kind)) {
			err = read_list(&lists, r, at, kind, 0);
			continue;
		}
		for (u32 n = row->first_tuple; !err && n <= row->last_tuple; n++) {
			u64 skip = (u64)(row->tuple_skip + n - row->first_tuple) * row->stride;

			err = read_list(&lists, r, at ? at + skip : 0, kind, n);
		}
	}
	if (!err)
		*out = lists;
	return err;
}

const struct freelist *freelists_same(const struct freelists *lists, const struct freelist *l)
{
	for (size_t i = 0; i < lists->n; i++)
		if (!strcmp(lists->v[i].type, l->type) && lists->v[i].items == l->items)
			return &lists->v[i];
	return NULL;
}

const char *freelists_type(const char *text)
{
	for (size_t i = PY_MINOR_MIN; i < ARRAY_SIZE(rows); i++)
		for (size_t k = 0; k < FREELISTS_KINDS && rows[i].kinds[k].type; k++)
			if (!strcmp(rows[i].kinds[k].type, text))
				return rows[i].kinds[k].type;
	return NULL;
}

void freelists_add(struct freelists *sum, const struct freelists *other)
{
	sum->unknown = 0;
	for (size_t i = 0; i < sum->n && i < other->n; i++) {
		u32 *count = &sum->v[i].count, more = other->v[i].count;

		if (*count == FREELISTS_UNKNOWN || more == FREELISTS_UNKNOWN)
			*count = FREELISTS_UNKNOWN;
		else
			*count += more;
		sum->unknown += *count == FREELISTS_UNKNOWN;
	}
}
