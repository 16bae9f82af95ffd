// SPDX-License-Identifier: BSD-2-Clause
#include "pyattr.h"

#include <errno.h>
#include <string.h>

#define OB_TYPE 8

/* PyTypeObject: the same from 3.8 to 3.15. */
#define TP_BASICSIZE  32
#define TP_ITEMSIZE   40
#define TP_FLAGS      168
#define TP_DICTOFFSET 288
#define TP_READ	      296

#define INLINE_VALUES (1u << 2)
#define MANAGED_DICT  (1u << 4)

/* PyDictObject: the same, too. */
#define DICT_KEYS   32
#define DICT_VALUES 40
#define DICT_READ   48

/* Words before an object: the dict, and in 3.11 the values before it. */
#define DICT_BEFORE   24
#define VALUES_BEFORE 32
/* Inline values begin with four bytes about them; the last says that they are in use. */
#define VALUES_HEAD  8
#define VALUES_VALID 3

/* int: how many digits there are, and the first one. */
#define LONG_SIZE	16
#define LONG_DIGIT	24
#define LONG_ONE_TAGGED (1 << 3) /* positive */

#define ENTRIES_MAX   1024
#define BASICSIZE_MAX (1 << 20)

/* Where the attributes of one instance are: entries of keys, with the values apart or not. */
struct attrs {
	u64 keys;
	u64 values; /* an array; 0 = in the entries */
};

