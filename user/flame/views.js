// SPDX-License-Identifier: BSD-2-Clause
// What can be shown as widths, and the tree of boxes, which is made as it is looked at.

// Views that the data have, in the order of the switch.
function viewsOf(data) {
	const {now, first, peak} = data.sites;
	const grown = first && ((i) => Math.max(now.bytes[i] - first.bytes[i], 0));
	const shrunk = first && ((i) => Math.max(first.bytes[i] - now.bytes[i], 0));
	const live = (moment) => ({
		bytes: (i) => moment.bytes[i],
		blocks: (i) => moment.blocks[i],
	});
	const change = (bytes) => ({
		bytes,
		blocks: (i) => Math.abs(now.blocks[i] - first.blocks[i]),
	});
	const allocated = {bytes: (i) => now.allocated[i], blocks: (i) => now.allocated_blocks[i]};
	const views = data.diff ? [
		{name: "after", title: "live after", ...live(now), moment: "now"},
		{name: "before", title: "live before", ...live(first), moment: "first"},
		{name: "grown", title: "what grew", ...change(grown)},
		{name: "shrunk", title: "what shrank", ...change(shrunk)},
	] : [
		{name: "live", title: "live now", ...live(now), moment: "now"},
		{name: "allocated", title: "allocated since attach, freed or not", ...allocated},
	];
	if (!data.diff && first)
		views.push({
			name: "leaked",
			title: "what grew since the first snapshot",
			...change(grown)
		});
	if (!data.diff && peak)
		views.push(
			{name: "peak", title: "live at the peak", ...live(peak), moment: "peak"});
	return views;
}

// Sums of a view for every node: what it has itself, and with all above it.
function weigh(data, view) {
	const {nodes, sites} = data;
	const value = new Float64Array(sites.count), total = new Float64Array(nodes.count);
	for (let i = 0; i < sites.count; i++)
		total[sites.node[i]] = value[i] = view.bytes(i);
	for (let i = nodes.count - 1; i > 0; i--)
		total[nodes.parent[i]] += total[i];
	// How many of the nodes up to here have something; for "not drawn".
	const filled = new Int32Array(nodes.count + 1);
	for (let i = 0; i < nodes.count; i++)
		filled[i + 1] = filled[i] + (total[i] > 0 ? 1 : 0);
	return {value, total, filled};
}

function totalsOf(data, moment) {
	const total = new Float64Array(data.nodes.count);
	for (let i = 0; i < data.sites.count; i++)
		total[data.sites.node[i]] = moment.bytes[i];
	for (let i = data.nodes.count - 1; i > 0; i--)
		total[data.nodes.parent[i]] += total[i];
	return total;
}

// Frames that are shown as one box have one number here.
function groupFrames(data, byFunction) {
	const {frames} = data, groups = new Int32Array(frames.count), known = new Map();
	for (let i = 0; i < frames.count; i++) {
		groups[i] = i;
		if (!byFunction)
			continue;
		const key = frames.fn[i] + " " + frames.file[i] + " " + frames.kind[i];
		if (known.has(key))
			groups[i] = known.get(key);
		else
			known.set(key, i);
	}
	return groups;
}

// A tree of boxes.  Boxes: {frame, parent, depth, value, now, first, nodes | sites + cursors}.
// options: {view, inverted, native, byFunction}; children() makes them on demand.
class BoxTree {
	constructor(data, options) {
		this.data = data;
		this.options = options;
		this.weights = weigh(data, options.view);
		this.groups = groupFrames(data, options.byFunction);
		if (data.sites.first) {
			this.nowTotal = totalsOf(data, data.sites.now);
			this.firstTotal = totalsOf(data, data.sites.first);
		}
		this.root = this.makeRoot();
	}

	hidden(node) {
		return !this.options.native &&
		       this.data.frames.kind[this.data.nodes.frame[node]] === KIND_NATIVE;
	}

	// The node or its nearest caller that is shown; 0 = none.
	shownFrom(node) {
		while (node && this.hidden(node))
			node = this.data.nodes.parent[node];
		return node;
	}

	newBox(frame, parent) {
		return {
			frame,
			parent,
			depth: parent ? parent.depth + 1 : 0,
			value: 0,
			now: 0,
			first: 0,
			nodes: [],
			sites: [],
			cursors: [],
			kids: null,
			sums: null
		};
	}

