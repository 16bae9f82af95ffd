// SPDX-License-Identifier: BSD-2-Clause
/* Read back what cmd_pymalloc_json.c wrote.  The file may hold anything. */
#include <errno.h>
#include <json-c/json.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd_pymalloc.h"
#include "escape.h"
#include "log.h"

#define MAX_FILE  (64u << 20)
#define MAX_VALUE (1ull << 52)
#define MAX_DEPTH 16

/* A counter: 0 where there is none, or no sane one. */
static u64 get_u64(struct json_object *o, const char *key)
{
	struct json_object *value;
	int64_t n;

	if (!json_object_object_get_ex(o, key, &value) ||
	    !json_object_is_type(value, json_type_int))
		return 0;
	n = json_object_get_int64(value);
	return n < 0 || (u64)n > MAX_VALUE ? 0 : (u64)n;
}

static struct json_object *get(struct json_object *o, const char *key, enum json_type type)
{
	struct json_object *value;

	return json_object_object_get_ex(o, key, &value) && json_object_is_type(value, type) ? value
											     : NULL;
}

static void get_text(struct json_object *o, const char *key, char *buf, size_t len)
{
	struct json_object *value = get(o, key, json_type_string);

	if (value)
		escape_text(buf, len, json_object_get_string(value), true);
}

static bool get_layout(struct json_object *o, struct obmalloc_layout *l)
{
	u64 pool = get_u64(o, "pool_size"), arena = get_u64(o, "arena_size");

	if (!pool && !arena) /* pymalloc was not found there */
		return true;
	if (pool & (pool - 1) || pool < 4096 || pool > OBMALLOC_POOL_MAX || arena % pool ||
	    arena < pool || arena > 1u << 30)
		return false;
	l->pool_size = (u32)pool;
	l->arena_size = (u32)arena;
	return true;
}

static void get_arenas(struct json_object *o, const struct obmalloc_layout *l,
		       struct obmalloc_stats *s)
{
	struct json_object *arenas = get(o, "arenas", json_type_object);
	struct json_object *bytes = get(o, "bytes", json_type_object);

	if (arenas) {
		s->arenas = get_u64(arenas, "current");
		s->highwater = get_u64(arenas, "highwater");
		s->ntimes = get_u64(arenas, "allocated_total");
	}
	if (bytes && l->pool_size) {
		s->unused_pools = get_u64(bytes, "unused_pools") / l->pool_size;
		s->aligned_pools = get_u64(bytes, "arena_alignment") / l->pool_size;
	}
}

static void get_classes(struct json_object *o, struct obmalloc_stats *s)
{
	struct json_object *list = get(o, "classes", json_type_array);
	size_t n = list ? json_object_array_length(list) : 0;

	for (size_t i = 0; i < n; i++) {
		struct json_object *c = json_object_array_get_idx(list, i);
		u64 index;

		if (!json_object_is_type(c, json_type_object))
			continue;
		index = get_u64(c, "class");
		if (index >= OBMALLOC_CLASSES)
			continue;
		s->class[index] = (struct obmalloc_class_stats){
			.pools = get_u64(c, "pools"),
			.used = get_u64(c, "in_use"),
			.avail = get_u64(c, "available"),
		};
	}
}

static void get_lists(struct json_object *o, struct freelists *lists)
{
	struct json_object *list = get(o, "free_lists", json_type_array);
	size_t n = list ? json_object_array_length(list) : 0;

	for (size_t i = 0; i < n && lists->n < FREELISTS_MAX; i++) {
		struct json_object *l = json_object_array_get_idx(list, i), *type, *count;

		if (!json_object_is_type(l, json_type_object))
			continue;
		type = get(l, "type", json_type_string);
		if (!type || !freelists_type(json_object_get_string(type)))
			continue;
		count = get(l, "count", json_type_int);
		lists->v[lists->n++] = (struct freelist){
			.type = freelists_type(json_object_get_string(type)),
			.items = (u32)get_u64(l, "items"),
			.size = (u32)get_u64(l, "size"),
			.count = count ? (u32)get_u64(l, "count") : FREELISTS_UNKNOWN,
		};
	}
}

static int from_json(struct json_object *o, struct pymalloc_moment *out)
{
	struct pymalloc_moment *m = out;
	struct json_object *time;

	if (!json_object_is_type(o, json_type_object) || get_u64(o, "pymalloc") != 1)
		return -EINVAL;
	*m = (struct pymalloc_moment){0};
	if (!get_layout(o, &m->layout))
		return -EINVAL;
	m->found = m->layout.pool_size;
	m->pid = (pid_t)get_u64(o, "pid");
	m->start_time = get_u64(o, "start_time");
	get_text(o, "command", m->comm, sizeof(m->comm));
	get_text(o, "python", m->version, sizeof(m->version));
	get_text(o, "allocator", m->allocator, sizeof(m->allocator));
	if (json_object_object_get_ex(o, "time", &time))
		m->time = json_object_get_double(time);
	if (!(m->time >= 0 && m->time < 1e12))
		m->time = 0;
	get_arenas(o, &m->layout, &m->total);
	get_classes(o, &m->total);
	get_lists(o, &m->lists);
	return 0;
}

static struct json_object *parse(const char *text)
{
	struct json_tokener *tok = json_tokener_new_ex(MAX_DEPTH);
	struct json_object *o;

	if (!tok)
		return NULL;
	o = json_tokener_parse_ex(tok, text, (int)strlen(text) + 1);
	if (json_tokener_get_error(tok) != json_tokener_success) {
		json_object_put(o);
		o = NULL;
	}
	json_tokener_free(tok);
	return o;
}

/* The last line that is not empty: --every writes one for each moment. */
static char *last_line(FILE *f)
{
	AUTO_FREE char *line = NULL;
	char *last = NULL;
	size_t cap = 0;

	while (getline(&line, &cap, f) > 0) {
		if (line[strspn(line, " \t\r\n")] == '\0')
			continue;
		free(last);
		last = TAKE_PTR(line);
		cap = 0;
	}
	return last;
}

int pymalloc_load_json(const char *path, struct pymalloc_moment *out)
{
	AUTO_FCLOSE FILE *f = fopen(path, "re");
	AUTO_FREE char *line = NULL;
	struct json_object *o;
	struct stat st;
	int err;

	if (!f)
		return log_err_r(-errno, "cannot open %s: %s", path, strerror(errno));
	if (fstat(fileno(f), &st) || !S_ISREG(st.st_mode) || st.st_size > MAX_FILE)
		return log_err_r(-EINVAL, "%s is not a file that pymalloc --format json wrote",
				 path);
	line = last_line(f);
	o = line ? parse(line) : NULL;
	err = o ? from_json(o, out) : -EINVAL;
	json_object_put(o);
	if (err)
		return log_err_r(err, "%s is not a file that pymalloc --format json wrote", path);
	return 0;
}
