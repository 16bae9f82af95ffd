// SPDX-License-Identifier: BSD-2-Clause
/* A report for programs: one JSON object, documented in docs/json.md. */
#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <string.h>

#include "escape.h"
#include "export_text.h"
#include "report_json.h"

#define FLAGS (JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)

/*
 * json-c keeps no error of its own: a NULL where a value was made would read
 * as null.  So every value is made and added here, and the first failure sticks.
 */
struct object {
	struct json_object *json;
	bool failed;
};

static struct object object_new(void)
{
	struct json_object *json = json_object_new_object();

	return (struct object){json, !json};
}

static void add(struct object *o, const char *key, struct json_object *value)
{
	if (!value || o->failed || json_object_object_add(o->json, key, value)) {
		json_object_put(value);
		o->failed = true;
	}
}

static void add_null(struct object *o, const char *key)
{
	if (o->failed || json_object_object_add(o->json, key, NULL))
		o->failed = true;
}

static void add_text(struct object *o, const char *key, const char *text)
{
	if (text)
		add(o, key, json_object_new_string(text));
	else
		add_null(o, key);
}

static void add_u64(struct object *o, const char *key, u64 value)
{
	add(o, key, json_object_new_int64(value > INT64_MAX ? INT64_MAX : (int64_t)value));
}

static void add_rounded(struct object *o, const char *key, double value)
{
	add(o, key, json_object_new_int64(report_json_whole(value)));
}

/* A number that stays fractional; null when it is not finite. */
static void add_fraction(struct object *o, const char *key, double value, const char *format)
{
	char text[400];

	if (!isfinite(value)) {
		add_null(o, key);
		return;
	}
	snprintf(text, sizeof(text), format, value);
	add(o, key, json_object_new_double_s(value, text));
}

static void add_object(struct object *o, const char *key, struct object child)
{
	if (child.failed) {
		json_object_put(child.json);
		child.json = NULL;
	}
	add(o, key, child.json);
}

/* key, key_low and key_high; known false: all of them null. */
static void add_interval(struct object *o, const char *key, const struct estimate *e, bool known)
{
	static const char *const ends[] = {"", "_low", "_high"};
	const double values[] = {e->value, e->low, e->high};
	char name[64];

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		snprintf(name, sizeof(name), "%s%s", key, ends[i]);
		if (known)
			add_rounded(o, name, values[i]);
		else
			add_null(o, name);
	}
}

static void add_estimate(struct object *o, const struct estimate *e)
{
	add_interval(o, "live_bytes", e, true);
}

static void add_count(struct object *o, const char *key, double count, bool known)
{
	if (known)
		add_rounded(o, key, count);
	else
		add_null(o, key);
}

static struct json_object *make_bucket(const struct life_hist *h, u32 i)
{
	struct object o = object_new();

	add_fraction(&o, "from_seconds", life_from(i), "%.9g");
	add_fraction(&o, "to_seconds", life_to(i), "%.9g");
	add_rounded(&o, "bytes", h->bytes[i]);
	add_rounded(&o, "blocks", h->blocks[i]);
	add_u64(&o, "samples", h->samples[i]);
	if (!o.failed)
		return o.json;
	json_object_put(o.json);
	return NULL;
}

/* Buckets in which something is; NULL: not known. */
static void add_lifetimes(struct object *o, const struct life_hist *h)
{
	struct json_object *buckets;

	if (!h) {
		add_null(o, "lifetimes");
		return;
	}
	buckets = json_object_new_array();
	for (u32 i = 0; buckets && i < PHT_LIFE_BUCKETS; i++) {
		struct json_object *bucket;

		if (!h->samples[i])
			continue;
		bucket = make_bucket(h, i);
		if (!bucket || json_object_array_add(buckets, bucket)) {
			json_object_put(bucket);
			o->failed = true;
		}
	}
	add(o, "lifetimes", buckets);
}

static const char *metric_name(enum report_metric metric)
{
	static const char *const names[] = {
		[METRIC_LIVE] = "live", [METRIC_PEAK] = "peak", [METRIC_TEMPORARY] = "temporary"};

	return names[metric];
}

static struct object make_coverage(const struct report *r)
{
	struct object o = object_new();

	add_text(&o, "description", r->coverage);
	if (r->coverage_share < 0)
		add_null(&o, "share");
	else
		add_fraction(&o, "share", r->coverage_share, "%.4f");
	add(&o, "complete", json_object_new_boolean(r->coverage_complete));
	return o;
}

static struct object make_totals(const struct report *r)
{
	struct object o = object_new();

	add_estimate(&o, &r->live_bytes);
	add_rounded(&o, "live_blocks", r->live_blocks);
	add_rounded(&o, "allocated_bytes", r->allocated_bytes);
	add_rounded(&o, "allocated_blocks", r->allocated_blocks);
	add_u64(&o, "samples", r->samples);
	add_u64(&o, "live_samples", r->live_samples);
	add_u64(&o, "calls", r->calls);
	add_u64(&o, "frees", r->frees);
	add_interval(&o, "peak_bytes", &r->peak_bytes, r->peak_seconds >= 0);
	add_count(&o, "peak_blocks", r->peak_blocks, r->peak_seconds >= 0);
	if (r->peak_seconds >= 0)
		add_fraction(&o, "peak_seconds", r->peak_seconds, "%.3f");
	else
		add_null(&o, "peak_seconds");
	add_interval(&o, "temporary_bytes", &r->temporary_bytes, r->temporary_seconds > 0);
	add_count(&o, "temporary_blocks", r->temporary_blocks, r->temporary_seconds > 0);
	add_lifetimes(&o, r->temporary_seconds > 0 ? &r->lives : NULL);
	return o;
}

