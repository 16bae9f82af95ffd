// SPDX-License-Identifier: BSD-2-Clause
/* Code objects that the unwinder has sent, instead of reading them from the target. */
#include "pycode.h"

#include <errno.h>
#include <string.h>

/* Where the parts of a record are, by its size. */
static const struct layout {
	u32 size, name, name_max, file, file_max, table, table_max;
} layouts[] = {
#define LAYOUT(class)                                                                              \
	{                                                                                          \
		sizeof(struct class), offsetof(struct class, name),                                \
			sizeof(((struct class *)0)->name), offsetof(struct class, file),           \
			sizeof(((struct class *)0)->file), offsetof(struct class, table),          \
			sizeof(((struct class *)0)->table),                                        \
	}
	LAYOUT(pht_code_small),
	LAYOUT(pht_code_large),
};

static const struct layout *layout_of(const struct pht_code_head *rec)
{
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
		if (layouts[i].size == rec->size)
			return &layouts[i];
	return NULL;
}

static int take_str(const u8 *at, u32 size, u32 room, u32 kind, size_t max, char **out)
{
	if (size > room || (kind != 1 && kind != 2 && kind != 4))
		return -ENODATA;
	return pystr_decode(at, size, kind, max, out);
}

static int take_table(const u8 *at, u32 size, u32 room, struct pycode *code)
{
	u8 *table;

	if (size > room)
		return -EAGAIN;
	table = malloc(size + 1);
	if (!table)
		return -ENOMEM;
	memcpy(table, at, size);
	code->linetable = table;
	code->linetable_len = size;
	return 0;
}

int pycode_from_record(const struct pht_code_head *rec, struct pycode *out)
{
	const struct layout *at = layout_of(rec);
	const u8 *raw = (const u8 *)rec;
	struct pycode code = {
		.firstlineno = rec->firstlineno,
		.firsttraceable = rec->firsttraceable,
		.ident = rec->ident,
	};
	int err;

	if (!at)
		return -ENODATA;
	err = take_str(raw + at->name, rec->name_size, at->name_max, rec->name_kind,
		       PYCODE_NAME_CLIP, &code.name);
	if (!err)
		err = take_str(raw + at->file, rec->file_size, at->file_max, rec->file_kind,
			       PYCODE_PATH_CLIP, &code.filename);
	if (!err)
		err = take_table(raw + at->table, rec->table_size, at->table_max, &code);
	if (err && err != -EAGAIN) {
		pycode_free(&code);
		return err;
	}
	*out = code;
	return err;
}
