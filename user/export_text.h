/* SPDX-License-Identifier: BSD-2-Clause */
/* Names that a target chose, written into text formats. */
#ifndef PHT_EXPORT_TEXT_H
#define PHT_EXPORT_TEXT_H

#include "report.h"

/* A JSON string with its quotes, printable on any terminal; not UTF-8 becomes U+FFFD. */
void json_string(FILE *out, const char *text);
/* A whole number, never -0; JSON's null where it is none. */
void json_whole(FILE *out, double v);
/* The same of what is whole anyway; fprintf() is slow where there are millions. */
void put_decimal(FILE *out, u64 v);
/* A frame as docs/json.md has it. */
void json_frame(FILE *out, const struct frame *f);

/* Valid UTF-8, as json_string() replaces; cut to size.  Returns the bytes. */
size_t valid_utf8(char *dst, size_t size, const char *text);

/* "function (file:line)" with as much as is known. */
void frame_label(char *dst, size_t size, const struct frame *f);
#define FRAME_LABEL_MAX (2 * 4096 + 64)

#endif
