// SPDX-License-Identifier: BSD-2-Clause
/* What an extension that mallocs hard looks like to a tracer. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 2048
#define SLOTS	1024

struct word {
	struct word *next;
	char *text;
	size_t len;
	unsigned long count;
};

static uint32_t hash(const char *text, size_t len)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (uint8_t)text[i]) * 16777619u;
	return h;
}

/* As a tokenizer does: each token is copied first and looked up then. */
static int count_word(struct word **table, const char *token, size_t len, unsigned long *mallocs)
{
	char *copy = malloc(len + 1);
	struct word **bucket;
	struct word *w;

	if (!copy)
		return -1;
	++*mallocs;
	memcpy(copy, token, len);
	copy[len] = 0;
	bucket = &table[hash(copy, len) % BUCKETS];
	for (w = *bucket; w; w = w->next) {
		if (w->len == len && !memcmp(w->text, copy, len)) {
			w->count++;
			free(copy);
			return 0;
		}
	}
	w = malloc(sizeof(*w));
	if (!w) {
		free(copy);
		return -1;
	}
	++*mallocs;
	*w = (struct word){.next = *bucket, .text = copy, .len = len, .count = 1};
	*bucket = w;
	return 1;
}

static void free_words(struct word **table)
{
	for (size_t i = 0; i < BUCKETS; i++) {
		while (table[i]) {
			struct word *w = table[i];

			table[i] = w->next;
			free(w->text);
			free(w);
		}
	}
	free(table);
}

/* The number of distinct words in text, or -1; adds to *mallocs the calls that it took. */
long bench_words(const char *text, size_t len, unsigned long *mallocs)
{
	struct word **table = calloc(BUCKETS, sizeof(*table));
	const char *end = text + len;
	long distinct = 0;

	if (!table)
		return -1;
	++*mallocs;
	while (text < end) {
		const char *space = memchr(text, ' ', end - text);
		const char *stop = space ? space : end;
		int new = count_word(table, text, stop - text, mallocs);

		if (new < 0) {
			distinct = -1;
			break;
		}
		distinct += new;
		text = stop + 1;
	}
	free_words(table);
	return distinct;
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Mostly small, now and then a few KB, as in the traces of real programs. */
static size_t random_size(uint64_t r)
{
	return (r & 63) ? 16 + (r >> 8 & 255) : 512 + (r >> 8 & 4095);
}

/* calls allocations over a window of live blocks; how many were made, or -1. */
long bench_malloc(unsigned long calls, unsigned long seed)
{
	uint64_t state = seed * 2654435761u + 88172645463325252u;
	char **live = calloc(SLOTS, sizeof(*live));
	long made = 0;

	if (!live)
		return -1;
	for (unsigned long i = 0; i < calls; i++) {
		uint64_t r = next_random(&state);
		char **slot = &live[r >> 40 & (SLOTS - 1)];
		char *p;

		if ((r >> 60) == 0) {
			p = realloc(*slot, random_size(r));
		} else {
			free(*slot);
			*slot = NULL;
			p = malloc(random_size(r));
		}
		if (!p) {
			made = -1;
			break;
		}
		made++;
		*p = (char)i;
		*slot = p;
	}
	for (size_t i = 0; i < SLOTS; i++)
		free(live[i]);
	free(live);
	return made;
}
