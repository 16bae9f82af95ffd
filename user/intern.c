// SPDX-License-Identifier: BSD-2-Clause
#include "intern.h"

#include <search.h>
#include <string.h>

#define CHUNK_BYTES (64u << 10)

_Static_assert(INTERN_MAX_LENGTH < CHUNK_BYTES, "any string fits in a chunk");

struct chunk {
	struct chunk *next;
	u32 used;
	char text[CHUNK_BYTES];
};

/*
 * The index is libc's balanced tree, not a hash table: its worst case is
 * logarithmic whatever names a target makes up.
 */
struct intern {
	void *root;
	struct chunk *chunks; /* newest first */
	size_t count;
	size_t bytes;
	u64 refused;
};

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void keep_key(void *key)
{
	(void)key; /* it lives in a chunk */
}

struct intern *intern_new(void)
{
	return calloc(1, sizeof(struct intern));
}

void intern_free(struct intern *t)
{
	if (!t)
		return;
	tdestroy(t->root, keep_key);
	while (t->chunks) {
		struct chunk *next = t->chunks->next;

		free(t->chunks);
		t->chunks = next;
	}
	free(t);
}

/* Room for size bytes at the end of the newest chunk, not yet taken. */
static char *reserve(struct intern *t, size_t size)
{
	struct chunk *c = t->chunks;

	if (c && CHUNK_BYTES - c->used >= size)
		return c->text + c->used;
	c = malloc(sizeof(*c));
	if (!c)
		return NULL;
	c->used = 0;
	c->next = t->chunks;
	t->chunks = c;
	return c->text;
}

static const char *add(struct intern *t, const char *s, size_t len)
{
	char *copy;

	if (t->count >= INTERN_MAX_STRINGS || len + 1 > INTERN_MAX_BYTES - t->bytes)
		return NULL;
	copy = reserve(t, len + 1);
	if (!copy)
		return NULL;
	memcpy(copy, s, len);
	copy[len] = '\0';
	if (!tsearch(copy, &t->root, compare))
		return NULL;
	t->chunks->used += len + 1;
	t->bytes += len + 1;
	t->count++;
	return copy;
}

const char *intern(struct intern *t, const char *s)
{
	static const char full[] = INTERN_FULL;
	char cut[INTERN_MAX_LENGTH + 1];
	const char *copy;
	size_t len;
	void *node;

	if (!s)
		return NULL;
	len = strnlen(s, INTERN_MAX_LENGTH + 1);
	if (len > INTERN_MAX_LENGTH) {
		len = INTERN_MAX_LENGTH;
		memcpy(cut, s, len);
		cut[len] = '\0';
		s = cut;
	}
	node = tfind(s, &t->root, compare);
	if (node)
		return *(const char **)node;
	copy = add(t, s, len);
	if (!copy) {
		t->refused++;
		return full;
	}
	return copy;
}

size_t intern_count(const struct intern *t)
{
	return t->count;
}

u64 intern_refused(const struct intern *t)
{
	return t->refused;
}
