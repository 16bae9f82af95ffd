/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * JSON objects and arrays being built.  json-c keeps no error of its own; here the
 * first failure sticks, and jsonw_print() reports it.
 */
#ifndef PHT_RSS_JSONW_H
#define PHT_RSS_JSONW_H

#include <json-c/json.h>
#include <stdbool.h>

#include "util.h"

struct jsonw {
	struct json_object *json; /* owned */
	bool failed;
};

struct jsonw jsonw_object(void);
struct jsonw jsonw_array(void);
/* In an array key is ignored.  text: any bytes; what is not UTF-8 is escaped. */
void jsonw_u64(struct jsonw *o, const char *key, u64 value);
void jsonw_s64(struct jsonw *o, const char *key, s64 value);
void jsonw_bool(struct jsonw *o, const char *key, bool value);
void jsonw_text(struct jsonw *o, const char *key, const char *text); /* NULL: null */
void jsonw_number(struct jsonw *o, const char *key, double value, int decimals);
/* Takes child over. */
void jsonw_add(struct jsonw *o, const char *key, struct jsonw child);
/* One line to out; frees o.  0, -ENOMEM, -EIO. */
int jsonw_print(struct jsonw *o, FILE *out);

#endif
