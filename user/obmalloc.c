// SPDX-License-Identifier: BSD-2-Clause
#include "obmalloc.h"

#include <errno.h>
#include <string.h>

#include "obmalloc_find.h"
#include "pyoffsets.h"

/* struct _obmalloc_state, 3.12 and newer: pools in use by class; then what manages arenas. */
#define USED_BYTES   (OBMALLOC_CLASSES * 2ul * 8)
#define AT_ARENAS    512
#define AT_MAXARENAS 520
#define AT_NTIMES    1072
#define AT_HIGHWATER 1080
#define AT_MAP	     1096

/* The state's field lies in the first part of the interpreter. */
#define SCAN_BYTES 20480
#define SCAN_TRIES 3

#define MIN_ADDRESS 0x10000
#define USER_END    (1ull << 47)

/* How the interpreter has its state, by version; the offset is a guess to try first. */
enum where { STATIC, INLINE, POINTER };

struct version_row {
	enum where where;
	u32 guess;
	u32 map_root, map_mid, map_bot;
};

static const struct version_row versions[] = {
	[8] = {STATIC, 0, 0, 0, 0},
	[9] = {STATIC, 0, 0, 0, 0},
	[10] = {STATIC, 0, OBMALLOC_MAP_48BIT},
	[11] = {STATIC, 0, OBMALLOC_MAP_64BIT},
	[12] = {INLINE, 3960, OBMALLOC_MAP_64BIT},
	[13] = {POINTER, 10800, OBMALLOC_MAP_64BIT},
	[14] = {POINTER, 10904, OBMALLOC_MAP_64BIT},
	[15] = {POINTER, 10880, OBMALLOC_MAP_64BIT},
};

static bool plausible(u64 addr)
{
	return addr >= MIN_ADDRESS && addr < USER_END && addr % 8 == 0;
}

/*
 * usedpools at addr: class i has two words, of which an empty class points
 * both 16 bytes before its own pair, and another to pools.
 */
static bool is_used_table(const u64 *w, u64 addr, u32 pool_size)
{
	for (u64 i = 0; i < OBMALLOC_CLASSES; i++) {
		u64 self = addr + 16 * i - 16, a = w[2 * i], b = w[2 * i + 1];

		if (a == self && b == self)
			continue;
		if (a == self || b == self || a % pool_size || b % pool_size || !plausible(a) ||
		    !plausible(b))
			return false;
	}
	return true;
}

/* 1: yes, 0: no, or -errno. */
static int check_used_table(const struct reader *r, u64 addr, u32 pool_size)
{
	u64 w[USED_BYTES / 8];
	int err = plausible(addr) ? reader_read(r, addr, w, sizeof(w)) : -EFAULT;

	if (err)
		return err == -EFAULT ? 0 : err;
	return is_used_table(w, addr, pool_size);
}

/* The state of an interpreter whose field is at this offset, or 0. */
static int state_at(const struct reader *r, const struct version_row *row, u64 interp, u64 offset,
		    u32 pool_size, u64 *state)
{
	u64 addr = interp + offset;
	int err = row->where == POINTER ? reader_read(r, addr, &addr, sizeof(addr)) : 0;

	if (!err)
		err = check_used_table(r, addr, pool_size);
	if (err > 0)
		*state = addr;
	return err > 0 ? 0 : err ? err : -ENOENT;
}

/* Pointers in words[] whose targets are pools in use: the last one's index, and how many. */
static int scan_pointers(const struct reader *r, const u64 *words, size_t n, u32 pool_size,
			 size_t *at)
{
	AUTO_FREE u64 *addrs = calloc(n, sizeof(*addrs));
	AUTO_FREE size_t *from = calloc(n, sizeof(*from));
	AUTO_FREE u64 *tables = calloc(n, USED_BYTES);
	AUTO_FREE bool *ok = calloc(n, sizeof(*ok));
	size_t m = 0;
	int err, hits = 0;

	if (!addrs || !from || !tables || !ok)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (!plausible(words[i]))
			continue;
		addrs[m] = words[i];
		from[m++] = i;
	}
	err = reader_gather(r, addrs, m, tables, USED_BYTES, ok);
	for (size_t i = 0; !err && i < m; i++) {
		if (!ok[i] || !is_used_table(tables + i * (USED_BYTES / 8), addrs[i], pool_size))
			continue;
		*at = from[i];
		hits++;
	}
	return err ? err : hits;
}

static int scan_inline(const u64 *words, size_t n, u64 interp, u32 pool_size, size_t *at)
{
	int hits = 0;

	for (size_t i = 0; i + USED_BYTES / 8 <= n; i++) {
		if (!is_used_table(words + i, interp + 8 * i, pool_size))
			continue;
		*at = i;
		hits++;
	}
	return hits;
}

