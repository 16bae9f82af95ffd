/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How far long work is, on one line of stderr that is gone when it ends;
 * nothing where stderr is no terminal or stdout a pipe.  Cheap enough for inner loops.
 */
#ifndef PHT_PROGRESS_H
#define PHT_PROGRESS_H

#include <stdbool.h>

#include "util.h"

/* Work that is done / total done, or done of an unknown number (total 0): seen if it takes long. */
void progress_at(const char *what, u64 done, u64 total);
/* In words, at once. */
void progress_say(const char *text);
/* Erase it: the work is over. */
void progress_end(void);

/* Make room for a message; the line comes back with the next step. */
void progress_hide(void);
/* The terminal is used for something else, or is not any more. */
void progress_forbid(bool forbid);

/* The line for a terminal of that width, for progress.c and its test. */
void progress_line(char *buf, size_t size, const char *what, u64 done, u64 total, int width);

#endif
