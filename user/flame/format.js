// SPDX-License-Identifier: BSD-2-Clause
// Numbers as people read them: as pyheaptrace prints them in its tables.
"use strict";

function threeDigits(v, whole) {
	const a = Math.abs(v);
	return a >= 99.95 || whole ? v.toFixed(0) : a >= 9.995 ? v.toFixed(1) : v.toFixed(2);
}

function formatBytes(v) {
	const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
	let i = 0;
	for (v = Math.abs(v) < 1024 ? Math.round(v) : v; Math.abs(v) >= 1023.5 && i < 5; i++)
		v /= 1024;
	return threeDigits(v, !i) + " " + units[i];
}

function formatSignedBytes(v) {
	return (v > 0 ? "+" : "") + formatBytes(v);
}

// "; 95 %: 1.00 MiB to 2.00 MiB", or that there is nothing to be unsure of.
function formatInterval(e, format) {
	return e.low === e.high ? "; exact" : `; 95 %: ${format(e.low)} to ${format(e.high)}`;
}

function formatCount(v) {
	const units = ["", "k", "M", "G", "T"];
	let i = 0;
	for (v = Math.abs(v) < 1000 ? Math.round(v) : v; Math.abs(v) >= 999.5 && i < 4; i++)
		v /= 1000;
	return threeDigits(v, !i) + units[i];
}

function formatShare(v) {
	const p = 100 * v;
	return (p >= 99.95 ? (v >= 1 ? "100" : "99.9") : p.toFixed(p < 0.095 && p > 0 ? 3 : 1)) +
	       "%";
}

function formatSeconds(s) {
	if (s < 60)
		return s.toFixed(1) + " s";
	const m = Math.floor(s / 60);
	if (m < 60)
		return m + " min " + Math.floor(s % 60) + " s";
	return Math.floor(m / 60) + " h " + (m % 60) + " min";
}

function formatWhole(n) {
	return n.toLocaleString("en");
}
