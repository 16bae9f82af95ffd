// SPDX-License-Identifier: BSD-2-Clause
#include "census_diff.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <string.h>
#include <sys/stat.h>

#include "census_count.h"
#include "escape.h"
#include "log.h"
#include "report_units.h"
#include "rss_jsonw.h"

#define FILE_MAX (256u << 20)
#define ROWS_MAX (1u << 20)

void census_rows_clear(struct census_rows *rows)
{
	census_rows_free(rows->v, rows->n);
	*rows = (struct census_rows){0};
}

static u64 number(struct json_object *o, const char *key)
{
	struct json_object *v;
	s64 n = json_object_object_get_ex(o, key, &v) ? json_object_get_int64(v) : 0;

	return n < 0 ? 0 : (u64)n;
}

static char *text(struct json_object *o, const char *key)
{
	struct json_object *v;

	if (!json_object_object_get_ex(o, key, &v) || !json_object_is_type(v, json_type_string))
		return NULL;
	return strdup(json_object_get_string(v));
}

static int take_rows(struct json_object *root, struct census_rows *out)
{
	struct json_object *types;
	size_t n;

	if (!json_object_is_type(root, json_type_object) ||
	    !json_object_object_get_ex(root, "types", &types) ||
	    !json_object_is_type(types, json_type_array))
		return -EINVAL;
	n = json_object_array_length(types);
	if (n > ROWS_MAX)
		return -EINVAL;
	out->v = calloc(n + 1, sizeof(*out->v));
	if (!out->v)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		struct json_object *o = json_object_array_get_idx(types, i);
		struct census_row *row = &out->v[i];

		if (!json_object_is_type(o, json_type_object))
			return -EINVAL;
		out->n++;
		row->module = text(o, "module");
		row->name = text(o, "name");
		row->count = number(o, "count");
		row->bytes = number(o, "bytes");
		row->held = number(o, "held_bytes");
		row->spare = number(o, "spare_bytes");
		if (!row->module || !row->name)
			return -EINVAL;
	}
	return 0;
}

int census_rows_parse(const char *text, size_t len, struct census_rows *out)
{
	struct json_tokener *tok = json_tokener_new();
	struct census_rows rows = {0};
	struct json_object *root;
	int err;

	if (!tok)
		return -ENOMEM;
	root = json_tokener_parse_ex(tok, text, (int)len);
	json_tokener_free(tok);
	err = root ? take_rows(root, &rows) : -EINVAL;
	json_object_put(root);
	if (err) {
		census_rows_clear(&rows);
		return err;
	}
	rows.n = census_rows_merge(rows.v, rows.n);
	*out = rows;
	return 0;
}

