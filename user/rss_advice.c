// SPDX-License-Identifier: BSD-2-Clause
/* What the numbers mean, in words: is it fragmentation, and what would give it back. */
#include <stdarg.h>

#include "report_units.h"
#include "rss.h"

#define WORTH_MIN   (4.0 * 1024 * 1024) /* nobody restarts a process for less */
#define WORTH_SHARE 0.05		/* of RSS */
#define LOOSE_SHARE 0.25		/* of an allocator's memory unused: fragmented */

struct advice {
	struct rss_finding *v;
	size_t n;
};

static void add(struct advice *a, bool fragmentation, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void add(struct advice *a, bool fragmentation, const char *fmt, ...)
{
	va_list ap;

	if (a->n == RSS_FINDINGS_MAX)
		return;
	a->v[a->n].fragmentation = fragmentation;
	va_start(ap, fmt);
	vsnprintf(a->v[a->n].text, sizeof(a->v[a->n].text), fmt, ap);
	va_end(ap);
	a->n++;
}

static bool worth(const struct rss *r, u64 bytes)
{
	return (double)bytes >= WORTH_MIN && (double)bytes >= WORTH_SHARE * (double)r->rss;
}

static void pymalloc(const struct rss *r, struct advice *a)
{
	u64 loose = r->kind[RSS_PYMALLOC_PARTLY] + r->kind[RSS_PYMALLOC_FREE];
	char b1[UNITS_MAX], b2[UNITS_MAX], s[UNITS_MAX];

	if (!worth(r, loose) || (double)loose < LOOSE_SHARE * (double)r->arenas_resident)
		return;
	add(a, true,
	    "pymalloc keeps %s (%s of its resident arenas) that no object uses: fragmentation, "
	    "not a leak. An arena goes back only when its last block is freed; %llu of %llu "
	    "arenas are at most a tenth in use and pin %s. A restart (or recycling workers) "
	    "gives it back; freeing the few survivors would too. PYTHONMALLOC=malloc at start lets "
	    "malloc_trim() return such pages",
	    units_bytes(b1, (double)loose, false),
	    units_share(s, (double)loose / (double)r->arenas_resident, true),
	    (unsigned long long)r->arenas_nearly_empty, (unsigned long long)r->arenas,
	    units_bytes(b2, (double)r->nearly_empty_free, false));
}

static u64 other_arenas_free(const struct rss *r)
{
	u64 sum = 0;

	for (size_t i = 0; i < r->narena; i++)
		if (!r->arena[i].main)
			sum += r->arena[i].free_resident + r->arena[i].top_resident;
	return sum;
}

static void glibc(const struct rss *r, struct advice *a)
{
	u64 loose = r->kind[RSS_MALLOC_FREE] + r->kind[RSS_MALLOC_TOP] + r->kind[RSS_MALLOC_CACHED];
	u64 all = loose + r->kind[RSS_MALLOC_USED];
	char b1[UNITS_MAX], b2[UNITS_MAX], s[UNITS_MAX];

	if (!worth(r, loose) || (double)loose < LOOSE_SHARE * (double)all)
		return;
	add(a, true,
	    "glibc's malloc keeps %s (%s of its heaps) free but resident: fragmentation, not a "
	    "leak. malloc_trim(0) would give back %s now "
	    "(ctypes.CDLL(None).malloc_trim(0) in the process)",
	    units_bytes(b1, (double)loose, false),
	    units_share(s, (double)loose / (double)all, true),
	    units_bytes(b2, (double)r->trimmable, false));
	if (worth(r, other_arenas_free(r)))
		add(a, true,
		    "%zu arenas, of which those of threads hold %s unused: MALLOC_ARENA_MAX=2 in "
		    "the environment at start keeps their number down",
		    r->narena, units_bytes(b1, (double)other_arenas_free(r), false));
	if (!worth(r, r->trimmable))
		add(a, true,
		    "the free chunks are scattered in pieces smaller than a page, so trimming "
		    "helps little: a restart, or an allocator with size classes (jemalloc, "
		    "mimalloc) by LD_PRELOAD, would");
}

static void huge_pages(const struct rss *r, struct advice *a)
{
	char b[UNITS_MAX];

	if (!worth(r, r->thp) || (double)r->thp < LOOSE_SHARE * (double)r->rss)
		return;
	add(a, false,
	    "%s is in transparent huge pages%s: memory that was freed inside one stays resident "
	    "with it",
	    units_bytes(b, (double)r->thp, false),
	    r->thp_always ? " (enabled for every process; PR_SET_THP_DISABLE turns it off)" : "");
}

static void swap(const struct rss *r, struct advice *a)
{
	char b[UNITS_MAX];

	if (worth(r, r->swap))
		add(a, false, "%s more is swapped out, and is not part of RSS",
		    units_bytes(b, (double)r->swap, false));
}

static void in_use(const struct rss *r, struct advice *a)
{
	u64 used = r->kind[RSS_PYMALLOC_USED] + r->kind[RSS_MALLOC_USED] + r->kind[RSS_MALLOC_MMAP];
	char b[UNITS_MAX], s[UNITS_MAX];

	if (used * 2 > r->rss)
		add(a, false,
		    "%s (%s) is in use by live blocks: no fragmentation accounts for it. "
		    "'pyheaptrace census' shows which types hold it, 'pyheaptrace -p' which "
		    "lines allocate it",
		    units_bytes(b, (double)used, false),
		    units_share(s, (double)used / (double)r->rss, true));
}

size_t rss_advise(const struct rss *r, struct rss_finding out[RSS_FINDINGS_MAX])
{
	struct advice a = {.v = out};

	pymalloc(r, &a);
	glibc(r, &a);
	huge_pages(r, &a);
	swap(r, &a);
	in_use(r, &a);
	return a.n;
}
