// SPDX-License-Identifier: BSD-2-Clause
/* pprof's profile.proto, gzipped, with the sample types of a Go heap profile. */
#include <errno.h>
#include <zlib.h>

#include "export.h"
#include "export_text.h"

/* Field numbers of profile.proto. */
enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_MAPPING = 3,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING = 6,
	PROFILE_TIME = 9,
	PROFILE_DURATION = 10,
	PROFILE_PERIOD_TYPE = 11,
	PROFILE_PERIOD = 12,
	PROFILE_COMMENT = 13,
	PROFILE_DEFAULT_TYPE = 14,
	VALUE_TYPE = 1,
	VALUE_UNIT = 2,
	SAMPLE_LOCATION = 1,
	SAMPLE_VALUE = 2,
	SAMPLE_LABEL = 3,
	LABEL_KEY = 1,
	LABEL_TEXT = 2,
	LABEL_NUMBER = 3,
	LABEL_UNIT = 4,
	MAPPING_ID = 1,
	MAPPING_FILE = 5,
	MAPPING_HAS_FUNCTIONS = 7,
	MAPPING_HAS_FILES = 8,
	MAPPING_HAS_LINES = 9,
	LOCATION_ID = 1,
	LOCATION_MAPPING = 2,
	LOCATION_LINE = 4,
	LINE_FUNCTION = 1,
	LINE_NUMBER = 2,
	FUNCTION_ID = 1,
	FUNCTION_NAME = 2,
	FUNCTION_FILE = 4,
};

struct writer {
	const struct export_input *in;
	struct outbuf profile, part, inner;
	struct hashmap strings; /* address -> number */
	struct outbuf table;	/* the string table */
	u64 nstrings;
	struct hashmap functions; /* (name, file) -> number */
	u64 nfunctions;
	bool failed;
};

static void put_field(struct outbuf *b, u32 field, u64 value)
{
	put_varint(b, field << 3);
	put_varint(b, value);
}

static void put_message(struct outbuf *b, u32 field, const struct outbuf *content)
{
	put_varint(b, field << 3 | 2);
	put_varint(b, content->len);
	put_bytes(b, content->data, content->len);
	b->failed |= content->failed;
}

/* The same address is the same string: literals and interned ones. */
static u64 string_number(struct writer *w, const char *text)
{
	char valid[3 * 4096 + 4];
	uintptr_t known = (uintptr_t)hashmap_get(&w->strings, (uintptr_t)text, 0);
	size_t len;

	if (known)
		return known - 1;
	len = valid_utf8(valid, sizeof(valid), text);
	put_varint(&w->table, PROFILE_STRING << 3 | 2);
	put_varint(&w->table, len);
	put_bytes(&w->table, valid, len);
	if (hashmap_put(&w->strings, (uintptr_t)text, 0, (void *)(uintptr_t)(w->nstrings + 1)))
		w->failed = true;
	return w->nstrings++;
}

static void put_type(struct writer *w, u32 field, const char *type, const char *unit)
{
	outbuf_clear(&w->part);
	put_field(&w->part, VALUE_TYPE, string_number(w, type));
	put_field(&w->part, VALUE_UNIT, string_number(w, unit));
	put_message(&w->profile, field, &w->part);
}

static const char alloc_objects[] = "alloc_objects", alloc_space[] = "alloc_space";
static const char inuse_objects[] = "inuse_objects", inuse_space[] = "inuse_space";
static const char temporary_objects[] = "temporary_objects", temporary_space[] = "temporary_space";
static const char count_unit[] = "count", bytes_unit[] = "bytes", space[] = "space";
static const char domain_key[] = "domain", empty[] = "";

static void put_about(struct writer *w)
{
	const struct snapshot *s = w->in->s;
	bool temporary = s->metric == METRIC_TEMPORARY;

	string_number(w, empty); /* has to be the first */
	put_type(w, PROFILE_SAMPLE_TYPE, alloc_objects, count_unit);
	put_type(w, PROFILE_SAMPLE_TYPE, alloc_space, bytes_unit);
	put_type(w, PROFILE_SAMPLE_TYPE, temporary ? temporary_objects : inuse_objects, count_unit);
	put_type(w, PROFILE_SAMPLE_TYPE, temporary ? temporary_space : inuse_space, bytes_unit);
	put_type(w, PROFILE_PERIOD_TYPE, space, bytes_unit);
	put_field(&w->profile, PROFILE_PERIOD, s->sample_interval);
	put_field(&w->profile, PROFILE_TIME, s->wall_ns);
	put_field(&w->profile, PROFILE_DURATION, export_whole(s->duration * 1e9));
	put_field(&w->profile, PROFILE_DEFAULT_TYPE,
		  string_number(w, temporary ? temporary_space : inuse_space));
	if (*s->coverage)
		put_field(&w->profile, PROFILE_COMMENT, string_number(w, s->coverage));
	/* One mapping that claims to be symbolized, so that nobody tries to. */
	outbuf_clear(&w->part);
	put_field(&w->part, MAPPING_ID, 1);
	put_field(&w->part, MAPPING_FILE, string_number(w, s->comm));
	put_field(&w->part, MAPPING_HAS_FUNCTIONS, 1);
	put_field(&w->part, MAPPING_HAS_FILES, 1);
	put_field(&w->part, MAPPING_HAS_LINES, 1);
	put_message(&w->profile, PROFILE_MAPPING, &w->part);
}

