// SPDX-License-Identifier: BSD-2-Clause
#include <inttypes.h>

#include "cmd_pymalloc.h"
#include "report_units.h"

static const u32 bucket_pcts[OBMALLOC_BUCKETS] = OBMALLOC_BUCKET_PCTS;

static double percent(u64 part, u64 whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* "12.4 MiB"; several calls in one printf need a buffer each. */
#define BYTES(value) units_bytes((char[UNITS_MAX]){0}, (double)(value), false)

static void write_head(const struct pymalloc_moment *m, FILE *f)
{
	fprintf(f, "pymalloc of process %d (%s), Python %s\n", (int)m->pid, m->comm, m->version);
	if (m->frozen_ns)
		fprintf(f, "read in %.1f ms; the process stood still for %.1f ms\n",
			(double)m->total.walk_ns / 1e6, (double)m->frozen_ns / 1e6);
	else
		fprintf(f, "read in %.1f ms while the process ran (stopped for 0 ms)\n",
			(double)m->total.walk_ns / 1e6);
	if (m->thawed_early)
		fputs("it was let go before the reading was done: --freeze=MS allows more\n", f);
	if (m->total.torn || m->total.vanished)
		fprintf(f,
			"not counted: %" PRIu64 " structures that changed while they were read, "
			"%" PRIu64 " pools given back meanwhile (best of %" PRIu64 " readings)\n",
			m->total.torn, m->total.vanished, m->total.tries);
	if (m->more_states)
		fprintf(f, "only the first %d interpreters were read\n", OBMALLOC_STATES_MAX);
	if (!m->prints)
		fprintf(f, "requests are served by: %s (not by pymalloc alone)\n", m->allocator);
}

static void write_part(FILE *f, const char *what, u64 bytes, u64 whole)
{
	fprintf(f, "  %-28s %10s %16" PRIu64 " %6.1f%%\n", what, BYTES(bytes), bytes,
		percent(bytes, whole));
}

static void write_bytes(const struct pymalloc_moment *m, FILE *f)
{
	const struct obmalloc_stats *s = &m->total;
	struct obmalloc_bytes b = obmalloc_stats_bytes(&m->layout, s);

	fprintf(f,
		"\nArenas: %" PRIu64 " of %s now, %" PRIu64 " at most, %" PRIu64
		" ever allocated, %" PRIu64 " given back\n",
		s->arenas, BYTES(m->layout.arena_size), s->highwater, s->ntimes,
		s->ntimes > s->arenas ? s->ntimes - s->arenas : 0);
	write_part(f, "blocks in use", b.used, b.total);
	write_part(f, "blocks available", b.avail, b.total);
	write_part(f, "unused pools", b.unused_pools, b.total);
	write_part(f, "lost to pool headers", b.headers, b.total);
	write_part(f, "lost to quantization", b.quantization, b.total);
	write_part(f, "lost to arena alignment", b.alignment, b.total);
	write_part(f, "total", b.total, b.total);
	if (m->layout.map_root)
		fprintf(f, "  and the arena map beside them: %s\n",
			BYTES(m->layout.map_root + s->map_mid * m->layout.map_mid +
			      s->map_bot * m->layout.map_bot));
}

static void write_interpreters(const struct pymalloc_moment *m, FILE *f)
{
	if (m->nstates < 2)
		return;
	fprintf(f, "\n%12s %10s %14s %14s\n", "interpreter", "arenas", "in use", "available");
	for (size_t i = 0; i < m->nstates; i++) {
		struct obmalloc_bytes b = obmalloc_stats_bytes(&m->layout, &m->state[i]);

		fprintf(f, "%12" PRId64 " %10" PRIu64 " %14s %14s\n", m->state[i].interp_id,
			m->state[i].arenas, BYTES(b.used), BYTES(b.avail));
	}
}

static void write_classes(const struct pymalloc_moment *m, FILE *f)
{
	fprintf(f, "\n%5s %5s %9s %12s %12s %12s %6s %13s\n", "class", "size", "pools", "in use",
		"available", "bytes in use", "full", "nearly empty");
	for (u32 i = 0; i < OBMALLOC_CLASSES; i++) {
		const struct obmalloc_class_stats *c = &m->total.class[i];

		if (!c->pools)
			continue;
		fprintf(f,
			"%5u %5u %9" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12s %5.0f%% %13" PRIu64
			"\n",
			i, obmalloc_class_size(i), c->pools, c->used, c->avail,
			BYTES(c->used * obmalloc_class_size(i)),
			percent(c->used, c->used + c->avail), c->sparse);
	}
}

static void write_buckets(const struct obmalloc_layout *l, const struct obmalloc_stats *s, FILE *f)
{
	u32 from = 0;

	for (size_t i = 0; i < OBMALLOC_BUCKETS; i++) {
		const struct obmalloc_bucket *b = &s->bucket[i];
		u32 to = bucket_pcts[i] > 100 ? 100 : bucket_pcts[i];

		if (b->arenas)
			fprintf(f,
				"  %3u to %3u%% in use: %8" PRIu64
				" arenas hold %10s for %10s of blocks\n",
				from, to, b->arenas, BYTES(b->arenas * l->arena_size),
				BYTES(b->used_bytes));
		from = to;
	}
}

static void write_fragmentation(const struct pymalloc_moment *m, FILE *f)
{
	const struct obmalloc_stats *s = &m->total;
	struct obmalloc_fragmentation fr = obmalloc_stats_fragmentation(&m->layout, s);

	fputs("\nFragmentation\n", f);
	write_buckets(&m->layout, s, f);
	fprintf(f,
		"  nearly empty (below %d%%): %" PRIu64
		" arenas hold %s for %s; an arena goes back "
		"once it is empty\n",
		OBMALLOC_SPARSE_PCT, fr.sparse_arenas, BYTES(fr.sparse_arena_bytes),
		BYTES(fr.sparse_arena_used));
	fprintf(f, "  nearly empty pools: %" PRIu64 " hold %s for %s\n", fr.sparse_pools,
		BYTES(fr.sparse_pool_bytes), BYTES(fr.sparse_pool_used));
	fprintf(f,
		"  packed, the blocks in use would fill %" PRIu64 " of the %" PRIu64
		" arenas: %s (%.1f%%) is held by fragmentation\n",
		fr.needed_arenas, s->arenas, BYTES(fr.excess_bytes),
		percent(fr.excess_bytes, s->arenas * m->layout.arena_size));
}

/* Tuples of all sizes make one line. */
static void write_lists(const struct pymalloc_moment *m, FILE *f)
{
	const struct freelists *lists = &m->lists;
	u64 objects = 0, bytes = 0;
	const char *tuples = NULL;

	fprintf(f, "\n%-24s %10s %12s\n", "Free lists", "objects", "bytes");
	for (size_t i = 0; i < lists->n; i++) {
		const struct freelist *l = &lists->v[i];

		if (l->count == FREELISTS_UNKNOWN)
			continue;
		if (l->items) {
			tuples = l->type;
			objects += l->count;
			bytes += (u64)l->count * l->size;
			continue;
		}
		fprintf(f, "  %-22s %10u %12s\n", l->type, l->count,
			BYTES((u64)l->count * l->size));
	}
	if (tuples)
		fprintf(f, "  %-22s %10" PRIu64 " %12s\n", tuples, objects, BYTES(bytes));
	if (lists->unknown)
		fprintf(f, "  (%zu of %zu lists could not be found in this build)\n",
			lists->unknown, lists->n);
}

void pymalloc_write_text(const struct pymalloc_moment *m, FILE *f)
{
	write_head(m, f);
	if (m->found && m->total.arenas) {
		write_bytes(m, f);
		write_interpreters(m, f);
		write_classes(m, f);
		write_fragmentation(m, f);
	} else {
		fputs("\npymalloc holds no arenas\n", f);
	}
	write_lists(m, f);
}