/* Where in the main interpreter the field is: one place and no other. */
static int scan(const struct reader *r, const struct version_row *row, u64 interp, u32 pool_size,
		u64 *offset)
{
	AUTO_FREE u64 *words = malloc(SCAN_BYTES);
	size_t at = 0;
	int hits = words ? reader_read(r, interp, words, SCAN_BYTES) : -ENOMEM;

	if (!hits)
		hits = row->where == POINTER
			       ? scan_pointers(r, words, SCAN_BYTES / 8, pool_size, &at)
			       : scan_inline(words, SCAN_BYTES / 8, interp, pool_size, &at);
	if (hits < 0)
		return hits == -EFAULT ? -ENOENT : hits;
	if (hits != 1)
		return -ENOENT;
	*offset = 8 * at;
	return 0;
}

static int find_field(const struct reader *r, const struct version_row *row, u64 interp,
		      u32 pool_size, u64 *offset)
{
	u64 state;
	int err = state_at(r, row, interp, row->guess, pool_size, &state);

	if (!err) {
		*offset = row->guess;
		return 0;
	}
	/* the lists of pools change while the process runs */
	for (int i = 0; i < SCAN_TRIES && (err == -ENOENT || err == -EFAULT); i++)
		err = scan(r, row, interp, pool_size, offset);
	return err;
}

static void add_state(struct obmalloc *ob, const struct interp *interp, u64 addr)
{
	for (size_t i = 0; i < ob->n; i++)
		if (ob->state[i].arenas == addr + AT_ARENAS)
			return; /* shared with another interpreter */
	ob->state[ob->n++] = (struct obmalloc_state){
		.interp = interp->addr,
		.interp_id = interp->id,
		.arenas = addr + AT_ARENAS,
		.maxarenas = addr + AT_MAXARENAS,
		.ntimes = addr + AT_NTIMES,
		.highwater = addr + AT_HIGHWATER,
		.map_mid = addr + AT_MAP + ob->layout.map_root,
		.map_bot = addr + AT_MAP + ob->layout.map_root + 4,
	};
}

static int find_states(const struct reader *r, const struct version_row *row,
		       const struct interp *interps, size_t n, struct obmalloc *ob)
{
	u32 pool_size = ob->layout.pool_size;
	int err = find_field(r, row, interps[0].addr, pool_size, &ob->interp_field);

	for (size_t i = 0; !err && i < n; i++) {
		u64 state;

		for (int t = 0; t < SCAN_TRIES; t++) {
			err = state_at(r, row, interps[i].addr, ob->interp_field, pool_size,
				       &state);
			if (err != -ENOENT)
				break;
		}
		if (!err)
			add_state(ob, &interps[i], state);
		else if (i && (err == -ENOENT || err == -EFAULT))
			err = 0; /* an interpreter that is being made or unmade */
	}
	return err == -EFAULT ? -ENOENT : err;
}

/*
 * 3.15 can be built for huge pages, with arenas of twice the size; no arena
 * makes sense when read with the wrong one.
 */
static int settle_arena_size(const struct reader *r, struct obmalloc *ob)
{
	for (int i = 0; i < 2; i++) {
		struct obmalloc_arenas a;
		int err = obmalloc_arenas_read(ob, &ob->state[0], r, &a);
		bool sane;

		if (err) /* being moved, perhaps: whoever reads it next will see */
			return err == -EFAULT || err == -EINVAL ? 0 : err;
		sane = a.n || !a.torn;
		obmalloc_arenas_free(&a);
		if (sane)
			return 0;
		ob->layout.arena_size *= 2;
		ob->layout.map_bot /= 2;
	}
	return -ENOENT;
}

int obmalloc_find(const struct pyinfo *info, const struct reader *r, struct obmalloc *out)
{
	u32 minor = info->version >> 16 & 0xff;
	struct interp interps[OBMALLOC_STATES_MAX];
	struct obmalloc ob = {0};
	const struct version_row *row;
	int n, err;

	if (info->version >> 24 != 3 || minor >= ARRAY_SIZE(versions) || minor < PY_MINOR_MIN ||
	    info->free_threaded)
		return -ENOTSUP;
	row = &versions[minor];
	err = pyoffsets_pymalloc(info->version, &ob.layout.pool_size, &ob.layout.arena_size);
	if (err)
		return err;
	ob.layout.map_root = row->map_root;
	ob.layout.map_mid = row->map_mid;
	ob.layout.map_bot = row->map_bot;
	n = interps_read(info, r, interps, ARRAY_SIZE(interps), &ob.more);
	if (n <= 0)
		return !n || n == -EFAULT ? -ENOENT : n;
	ob.main_interp = interps[0].addr;
	err = row->where == STATIC ? obmalloc_find_static(info, r, &ob)
				   : find_states(r, row, interps, (size_t)n, &ob);
	if (!err && row->where != STATIC)
		err = settle_arena_size(r, &ob);
	if (!err)
		*out = ob;
	return err;
}