static u64 function_number(struct writer *w, const struct frame *f)
{
	u64 a = (uintptr_t)f->function, b = (uintptr_t)f->file;
	uintptr_t known = (uintptr_t)hashmap_get(&w->functions, a, b);

	if (known)
		return known;
	if (hashmap_put(&w->functions, a, b, (void *)(uintptr_t)(w->nfunctions + 1)))
		w->failed = true;
	outbuf_clear(&w->part);
	put_field(&w->part, FUNCTION_ID, ++w->nfunctions);
	/* With a system name alike, pprof would demangle: <module> looks like a C++ template. */
	put_field(&w->part, FUNCTION_NAME, string_number(w, f->function));
	put_field(&w->part, FUNCTION_FILE, string_number(w, f->file));
	put_message(&w->profile, PROFILE_FUNCTION, &w->part);
	return w->nfunctions;
}

static void put_location(struct writer *w, u32 number, const struct frame *f)
{
	u64 function = function_number(w, f);

	outbuf_clear(&w->inner);
	put_field(&w->inner, LINE_FUNCTION, function);
	put_field(&w->inner, LINE_NUMBER, f->line > 0 ? (u64)f->line : 0);
	outbuf_clear(&w->part);
	put_field(&w->part, LOCATION_ID, number);
	put_field(&w->part, LOCATION_MAPPING, 1);
	put_message(&w->part, LOCATION_LINE, &w->inner);
	put_message(&w->profile, PROFILE_LOCATION, &w->part);
}

static void put_labels(struct writer *w, const struct snap_row *row)
{
	outbuf_clear(&w->inner);
	put_field(&w->inner, LABEL_KEY, string_number(w, domain_key));
	put_field(&w->inner, LABEL_TEXT, string_number(w, snap_domain_name(row->domain)));
	put_message(&w->part, SAMPLE_LABEL, &w->inner);
	if (row->allocated_blocks < 0.5)
		return;
	/* As Go does: what an object here has, on average. */
	outbuf_clear(&w->inner);
	put_field(&w->inner, LABEL_KEY, string_number(w, bytes_unit));
	put_field(&w->inner, LABEL_NUMBER,
		  export_whole(row->allocated_bytes / row->allocated_blocks));
	put_field(&w->inner, LABEL_UNIT, string_number(w, bytes_unit));
	put_message(&w->part, SAMPLE_LABEL, &w->inner);
}

static void put_sample(struct writer *w, const struct export_frames *frames,
		       const struct snap_row *row)
{
	const struct stacks *stacks = w->in->stacks;
	u32 at = row->stack;

	outbuf_clear(&w->part);
	outbuf_clear(&w->inner);
	do {
		put_varint(&w->inner, frames->number[stacks_top(stacks, at)]);
		at = stacks_parent(stacks, at);
	} while (at >= STACK_FIRST);
	put_message(&w->part, SAMPLE_LOCATION, &w->inner);
	outbuf_clear(&w->inner);
	put_varint(&w->inner, export_whole(row->allocated_blocks));
	put_varint(&w->inner, export_whole(row->allocated_bytes));
	put_varint(&w->inner, export_whole(row->live.blocks));
	put_varint(&w->inner, export_whole(row->live.bytes));
	put_message(&w->part, SAMPLE_VALUE, &w->inner);
	put_labels(w, row);
	put_message(&w->profile, PROFILE_SAMPLE, &w->part);
}

/* With no time and no name in the head: the same input makes the same bytes. */
static int put_gzip(FILE *out, const struct outbuf *b)
{
	z_stream z = {.next_in = b->data, .avail_in = b->len};
	u8 chunk[16384];
	int ret;

	if (b->len > UINT32_MAX)
		return -E2BIG;
	if (deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	do {
		z.next_out = chunk;
		z.avail_out = sizeof(chunk);
		ret = deflate(&z, Z_FINISH);
		fwrite(chunk, 1, sizeof(chunk) - z.avail_out, out);
	} while (ret == Z_OK);
	deflateEnd(&z);
	return ret == Z_STREAM_END ? 0 : -EIO;
}

static int write_profile(FILE *out, struct writer *w)
{
	struct export_frames frames;
	int err = export_frames_open(w->in, &frames);

	if (err)
		return err;
	put_about(w);
	for (u32 i = 0; i < frames.n; i++)
		put_location(w, i + 1, stacks_frame(w->in->stacks, frames.frame[i]));
	for (size_t i = 0; i < w->in->nrows; i++)
		put_sample(w, &frames, &w->in->rows[i]);
	put_bytes(&w->profile, w->table.data, w->table.len);
	export_frames_free(&frames);
	if (w->failed || w->profile.failed || w->table.failed)
		return -ENOMEM;
	return put_gzip(out, &w->profile);
}

static int export(FILE *out, const struct export_input *in)
{
	struct writer w = {.in = in};
	int err = write_profile(out, &w);

	outbuf_free(&w.profile);
	outbuf_free(&w.part);
	outbuf_free(&w.inner);
	outbuf_free(&w.table);
	hashmap_clear(&w.strings, NULL);
	hashmap_clear(&w.functions, NULL);
	return err;
}

const struct exporter export_pprof = {
	"pprof", "gzipped profile.proto for go tool pprof and its like", export, true};
