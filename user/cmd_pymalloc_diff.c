// SPDX-License-Identifier: BSD-2-Clause
/* Two moments side by side: both values and the change, where there is one. */
#include <inttypes.h>
#include <time.h>

#include "cmd_pymalloc.h"
#include "report_units.h"

static const char *clock_time(double t, char buf[32])
{
	time_t whole = (time_t)t;
	struct tm tm;

	if (!localtime_r(&whole, &tm) || !strftime(buf, 32, "%F %T", &tm))
		snprintf(buf, 32, "?");
	return buf;
}

static void write_head(const struct pymalloc_moment *a, const struct pymalloc_moment *b, FILE *f)
{
	char from[32], to[32], span[UNITS_MAX];

	fprintf(f, "pymalloc of process %d (%s), Python %s: change in %s\n", (int)b->pid, b->comm,
		b->version, units_seconds(span, b->time - a->time));
	fprintf(f, "before: %s   after: %s\n", clock_time(a->time, from), clock_time(b->time, to));
	if (a->pid != b->pid || a->start_time != b->start_time)
		fprintf(f, "before was another process: %d (%s), Python %s\n", (int)a->pid, a->comm,
			a->version);
	if (b->total.torn || b->total.vanished)
		fprintf(f, "%" PRIu64 " structures changed while they were read: not counted\n",
			b->total.torn + b->total.vanished);
}

static void write_change(FILE *f, const char *what, u64 before, u64 after)
{
	int64_t change = (int64_t)(after - before);

	if (change)
		fprintf(f, "%-34s %16" PRIu64 " %16" PRIu64 " %+16" PRId64 "\n", what, before,
			after, change);
}

static void write_totals(const struct pymalloc_moment *a, const struct pymalloc_moment *b, FILE *f)
{
	struct obmalloc_bytes x = obmalloc_stats_bytes(&a->layout, &a->total);
	struct obmalloc_bytes y = obmalloc_stats_bytes(&b->layout, &b->total);

	write_change(f, "arenas", a->total.arenas, b->total.arenas);
	write_change(f, "arenas ever allocated", a->total.ntimes, b->total.ntimes);
	write_change(f, "arenas at most", a->total.highwater, b->total.highwater);
	write_change(f, "bytes in blocks in use", x.used, y.used);
	write_change(f, "bytes in available blocks", x.avail, y.avail);
	write_change(f, "bytes in unused pools", x.unused_pools, y.unused_pools);
	write_change(f, "bytes lost to pool headers", x.headers, y.headers);
	write_change(f, "bytes lost to quantization", x.quantization, y.quantization);
	write_change(f, "bytes lost to arena alignment", x.alignment, y.alignment);
	write_change(f, "total", x.total, y.total);
}

static void write_classes(const struct obmalloc_stats *a, const struct obmalloc_stats *b, FILE *f)
{
	for (u32 i = 0; i < OBMALLOC_CLASSES; i++) {
		const struct obmalloc_class_stats *x = &a->class[i], *y = &b->class[i];
		char what[64];
		u32 size = obmalloc_class_size(i);

		snprintf(what, sizeof(what), "class %u (%u bytes): pools", i, size);
		write_change(f, what, x->pools, y->pools);
		snprintf(what, sizeof(what), "class %u (%u bytes): in use", i, size);
		write_change(f, what, x->used, y->used);
		snprintf(what, sizeof(what), "class %u (%u bytes): available", i, size);
		write_change(f, what, x->avail, y->avail);
	}
}

static void write_lists(const struct freelists *a, const struct freelists *b, FILE *f)
{
	for (size_t i = 0; i < b->n; i++) {
		const struct freelist *y = &b->v[i], *x = freelists_same(a, y);
		char what[64];

		if (!x || x->count == FREELISTS_UNKNOWN || y->count == FREELISTS_UNKNOWN)
			continue;
		if (y->items)
			snprintf(what, sizeof(what), "free %u-sized %ss", y->items, y->type);
		else
			snprintf(what, sizeof(what), "free %ss", y->type);
		write_change(f, what, x->count, y->count);
	}
}

void pymalloc_write_text_diff(const struct pymalloc_moment *a, const struct pymalloc_moment *b,
			      FILE *f)
{
	write_head(a, b, f);
	fprintf(f, "\n%-34s %16s %16s %16s\n", "what changed", "before", "after", "change");
	write_totals(a, b, f);
	write_classes(&a->total, &b->total, f);
	write_lists(&a->lists, &b->lists, f);
}
