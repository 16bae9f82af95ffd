// SPDX-License-Identifier: BSD-2-Clause
/* Chunk by chunk through the heaps that glibc_heap.c found. */
#include <errno.h>
#include <string.h>

#include "glibc_heap.h"

#define WINDOW	    (1u << 20)
#define MIN_WINDOW  256 /* of a chunk that fn can always see, where it is that long */
#define MIN_CHUNK   32
#define PAGE	    4096
#define RETRIES	    3
#define FLAGS	    7ull
#define PREV_IN_USE 1ull
#define IS_MMAPPED  2ull

/* tcache_perthread_struct: counts, then list heads. */
struct tcache_layout {
	u32 chunk_size; /* of the chunk that holds one */
	u32 count_width;
	u32 bins;
};

static const struct tcache_layout tcache_layouts[] = {
	{0x290, 2, 64}, /* 2.30 to 2.41 */
	{0x250, 1, 64}, /* 2.26 to 2.29 */
};
#define TCACHE_BINS  64
#define TCACHE_DEPTH 128 /* the default is 7; a tunable allows more */

struct walker {
	const struct glibc_heap *heap;
	const struct reader *r;
	glibc_chunk_fn fn;
	void *ctx;
	struct glibc_walk_stats stats;
	u8 *buf;
	u64 at; /* address of buf[0] */
	size_t len;
};

