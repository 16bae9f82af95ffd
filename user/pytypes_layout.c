// SPDX-License-Identifier: BSD-2-Clause
/* Objects that differ between versions: data, and the arithmetic of dict tables. */
#include <errno.h>
#include <string.h>

#include "pytypes.h"

#define MANAGED_WEAKREF (1u << 3)
#define MANAGED_DICT	(1u << 4)

#define OLD_KEYS .keys_head = 40, .keys_usable = 24, .keys_nentries = 32
#define NEW_KEYS .keys_head = 32, .keys_usable = 16, .keys_nentries = 24, .keys_log2 = true
#define OLD_STR	 .str_ascii = 48, .str_compact = 72, .str_utf8_length = 48, .str_utf8 = 56
#define NEW_STR	 .str_ascii = 40, .str_compact = 56, .str_utf8_length = 40, .str_utf8 = 48

static const struct pylayout layouts[] = {
	{.minor = 8, .ht_qualname = 864, .ht_cached_keys = 872, OLD_KEYS, OLD_STR},
	{.minor = 9, .ht_qualname = 864, .ht_cached_keys = 872, OLD_KEYS, OLD_STR},
	{.minor = 10, .ht_qualname = 864, .ht_cached_keys = 872, OLD_KEYS, OLD_STR},
	{.minor = 11,
	 .ht_qualname = 864,
	 .ht_cached_keys = 872,
	 NEW_KEYS,
	 OLD_STR,
	 .prefix_flags = MANAGED_DICT,
	 .values = PYVALUES_PTR},
	{.minor = 12,
	 .ht_qualname = 872,
	 .ht_cached_keys = 880,
	 NEW_KEYS,
	 NEW_STR,
	 .long_tagged = true,
	 .prefix_flags = MANAGED_DICT | MANAGED_WEAKREF,
	 .values = PYVALUES_TAGGED},
	{.minor = 13,
	 .ht_qualname = 872,
	 .ht_cached_keys = 880,
	 NEW_KEYS,
	 NEW_STR,
	 .long_tagged = true,
	 .prefix_flags = MANAGED_DICT | MANAGED_WEAKREF,
	 .values = PYVALUES_INLINE},
	{.minor = 14,
	 .ht_qualname = 872,
	 .ht_cached_keys = 880,
	 NEW_KEYS,
	 NEW_STR,
	 .long_tagged = true,
	 .refcnt32 = true,
	 .prefix_flags = MANAGED_DICT | MANAGED_WEAKREF,
	 .values = PYVALUES_INLINE},
	{.minor = 15,
	 .ht_qualname = 880,
	 .ht_cached_keys = 888,
	 NEW_KEYS,
	 NEW_STR,
	 .long_tagged = true,
	 .refcnt32 = true,
	 .bytearray_bytes = true,
	 .prefix_flags = MANAGED_DICT | MANAGED_WEAKREF,
	 .values = PYVALUES_INLINE},
};

const struct pylayout *pylayout_find(u32 version)
{
	if (version >> 24 != 3)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
		if (layouts[i].minor == (version >> 16 & 0xff))
			return &layouts[i];
	return NULL;
}

#define KEYS_MAX_LOG2	40 /* more than this is no dict */
#define KIND_GENERAL	0
#define ENTRY_WITH_HASH 24
#define ENTRY_STR	16

static u64 usable_of(u64 size)
{
	return (size << 1) / 3;
}

static u64 index_bytes(u64 size)
{
	u64 width = size <= 0xff ? 1 : size <= 0xffff ? 2 : size <= 0xffffffff ? 4 : 8;

	return size * width;
}

static u64 bytes_of(const struct pylayout *l, u64 size, u32 entry)
{
	return l->keys_head + index_bytes(size) + usable_of(size) * entry;
}

static s64 word(const u8 *p)
{
	s64 v;

	memcpy(&v, p, sizeof(v));
	return v;
}

int pykeys_parse(const struct pylayout *l, const u8 head[PYKEYS_HEAD], struct pykeys *out)
{
	struct pykeys k = {.refcnt = (u64)word(head), .entry_bytes = ENTRY_WITH_HASH};
	s64 usable = word(head + l->keys_usable), nentries = word(head + l->keys_nentries);

	if (l->keys_log2) {
		u32 log2 = head[8], log2_index = head[9];

		if (log2 > KEYS_MAX_LOG2 || log2_index > KEYS_MAX_LOG2 + 3 || head[10] > 2)
			return -EINVAL;
		k.size = 1ull << log2;
		if (head[10] != KIND_GENERAL)
			k.entry_bytes = ENTRY_STR;
		k.entries_at = l->keys_head + (1u << (log2_index & 31));
		k.bytes = l->keys_head + (1ull << log2_index) + usable_of(k.size) * k.entry_bytes;
	} else {
		k.size = (u64)word(head + 8);
		if (!k.size || k.size & (k.size - 1) || k.size > 1ull << KEYS_MAX_LOG2)
			return -EINVAL;
		k.entries_at = (u32)(l->keys_head + index_bytes(k.size));
		k.bytes = bytes_of(l, k.size, k.entry_bytes);
	}
	if (usable < 0 || nentries < 0 || (u64)usable > k.size || (u64)nentries > k.size)
		return -EINVAL;
	k.usable = (u64)usable;
	k.nentries = (u64)nentries;
	*out = k;
	return 0;
}

u64 pykeys_bytes_for(const struct pylayout *l, const struct pykeys *keys, u64 n)
{
	u64 size = 8;

	if (!n)
		return 0;
	while (usable_of(size) < n && size < 1ull << KEYS_MAX_LOG2)
		size <<= 1;
	return bytes_of(l, size, keys->entry_bytes);
}

u64 pykeys_values(const struct pylayout *l, const struct pykeys *keys)
{
	return l->keys_log2 ? keys->usable + keys->nentries : usable_of(keys->size);
}

/* A byte for each says in which order they were set, and two say how many there are. */
u64 pykeys_values_head(const struct pylayout *l, u64 n)
{
	return l->values == PYVALUES_NONE ? 0 : (n + 2 + 7) / 8 * 8;
}
