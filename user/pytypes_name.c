// SPDX-License-Identifier: BSD-2-Clause
/* What types are called. */
#include <errno.h>
#include <string.h>

#include "pytypes_table.h"

static char *copy_text(const char *s, size_t n)
{
	return strndup(s, n < PYTYPES_NAME_MAX ? n : PYTYPES_NAME_MAX);
}

static int read_c_string(const struct reader *r, u64 addr, char *buf, size_t max)
{
	size_t n = 0;

	while (n + 1 < max) {
		size_t part = 64 - (addr + n) % 64;

		if (part > max - 1 - n)
			part = max - 1 - n;
		if (reader_read(r, addr + n, buf + n, part))
			return -EFAULT;
		if (memchr(buf + n, '\0', part))
			return 0;
		n += part;
	}
	buf[n] = '\0';
	return 0;
}

#define DICT_ENTRIES 4096

/* The value of "__module__" in a type's dict, or 0. */
static u64 find_module(struct pytypes *t, u64 dict)
{
	u64 keys_addr, entry[3];
	u8 head[PYKEYS_HEAD];
	struct pykeys k;

	if (!dict || reader_read(t->r, dict + 32, &keys_addr, 8) ||
	    reader_read(t->r, keys_addr, head, sizeof(head)) || pykeys_parse(t->l, head, &k))
		return 0;
	for (u64 i = 0; i < k.nentries && i < DICT_ENTRIES; i++) {
		u64 at = keys_addr + k.entries_at + i * k.entry_bytes, key, value;
		char name[16];

		if (reader_read(t->r, at, entry, k.entry_bytes))
			return 0;
		key = entry[k.entry_bytes / 8 - 2];
		value = entry[k.entry_bytes / 8 - 1];
		if (!key || (t->module_key && key != t->module_key))
			continue;
		if (pytypes_str(t->l, t->r, key, name, sizeof(name)) || strcmp(name, "__module__"))
			continue;
		t->module_key = key;
		return value;
	}
	return 0;
}

static void name_heap_type(struct pytypes *t, struct pytype *type, char *module, char *name)
{
	u64 qualname, dict, value;

	if (!reader_read(t->r, type->addr + t->l->ht_qualname, &qualname, 8))
		pytypes_str(t->l, t->r, qualname, name, PYTYPES_NAME_MAX);
	if (!reader_read(t->r, type->addr + TP_DICT, &dict, 8)) {
		value = find_module(t, dict);
		/* Not every key is interned: look again without the hint. */
		if (!value && t->module_key) {
			u64 hint = t->module_key;

			t->module_key = 0;
			value = find_module(t, dict);
			t->module_key = hint;
		}
		if (value)
			pytypes_str(t->l, t->r, value, module, PYTYPES_NAME_MAX);
	}
}

int pytypes_name(struct pytypes *t, u32 index)
{
	char module[PYTYPES_NAME_MAX] = "", name[PYTYPES_NAME_MAX] = "", full[PYTYPES_NAME_MAX];
	struct pytype *type = &t->v[index];
	const char *dot;
	u64 addr;

	if (type->name)
		return 0;
	if (type->flags & PYTYPE_HEAP)
		name_heap_type(t, type, module, name);
	if (!module[0] || !name[0]) {
		if (reader_read(t->r, type->addr + TP_NAME, &addr, 8) ||
		    read_c_string(t->r, addr, full, sizeof(full)))
			snprintf(full, sizeof(full), "?");
		dot = strrchr(full, '.');
		if (!module[0])
			snprintf(module, sizeof(module), "%.*s", dot ? (int)(dot - full) : 8,
				 dot ? full : "builtins");
		if (!name[0])
			snprintf(name, sizeof(name), "%s", dot ? dot + 1 : full);
	}
	type->module = copy_text(module, strlen(module));
	type->name = copy_text(name, strlen(name));
	if (type->module && type->name)
		return 0;
	free(type->module);
	free(type->name);
	type->module = type->name = NULL;
	return -ENOMEM;
}
