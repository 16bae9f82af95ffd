/* SPDX-License-Identifier: BSD-2-Clause */
/* The pieces of a flame graph's data: JSON that may stand inside a script element. */
#ifndef PHT_FLAME_JSON_H
#define PHT_FLAME_JSON_H

#include "flame_tree.h"

/*
 * A JSON string of a name that a target chose: shown as on a terminal (control
 * characters, direction marks and the like as \xNN), with <, > and & escaped.
 * Cut after FLAME_NAME_MAX bytes; returns whether it was.
 */
bool flame_string(FILE *out, const char *text);

/*
 * A column of whole numbers: base64 of LEB128, each between quotes.  Numbers
 * are put one by one; begin() writes "name":".
 */
struct flame_column {
	FILE *out;
	u32 bits;	/* not yet written: the last one or two bytes */
	unsigned int n; /* bytes in it */
};
void flame_column_begin(struct flame_column *c, FILE *out, const char *name);
void flame_column_put(struct flame_column *c, u64 v);
void flame_column_end(struct flame_column *c);

/* A sum that only makes intervals, to about 1 in 250: sign, exponent and 7 bits as one number. */
u64 flame_coarse(double v);

/* All of it, as one JSON object. */
int flame_json(FILE *out, const struct flame_input *in, const struct flame_tree *tree);

#endif
