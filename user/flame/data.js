// SPDX-License-Identifier: BSD-2-Clause
// The data of the page (docs/flamegraph.md) as arrays.

// A column: base64 of LEB128 numbers.  Columns may hold more than 32 bits.
function readColumn(text, count, array) {
	const bytes = atob(text);
	let at = 0;
	for (let i = 0; i < count; i++) {
		let byte = bytes.charCodeAt(at++), v = byte & 0x7f;
		for (let scale = 128; byte & 0x80; scale *= 128) {
			byte = bytes.charCodeAt(at++);
			v += (byte & 0x7f) * scale;
		}
		array[i] = v;
	}
	return array;
}

// A coarse number: 7 bits of fraction, 8 of exponent, the sign last.
const coarseBits = new Uint32Array(1);
const coarseFloat = new Float32Array(coarseBits.buffer);
function unpackCoarse(array) {
	for (let i = 0; i < array.length; i++) {
		coarseBits[0] = (array[i] >>> 1) << 16;
		array[i] = array[i] & 1 ? -coarseFloat[0] : coarseFloat[0];
	}
	return array;
}

const KIND_PYTHON = 0, KIND_NATIVE = 1, KIND_OTHER = 2;

function readFrames(raw) {
	const n = raw.frames.count;
	return {
		count: n,
		fn: readColumn(raw.frames.function, n, new Int32Array(n)),
		file: readColumn(raw.frames.file, n, new Int32Array(n)),
		line: readColumn(raw.frames.line, n, new Int32Array(n)),
		kind: readColumn(raw.frames.kind, n, new Uint8Array(n)),
	};
}

// Nodes come in depth-first order: what is above node i are the nodes i + 1 to end[i] - 1.
function readNodes(raw) {
	const n = raw.nodes.count;
	const depth = readColumn(raw.nodes.depth, n, new Int32Array(n));
	const parent = new Int32Array(n), end = new Int32Array(n);
	const path = [];
	for (let i = 0; i < n; i++) {
		while (path.length > depth[i])
			end[path.pop()] = i;
		parent[i] = i ? path[path.length - 1] : 0;
		path.push(i);
	}
	while (path.length)
		end[path.pop()] = n;
	return {
		count: n,
		depth,
		parent,
		end,
		frame: readColumn(raw.nodes.frame, n, new Int32Array(n))
	};
}

function readMoment(raw, n) {
	const out = {};
	for (const name of Object.keys(raw)) {
		const column = readColumn(raw[name], n, new Float64Array(n));
		if (name === "var" || name === "skew" || name === "covar")
			unpackCoarse(column);
		if (name === "blocks" || name === "allocated_blocks")
			for (let i = 0; i < n; i++)
				column[i] /= 16;
		out[name] = column;
	}
	return out;
}

function readSites(raw) {
	const n = raw.sites.count, sites = {count: n};
	sites.node = readColumn(raw.sites.node, n, new Int32Array(n));
	for (let i = 1; i < n; i++)
		sites.node[i] += sites.node[i - 1];
	for (const moment of ["now", "first", "peak"])
		if (raw.sites[moment])
			sites[moment] = readMoment(raw.sites[moment], n);
	return sites;
}

function readData(raw) {
	const data = {
		diff: raw.diff,
		sameRun: raw.same_run,
		moments: raw.moments,
		series: raw.series,
		pruned: raw.pruned,
		namesCut: raw.names_cut,
		strings: raw.strings,
		frames: readFrames(raw),
		nodes: readNodes(raw),
		sites: readSites(raw),
	};
	// Sites of a node and all above it are siteFrom[node] to siteFrom[end[node]] - 1.
	const from = new Int32Array(data.nodes.count + 1);
	for (let i = 0, s = 0; i <= data.nodes.count; i++) {
		from[i] = s;
		while (s < data.sites.count && data.sites.node[s] === i)
			s++;
	}
	data.siteFrom = from;
	return data;
}

function frameName(data, frame) {
	return data.strings[data.frames.fn[frame]] || "?";
}

function framePlace(data, frame) {
	const file = data.strings[data.frames.file[frame]], line = data.frames.line[frame];
	return file && line ? file + ":" + line : file;
}