int census_rows_load(const char *path, struct census_rows *out)
{
	AUTO_FCLOSE FILE *f = fopen(path, "re");
	AUTO_FREE char *buf = NULL;
	struct stat st;
	int err;

	if (!f || fstat(fileno(f), &st))
		return log_err_r(-errno, "cannot read %s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode) || st.st_size > FILE_MAX)
		return log_err_r(-EINVAL, "%s is not a census (pyheaptrace census -f json -o FILE)",
				 path);
	buf = malloc((size_t)st.st_size + 1);
	if (!buf)
		return log_err_r(-ENOMEM, "cannot read %s: out of memory", path);
	if (fread(buf, 1, (size_t)st.st_size, f) != (size_t)st.st_size)
		return log_err_r(-EIO, "cannot read %s", path);
	buf[st.st_size] = '\0';
	err = census_rows_parse(buf, (size_t)st.st_size, out);
	if (err)
		log_error("%s is not a census (pyheaptrace census -f json -o FILE)", path);
	return err;
}

int census_rows_copy(const struct census *c, struct census_rows *out)
{
	struct census_rows rows = {calloc(c->nrow + 1, sizeof(*rows.v)), 0};

	if (!rows.v)
		return -ENOMEM;
	for (size_t i = 0; i < c->nrow; i++) {
		struct census_row *row = &rows.v[rows.n++];

		*row = c->row[i];
		row->module = strdup(c->row[i].module);
		row->name = strdup(c->row[i].name);
		if (!row->module || !row->name) {
			census_rows_clear(&rows);
			return -ENOMEM;
		}
	}
	*out = rows;
	return 0;
}

/* ---- the comparison */

static int by_name(const void *a, const void *b)
{
	const struct census_row *x = *(const struct census_row *const *)a;
	const struct census_row *y = *(const struct census_row *const *)b;
	int c = strcmp(x->module, y->module);

	return c ? c : strcmp(x->name, y->name);
}

static const struct census_row **sorted(const struct census_rows *rows)
{
	const struct census_row **v = calloc(rows->n + 1, sizeof(*v));

	if (!v)
		return NULL;
	for (size_t i = 0; i < rows->n; i++)
		v[i] = &rows->v[i];
	if (rows->n)
		qsort(v, rows->n, sizeof(*v), by_name);
	return v;
}

static u64 change(const struct census_delta *d)
{
	return d->bytes[1] > d->bytes[0] ? d->bytes[1] - d->bytes[0] : d->bytes[0] - d->bytes[1];
}

static int by_change(const void *a, const void *b)
{
	const struct census_delta *x = a, *y = b;
	u64 cx = change(x), cy = change(y);
	int c = strcmp(x->module, y->module);

	if (cx != cy)
		return cx < cy ? 1 : -1;
	return c ? c : strcmp(x->name, y->name);
}

static void put(struct census_delta *d, const struct census_row *row, int side)
{
	d->module = row->module;
	d->name = row->name;
	d->count[side] = row->count;
	d->bytes[side] = row->bytes;
}

int census_compare(const struct census_rows *before, const struct census_rows *after,
		   struct census_delta **out, size_t *n)
{
	AUTO_FREE const struct census_row **a = sorted(before);
	AUTO_FREE const struct census_row **b = sorted(after);
	struct census_delta *v = calloc(before->n + after->n + 1, sizeof(*v));
	size_t i = 0, k = 0, count = 0;

	if (!a || !b || !v) {
		free(v);
		return -ENOMEM;
	}
	while (i < before->n || k < after->n) {
		struct census_delta d = {0};
		int c = i == before->n ? 1 : k == after->n ? -1 : by_name(&a[i], &b[k]);

		if (c <= 0)
			put(&d, a[i++], 0);
		if (c >= 0)
			put(&d, b[k++], 1);
		if (d.count[0] != d.count[1] || d.bytes[0] != d.bytes[1])
			v[count++] = d;
	}
	if (count)
		qsort(v, count, sizeof(*v), by_change);
	*out = v;
	*n = count;
	return 0;
}

int census_diff_text(const struct census_delta *v, size_t n, size_t top, FILE *out)
{
	char b[3][UNITS_MAX], module[300], name[300];

	fprintf(out, "%11s %11s %11s %10s %10s %10s  %s\n", "COUNT WAS", "IS", "CHANGE",
		"BYTES WERE", "ARE", "CHANGE", "TYPE");
	for (size_t i = 0; i < n && i < top; i++) {
		escape_text(module, sizeof(module), v[i].module, false);
		escape_text(name, sizeof(name), v[i].name, false);
		fprintf(out, "%11" PRIu64 " %11" PRIu64 " %+11" PRId64 " %10s %10s %10s  %s.%s\n",
			v[i].count[0], v[i].count[1], (s64)(v[i].count[1] - v[i].count[0]),
			units_bytes(b[0], (double)v[i].bytes[0], false),
			units_bytes(b[1], (double)v[i].bytes[1], false),
			units_growth(b[2], (double)v[i].bytes[1] - (double)v[i].bytes[0], false),
			module, name);
	}
	if (n > top)
		fprintf(out, "%11s %zu more\n", "...", n - top);
	if (!n)
		fprintf(out, "nothing changed\n");
	return ferror(out) ? -EIO : 0;
}

int census_diff_json(const struct census_delta *v, size_t n, FILE *out)
{
	struct jsonw o = jsonw_object(), list = jsonw_array();

	for (size_t i = 0; i < n; i++) {
		struct jsonw row = jsonw_object();

		jsonw_text(&row, "module", v[i].module);
		jsonw_text(&row, "name", v[i].name);
		jsonw_u64(&row, "count_before", v[i].count[0]);
		jsonw_u64(&row, "count_after", v[i].count[1]);
		jsonw_u64(&row, "bytes_before", v[i].bytes[0]);
		jsonw_u64(&row, "bytes_after", v[i].bytes[1]);
		jsonw_add(&list, NULL, row);
	}
	jsonw_add(&o, "diff", list);
	return jsonw_print(&o, out);
}
