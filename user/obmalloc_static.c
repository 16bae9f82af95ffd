// SPDX-License-Identifier: BSD-2-Clause
/*
 * Up to 3.11 pymalloc's variables are statics without dynamic symbols.  One
 * exported function prints them all, _PyObject_DebugMallocStats: its code names
 * them.  It reads the size of the table (its only first int) and the table, then
 * prints the two counters and, from 3.10 on, the two numbers of map nodes, in
 * this order on every build.
 */
#include <errno.h>
#include <string.h>

#include "obmalloc_find.h"

#define PRINTER	     "_PyObject_DebugMallocStats"
#define MAX_STATICS  32
#define SANE_COUNTER (1ull << 40)

/* From the code.  True if every variable has a place. */
static bool by_code(const struct pyobject_file *f, const struct reader *r, bool has_map,
		    struct obmalloc_state *s)
{
	struct insn_static st[MAX_STATICS];
	size_t n = pyobject_file_statics(f, PRINTER, st, MAX_STATICS);
	u64 *const words[] = {&s->arenas, &s->ntimes, &s->highwater};
	u64 *const ints[] = {&s->maxarenas, &s->map_mid, &s->map_bot};
	size_t want_ints = has_map ? ARRAY_SIZE(ints) : 1, nwords = 0, nints = 0;

	for (size_t i = 0; i < n; i++) {
		u64 value;

		if (st[i].size == 4 && nints < want_ints) {
			*ints[nints++] = st[i].addr;
		} else if (st[i].size == 8 && nwords < ARRAY_SIZE(words)) {
			/* the allocators' function pointers, which it compares */
			if (reader_read(r, st[i].addr, &value, sizeof(value)) ||
			    pyobject_file_is_code(f, value))
				continue;
			*words[nwords++] = st[i].addr;
		}
	}
	return nwords == ARRAY_SIZE(words) && nints == want_ints;
}

static bool by_symbols(const struct pyobject_file *f, bool has_map, struct obmalloc_state *s)
{
	s->arenas = pyobject_file_symbol(f, "arenas", NULL);
	s->maxarenas = pyobject_file_symbol(f, "maxarenas", NULL);
	s->ntimes = pyobject_file_symbol(f, "ntimes_arena_allocated", NULL);
	s->highwater = pyobject_file_symbol(f, "narenas_highwater", NULL);
	if (has_map) {
		s->map_mid = pyobject_file_symbol(f, "arena_map_mid_count", NULL);
		s->map_bot = pyobject_file_symbol(f, "arena_map_bot_count", NULL);
	}
	return s->arenas && s->maxarenas && s->ntimes && s->highwater &&
	       (!has_map || (s->map_mid && s->map_bot));
}

/*
 * The arena map covers 48 or 64 bits of address; which, changed between micro
 * versions of 3.10.  The printer has the size of the root as a constant.
 */
static void settle_map(const struct pyobject_file *f, struct obmalloc_layout *l)
{
	static const struct {
		u32 root, mid, bot;
	} maps[] = {{OBMALLOC_MAP_48BIT}, {OBMALLOC_MAP_64BIT}};
	u64 size = 0;

	pyobject_file_symbol(f, "arena_map_root", &size);
	for (size_t i = 0; i < ARRAY_SIZE(maps); i++) {
		bool named = pyobject_file_names(f, PRINTER, maps[i].root);
		bool other = pyobject_file_names(f, PRINTER, maps[!i].root);

		if (size ? size == maps[i].root : named && !other) {
			l->map_root = maps[i].root;
			l->map_mid = maps[i].mid;
			l->map_bot = maps[i].bot;
		}
	}
}

/* Do the variables hold what they should?  The process may run: give it a few tries. */
static int check(const struct obmalloc *ob, const struct obmalloc_state *s, const struct reader *r)
{
	int err = -ENOENT;

	for (int i = 0; i < 5; i++) {
		struct obmalloc_arenas a;
		bool sane;

		err = obmalloc_arenas_read(ob, s, r, &a);
		if (err == -ESRCH || err == -EPERM || err == -ETIMEDOUT)
			return err;
		if (err)
			continue;
		sane = a.n && a.n >= a.torn && a.highwater >= a.n && a.ntimes >= a.highwater &&
		       a.ntimes < SANE_COUNTER;
		obmalloc_arenas_free(&a);
		if (sane)
			return 0;
	}
	return err && err != -EINVAL && err != -EFAULT ? err : -ENOENT;
}

int obmalloc_find_static(const struct pyinfo *info, const struct reader *r, struct obmalloc *ob)
{
	bool has_map = ob->layout.map_root;
	struct obmalloc_state s = {.interp = ob->main_interp};
	struct pyobject_file f;
	int err = pyobject_file_open(info, &f);

	if (err)
		return err;
	err = by_code(&f, r, has_map, &s) ? check(ob, &s, r) : -ENOENT;
	if (err == -ENOENT)
		err = by_symbols(&f, has_map, &s) ? check(ob, &s, r) : -ENOENT;
	if (!err && has_map)
		settle_map(&f, &ob->layout);
	pyobject_file_close(&f);
	if (err)
		return err;
	ob->state[0] = s;
	ob->n = 1;
	return 0;
}
