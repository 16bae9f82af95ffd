// SPDX-License-Identifier: BSD-2-Clause
/* The RSS report for people. */
#include <inttypes.h>
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

#include "escape.h"
#include "report_units.h"
#include "rss.h"

static const struct {
	const char *key, *name;
} kinds[RSS_KINDS] = {
	[RSS_PYMALLOC_USED] = {"pymalloc_used", "pymalloc: blocks in use"},
	[RSS_PYMALLOC_PARTLY] = {"pymalloc_partly", "pymalloc: free, in pools partly in use"},
	[RSS_PYMALLOC_FREE] = {"pymalloc_free", "pymalloc: free pools"},
	[RSS_MALLOC_USED] = {"malloc_used", "malloc: chunks in use"},
	[RSS_MALLOC_CACHED] = {"malloc_cached", "malloc: freed, in fast bins and thread caches"},
	[RSS_MALLOC_FREE] = {"malloc_free", "malloc: free chunks"},
	[RSS_MALLOC_TOP] = {"malloc_top", "malloc: unused tops of heaps"},
	[RSS_MALLOC_MMAP] = {"malloc_mmap", "malloc: large blocks, mapped one by one"},
	[RSS_MALLOC_OTHER] = {"malloc_other", "malloc: descriptors, and what could not be walked"},
	[RSS_STACK_MAIN] = {"stack_main", "stack of the main thread"},
	[RSS_STACK_THREADS] = {"stack_threads", "stacks of threads"},
	[RSS_FILE_CODE] = {"file_code", "files: code"},
	[RSS_FILE_DATA] = {"file_data", "files: data"},
	[RSS_FILE_PRIVATE] = {"file_private", "files: private copies of written pages"},
	[RSS_BSS] = {"bss", "files: zero-initialised data"},
	[RSS_SHARED] = {"shared", "shared memory"},
	[RSS_NAMED] = {"named", "anonymous, with a name"},
	[RSS_KERNEL] = {"kernel", "kernel-provided (vdso)"},
	[RSS_ANON] = {"anonymous", "anonymous, owner unknown"},
};

const char *rss_kind_key(enum rss_kind kind)
{
	return kinds[kind].key;
}

const char *rss_kind_name(enum rss_kind kind)
{
	return kinds[kind].name;
}

u64 rss_explained(const struct rss *r)
{
	u64 sum = 0;

	for (int k = 0; k < RSS_KINDS; k++)
		if (k != RSS_ANON)
			sum += r->kind[k];
	return sum;
}

static double part(u64 a, u64 b)
{
	return b ? (double)a / (double)b : 0;
}

static void head(const struct rss *r, FILE *out)
{
	char comm[256], b1[UNITS_MAX], b2[UNITS_MAX], b3[UNITS_MAX], s[UNITS_MAX];

	escape_text(comm, sizeof(comm), r->comm, false);
	fprintf(out, "PID %d (%s), Python %s, allocator: %s\n", (int)r->pid, comm, r->python,
		r->alloc_mode);
	fprintf(out, "RSS %s (private %s, proportional %s)", units_bytes(b1, (double)r->rss, false),
		units_bytes(b2, (double)r->uss, false), units_bytes(b3, (double)r->pss, false));
	fprintf(out, ", swapped %s", units_bytes(b1, (double)r->swap, false));
	fprintf(out, ", huge pages %s\n", units_bytes(b1, (double)r->thp, false));
	fprintf(out, "explained: %s of RSS\n",
		units_share(s, part(rss_explained(r), r->rss), false));
}

static void table(const struct rss *r, FILE *out)
{
	char b[UNITS_MAX], s[UNITS_MAX];

	fprintf(out, "\n%10s %6s  %s\n", "RESIDENT", "SHARE", "WHERE");
	for (int k = 0; k < RSS_KINDS; k++)
		if (r->kind[k])
			fprintf(out, "%10s %6s  %s\n", units_bytes(b, (double)r->kind[k], false),
				units_share(s, part(r->kind[k], r->rss), false), rss_kind_name(k));
}

