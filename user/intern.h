/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One copy of each string: names come in over and over, rows and frames keep
 * pointers, and two equal strings have one address.  Names are a target's to
 * choose, so the table is bounded (INTERN_MAX_*): the memory it can take is
 * at most INTERN_MAX_BYTES of text and about 100 bytes a string beside it.
 */
#ifndef PHT_INTERN_H
#define PHT_INTERN_H

#include "util.h"

#define INTERN_MAX_STRINGS (1u << 18)
#define INTERN_MAX_BYTES   (32u << 20) /* with the NULs */
#define INTERN_MAX_LENGTH  4096u       /* longer strings are cut there */

/* What intern() yields when the table is full or memory is short. */
#define INTERN_FULL "<name table full>"

struct intern;

struct intern *intern_new(void); /* NULL: no memory */
void intern_free(struct intern *t);

/*
 * The table's copy of s, valid until intern_free().  Never NULL, except that
 * NULL yields NULL; INTERN_FULL (one address) when s is new and has no room.
 */
const char *intern(struct intern *t, const char *s);

size_t intern_count(const struct intern *t);
/* How many times INTERN_FULL was handed out. */
u64 intern_refused(const struct intern *t);

#endif
