// SPDX-License-Identifier: BSD-2-Clause
// 95 % intervals, as user/estimate.c and user/snapshot_diff.c have them.

const Z95 = 1.959963984540054;

function addSums(into, moment, site) {
	into.bytes += moment.bytes[site];
	into.blocks += moment.blocks[site];
	into.samples += moment.samples[site];
	into.seen += moment.seen[site];
	into.variance += moment.var[site];
	into.skew += moment.skew[site];
	into.covar += moment.covar[site];
	into.taken += moment.taken[site];
}

function noSums() {
	return {bytes: 0, blocks: 0, samples: 0, seen: 0, variance: 0, skew: 0, covar: 0, taken: 0};
}

function intervalOf(e, sampleInterval) {
	const out = {value: e.bytes, low: e.bytes, high: e.bytes};
	if (e.variance > 0) {
		const slope = e.covar / e.variance;
		const shift = slope * Z95 * Z95 / 2 - e.skew / e.variance * (Z95 * Z95 - 1) / 6;
		const half = Z95 * Math.sqrt(e.variance + slope * slope * Z95 * Z95 / 4);
		out.low = Math.min(Math.max(e.bytes + Math.min(shift, half / 2) - half, e.seen),
				   e.bytes);
		out.high = Math.max(e.bytes + Math.min(shift, half) + half, e.bytes);
	}
	if (e.samples < 0.5 && sampleInterval > 1)
		out.high = out.value + 3 * sampleInterval;
	return out;
}

// Share of before's samples that are certainly among after's.
function keptShare(before, after, sameRun) {
	if (!sameRun || !before.samples || after.taken < before.taken)
		return 0;
	const freed = before.samples + after.taken - before.taken - after.samples;
	return freed <= 0 ? 1 : freed >= before.samples ? 0 : 1 - freed / before.samples;
}

function without(e, other, share) {
	return {
		bytes: Math.max(e.bytes - share * other.bytes, 0),
		samples: Math.round(Math.max(e.samples - share * other.samples, 0)),
		variance: Math.max(e.variance - share * other.variance, 0),
		skew: e.skew - share * other.skew,
		covar: e.covar - share * other.covar,
		seen: share === 0 || share === 1 ? Math.max(e.seen - share * other.seen, 0) : 0,
	};
}

function pairedDifference(before, beforeInterval, after, afterInterval, kept) {
	const up = intervalOf(without(after, before, kept), afterInterval);
	const down = intervalOf(without(before, before, kept), beforeInterval);
	return {
		low: Math.hypot(up.value - up.low, down.high - down.value),
		high: Math.hypot(up.high - up.value, down.value - down.low),
	};
}

// To know what stayed can only narrow the interval that two independent sums have.
function differenceOf(before, beforeInterval, after, afterInterval, sameRun) {
	const value = after.bytes - before.bytes;
	const [paired, independent] = [keptShare(before, after, sameRun), 0].map((kept) =>
		pairedDifference(before, beforeInterval, after, afterInterval, kept));
	return {
		value,
		low: value - Math.min(paired.low, independent.low),
		high: value + Math.min(paired.high, independent.high),
	};
}
