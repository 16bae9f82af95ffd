/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work that nobody waits for.  Removing a probe takes the kernel a tenth of a
 * second and more, in which it only waits; several wait no longer than one.
 */
#ifndef PHT_LATER_H
#define PHT_LATER_H

struct later; /* opaque */

struct later *later_new(void); /* NULL: no memory */
/* Call fn(arg) in another thread, or here if there are too many already; l may be NULL. */
void later_do(struct later *l, void (*fn)(void *arg), void *arg);
/* Wait for all of it. */
void later_free(struct later *l);

#endif