static struct object make_before(const struct report_before *b)
{
	struct json_object *types = json_object_new_array();
	struct object o = object_new();

	add_u64(&o, "objects", b->objects);
	add_u64(&o, "bytes", b->bytes);
	for (size_t i = 0; i < b->ntypes && types; i++) {
		struct object t = object_new();

		add_text(&t, "name", b->types[i].name);
		add_u64(&t, "count", b->types[i].count);
		add_u64(&t, "bytes", b->types[i].bytes);
		o.failed |= t.failed;
		json_object_array_add(types, t.json);
	}
	add(&o, "types", types);
	return o;
}

static struct object make_losses(const struct report *r)
{
	struct object o = object_new();

	for (int i = 0; i < PHT_LOSS_NR; i++)
		add_u64(&o, loss_name(i), r->losses[i]);
	return o;
}

static struct object make_process(const struct report_process *p)
{
	struct object o = object_new();

	add_u64(&o, "pid", (u64)p->pid);
	add_text(&o, "comm", p->comm);
	add_text(&o, "python_version", p->python_version);
	add_fraction(&o, "duration_seconds", p->duration, "%.3f");
	add_u64(&o, "rss_bytes", p->rss);
	add_estimate(&o, &p->live_bytes);
	add_text(&o, "end_reason", p->end_reason);
	return o;
}

static void add_processes(struct object *o, const struct report *r)
{
	struct json_object *list;

	if (!r->processes) {
		add_null(o, "processes");
		return;
	}
	list = json_object_new_array();
	for (size_t i = 0; i < r->nprocesses && list; i++) {
		struct object p = make_process(&r->processes[i]);

		o->failed |= p.failed;
		json_object_array_add(list, p.json);
	}
	add(o, "processes", list);
}

/* Everything but the sites. */
static struct object make_head(const struct report *r)
{
	static const char *const groups[] = {
		[GROUP_TRACEBACK] = "traceback", [GROUP_LINE] = "line",
		[GROUP_FUNCTION] = "function",	 [GROUP_FILE] = "file",
		[GROUP_THREAD] = "thread",
	};
	struct object o = object_new();

	if (r->processes) {
		add_null(&o, "pid");
		add_null(&o, "comm");
		add_null(&o, "python_version");
	} else {
		add_u64(&o, "pid", (u64)r->pid);
		add_text(&o, "comm", r->comm);
		add_text(&o, "python_version", r->python_version);
	}
	add_processes(&o, r);
	add_text(&o, "collector", r->collector);
	add_text(&o, "written_to_target", r->wrote && *r->wrote ? r->wrote : NULL);
	if (r->overhead >= 0)
		add_fraction(&o, "overhead", r->overhead, "%.4f");
	else
		add_null(&o, "overhead");
	add_object(&o, "coverage", make_coverage(r));
	add_u64(&o, "sample_interval", r->sample_interval);
	add_fraction(&o, "duration_seconds", r->duration, "%.3f");
	add_u64(&o, "rss_bytes", r->rss);
	if (r->before)
		add_object(&o, "before_attach", make_before(r->before));
	else
		add_null(&o, "before_attach");
	add_text(&o, "group_by", groups[r->group_by]);
	add_text(&o, "metric", metric_name(r->metric));
	if (r->temporary_seconds > 0)
		add_fraction(&o, "temporary_ms", r->temporary_seconds * 1000, "%.6g");
	else
		add_null(&o, "temporary_ms");
	add_object(&o, "totals", make_totals(r));
	add_object(&o, "losses", make_losses(r));
	add_text(&o, "end_reason", r->end_reason);
	return o;
}

static void put_unicode(FILE *out, u32 cp)
{
	if (cp < 0x10000)
		fprintf(out, "\\u%04x", cp);
	else
		fprintf(out, "\\u%04x\\u%04x", 0xd800 + ((cp - 0x10000) >> 10),
			0xdc00 + (cp & 0x3ff));
}

/*
 * Serialised JSON as it leaves: json-c passes bytes above 0x7e through as they
 * are, valid UTF-8 or not.  They can only be inside strings, so \u does for all.
 */
static void put_json(FILE *out, const char *text, size_t len)
{
	const char *end = text + len;

	while (text < end) {
		unsigned int n;
		u32 cp;

		n = utf8_decode(text, &cp);
		if (!n)
			put_unicode(out, 0xfffd);
		else if (escape_unsafe(cp))
			put_unicode(out, cp);
		else
			fwrite(text, 1, n, out);
		text += n ? n : 1;
	}
}

/* Print and free, with the closing brace left off. */
static int put_open_object(FILE *out, struct object o)
{
	const char *text = NULL;
	size_t len;

	if (!o.failed)
		text = json_object_to_json_string_length(o.json, FLAGS, &len);
	if (text)
		put_json(out, text, len - 1);
	json_object_put(o.json);
	return text ? 0 : -ENOMEM;
}

int report_json(FILE *out, const struct report *r)
{
	int err;

	errno = 0;
	err = put_open_object(out, make_head(r));
	if (err)
		return err;
	fputs(",\"sites\":[", out);
	for (size_t i = 0; i < r->nrows; i++) {
		if (i)
			fputc(',', out);
		report_json_site(out, r, r->rows + i);
	}
	fputs("]}\n", out);
	if (fflush(out) || ferror(out))
		return errno ? -errno : -EIO;
	return 0;
}
