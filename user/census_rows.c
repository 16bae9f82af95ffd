// SPDX-License-Identifier: BSD-2-Clause
/* The rows of a census: the largest objects, and joining what has one name. */
#include <errno.h>
#include <string.h>

#include "census_count.h"

static void sift(struct census_top *top, size_t i)
{
	for (;;) {
		size_t least = i, left = 2 * i + 1;

		for (size_t k = left; k < left + 2 && k < top->n; k++)
			if (top->v[k].bytes < top->v[least].bytes)
				least = k;
		if (least == i)
			return;
		struct census_large tmp = top->v[i];

		top->v[i] = top->v[least];
		top->v[least] = tmp;
		i = least;
	}
}

void census_top_add(struct census_top *top, const struct census_large *l)
{
	if (top->n < top->max) {
		size_t i = top->n++;

		top->v[i] = *l;
		for (; i && top->v[(i - 1) / 2].bytes > top->v[i].bytes; i = (i - 1) / 2) {
			struct census_large tmp = top->v[i];

			top->v[i] = top->v[(i - 1) / 2];
			top->v[(i - 1) / 2] = tmp;
		}
	} else if (top->n && l->bytes > top->v[0].bytes) {
		top->v[0] = *l;
		sift(top, 0);
	}
}

static int larger_first(const void *a, const void *b)
{
	const struct census_large *x = a, *y = b;

	return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : 0;
}

int census_top_finish(struct census_top *top, struct pytypes *types)
{
	if (top->n)
		qsort(top->v, top->n, sizeof(*top->v), larger_first);
	for (size_t i = 0; i < top->n; i++) {
		int err = pytypes_name(types, top->v[i].type);
		const struct pytype *type = pytypes_get(types, top->v[i].type);

		if (err)
			return err;
		top->v[i].module = strdup(type->module);
		top->v[i].name = strdup(type->name);
		if (!top->v[i].module || !top->v[i].name)
			return -ENOMEM;
	}
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct census_row *x = a, *y = b;
	int c = strcmp(x->module, y->module);

	if (c || !x->name || !y->name)
		return c;
	return strcmp(x->name, y->name);
}

static int by_bytes(const void *a, const void *b)
{
	const struct census_row *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return by_name(a, b);
}

/* Rows of one name become one: types that were made anew share a name. */
size_t census_rows_merge(struct census_row *row, size_t n)
{
	size_t out = 0;

	if (n)
		qsort(row, n, sizeof(*row), by_name);
	for (size_t i = 0; i < n; i++) {
		if (out && !by_name(&row[out - 1], &row[i])) {
			row[out - 1].count += row[i].count;
			row[out - 1].bytes += row[i].bytes;
			row[out - 1].held += row[i].held;
			row[out - 1].spare += row[i].spare;
			free(row[i].module);
			free(row[i].name);
		} else {
			row[out++] = row[i];
		}
	}
	if (out)
		qsort(row, out, sizeof(*row), by_bytes);
	return out;
}

void census_rows_free(struct census_row *row, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(row[i].module);
		free(row[i].name);
	}
	free(row);
}
