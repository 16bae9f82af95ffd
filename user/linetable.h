/* SPDX-License-Identifier: BSD-2-Clause */
/* CPython line tables, pure.  The bytes are hostile input. */
#ifndef PHT_LINETABLE_H
#define PHT_LINETABLE_H

#include "pht_pyoffsets.h"
#include "util.h"

/*
 * The line of the instruction at byte offset addr in the bytecode (always
 * bytes: 2 * code units), or 0 when the table gives it none or is damaged.
 */
s32 linetable_lookup(enum pht_line_kind kind, const u8 *table, size_t len, s32 firstlineno,
		     s32 addr);

#endif
