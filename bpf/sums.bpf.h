/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sums over blocks, by stack: allocated, live, at the high-water mark, freed,
 * and how long they lived.
 *
 * The high-water mark.  A process's live bytes are summed up, and each time
 * there are more of them than ever before its epoch goes up by one.  A site
 * about to change that has not changed since the last epoch began first puts
 * its sums aside, as those of the peak.  So at any time every site knows what
 * it held at the peak: what it put aside for this epoch, or, having seen none
 * of it, what it holds now.  No copy of the table is ever made, and the price
 * is the same for every sample.  Threads that change sums at the same time may
 * be seen half way: then the peak is off by the samples being counted.
 */
#ifndef PHT_SUMS_BPF_H
#define PHT_SUMS_BPF_H

#include "maps.bpf.h"

/* What one sampled block adds to sums, all of them unsigned. */
struct weight {
	__u64 bytes, blocks16, var;
};

static __always_inline void weigh(const struct pht_live *v, struct weight *w)
{
	w->bytes = pht_weight_bytes(v->drawn_size, v->interval, weight_table);
	w->blocks16 = pht_weight_blocks16(v->drawn_size, v->interval, w->bytes);
	w->var = pht_weight_var(v->drawn_size, v->interval, w->bytes);
}

/* Of a mapping that was cut short: its share of the weight it was drawn with. */
static __always_inline void weigh_rest(const struct pht_live *v, struct weight *w)
{
	__u64 unseen = w->bytes - v->drawn_size;

	if (v->size == v->drawn_size || !v->drawn_size)
		return;
	/* unseen is at most R, 2^40. */
	w->bytes = v->size + (unseen * ((v->size << 16) / v->drawn_size) >> 16);
}

static __always_inline void sums_add(struct pht_sums *s, const struct weight *w)
{
	__sync_fetch_and_add(&s->bytes, w->bytes);
	__sync_fetch_and_add(&s->blocks16, w->blocks16);
	__sync_fetch_and_add(&s->samples, 1);
	__sync_fetch_and_add(&s->var, w->var);
}

static __always_inline void sums_remove(struct pht_sums *s, const struct weight *w)
{
	__sync_fetch_and_add(&s->bytes, -w->bytes);
	__sync_fetch_and_add(&s->blocks16, -w->blocks16);
	__sync_fetch_and_add(&s->samples, -1);
	__sync_fetch_and_add(&s->var, -w->var);
}

static __always_inline struct pht_site *site_get(__u64 stack_id, __u32 tgid, __u32 domain)
{
	struct pht_site_key key = {.stack_id = stack_id, .tgid = tgid, .domain = domain};
	struct pht_site *site = bpf_map_lookup_elem(&sites, &key);

	if (site)
		return site;
	bpf_map_update_elem(&sites, &key, &site_zero, BPF_NOEXIST);
	site = bpf_map_lookup_elem(&sites, &key);
	if (!site)
		loss(PHT_LOSS_site_map_full);
	return site;
}

static __always_inline struct pht_peak *peak_get(__u32 tgid)
{
	struct pht_peak *peak = bpf_map_lookup_elem(&peaks, &tgid);

	if (peak)
		return peak;
	bpf_map_update_elem(&peaks, &tgid, &peak_zero, BPF_NOEXIST);
	return bpf_map_lookup_elem(&peaks, &tgid);
}

/* Before a site changes. */
static __always_inline void site_touch(struct pht_site *site, const struct pht_peak *peak)
{
	if (site->peak_epoch == peak->epoch)
		return;
	site->peak = site->live;
	site->peak_alloc_bytes = site->alloc_bytes;
	site->peak_alloc_blocks16 = site->alloc_blocks16;
	site->peak_samples = site->samples;
	site->peak_epoch = peak->epoch;
}

/* A block entered the live table.  The peak may be NULL, and the site. */
static __always_inline void live_grew(struct pht_site *site, struct pht_peak *peak,
				      const struct weight *w, __u64 now)
{
	if (site)
		sums_add(&site->live, w);
	if (!peak)
		return;
	__sync_fetch_and_add(&peak->live, w->bytes);
	if ((__s64)peak->live <= (__s64)peak->max)
		return;
	peak->max = peak->live;
	peak->time_ns = now;
	__sync_fetch_and_add(&peak->epoch, 1);
}

static __always_inline void live_shrank(struct pht_site *site, struct pht_peak *peak,
					const struct weight *w)
{
	if (site)
		sums_remove(&site->live, w);
	if (peak)
		__sync_fetch_and_add(&peak->live, -w->bytes);
}

static __always_inline __u32 life_bucket(__u64 ns)
{
	__u32 bucket;

	ns >>= PHT_LIFE_SHIFT;
	bucket = 64 - pht_clz64(ns | 1);
	/* Without a branch: 0 only where nothing was left. */
	bucket -= !ns;
	if (bucket >= PHT_LIFE_BUCKETS)
		bucket = PHT_LIFE_BUCKETS - 1;
	return bucket;
}

static __always_inline struct pht_life *life_get(const struct pht_site_key *key)
{
	struct pht_life *life = bpf_map_lookup_elem(&lives, key);

	if (life)
		return life;
	bpf_map_update_elem(&lives, key, &life_zero, BPF_NOEXIST);
	life = bpf_map_lookup_elem(&lives, key);
	if (!life)
		loss(PHT_LOSS_life_map_full);
	return life;
}

/* A block of a stack was seen to be freed at the age of so many ns. */
static __always_inline void life_account(const struct pht_live *v, __u32 tgid, __u64 age,
					 const struct weight *w)
{
	struct pht_site_key key = {.stack_id = v->stack_id, .tgid = tgid, .domain = v->domain};
	struct pht_life *life = life_get(&key);
	__u32 at = life_bucket(age);

	if (!life)
		return;
	/* Right here, and so that the compiler keeps it: old verifiers forget bounds. */
	asm("" : "+r"(at));
	at &= PHT_LIFE_BUCKETS - 1;
	__sync_fetch_and_add(&life->bytes[at], w->bytes);
	__sync_fetch_and_add(&life->blocks16[at], w->blocks16);
	__sync_fetch_and_add(&life->samples[at], 1);
}

/* The end of a block, at the age of so many ns; 0 = nobody saw when. */
static __always_inline void freed_account(struct pht_site *site, const struct pht_live *v,
					  __u32 tgid, __u64 age, const struct weight *w)
{
	if (site) {
		__sync_fetch_and_add(&site->freed_bytes, w->bytes);
		__sync_fetch_and_add(&site->freed_blocks16, w->blocks16);
		__sync_fetch_and_add(&site->freed_samples, 1);
		if (age && age <= cfg_temporary_ns)
			sums_add(&site->temporary, w);
	}
	if (age)
		life_account(v, tgid, age, w);
}

/* Time between two looks at the clock; 1 at least. */
static __always_inline __u64 age_at(const struct pht_live *v, __u64 now)
{
	return now > v->time_ns ? now - v->time_ns : 1;
}

#endif
