// SPDX-License-Identifier: BSD-2-Clause
#include "rss_jsonw.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "escape.h"

#define FLAGS (JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)

struct jsonw jsonw_object(void)
{
	struct json_object *json = json_object_new_object();

	return (struct jsonw){json, !json};
}

struct jsonw jsonw_array(void)
{
	struct json_object *json = json_object_new_array();

	return (struct jsonw){json, !json};
}

static int put(struct jsonw *o, const char *key, struct json_object *value)
{
	if (json_object_is_type(o->json, json_type_array))
		return json_object_array_add(o->json, value);
	return json_object_object_add(o->json, key, value);
}

static void add(struct jsonw *o, const char *key, struct json_object *value)
{
	if (!value || o->failed || put(o, key, value)) {
		json_object_put(value);
		o->failed = true;
	}
}

void jsonw_s64(struct jsonw *o, const char *key, s64 value)
{
	add(o, key, json_object_new_int64(value));
}

void jsonw_u64(struct jsonw *o, const char *key, u64 value)
{
	jsonw_s64(o, key, value > INT64_MAX ? INT64_MAX : (s64)value);
}

void jsonw_bool(struct jsonw *o, const char *key, bool value)
{
	add(o, key, json_object_new_boolean(value));
}

void jsonw_number(struct jsonw *o, const char *key, double value, int decimals)
{
	char text[400];

	snprintf(text, sizeof(text), "%.*f", decimals, isfinite(value) ? value : 0);
	add(o, key, json_object_new_double_s(value, text));
}

/* What is valid UTF-8 stays; other bytes become \xNN in the text. */
void jsonw_text(struct jsonw *o, const char *key, const char *text)
{
	AUTO_FREE char *copy = NULL;
	size_t n = 0;

	if (!text) {
		if (o->failed || put(o, key, NULL))
			o->failed = true;
		return;
	}
	copy = malloc(strlen(text) * 4 + 1);
	if (!copy) {
		o->failed = true;
		return;
	}
	while (*text) {
		u32 cp;
		unsigned len = utf8_decode(text, &cp);

		if (len) {
			memcpy(copy + n, text, len);
			n += len;
			text += len;
		} else {
			n += (size_t)sprintf(copy + n, "\\x%02x", (unsigned char)*text++);
		}
	}
	copy[n] = '\0';
	add(o, key, json_object_new_string(copy));
}

void jsonw_add(struct jsonw *o, const char *key, struct jsonw child)
{
	if (child.failed) {
		json_object_put(child.json);
		child.json = NULL;
	}
	add(o, key, child.json);
}

int jsonw_print(struct jsonw *o, FILE *out)
{
	const char *text = o->failed ? NULL : json_object_to_json_string_ext(o->json, FLAGS);
	int err = text ? 0 : -ENOMEM;

	if (text && (fputs(text, out) < 0 || fputc('\n', out) < 0 || fflush(out)))
		err = -EIO;
	json_object_put(o->json);
	*o = (struct jsonw){0};
	return err;
}
