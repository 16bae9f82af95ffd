// SPDX-License-Identifier: BSD-2-Clause
/* Line tables of any bytes: an answer, or none, and never a byte outside. */
#include <stdlib.h>
#include <string.h>

#include "linetable.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	s32 firstlineno, addr;
	enum pht_line_kind kind;
	u8 *table;

	if (size < 9)
		return 0;
	kind = data[0] % 3;
	memcpy(&firstlineno, data + 1, 4);
	memcpy(&addr, data + 5, 4);
	/* A copy of exactly that size, for ASan to see the end. */
	size -= 9;
	table = malloc(size ? size : 1);
	if (!table)
		abort();
	memcpy(table, data + 9, size);
	linetable_lookup(kind, table, size, firstlineno, addr);
	for (s32 a = -2; a < 64; a++)
		if (linetable_lookup(kind, table, size, firstlineno, a) < 0)
			abort();
	free(table);
	return 0;
}
