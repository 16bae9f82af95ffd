/* SPDX-License-Identifier: GPL-2.0 */
/* Sampled blocks: birth, death, and what may turn out to be neither. */
#ifndef PHT_BLOCKS_BPF_H
#define PHT_BLOCKS_BPF_H

#include "pyframes.bpf.h"
#include "sums.bpf.h"

#define PAGE_MASK 4095ull

/* What became of the block that a realloc had set aside. */
#define SETTLE_FREED 0
#define SETTLE_LIVES 1
/* How a block leaves the live table. */
#define FORGET_FREED  0
#define FORGET_UNSEEN 1 /* its end was not seen, only that it is gone */

/*
 * These are global functions so that the verifier checks each once, and each
 * has a stack frame of its own.
 *
 * Take a block out of the live table for good.
 */
__noinline int pht_forget(__u64 addr, __u32 how)
{
	struct pht_live_key key = {.addr = addr, .tgid = bpf_get_current_pid_tgid() >> 32};
	struct pht_live *v = bpf_map_lookup_elem(&live, &key);
	struct weight whole, rest;
	struct pht_site *site;
	struct pht_peak *peak;

	if (!v)
		return 0;
	site = site_get(v->stack_id, key.tgid, v->domain);
	peak = peak_get(key.tgid);
	if (site && peak)
		site_touch(site, peak);
	weigh(v, &whole);
	rest = whole;
	weigh_rest(v, &rest);
	live_shrank(site, peak, &rest);
	freed_account(site, v, key.tgid, how == FORGET_FREED ? age_at(v, bpf_ktime_get_ns()) : 0,
		      &whole);
	bpf_map_delete_elem(&live, &key);
	return 1;
}

/* The same for as long as a realloc takes: the block is kept in the thread's aside[slot]. */
__noinline int pht_set_aside(__u64 addr, __u32 slot)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct pht_thread *th = bpf_map_lookup_elem(&threads, &id);
	struct pht_live_key key = {.addr = addr, .tgid = id >> 32};
	struct pht_live *v = bpf_map_lookup_elem(&live, &key);
	struct pht_site *site;
	struct pht_peak *peak;
	struct pht_aside *to;
	struct weight w;

	if (!v || !th)
		return 0;
	asm("" : "+r"(slot));
	to = &th->aside[slot & (PHT_ASIDE - 1)];
	to->block = *v;
	to->time_ns = bpf_ktime_get_ns();
	site = site_get(v->stack_id, key.tgid, v->domain);
	peak = peak_get(key.tgid);
	if (site && peak)
		site_touch(site, peak);
	weigh(v, &w);
	weigh_rest(v, &w);
	live_shrank(site, peak, &w);
	bpf_map_delete_elem(&live, &key);
	return 1;
}

/* The realloc is over: the block was freed, or lives on at addr. */
__noinline int pht_settle(__u64 addr, __u32 slot, __u32 how)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct pht_thread *th = bpf_map_lookup_elem(&threads, &id);
	struct pht_live_key key = {.addr = addr, .tgid = id >> 32};
	struct pht_aside *from;
	struct pht_site *site;
	struct pht_peak *peak;
	struct weight w;

	if (!th)
		return 0;
	asm("" : "+r"(slot));
	from = &th->aside[slot & (PHT_ASIDE - 1)];
	if (how == SETTLE_LIVES && bpf_map_update_elem(&live, &key, &from->block, BPF_NOEXIST)) {
		loss(PHT_LOSS_live_map_full);
		return 0;
	}
	site = site_get(from->block.stack_id, key.tgid, from->block.domain);
	peak = peak_get(key.tgid);
	if (site && peak)
		site_touch(site, peak);
	weigh(&from->block, &w);
	if (how == SETTLE_LIVES) {
		weigh_rest(&from->block, &w);
		live_grew(site, peak, &w, bpf_ktime_get_ns());
	} else {
		freed_account(site, &from->block, key.tgid, age_at(&from->block, from->time_ns),
			      &w);
	}
	return 0;
}

/* A sampled block is born. */
__noinline int pht_insert(__u64 addr, __u64 size, __u64 interval, __u32 domain)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct pht_thread *th = bpf_map_lookup_elem(&threads, &id);
	struct pht_live_key key = {.addr = addr, .tgid = id >> 32};
	struct pht_live v = {};
	struct pht_site *site;
	struct pht_peak *peak;
	struct weight w;

	if (!th)
		return 0;
	v.size = v.drawn_size = size;
	v.interval = interval;
	v.time_ns = bpf_ktime_get_ns();
	v.tid = (__u32)id;
	v.domain = domain;
	v.stack_id = stack_capture(th, key.tgid);
	/* Still there: its free went by unseen (a pool given back, a lost hit). */
	if (addr)
		pht_forget(addr, FORGET_UNSEEN);
	site = site_get(v.stack_id, key.tgid, domain);
	peak = peak_get(key.tgid);
	weigh(&v, &w);
	if (peak && domain == PHT_DOM_POOL)
		__sync_fetch_and_add(&peak->pools, 1);
	if (site && peak)
		site_touch(site, peak);
	if (site) {
		__sync_fetch_and_add(&site->alloc_bytes, w.bytes);
		__sync_fetch_and_add(&site->alloc_blocks16, w.blocks16);
		__sync_fetch_and_add(&site->samples, 1);
	}
	stat_add(PHT_STAT_SAMPLES, 1);
	/* Followed to its end only if that end will be seen. */
	if (!addr)
		return 0;
	if (bpf_map_update_elem(&live, &key, &v, BPF_ANY))
		loss(PHT_LOSS_live_map_full);
	else
		live_grew(site, peak, &w, v.time_ns);
	return 0;
}

/* munmap of size bytes from addr on. */
__noinline int pht_unmap(__u64 addr, __u64 size)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct pht_thread *th = bpf_map_lookup_elem(&threads, &id);
	struct pht_live_key key = {.addr = addr, .tgid = id >> 32};
	struct pht_live *v = bpf_map_lookup_elem(&live, &key);
	__u64 cut = (size + PAGE_MASK) & ~PAGE_MASK;

	if (!v || v->domain != PHT_DOM_MMAP)
		return 0;
	if (cut >= v->size)
		return pht_forget(addr, FORGET_FREED);
	if (!th || !pht_set_aside(addr, PHT_ASIDE_CUT))
		return 0;
	/* The front goes; what remains keeps the probability it was drawn with. */
	th->aside[PHT_ASIDE_CUT].block.size -= cut;
	return pht_settle(addr + cut, PHT_ASIDE_CUT, SETTLE_LIVES);
}

#endif
