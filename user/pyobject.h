/* SPDX-License-Identifier: BSD-2-Clause */
/* The file of a process that holds a CPython, and which version it is. */
#ifndef PHT_PYOBJECT_H
#define PHT_PYOBJECT_H

#include "elf.h"
#include "proc.h"
#include "pht_pyoffsets.h"

#define PYOBJECTS_MAX 8

struct pyobject {
	struct elf_file *elf; /* owned */
	const char *path;     /* as the target sees it; belongs to the maps */
	bool is_exe;
	u64 bias;
	u64 start, end; /* of all its mappings */
	u64 runtime;	/* _PyRuntime, run-time address; 0 = has none (3.6 and older) */
	u32 version;	/* PY_VERSION_HEX; 0 = not found */
};

/* What else a process without a CPython may be. */
enum py_other { PY_OTHER_NONE, PY_OTHER_PYPY };

struct pyobjects {
	struct pyobject v[PYOBJECTS_MAX]; /* the likeliest first */
	size_t n;
	enum py_other other;
};

/*
 * Collect the mapped objects that define a CPython's API.  n = 0: there is
 * none.  0 or -errno of the process or its files.
 */
int pyobjects_find(pid_t pid, const struct proc_maps *maps, struct pyobjects *out);
void pyobjects_free(struct pyobjects *objects);

/* PY_VERSION_HEX of an object, or 0. */
u32 pyversion_find(struct elf_file *elf, const char *path, bool has_runtime);
/* "3.11.2", "3.15.0b1". */
void pyversion_format(u32 version, char *buf, size_t len);
/* "3.9.2" or "3.10.0rc1+" as a whole string -> PY_VERSION_HEX; 0 = not a version. */
u32 pyversion_parse(const char *text);

#endif