	makeRoot() {
		const root = this.newBox(-1, null), {sites} = this.data;
		root.value = this.weights.total[0];
		if (this.nowTotal) {
			root.now = this.nowTotal[0];
			root.first = this.firstTotal[0];
		}
		if (!this.options.inverted) {
			root.nodes.push(0);
			return root;
		}
		// Those without a width too: what they were before counts for the change.
		for (let i = 0; i < sites.count; i++) {
			root.sites.push(i);
			root.cursors.push(this.shownFrom(sites.node[i]));
		}
		return root;
	}

	// Largest first, then as found, which is the same each time; none without a width.
	children(box) {
		if (!box.kids) {
			const found = new Map();
			if (this.options.inverted)
				this.addCallers(box, found);
			else
				for (const node of box.nodes)
					this.addCallees(box, node, found);
			box.kids = Array.from(found.values())
					   .filter((kid) => kid.value > 0)
					   .sort((a, b) => b.value - a.value);
		}
		return box.kids;
	}

	kidFor(box, node, found) {
		const group = this.groups[this.data.nodes.frame[node]];
		let kid = found.get(group);
		if (!kid)
			found.set(group, kid = this.newBox(group, box));
		return kid;
	}

	addCallees(box, node, found) {
		const {end} = this.data.nodes, {total} = this.weights;
		for (let i = node + 1; i < end[node];) {
			if (!(total[i] > 0) && !(this.firstTotal && this.firstTotal[i] > 0)) {
				i = end[i];
			} else if (this.hidden(i)) {
				// What a hidden frame calls belongs to who called that.
				i++;
			} else {
				const kid = this.kidFor(box, i, found);
				kid.nodes.push(i);
				kid.value += total[i];
				if (this.nowTotal) {
					kid.now += this.nowTotal[i];
					kid.first += this.firstTotal[i];
				}
				i = end[i];
			}
		}
	}

	addCallers(box, found) {
		const {parent} = this.data.nodes, {now, first} = this.data.sites;
		for (let i = 0; i < box.sites.length; i++) {
			const site = box.sites[i], cursor = box.cursors[i];
			if (!cursor)
				continue;
			const kid = this.kidFor(box, cursor, found);
			kid.sites.push(site);
			kid.cursors.push(this.shownFrom(parent[cursor]));
			kid.value += this.weights.value[site];
			if (first) {
				kid.now += now.bytes[site];
				kid.first += first.bytes[site];
			}
		}
	}

	// Calls fn for every site that a box stands for.
	eachSite(box, fn) {
		if (box.rest)
			box.kids.forEach((kid) => this.eachSite(kid, fn));
		if (this.options.inverted)
			box.sites.forEach((site) => fn(site));
		const {siteFrom, nodes} = this.data;
		for (const node of box.nodes)
			for (let i = siteFrom[node]; i < siteFrom[nodes.end[node]]; i++)
				fn(i);
	}

	// One box for several small ones of a box; what is in them comes to light by a zoom to it.
	restOf(box, kids) {
		const rest = this.newBox(-1, box);
		rest.rest = true;
		rest.kids = kids;
		for (const kid of kids) {
			rest.value += kid.value;
			rest.now += kid.now;
			rest.first += kid.first;
		}
		return rest;
	}

	// Nodes that a box and what is above it stand for.
	weightOf(box) {
		if (this.options.inverted)
			return 1;
		const {filled} = this.weights, {end} = this.data.nodes;
		return box.nodes.reduce((n, node) => n + filled[end[node]] - filled[node], 0);
	}

	// The sums of a box, for the tooltip.
	sumsOf(box) {
		if (box.sums)
			return box.sums;
		const {now, first, peak} = this.data.sites;
		const sums = {now: noSums(), first: noSums(), peak: noSums(), blocks: 0};
		this.eachSite(box, (i) => {
			addSums(sums.now, now, i);
			if (first)
				addSums(sums.first, first, i);
			if (peak)
				addSums(sums.peak, peak, i);
			sums.blocks += this.options.view.blocks(i);
		});
		box.sums = sums;
		return sums;
	}

	// Where a box is; a box of several lines is somewhere in a file.
	placeOf(box) {
		if (box.frame < 0)
			return "";
		return this.options.byFunction ? this.data.strings[this.data.frames.file[box.frame]]
					       : framePlace(this.data, box.frame);
	}

	// Frames from the root to a box, for finding it again in another tree.
	pathOf(box) {
		const path = [];
		for (; box.parent; box = box.parent)
			if (!box.rest)
				path.unshift(box.frame);
		return path;
	}

	// The box at the end of a path, or as far along it as there are boxes.
	follow(path) {
		let box = this.root;
		for (const frame of path) {
			const group = this.groups[frame];
			const kid = this.children(box).find((k) => k.frame === group);
			if (!kid)
				break;
			box = kid;
		}
		return box;
	}
}
