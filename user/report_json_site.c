// SPDX-License-Identifier: BSD-2-Clause
/* Sites of a JSON report, without json-c, which takes seconds for a hundred thousand. */
#include <math.h>

#include "export_text.h"
#include "report_json.h"

s64 report_json_whole(double value)
{
	if (isnan(value))
		return 0;
	if (value >= 9.2e18)
		return INT64_MAX;
	return value <= -9.2e18 ? INT64_MIN : llround(value);
}

static void put_rounded(FILE *out, const char *key, double v)
{
	s64 whole = report_json_whole(v);

	fputs_unlocked(key, out);
	if (whole < 0)
		putc_unlocked('-', out);
	put_decimal(out, whole < 0 ? -(u64)whole : (u64)whole);
}

static void put_count(FILE *out, const char *key, double count, bool known)
{
	if (known)
		put_rounded(out, key, count);
	else
		fprintf(out, "%snull", key);
}

/* Keys for the value, its low and its high end; known false: all of them null. */
static void put_interval(FILE *out, const char *const keys[3], const struct estimate *e, bool known)
{
	const double values[] = {e->value, e->low, e->high};

	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		put_count(out, keys[i], values[i], known);
}

static void put_lifetimes(FILE *out, const struct life_hist *h)
{
	const char *comma = "";

	fputs(",\"lifetimes\":", out);
	if (!h) {
		fputs("null", out);
		return;
	}
	putc_unlocked('[', out);
	for (u32 i = 0; i < PHT_LIFE_BUCKETS; i++) {
		if (!h->samples[i])
			continue;
		fprintf(out, "%s{\"from_seconds\":%.9g,\"to_seconds\":", comma, life_from(i));
		if (isfinite(life_to(i)))
			fprintf(out, "%.9g", life_to(i));
		else
			fputs("null", out);
		put_rounded(out, ",\"bytes\":", h->bytes[i]);
		put_rounded(out, ",\"blocks\":", h->blocks[i]);
		fprintf(out, ",\"samples\":%llu}", (unsigned long long)h->samples[i]);
		comma = ",";
	}
	putc_unlocked(']', out);
}

/* The peak, what was temporary, and how long what was freed has lived. */
static void put_lives(FILE *out, const struct report *r, const struct row *row)
{
	static const char *const peak_keys[] = {
		",\"peak_bytes\":", ",\"peak_bytes_low\":", ",\"peak_bytes_high\":"};
	static const char *const temporary_keys[] = {
		",\"temporary_bytes\":", ",\"temporary_bytes_low\":", ",\"temporary_bytes_high\":"};
	static const struct life_hist none;
	bool peak = r->peak_seconds >= 0, temporary = r->temporary_seconds > 0;

	put_interval(out, peak_keys, &row->peak_bytes, peak);
	put_count(out, ",\"peak_blocks\":", row->peak.blocks, peak);
	put_interval(out, temporary_keys, &row->temporary_bytes, temporary);
	put_count(out, ",\"temporary_blocks\":", row->temporary.blocks, temporary);
	/* Captures keep lifetimes by domain only. */
	put_lifetimes(out, row->lives || row->freed_samples ? row->lives : &none);
}

static void put_frames(FILE *out, const struct row *row)
{
	for (u32 i = 0; i < row->nframes; i++) {
		struct frame f = row->frames[i];

		f.file = f.file ?: "";
		if (i)
			putc_unlocked(',', out);
		json_frame(out, &f);
	}
}

void report_json_site(FILE *out, const struct report *r, const struct row *row)
{
	put_rounded(out, "{\"live_bytes\":", row->live_bytes.value);
	put_rounded(out, ",\"live_bytes_low\":", row->live_bytes.low);
	put_rounded(out, ",\"live_bytes_high\":", row->live_bytes.high);
	put_rounded(out, ",\"live_blocks\":", row->live_blocks);
	put_rounded(out, ",\"allocated_bytes\":", row->allocated_bytes);
	put_rounded(out, ",\"allocated_blocks\":", row->allocated_blocks);
	fputs(",\"samples\":", out);
	put_decimal(out, row->samples);
	fputs(",\"live_samples\":", out);
	put_decimal(out, row->live_samples);
	put_rounded(out, ",\"growth_bytes\":", row->growth_bytes);
	put_rounded(out, ",\"alloc_rate\":", row->alloc_rate);
	put_lives(out, r, row);
	fprintf(out, ",\"truncated\":%s,\"frames\":[", row->truncated ? "true" : "false");
	put_frames(out, row);
	fputs("]}", out);
}
