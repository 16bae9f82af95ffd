// SPDX-License-Identifier: BSD-2-Clause
/* The text of sys._debugmallocstats(), byte for byte. */
#include <inttypes.h>
#include <string.h>

#include "cmd_pymalloc.h"

#define LABEL_COLUMNS 35
#define VALUE_COLUMNS 21

/* value with commas, right-aligned; what does not fit loses its first digits, as there. */
static void format_value(char out[VALUE_COLUMNS + 1], u64 value)
{
	int at = VALUE_COLUMNS, digits = 0;

	out[at] = '\0';
	do {
		if (digits && digits % 3 == 0)
			out[--at] = ',';
		if (at)
			out[--at] = (char)('0' + value % 10);
		value /= 10;
		digits++;
	} while (value && at > 0);
	while (at > 0)
		out[--at] = ' ';
}

static u64 print_one(FILE *f, const char *label, u64 value)
{
	char text[VALUE_COLUMNS + 1];

	format_value(text, value);
	fprintf(f, "%-*s=%s\n", LABEL_COLUMNS, label, text);
	return value;
}

static void print_classes(const struct obmalloc_stats *s, FILE *f)
{
	fprintf(f, "Small block threshold = %d, in %u size classes.\n", OBMALLOC_SMALL_MAX,
		OBMALLOC_CLASSES);
	fputs("\nclass   size   num pools   blocks in use  avail blocks\n"
	      "-----   ----   ---------   -------------  ------------\n",
	      f);
	for (u32 i = 0; i < OBMALLOC_CLASSES; i++) {
		const struct obmalloc_class_stats *c = &s->class[i];

		if (c->pools)
			fprintf(f, "%5u %6u %11" PRIu64 " %15" PRIu64 " %13" PRIu64 "\n", i,
				obmalloc_class_size(i), c->pools, c->used, c->avail);
	}
}

static void print_arenas(const struct obmalloc_layout *l, const struct obmalloc_stats *s, FILE *f)
{
	char label[128];

	print_one(f, "# arenas allocated total", s->ntimes);
	print_one(f, "# arenas reclaimed", s->ntimes - s->arenas);
	print_one(f, "# arenas highwater mark", s->highwater);
	print_one(f, "# arenas allocated current", s->arenas);
	snprintf(label, sizeof(label), "%" PRIu64 " arenas * %u bytes/arena", s->arenas,
		 l->arena_size);
	print_one(f, label, s->arenas * l->arena_size);
}

static void print_bytes(const struct obmalloc_layout *l, const struct obmalloc_stats *s, FILE *f)
{
	struct obmalloc_bytes b = obmalloc_stats_bytes(l, s);
	char label[128];

	print_one(f, "# bytes in allocated blocks", b.used);
	print_one(f, "# bytes in available blocks", b.avail);
	snprintf(label, sizeof(label), "%" PRIu64 " unused pools * %u bytes", s->unused_pools,
		 l->pool_size);
	print_one(f, label, b.unused_pools);
	print_one(f, "# bytes lost to pool headers", b.headers);
	print_one(f, "# bytes lost to quantization", b.quantization);
	print_one(f, "# bytes lost to arena alignment", b.alignment);
	print_one(f, "Total", b.total);
}

static void print_map(const struct obmalloc_layout *l, const struct obmalloc_stats *s, FILE *f)
{
	u64 total;

	fputs("\narena map counts\n", f);
	print_one(f, "# arena map mid nodes", s->map_mid);
	print_one(f, "# arena map bot nodes", s->map_bot);
	fputc('\n', f);
	total = print_one(f, "# bytes lost to arena map root", l->map_root);
	total += print_one(f, "# bytes lost to arena map mid", s->map_mid * l->map_mid);
	total += print_one(f, "# bytes lost to arena map bot", s->map_bot * l->map_bot);
	print_one(f, "Total", total);
}

/* A list whose count is not known has no line. */
static void print_lists(const struct freelists *lists, FILE *f)
{
	for (size_t i = 0; i < lists->n; i++) {
		const struct freelist *l = &lists->v[i];
		char sized[32] = "", text[128], label[160];

		if (l->count == FREELISTS_UNKNOWN)
			continue;
		if (l->items)
			snprintf(sized, sizeof(sized), "%u-sized ", l->items);
		snprintf(text, sizeof(text), "%u free %s%ss * %u bytes each", l->count, sized,
			 l->type, l->size);
		snprintf(label, sizeof(label), "%48s ", text);
		print_one(f, label, (u64)l->count * l->size);
	}
}

void pymalloc_write_stats(const struct pymalloc_moment *m, FILE *f)
{
	if (m->prints && m->nstates) {
		const struct obmalloc_stats *s = &m->state[0];

		print_classes(s, f);
		fputc('\n', f);
		print_arenas(&m->layout, s, f);
		fputc('\n', f);
		print_bytes(&m->layout, s, f);
		if (m->layout.map_root)
			print_map(&m->layout, s, f);
		fputc('\n', f);
	}
	print_lists(&m->main_lists, f);
}
