// SPDX-License-Identifier: BSD-2-Clause
#include "glibc_heap.h"

#include <errno.h>
#include <string.h>

/*
 * struct malloc_state of 2.26 to 2.43, seen from its bins: what lies before
 * them differs (have_fastchunks came in 2.27, the fast bins went), what lies
 * behind does not.
 */
#define BINS_PAIRS     127ull
#define BINS_BYTES     (BINS_PAIRS * 16)
#define BEFORE_TOP     16		   /* top, last_remainder, bins */
#define AFTER_NEXT     (BINS_BYTES + 16)   /* binmap[4], next */
#define AFTER_SYSTEM   (AFTER_NEXT + 24)   /* next, next_free, attached_threads, system_mem */
#define AFTER_END      (AFTER_SYSTEM + 16) /* ..., max_system_mem */
#define BEFORE_MAX     256		   /* most and least that can lie before the bins */
#define BEFORE_MIN     24
#define FAST_AT	       16 /* fast bins start there, where they are */
#define MIN_SELF_PAIRS 16 /* bins that are empty in any real arena */

#define SCAN_MAX    (32u << 20) /* of writable data looked through for the main arena */
#define PAGE	    4096
#define FAST_CHUNKS (1u << 18)

/* Sizes that heaps of non-main arenas have been aligned to. */
static const u64 heap_aligns[] = {64ull << 20, 32ull << 20, 128ull << 20, 4ull << 20, 4ull << 30};

struct finder {
	const struct reader *r;
	const struct proc_maps *maps;
	struct glibc_heap heap;
	size_t arenas_cap, ranges_cap;
	u64 bins_at; /* offset of the bins in a malloc_state */
};

