/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Sampling arithmetic, compiled both for the kernel and for user space: no
 * floating point, no libc, no loops, and table indices that the verifier can
 * bound.  Tables come from user/sampling_tables.c; in BPF they belong into
 * plain globals or map values (a const array would be folded to its zeroes).
 *
 * Bytes requested form a stream on which marks fall as a Poisson process with
 * mean gap R.  A block is sampled when a mark falls on it: p = 1 - exp(-x / R).
 */
#ifndef PHT_SAMPLING_H
#define PHT_SAMPLING_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#define PHT_INLINE static inline __attribute__((always_inline))

/* -ln(1 - d) / d for d = i / 512, Q31: smooth, so that small intervals stay exact too. */
#define PHT_LOG_BITS  8
#define PHT_LOG_CELLS (1u << PHT_LOG_BITS)
#define PHT_LOG_TABLE (PHT_LOG_CELLS + 1)

/* t / (1 - exp(-t)) for t = i / 64, Q27. */
#define PHT_WEIGHT_BITS	 10
#define PHT_WEIGHT_CELLS (1u << PHT_WEIGHT_BITS)
#define PHT_WEIGHT_TABLE (PHT_WEIGHT_CELLS + 1)
#define PHT_WEIGHT_TMAX	 16

#define PHT_MAX_INTERVAL (1ull << 40)
#define PHT_LN2_Q58	 0x02c5c85fdf473de7ull

/* High half of a 64 x 64 bit product; BPF has no 128-bit multiply. */
PHT_INLINE __u64 pht_mulhi(__u64 a, __u64 b)
{
	__u64 al = (__u32)a, ah = a >> 32, bl = (__u32)b, bh = b >> 32;
	__u64 mid = ah * bl + ((al * bl) >> 32);
	__u64 mid2 = al * bh + (__u32)mid;

	return ah * bh + (mid >> 32) + (mid2 >> 32);
}