static u64 word(const u8 *p)
{
	u64 v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* Make the bytes from addr on visible; they end at end at the latest. */
static int see(struct walker *w, u64 addr, u64 end, size_t need, const u8 **p, size_t *avail)
{
	size_t len = end - addr < WINDOW ? end - addr : WINDOW;
	int err;

	if (need > len)
		need = len;
	if (addr < w->at || addr - w->at > w->len || w->len - (addr - w->at) < need) {
		w->len = 0;
		err = reader_read(w->r, addr, w->buf, len);
		/* The heap may have shrunk meanwhile: then what is still there. */
		if (err == -EFAULT && len > PAGE) {
			len = PAGE - addr % PAGE;
			err = reader_read(w->r, addr, w->buf, len);
		}
		if (err)
			return err;
		w->at = addr;
		w->len = len;
	}
	*p = w->buf + (addr - w->at);
	*avail = w->len - (addr - w->at);
	return *avail >= 16 ? 0 : -EFAULT;
}

/* Follow one list of a thread's cache: true if its length and sizes are as told. */
static bool cache_list(const struct reader *r, u64 entry, u32 count, u64 size)
{
	for (u32 i = 0; i < count; i++) {
		u64 w[3], masked;

		if (!entry || entry & 15 || entry < 16 ||
		    reader_read(r, entry - 16, w, sizeof(w)) || (w[1] & ~FLAGS) != size)
			return false;
		masked = w[2] ^ entry >> 12;
		entry = masked & 15 ? w[2] : masked;
	}
	return !entry;
}

/* If the chunk is some thread's cache, count what that holds. */
static void try_tcache(struct walker *w, const struct glibc_chunk *c, const struct tcache_layout *l)
{
	const u8 *p = c->bytes + GLIBC_CHUNK_HEAD;
	const u8 *heads = p + (size_t)l->bins * l->count_width;
	u64 bytes = 0, chunks = 0;

	if (c->avail < l->chunk_size)
		return;
	for (size_t i = 0; i < l->bins; i++) {
		u32 count = l->count_width == 1 ? p[i] : p[2 * i] | (u32)p[2 * i + 1] << 8;
		u64 head = word(heads + 8 * i), size = (i + 2) * 16;

		if (count > TCACHE_DEPTH || !count != !head)
			return;
		if (count && !cache_list(w->r, head, count, size))
			return;
		chunks += count;
		bytes += count * size;
	}
	w->stats.tcache_bytes += bytes;
	w->stats.tcache_chunks += chunks;
}

/* In use or not stands in the chunk after it. */
static int kind_of(struct walker *w, u64 addr, u64 size, u64 end, u64 top,
		   enum glibc_chunk_kind *kind)
{
	u64 next = addr + size, head[2];
	int err;

	*kind = addr == top ? GLIBC_TOP : GLIBC_USED;
	if (addr == top || end - next < sizeof(head))
		return 0;
	if (next + sizeof(head) <= w->at + w->len) {
		memcpy(head, w->buf + (next - w->at), sizeof(head));
	} else {
		err = reader_read(w->r, next, head, sizeof(head));
		if (err)
			return err;
	}
	if (!(head[1] & PREV_IN_USE))
		*kind = GLIBC_FREE;
	return 0;
}

static bool plausible(u64 head, u64 addr, u64 end)
{
	u64 size = head & ~FLAGS;

	return size >= MIN_CHUNK && !(size & 15) && size <= end - addr && !(head & IS_MMAPPED);
}

/* One chunk at addr; its size to *size, 0 at the end of the chain. */
static int one_chunk(struct walker *w, const struct glibc_range *g, u64 addr, u64 *size)
{
	struct glibc_chunk c = {.addr = addr, .arena = g->arena};
	u64 top = w->heap->arenas[g->arena].top;
	int err;

	for (int try = 0;; try++) {
		u64 head;

		err = see(w, addr, g->end, MIN_WINDOW, &c.bytes, &c.avail);
		if (err)
			return err;
		head = word(c.bytes + 8);
		if (plausible(head, addr, g->end)) {
			c.size = head & ~FLAGS;
			break;
		}
		/* Two short chunks fence off the end of a heap that goes on elsewhere. */
		if ((head & ~FLAGS) == 16 || (head & ~FLAGS) == 0) {
			*size = 0;
			return 0;
		}
		/* The heap has grown since: its old top is now part of what came after. */
		if (try == RETRIES && top >= g->start && addr >= top) {
			c.size = g->end - addr;
			c.kind = GLIBC_TOP;
			break;
		}
		if (try == RETRIES)
			return -EAGAIN;
		w->len = 0;
	}
	if (c.kind != GLIBC_TOP) {
		err = kind_of(w, addr, c.size, g->end, top, &c.kind);
		if (err)
			return err;
	}
	if (c.kind == GLIBC_USED)
		for (size_t i = 0; i < ARRAY_SIZE(tcache_layouts); i++)
			if (c.size == tcache_layouts[i].chunk_size) {
				err = see(w, addr, g->end, c.size, &c.bytes, &c.avail);
				if (err)
					return err;
				try_tcache(w, &c, &tcache_layouts[i]);
			}
	if (c.avail > c.size + GLIBC_CHUNK_TAIL)
		c.avail = c.size + GLIBC_CHUNK_TAIL;
	w->stats.chunks++;
	*size = c.kind == GLIBC_TOP ? 0 : c.size;
	return w->fn(w->ctx, &c);
}

static int walk_range(struct walker *w, const struct glibc_range *g)
{
	u64 addr = g->start;

	w->len = 0;
	while (addr < g->end && g->end - addr >= 16) {
		u64 size = 0;
		int err = one_chunk(w, g, addr, &size);

		if (err == -EAGAIN || err == -EFAULT) {
			w->stats.torn++;
			w->stats.unwalked += g->end - addr;
			return 0;
		}
		if (err || !size)
			return err;
		addr += size;
	}
	return 0;
}

int glibc_heap_walk(const struct glibc_heap *heap, const struct reader *r, glibc_chunk_fn fn,
		    void *ctx, struct glibc_walk_stats *stats)
{
	AUTO_FREE u8 *buf = malloc(WINDOW);
	struct walker w = {.heap = heap, .r = r, .fn = fn, .ctx = ctx, .buf = buf};
	int err = 0;

	if (!buf)
		return -ENOMEM;
	for (size_t i = 0; i < heap->nranges && !err; i++)
		err = walk_range(&w, &heap->ranges[i]);
	*stats = w.stats;
	return err;
}

/* Bytes from the mapping's start to its end, if a chunk `lead` bytes into it says so. */
static u64 mapped_by(const u8 *chunk, u64 lead)
{
	u64 pad = word(chunk), size = word(chunk + 8), all;

	/* An aligned block's chunk tells how far into the mapping it lies. */
	if ((size & FLAGS) != IS_MMAPPED || pad != lead)
		return 0;
	all = lead + (size & ~FLAGS);
	/* Since 2.43 the size leaves out the header. */
	if (all % PAGE == PAGE - GLIBC_CHUNK_HEAD)
		all += GLIBC_CHUNK_HEAD;
	return all >= PAGE && all % PAGE == 0 ? all : 0;
}

u64 glibc_mmapped_chunk(const u8 head[GLIBC_MMAPPED_HEAD], u64 addr, u64 limit, u64 *user)
{
	if (addr % PAGE || addr >= limit)
		return 0;
	for (u64 lead = 0; lead + 16 <= GLIBC_MMAPPED_HEAD; lead += 16) {
		u64 size = mapped_by(head + lead, lead);

		if (!size || size > limit - addr)
			continue;
		*user = addr + lead + GLIBC_CHUNK_HEAD;
		return size;
	}
	return 0;
}