static void pymalloc(const struct rss *r, FILE *out)
{
	char b1[UNITS_MAX], b2[UNITS_MAX], b3[UNITS_MAX];

	if (!r->pymalloc_known) {
		fprintf(out, "\npymalloc: not found in this process\n");
		return;
	}
	fprintf(out,
		"\npymalloc: %" PRIu64 " arenas, %s, %s resident; %" PRIu64
		" pools of which %" PRIu64 " empty; %" PRIu64
		" arenas at most a tenth in use (%s unused in them)\n",
		r->arenas, units_bytes(b1, (double)r->arena_bytes, false),
		units_bytes(b2, (double)r->arenas_resident, false), r->pools, r->pools_free,
		r->arenas_nearly_empty, units_bytes(b3, (double)r->nearly_empty_free, false));
}

static void arenas(const struct rss *r, size_t top, FILE *out)
{
	char b[6][UNITS_MAX];

	if (!r->glibc_known) {
		fprintf(out, "malloc: no glibc heap found (another allocator?)\n");
		return;
	}
	fprintf(out, "\n%-14s %10s %10s %10s %10s %10s %10s\n", "MALLOC ARENA", "RESIDENT",
		"IN USE", "FREE", "TOP", "TRIMMABLE", "HEAPS");
	for (size_t i = 0; i < r->narena && i < top; i++) {
		const struct rss_arena *a = &r->arena[i];

		fprintf(out, "%-14s %10s %10s %10s %10s %10s %10u\n",
			a->main ? "main"
				: (snprintf(b[5], sizeof(b[5]), "%" PRIx64, a->addr), b[5]),
			units_bytes(b[0], (double)a->resident, false),
			units_bytes(b[1], (double)a->used, false),
			units_bytes(b[2], (double)a->free, false),
			units_bytes(b[3], (double)a->top, false),
			units_bytes(b[4], (double)a->trimmable, false), a->heaps);
	}
	if (r->narena > top)
		fprintf(out, "... %zu more arenas\n", r->narena - top);
}

static void named(const char *title, const struct rss_named *v, size_t n, size_t top, FILE *out)
{
	char b[UNITS_MAX], name[1024];

	if (!n)
		return;
	fprintf(out, "\n%10s  %s\n", "RESIDENT", title);
	for (size_t i = 0; i < n && i < top; i++) {
		escape_text(name, sizeof(name), v[i].name, false);
		if (v[i].start && !name[0])
			snprintf(name, sizeof(name), "mapping at %" PRIx64, v[i].start);
		fprintf(out, "%10s  %s\n", units_bytes(b, (double)v[i].resident, false), name);
	}
	if (n > top)
		fprintf(out, "%10s  %zu more\n", "...", n - top);
}

static int width(FILE *out)
{
	struct winsize ws;
	int fd = fileno(out);

	if (fd >= 0 && !ioctl(fd, TIOCGWINSZ, &ws) && ws.ws_col >= 40)
		return ws.ws_col;
	return 100;
}

/* Break at blanks; every line but the first is indented. */
static void paragraph(FILE *out, const char *text)
{
	int columns = width(out) - 2, col = 0;

	while (*text) {
		int len = (int)strcspn(text, " ");

		if (col && col + 1 + len > columns) {
			fprintf(out, "\n  ");
			col = 0;
		}
		col += fprintf(out, "%s%.*s", col ? " " : "", len, text);
		text += len;
		text += strspn(text, " ");
	}
	fputc('\n', out);
}

static void findings(const struct rss *r, FILE *out)
{
	struct rss_finding f[RSS_FINDINGS_MAX];
	size_t n = rss_advise(r, f);

	if (n)
		fputc('\n', out);
	for (size_t i = 0; i < n; i++) {
		fputs(f[i].fragmentation ? "! " : "- ", out);
		paragraph(out, f[i].text);
	}
}

static void losses(const struct rss *r, FILE *out)
{
	if (r->torn_pools || r->torn_chunks || r->vanished)
		fprintf(out,
			"\nchanged while it was read: %" PRIu64 " pools, %" PRIu64
			" heaps (%" PRIu64 " bytes not walked), %" PRIu64 " pools gone\n",
			r->torn_pools, r->torn_chunks, r->unwalked, r->vanished);
	if (r->frozen_ns)
		fprintf(out, "\nthe process was stopped for %.1f ms\n", (double)r->frozen_ns / 1e6);
}

int rss_print_text(const struct rss *r, size_t top, FILE *out)
{
	head(r, out);
	table(r, out);
	pymalloc(r, out);
	arenas(r, top, out);
	named("FILE", r->file, r->nfile, top, out);
	named("UNEXPLAINED OR NAMED", r->anon, r->nanon, top, out);
	findings(r, out);
	losses(r, out);
	return ferror(out) ? -EIO : 0;
}
