/* SPDX-License-Identifier: BSD-2-Clause */
/* The file of -o: that it can be written is known at once, what it holds is lost late. */
#ifndef PHT_OUTFILE_H
#define PHT_OUTFILE_H

#include <stdio.h>

/* NULL, and why in the log. */
FILE *outfile_open(const char *path);
/* There is something to be written: forget what was there.  For stdout: nothing. */
void outfile_begin(FILE *out);

#endif