static u64 word(const u8 *p)
{
	u64 v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static int read_word(const struct finder *f, u64 addr, u64 *out)
{
	return reader_read(f->r, addr, out, sizeof(*out));
}

/* Errors that end everything; others only say that this place is not it. */
static bool fatal(int err)
{
	return err == -ESRCH || err == -EPERM || err == -ETIMEDOUT || err == -ENOMEM;
}

static int grow(void **v, size_t n, size_t *cap, size_t size)
{
	size_t want = *cap ? *cap * 2 : 16;
	void *bigger;

	if (n < *cap)
		return 0;
	bigger = reallocarray(*v, want, size);
	if (!bigger)
		return -ENOMEM;
	*v = bigger;
	*cap = want;
	return 0;
}

/* Do the bytes look like the bins of an arena at addr? */
static bool looks_like_bins(const struct finder *f, const u8 *p, u64 addr)
{
	unsigned self = 0;

	for (size_t i = 0; i < BINS_PAIRS; i++) {
		u64 fd = word(p + 16 * i), bk = word(p + 16 * i + 8), own = addr + 16 * i - 16;

		if (fd == own && bk == own) {
			self++;
			continue;
		}
		if (fd & 15 || bk & 15 || !fd || !bk)
			return false;
	}
	if (self < MIN_SELF_PAIRS)
		return false;
	for (size_t i = 0; i < BINS_PAIRS; i++)
		if (!proc_maps_find(f->maps, word(p + 16 * i)))
			return false;
	return true;
}

static int add_arena(struct finder *f, u64 addr)
{
	struct glibc_arena *a;
	int err = grow((void **)&f->heap.arenas, f->heap.narenas, &f->arenas_cap, sizeof(*a));

	if (err)
		return err;
	a = &f->heap.arenas[f->heap.narenas++];
	*a = (struct glibc_arena){.addr = addr};
	return 0;
}

static bool known_arena(const struct finder *f, u64 addr)
{
	for (size_t i = 0; i < f->heap.narenas; i++)
		if (f->heap.arenas[i].addr == addr)
			return true;
	return false;
}

/*
 * The arenas are a ring: what comes back to just below the bins is the start
 * of the main arena, and tells where the bins are in each of the others.
 */
static int follow_ring(struct finder *f, u64 bins, const u8 *p)
{
	u64 at[GLIBC_ARENAS_MAX], next = word(p + AFTER_NEXT);
	size_t n = 0;
	int err = 0;

	while (next > bins || next + BEFORE_MAX < bins) {
		if (n == ARRAY_SIZE(at) || next & 7)
			return -ENOENT;
		at[n++] = next;
		/* The distance is not known yet; it is one of a few. */
		f->bins_at = 0;
		for (u64 d = BEFORE_MAX; d >= BEFORE_MIN && !f->bins_at; d -= 8) {
			u64 pair[2], own = next + d + BINS_BYTES - 32;

			/* The last bin is never used; those before it may be empty, too. */
			err = reader_read(f->r, own + 16, pair, sizeof(pair));
			if (fatal(err))
				return err;
			if (!err && pair[0] == own && pair[1] == own)
				f->bins_at = d;
		}
		if (!f->bins_at)
			return -ENOENT;
		err = read_word(f, next + f->bins_at + AFTER_NEXT, &next);
		if (err)
			return fatal(err) ? err : -ENOENT;
	}
	if (bins - next < BEFORE_MIN)
		return -ENOENT;
	f->bins_at = bins - next;
	err = add_arena(f, next);
	for (size_t i = 0; i < n && !err; i++)
		if (!known_arena(f, at[i]))
			err = add_arena(f, at[i]);
	if (!err)
		f->heap.arenas[0].main = true;
	return err;
}

static int scan_bytes(struct finder *f, u64 start, const u8 *buf, size_t len)
{
	for (size_t o = 0; o + AFTER_END <= len; o += 8) {
		u64 addr = start + o;
		int err;

		/* The last bin is always empty, and what follows it (binmap) is no bin. */
		if (word(buf + o + BINS_BYTES - 16) != addr + BINS_BYTES - 32 ||
		    word(buf + o + BINS_BYTES) == addr + BINS_BYTES - 16)
			continue;
		if (!looks_like_bins(f, buf + o, addr))
			continue;
		err = follow_ring(f, addr, buf + o);
		if (err != -ENOENT)
			return err;
	}
	return -ENOENT;
}

static int scan_map(struct finder *f, const struct proc_map *m)
{
	size_t len = m->end - m->start;
	AUTO_FREE u8 *buf = NULL;
	int err;

	if (len > SCAN_MAX)
		return -ENOENT;
	buf = malloc(len);
	if (!buf)
		return -ENOMEM;
	err = reader_read(f->r, m->start, buf, len);
	if (err)
		return fatal(err) ? err : -ENOENT;
	return scan_bytes(f, m->start, buf, len);
}

static bool is_libc(const struct proc_map *m)
{
	const char *slash = strrchr(m->path, '/');
	const char *base = slash ? slash + 1 : m->path;

	return !strncmp(base, "libc.so", 7) || !strncmp(base, "libc-2.", 7);
}

/* In libc's data first, then in that of any other file (a static executable). */
static int find_main(struct finder *f)
{
	u64 left = SCAN_MAX;

	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < f->maps->n; i++) {
			const struct proc_map *m = &f->maps->v[i];
			int err;

			if (!m->w || !m->r || m->shared || !m->inode || is_libc(m) == (pass == 1) ||
			    m->end - m->start > left)
				continue;
			left -= m->end - m->start;
			err = scan_map(f, m);
			if (err != -ENOENT)
				return err;
		}
	}
	return -ENOENT;
}

static int add_range(struct finder *f, u64 map_start, u64 start, u64 end, u32 arena)
{
	struct glibc_range *g;
	int err;

	if (start >= end)
		return 0;
	if (f->heap.nranges == GLIBC_HEAPS_MAX) {
		f->heap.truncated = true;
		return 0;
	}
	err = grow((void **)&f->heap.ranges, f->heap.nranges, &f->ranges_cap, sizeof(*g));
	if (err)
		return err;
	g = &f->heap.ranges[f->heap.nranges++];
	*g = (struct glibc_range){map_start, start, end, arena};
	return 0;
}

/* The end of the mappings that continue the one at addr. */
static u64 mapped_end(const struct finder *f, u64 addr)
{
	const struct proc_map *m = proc_maps_find(f->maps, addr);

	return m ? m->end : addr;
}

/* The main arena lives in the brk heap; its first chunk is at the heap's start. */
static int main_ranges(struct finder *f)
{
	u64 start = 0, end = 0;

	for (size_t i = 0; i < f->maps->n; i++) {
		const struct proc_map *m = &f->maps->v[i];

		if (strcmp(m->path, "[heap]") || (end && m->start != end))
			continue;
		if (!end)
			start = m->start;
		end = m->end;
	}
	return add_range(f, start, start, end, 0);
}

struct heap_info {
	u64 ar_ptr, prev, size, mprotect_size;
};

