// SPDX-License-Identifier: BSD-2-Clause
#include "gotswap.h"

#include <errno.h>
#include <string.h>

#include "got.h"
#include "hashmap.h"
#include "log.h"

struct gotswap {
	const struct pyinfo *info; /* the caller's */
	struct got_slots slots;
	struct hashmap replaced; /* address of a word -> what it held: struct old_word */
	struct gotswap_view view;
	bool own_new; /* see gotswap_view */
};

struct old_word {
	u64 value;
	bool ours; /* when we looked last */
};

static int scan(const struct pyinfo *info, struct got_slots *out, bool *own_new)
{
	struct alloc_family heap = {0}, mm = {0};
	struct proc_maps maps = {0};
	int err = proc_maps_read(info->pid, &maps);

	if (!err)
		err = allocfind(info->pid, &maps, &heap, &mm);
	if (!err)
		err = got_scan(info, &maps, &heap, &mm, out);
	*own_new = heap.f[AF_NEW].vaddr != 0;
	alloc_family_free(&heap);
	alloc_family_free(&mm);
	proc_maps_free(&maps);
	return err;
}

int gotswap_open(const struct pyinfo *info, struct gotswap **out)
{
	struct gotswap *g = calloc(1, sizeof(*g));
	int err;

	if (!g)
		return -ENOMEM;
	g->info = info;
	err = scan(info, &g->slots, &g->own_new);
	if (err) {
		free(g);
		return err;
	}
	*out = g;
	return 0;
}

void gotswap_free(struct gotswap *g)
{
	if (!g)
		return;
	got_slots_free(&g->slots);
	hashmap_clear(&g->replaced, free);
	free(g);
}

void gotswap_originals(const struct gotswap *g, u64 libc[PHT_TFN_NR - PHT_TFN_TABLES])
{
	for (enum alloc_func f = 0; f < AF_NR; f++) {
		int entry = got_entry(f);

		if (entry >= 0 && g->slots.real[f])
			libc[entry - PHT_TFN_TABLES] = g->slots.real[f];
	}
}

/*
 * What the interpreter asks malloc for comes through its raw domain, which is
 * counted already; what it frees may be a library's block.  What an allocator
 * maps is for blocks that are counted one by one.  musl's calloc and realloc
 * call malloc through the slot that strdup uses: the block would count twice.
 */
static bool wanted(const struct gotswap *g, const struct got_slot *slot)
{
	const struct got_object *o = &g->slots.objects[slot->object];
	u64 real = g->slots.real[slot->func];

	if (got_is_mapping(slot->func))
		return slot->of != GOT_OF_ALLOCATOR && (real < o->start || real >= o->end);
	if (slot->func == AF_FREE)
		return true;
	return slot->of == GOT_OF_LIBRARY || (slot->of == GOT_OF_ALLOCATOR && !g->info->musl);
}

static int remember(struct gotswap *g, u64 addr, u64 value)
{
	struct old_word *old = hashmap_get(&g->replaced, addr, 0);

	if (!old) {
		old = malloc(sizeof(*old));
		if (!old || hashmap_put(&g->replaced, addr, 0, old)) {
			free(old);
			return -ENOMEM;
		}
	}
	old->value = value;
	old->ours = true;
	return 0;
}

/* Somebody else led a word elsewhere that was ours, at 0 with its library. */
static void note_taken(struct gotswap *g, const struct got_slot *slot)
{
	struct old_word *old = hashmap_get(&g->replaced, slot->addr, 0);

	if (!old || !slot->value)
		return;
	g->view.taken += old->ours;
	g->view.missed++;
	old->ours = false;
}

/* Compare and exchange one word of the target. */
static int exchange(struct gotswap *g, struct tramp *t, const struct got_slot *slot, u64 expect,
		    u64 value)
{
	struct pht_tramp_swap swap = {.addr = slot->addr, .expect = expect, .value = value};
	int err;

	/* Only data pointers are the program's to write at any time. */
	if (slot->kind != GOT_DATA || !slot->writable)
		return got_write(g->info->pid, slot, expect, value);
	err = tramp_swap(t, &swap, 1);
	return err ? err : swap.seen == expect ? 0 : -EAGAIN;
}

static void apply_one(struct gotswap *g, struct tramp *t, const struct got_slot *slot)
{
	int fn = got_entry(slot->func);
	u64 entry;

	if (fn < 0 || !wanted(g, slot) || !g->slots.real[slot->func])
		return;
	entry = tramp_entry(t, fn);
	if (slot->value == entry) {
		/* From an earlier attach whose tracer died. */
		if (!hashmap_get(&g->replaced, slot->addr, 0))
			remember(g, slot->addr, g->slots.real[slot->func]);
		g->view.ours++;
		return;
	}
	if (slot->state == GOT_OTHER)
		note_taken(g, slot);
	else if (slot->swappable && !remember(g, slot->addr, slot->value) &&
		 !exchange(g, t, slot, slot->value, entry))
		g->view.ours++;
	else
		g->view.missed++;
}

void gotswap_apply(struct gotswap *g, struct tramp *t)
{
	struct got_slots fresh;

	if (got_changed(g->info->pid, &g->slots)) {
		if (!scan(g->info, &fresh, &g->own_new)) {
			got_slots_free(&g->slots);
			g->slots = fresh;
		}
	} else if (got_refresh(g->info->pid, &g->slots)) {
		return;
	}
	g->view = (struct gotswap_view){.own_new = g->own_new};
	for (size_t i = 0; i < g->slots.n; i++)
		apply_one(g, t, &g->slots.v[i]);
}

void gotswap_restore(struct gotswap *g, struct tramp *t)
{
	if (got_refresh(g->info->pid, &g->slots))
		return;
	for (size_t i = 0; i < g->slots.n; i++) {
		const struct got_slot *slot = &g->slots.v[i];
		const struct old_word *old = hashmap_get(&g->replaced, slot->addr, 0);
		int fn = got_entry(slot->func);

		if (old && fn >= 0 && slot->value == tramp_entry(t, fn))
			exchange(g, t, slot, slot->value, old->value);
	}
}

struct gotswap_view gotswap_view(const struct gotswap *g)
{
	return g->view;
}
