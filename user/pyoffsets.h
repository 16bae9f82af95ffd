/* SPDX-License-Identifier: BSD-2-Clause */
/* CPython version -> where its fields are.  Data only; reads nothing. */
#ifndef PHT_PYOFFSETS_USER_H
#define PHT_PYOFFSETS_USER_H

#include <stdbool.h>

#include "pht_pyoffsets.h"
#include "util.h"

#define PY_MINOR_MIN 8
#define PY_MINOR_MAX 15

/* Bytes of _Py_DebugOffsets that pyoffsets_fill() wants for a version; 0 = it has none. */
size_t pyoffsets_debug_len(u32 version_hex);
/* What the head of a _Py_DebugOffsets says about its build.  0, or -EINVAL (no such table). */
int pyoffsets_debug_head(const u8 *debug_offsets, size_t len, u32 *version_hex,
			 bool *free_threaded);
/*
 * Fill out for a version.  debug_offsets are the first len bytes of
 * _PyRuntime for 3.13 and newer, and ignored before.  0, -ENOTSUP (a version
 * or build without a table), -EINVAL (debug_offsets makes no sense).
 */
int pyoffsets_fill(u32 version_hex, bool free_threaded, const u8 *debug_offsets, size_t len,
		   struct pht_pyoffsets *out);
/* Where _PyRuntime says (int) that the interpreter is initialised, given a filled off. */
u32 pyoffsets_initialized(u32 version_hex, const struct pht_pyoffsets *off);
/* pymalloc's pool and arena sizes in bytes.  0 or -ENOTSUP. */
int pyoffsets_pymalloc(u32 version_hex, u32 *pool_size, u32 *arena_size);

#endif
