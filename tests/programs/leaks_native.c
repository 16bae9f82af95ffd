// SPDX-License-Identifier: BSD-2-Clause
/* An extension that keeps what it is asked for, in a list that nobody frees. */
#include <stdlib.h>
#include <string.h>

struct kept {
	struct kept *next;
	char data[];
};

static struct kept *all;

void leaks_native_keep(size_t size)
{
	struct kept *k = malloc(sizeof(*k) + size);

	if (!k)
		return;
	memset(k->data, 'x', size);
	k->next = all;
	all = k;
}

/* The same, and freed at once. */
void leaks_native_use(size_t size)
{
	char *p = malloc(size);

	if (p)
		memset(p, 'x', size);
	free(p);
}
