/* SPDX-License-Identifier: BSD-2-Clause */
/* An attribute of an object of another process, from the dict that its instance has. */
#ifndef PHT_PYATTR_H
#define PHT_PYATTR_H

#include "pytypes.h"

#define PYATTR_NAME_MAX 32 /* longer names are not looked for */

/*
 * The address of the value of an attribute in the instance's own dict, shared
 * keys and inline values included; the class is not looked at.  The object may
 * be anything: what makes no sense is -ENOENT, as is an attribute that is not
 * there.  -ESRCH, -EPERM, -ETIMEDOUT.
 */
int pyattr_find(const struct pylayout *l, const struct reader *r, u64 object, const char *name,
		u64 *value);

/* The same of one that is a str, as UTF-8, cut to size. */
int pyattr_str(const struct pylayout *l, const struct reader *r, u64 object, const char *name,
	       char *buf, size_t size);

/* The same of one that is an int below 2^30. */
int pyattr_u32(const struct pylayout *l, const struct reader *r, u64 object, const char *name,
	       u32 *out);

#endif
