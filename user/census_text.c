// SPDX-License-Identifier: BSD-2-Clause
/* The census for people. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "census.h"
#include "escape.h"
#include "report_units.h"

static const char *label(char buf[700], const char *module, const char *name)
{
	char m[300], n[300];

	escape_text(m, sizeof(m), module, false);
	escape_text(n, sizeof(n), name ? name : "", false);
	if (!name)
		snprintf(buf, 700, "%s", m);
	else if (!strcmp(module, "builtins"))
		snprintf(buf, 700, "%s", n);
	else
		snprintf(buf, 700, "%s.%s", m, n);
	return buf;
}

static void head(const struct census *c, FILE *out)
{
	char comm[256], b[5][UNITS_MAX];

	escape_text(comm, sizeof(comm), c->comm, false);
	fprintf(out, "PID %d (%s), Python %s, allocator: %s, RSS %s\n", (int)c->pid, comm,
		c->python, c->alloc_mode, units_bytes(b[0], (double)c->rss, false));
	fprintf(out, "%" PRIu64 " objects of %" PRIu64 " types, %s by their own account",
		c->objects, c->types, units_bytes(b[0], (double)c->object_bytes, false));
	fprintf(out, "; %s more in blocks of no known owner (%s small, %s from malloc)\n",
		units_bytes(b[1], (double)(c->other_pool_bytes + c->other_malloc_bytes), false),
		units_bytes(b[2], (double)c->other_pool_bytes, false),
		units_bytes(b[3], (double)c->other_malloc_bytes, false));
	fprintf(out, "%" PRIu64 " dead objects kept for reuse, %s\n", c->freelist_blocks,
		units_bytes(b[4], (double)c->freelist_bytes, false));
	if (!c->malloc)
		fprintf(out,
			"malloc is not glibc's, so its heap was not walked: of the objects over "
			"512 bytes only containers were found, %" PRIu64
			" through the garbage collector's lists\n",
			c->linked);
}

static double part(u64 a, u64 b)
{
	return b ? (double)a / (double)b : 0;
}

static void rows(const char *title, const struct census_row *row, size_t n, size_t top, u64 total,
		 FILE *out)
{
	char text[700], b[3][UNITS_MAX], s[UNITS_MAX];

	fprintf(out, "\n%10s %10s %6s %10s %10s  %s\n", "COUNT", "BYTES", "SHARE", "HELD", "SPARE",
		title);
	for (size_t i = 0; i < n && i < top; i++)
		fprintf(out, "%10" PRIu64 " %10s %6s %10s %10s  %s\n", row[i].count,
			units_bytes(b[0], (double)row[i].bytes, false),
			units_share(s, part(row[i].bytes, total), true),
			units_bytes(b[1], (double)row[i].held, false),
			units_bytes(b[2], (double)row[i].spare, false),
			label(text, row[i].module, row[i].name));
	if (n > top)
		fprintf(out, "%10s %zu more\n", "...", n - top);
}

static void data(const struct census *c, FILE *out)
{
	char b[2][UNITS_MAX];

	fprintf(out, "\n%10s %10s %10s  %s\n", "BLOCKS", "BYTES", "HELD", "DATA OF OBJECTS");
	for (int i = 0; i < CENSUS_DATA_KINDS; i++)
		if (c->data[i].blocks)
			fprintf(out, "%10" PRIu64 " %10s %10s  %s\n", c->data[i].blocks,
				units_bytes(b[0], (double)c->data[i].bytes, false),
				units_bytes(b[1], (double)c->data[i].held, false),
				census_data_name(i));
}

static void classes(const struct census *c, FILE *out)
{
	fprintf(out, "\n%5s %12s %12s %12s %12s %12s %12s\n", "SIZE", "IN USE", "OBJECTS", "DATA",
		"DEAD", "OTHER", "FREE");
	for (u32 i = 0; i < OBMALLOC_CLASSES; i++) {
		const struct census_class *k = &c->class[i];

		if (k->used || k->free)
			fprintf(out,
				"%5u %12" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64
				" %12" PRIu64 " %12" PRIu64 "\n",
				obmalloc_class_size(i), k->used, k->objects, k->data, k->freelist,
				k->other, k->free);
	}
}

static void large(const char *title, const struct census_top *top, FILE *out)
{
	char text[700], b[UNITS_MAX];

	if (!top->n)
		return;
	fprintf(out, "\n%10s %12s %18s  %s\n", "BYTES", "LENGTH", "ADDRESS", title);
	for (size_t i = 0; i < top->n; i++)
		fprintf(out, "%10s %12" PRIu64 " %#18" PRIx64 "  %s\n",
			units_bytes(b, (double)top->v[i].bytes, false), top->v[i].length,
			top->v[i].addr, label(text, top->v[i].module, top->v[i].name));
}

static void losses(const struct census *c, FILE *out)
{
	const struct census_heap_stats *h = &c->heap;

	fprintf(out, "\nread in %.2f s, ", (double)c->took_ns / 1e9);
	if (c->frozen_ns)
		fprintf(out, "the process was stopped for %.1f ms", (double)c->frozen_ns / 1e6);
	else
		fprintf(out, "the process was never stopped");
	if (h->retried || h->torn_pools || h->vanished || h->torn_chunks || c->unread_tables)
		fprintf(out,
			"; changed meanwhile: %" PRIu64 " pools read again, %" PRIu64
			" pools left out, %" PRIu64 " gone, %" PRIu64 " heaps cut short (%" PRIu64
			" bytes), %" PRIu64 " tables of dicts unreadable",
			h->retried, h->torn_pools, h->vanished, h->torn_chunks, h->unwalked,
			c->unread_tables);
	if (c->types_refused)
		fprintf(out, "; %" PRIu64 " possible types not examined", c->types_refused);
	fputc('\n', out);
}

int census_print_text(const struct census *c, size_t top, bool all, FILE *out)
{
	head(c, out);
	rows("TYPE", c->row, c->nrow, top, c->object_bytes, out);
	rows("MODULE", c->module, c->nmodule, all ? top : top / 2, c->object_bytes, out);
	data(c, out);
	large("LARGEST CONTAINERS", &c->containers, out);
	large("LARGEST STRINGS", &c->strings, out);
	if (all)
		classes(c, out);
	losses(c, out);
	return ferror(out) ? -EIO : 0;
}