static u64 word(const u8 *p)
{
	u64 v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static int read_word(const struct reader *r, u64 addr, u64 *out)
{
	return reader_read(r, addr, out, sizeof(*out));
}

static int of_dict(const struct pylayout *l, const struct reader *r, u64 dict, struct attrs *out)
{
	u8 p[DICT_READ];
	int err = reader_read(r, dict, p, sizeof(p));

	if (err)
		return err;
	out->keys = word(p + DICT_KEYS);
	out->values = word(p + DICT_VALUES);
	if (out->values && l->values == PYVALUES_INLINE)
		out->values += VALUES_HEAD;
	return 0;
}

/* Values without a dict, under the keys that all instances of the type share. */
static int of_values(const struct pylayout *l, const struct reader *r, u64 type, u64 values,
		     struct attrs *out)
{
	out->values = values;
	return read_word(r, type + l->ht_cached_keys, &out->keys);
}

static int of_inline(const struct pylayout *l, const struct reader *r, u64 object, u64 type,
		     u64 basicsize, struct attrs *out)
{
	u8 head[VALUES_HEAD];
	int err = reader_read(r, object + basicsize, head, sizeof(head));

	if (err || !head[VALUES_VALID])
		return err ?: -ENOENT;
	return of_values(l, r, type, object + basicsize + VALUES_HEAD, out);
}

/* 3.11 and up: what lies before the object says where to look. */
static int of_managed(const struct pylayout *l, const struct reader *r, u64 object, u64 type,
		      const u8 *tp, struct attrs *out)
{
	u64 dict, values;
	int err = read_word(r, object - DICT_BEFORE, &dict);

	if (err)
		return err;
	if (l->values == PYVALUES_TAGGED && dict & 1)
		return of_values(l, r, type, dict + 1, out);
	if (dict)
		return of_dict(l, r, dict, out);
	if (l->values == PYVALUES_INLINE && word(tp + TP_FLAGS) & INLINE_VALUES)
		return of_inline(l, r, object, type, word(tp + TP_BASICSIZE), out);
	if (l->values != PYVALUES_PTR)
		return -ENOENT;
	err = read_word(r, object - VALUES_BEFORE, &values);
	if (err || !values)
		return err ?: -ENOENT;
	return of_values(l, r, type, values, out);
}

static int locate(const struct pylayout *l, const struct reader *r, u64 object, struct attrs *out)
{
	u8 tp[TP_READ];
	u64 type, dict, at;
	int err = read_word(r, object + OB_TYPE, &type) ?: reader_read(r, type, tp, sizeof(tp));

	if (err)
		return err;
	if (word(tp + TP_BASICSIZE) > BASICSIZE_MAX || word(tp + TP_ITEMSIZE))
		return -ENOENT;
	if (l->prefix_flags & word(tp + TP_FLAGS) & MANAGED_DICT)
		return of_managed(l, r, object, type, tp, out);
	at = word(tp + TP_DICTOFFSET);
	if (!at || at > BASICSIZE_MAX)
		return -ENOENT;
	err = read_word(r, object + at, &dict);
	if (err || !dict)
		return err ?: -ENOENT;
	return of_dict(l, r, dict, out);
}

static bool is_name(const struct pylayout *l, const struct reader *r, u64 key, const char *name)
{
	char text[PYATTR_NAME_MAX + 4];

	return key && !pytypes_str(l, r, key, text, sizeof(text)) && !strcmp(text, name);
}

static int search(const struct pylayout *l, const struct reader *r, const struct attrs *a,
		  const char *name, u64 *value)
{
	u8 head[PYKEYS_HEAD];
	struct pykeys k;
	int err = reader_read(r, a->keys, head, sizeof(head));

	if (err)
		return err;
	if (pykeys_parse(l, head, &k))
		return -ENOENT;
	for (u64 i = 0; i < k.nentries && i < ENTRIES_MAX; i++) {
		u64 entry[3];

		err = reader_read(r, a->keys + k.entries_at + i * k.entry_bytes, entry,
				  k.entry_bytes);
		if (err)
			return err;
		if (!is_name(l, r, entry[k.entry_bytes / 8 - 2], name))
			continue;
		*value = entry[k.entry_bytes / 8 - 1];
		return a->values ? read_word(r, a->values + 8 * i, value) : 0;
	}
	return -ENOENT;
}

int pyattr_find(const struct pylayout *l, const struct reader *r, u64 object, const char *name,
		u64 *value)
{
	struct attrs a;
	u64 found = 0;
	int err;

	if (!object || object & 7 || strlen(name) >= PYATTR_NAME_MAX)
		return -ENOENT;
	err = locate(l, r, object, &a) ?: search(l, r, &a, name, &found);
	if (!err && !found)
		err = -ENOENT;
	if (err)
		return err == -EFAULT ? -ENOENT : err;
	*value = found;
	return 0;
}

/* The attribute, if its type has that flag. */
static int find_of_type(const struct pylayout *l, const struct reader *r, u64 object,
			const char *name, u32 flag, u64 *value)
{
	u8 tp[TP_READ];
	u64 type;
	int err = pyattr_find(l, r, object, name, value);

	if (!err)
		err = read_word(r, *value + OB_TYPE, &type) ?: reader_read(r, type, tp, sizeof(tp));
	if (!err && !(word(tp + TP_FLAGS) & flag))
		err = -ENOENT;
	return err == -EFAULT ? -ENOENT : err;
}

int pyattr_str(const struct pylayout *l, const struct reader *r, u64 object, const char *name,
	       char *buf, size_t size)
{
	u64 value;
	int err = find_of_type(l, r, object, name, PYTYPE_STR, &value);

	return err ?: pytypes_str(l, r, value, buf, size) ? -ENOENT : 0;
}

int pyattr_u32(const struct pylayout *l, const struct reader *r, u64 object, const char *name,
	       u32 *out)
{
	u64 value, size;
	u32 digit;
	int err = find_of_type(l, r, object, name, PYTYPE_LONG, &value);

	if (!err)
		err = read_word(r, value + LONG_SIZE, &size)
			      ?: reader_read(r, value + LONG_DIGIT, &digit, sizeof(digit));
	if (err)
		return err == -EFAULT ? -ENOENT : err;
	if (size != (l->long_tagged ? LONG_ONE_TAGGED : 1))
		return -ENOENT;
	*out = digit;
	return 0;
}