/* The descriptor of the heap around addr that belongs to the arena. */
static int heap_around(const struct finder *f, u64 addr, u64 arena, u64 *start,
		       struct heap_info *info)
{
	for (size_t i = 0; i < ARRAY_SIZE(heap_aligns); i++) {
		u64 at = addr & ~(heap_aligns[i] - 1);
		int err = reader_read(f->r, at, info, sizeof(*info));

		if (fatal(err))
			return err;
		if (!err && info->ar_ptr == arena && info->size <= heap_aligns[i]) {
			*start = at;
			return 0;
		}
	}
	return -ENOENT;
}

/* An arena's heaps form a list, from the one with its top back to its first. */
static int arena_ranges(struct finder *f, u32 index)
{
	const struct glibc_arena *a = &f->heap.arenas[index];
	u64 first, at = a->top, head;
	struct heap_info info;
	int err = heap_around(f, a->addr, a->addr, &first, &info);

	if (err)
		return fatal(err) ? err : 0;
	/* The arena stands behind the descriptor of its first heap. */
	head = a->addr - first;
	if (head > PAGE)
		return 0;
	for (u32 n = 0; n < GLIBC_HEAPS_MAX; n++) {
		u64 start, chunks, end;

		err = heap_around(f, at, a->addr, &start, &info);
		if (err)
			return fatal(err) ? err : 0;
		chunks = start == first ? a->addr + f->bins_at + AFTER_END : start + head;
		end = start + info.size;
		if (end > mapped_end(f, start))
			end = mapped_end(f, start);
		err = add_range(f, start, (chunks + 15) & ~15ull, end, index);
		if (err || start == first)
			return err;
		if (!info.prev || info.prev == start)
			break;
		at = info.prev;
	}
	f->heap.truncated = true;
	return 0;
}

/* Chunks in the fast bins: singly linked; since 2.32 the links are masked with their place. */
static int fastbins(const struct finder *f, struct glibc_arena *a)
{
	u64 nbins = f->bins_at > FAST_AT + BEFORE_TOP ? (f->bins_at - BEFORE_TOP - FAST_AT) / 8 : 0;
	u64 bins[BEFORE_MAX / 8];
	unsigned budget = FAST_CHUNKS;
	int err;

	if (!nbins)
		return 0;
	err = reader_read(f->r, a->addr + FAST_AT, bins, nbins * 8);
	if (err)
		return err;
	for (u64 i = 0; i < nbins; i++) {
		u64 chunk = bins[i], w[3], size = (i + 2) * 16;

		while (chunk && !(chunk & 15) && budget-- &&
		       !reader_read(f->r, chunk, w, sizeof(w)) && (w[1] & ~7ull) == size) {
			u64 plain = w[2], masked = w[2] ^ (chunk + 16) >> 12;

			a->fastbin_bytes += size;
			a->fastbin_chunks++;
			chunk = masked & 15 ? plain : masked;
		}
	}
	return 0;
}

static int fill_arena(struct finder *f, u32 index)
{
	struct glibc_arena *a = &f->heap.arenas[index];
	int err = read_word(f, a->addr + f->bins_at - BEFORE_TOP, &a->top);

	if (!err)
		err = read_word(f, a->addr + f->bins_at + AFTER_SYSTEM, &a->system_mem);
	if (!err)
		err = fastbins(f, a);
	if (!err)
		err = a->main ? main_ranges(f) : arena_ranges(f, index);
	return fatal(err) ? err : 0;
}

static int by_start(const void *a, const void *b)
{
	const struct glibc_range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* A crafted list may lead to the same heap twice: each byte belongs to one. */
static void drop_overlaps(struct glibc_heap *h)
{
	size_t n = 0;

	if (h->nranges)
		qsort(h->ranges, h->nranges, sizeof(*h->ranges), by_start);
	for (size_t i = 0; i < h->nranges; i++)
		if (!n || h->ranges[i].map_start >= h->ranges[n - 1].end)
			h->ranges[n++] = h->ranges[i];
	h->nranges = n;
}

int glibc_heap_find(const struct reader *r, const struct proc_maps *maps, struct glibc_heap *out)
{
	struct finder f = {.r = r, .maps = maps};
	int err = find_main(&f);

	for (u32 i = 0; i < f.heap.narenas && !err; i++)
		err = fill_arena(&f, i);
	if (err) {
		glibc_heap_free(&f.heap);
		return err;
	}
	drop_overlaps(&f.heap);
	*out = f.heap;
	return 0;
}

void glibc_heap_free(struct glibc_heap *heap)
{
	free(heap->arenas);
	free(heap->ranges);
	*heap = (struct glibc_heap){0};
}