PHT_INLINE __u64 pht_mix64(__u64 z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* 64 random bits (splitmix64). */
PHT_INLINE __u64 pht_rng_next(__u64 *state)
{
	*state += 0x9e3779b97f4a7c15ull;
	return pht_mix64(*state);
}

/* A stream of its own for every thread (or whatever number tells streams apart). */
PHT_INLINE __u64 pht_rng_seed(__u64 seed, __u64 thread)
{
	return pht_mix64(seed ^ pht_mix64(thread + 0x632be59bd9b4e019ull));
}

/* 1 if the upper bits of x, from bit on, are all zero (bit > 0). */
PHT_INLINE __u32 pht_upper_zero(__u64 x, __u32 bit)
{
	__u64 below = (x >> bit) - 1;

	/* Else the compiler makes it a comparison, and that a branch. */
	asm("" : "+r"(below));
	return below >> 63;
}

/*
 * Leading zeroes of a non-zero x; written out because BPF has no such
 * instruction, and without branches because old verifiers (5.10) follow each
 * of the 64 ways through them to the end of the program.
 */
PHT_INLINE __u32 pht_clz64(__u64 x)
{
	__u32 n = 0;

	for (__u32 width = 32; width; width >>= 1) {
		__u32 shift = pht_upper_zero(x, 64 - width) * width;

		n += shift;
		x <<= shift;
	}
	return n;
}

/* -ln(u), Q58, for u = rnd / 2^64. */
PHT_INLINE __u64 pht_neglog(__u64 rnd, const __u32 *log_table)
{
	__u64 d, frac, lo, g;
	__u32 lz, i;

	rnd |= !rnd;
	lz = pht_clz64(rnd);
	/* u = 2^-lz * (1 - d), 0 < d <= 1/2, d in Q64 */
	d = -(rnd << lz);
	i = (d - 1) >> (63 - PHT_LOG_BITS) & (PHT_LOG_CELLS - 1);
	frac = (d - ((__u64)i << (63 - PHT_LOG_BITS))) >> (63 - PHT_LOG_BITS - 31);
	lo = log_table[i];
	/* The table ascends by less than 2^23 a cell and frac is at most 2^31. */
	g = (lo << 32) + ((((__u64)log_table[i + 1] - lo) * frac) << 1);
	/* g is Q63: d * g is Q63 in the high half. */
	return lz * PHT_LN2_Q58 + (pht_mulhi(d, g) >> 5);
}

/*
 * Bytes up to and including the next marked one: exponential with the given
 * mean (at most PHT_MAX_INTERVAL), rounded up, which keeps P(n <= x) at
 * 1 - exp(-x / mean) for whole x.  0 when mean <= 1: sample every allocation.
 */
PHT_INLINE __u64 pht_exp_interval(__u64 rnd, __u64 mean, const __u32 *log_table)
{
	__u64 q17;

	if (mean <= 1)
		return 0;
	if (mean > PHT_MAX_INTERVAL)
		mean = PHT_MAX_INTERVAL;
	q17 = pht_mulhi(mean << 23, pht_neglog(rnd, log_table));
	return (q17 >> 17) + 1;
}

/*
 * Count size bytes (0 counts as 1); non-zero when the block is sampled, and
 * then the countdown is drawn anew: what is left of the stream is memoryless,
 * so one block never yields two samples.  A countdown must first be set with
 * pht_exp_interval(), also when mean changes; <= 0 samples the next block.
 */
PHT_INLINE int pht_countdown(__s64 *countdown, __u64 size, __u64 mean, __u64 *rng,
			     const __u32 *log_table)
{
	if (mean <= 1)
		return 1;
	size |= !size;
	if (*countdown > 0 && size < (__u64)*countdown) {
		*countdown -= size;
		return 0;
	}
	*countdown = pht_exp_interval(pht_rng_next(rng), mean, log_table);
	return 1;
}

/*
 * Bytes that a sampled block stands for: size / p, rounded to whole bytes
 * (so the relative error is 1e-5 or half a byte, whichever is more; the result
 * is never below mean).  Exactly size when mean <= 1.  A zero-byte block
 * stands for zero bytes.
 */
PHT_INLINE __u64 pht_weight_bytes(__u64 size, __u64 mean, const __u32 *weight_table)
{
	__u64 whole, t, lo, g;
	__u32 i;

	if (mean <= 1 || !size)
		return size;
	if (mean > PHT_MAX_INTERVAL)
		mean = PHT_MAX_INTERVAL;
	whole = size / mean;
	if (whole >= PHT_WEIGHT_TMAX)
		return size;
	/* t = size / mean, Q24; the remainder is below 2^40. */
	t = (whole << 24) + ((size - whole * mean) << 24) / mean;
	i = t >> 18 & (PHT_WEIGHT_CELLS - 1);
	lo = weight_table[i];
	g = (lo << 18) + ((__u64)weight_table[i + 1] - lo) * (t & ((1u << 18) - 1));
	/* g is Q45 and below 2^50; Q23 * Q59 in the high half is Q18. */
	return (pht_mulhi(mean << 23, g << 14) + (1u << 17)) >> 18;
}

/* Blocks that a sampled block stands for, times 65536: 1 / p. */
PHT_INLINE __u64 pht_weight_blocks16(__u64 size, __u64 mean, __u64 weight_bytes)
{
	if (mean <= 1)
		return 1u << 16;
	if (mean > PHT_MAX_INTERVAL)
		mean = PHT_MAX_INTERVAL;
	if (!size) /* drawn as one byte; 1 / (1 - exp(-1 / m)) = m + 1/2 + 1 / (12 m) - ... */
		return (mean << 16) + (1u << 15) + (1u << 16) / 12 / mean;
	if (weight_bytes >> 47) /* only blocks far beyond mean weigh so much */
		return 1u << 16;
	return (weight_bytes << 16) / size;
}

/*
 * What a sampled block adds to the variance of a sum of weights, in units of
 * 65536 bytes^2, rounded up: (1 - p) (x / p)^2 = (w - x) w, never above mean^2,
 * and cut off at 2^64 bytes^2, so that sums of many fit.
 */
PHT_INLINE __u64 pht_weight_var(__u64 size, __u64 mean, __u64 weight_bytes)
{
	__u64 unseen;

	if (mean <= 1 || weight_bytes <= size)
		return 0;
	unseen = weight_bytes - size;
	if (weight_bytes >> 31) {
		__u64 v = pht_mulhi(unseen << 23, weight_bytes << 16);

		return (v < 1ull << 39 ? v : 1ull << 39) << 9;
	}
	return ((unseen * weight_bytes) >> 16) + 1;
}

#endif
