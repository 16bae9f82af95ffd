// SPDX-License-Identifier: BSD-2-Clause
// Boxes on a canvas.  Only what is in sight is painted, and nothing narrower than a pixel.

const ROW = 19, FONT = "12px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace";

const palettes = {
	light: {
		text: "#1c1c1c",
		back: "#ffffff",
		edge: "#ffffff",
		root: "#d9d9d9",
		native: "#c3ccd6",
		other: "#dddddd",
		hit: "#d63fd6",
		hitText: "#ffffff",
		focus: "#0b57d0",
		sat: 62,
		light: 76,
		flat: [232, 232, 232],
		up: [222, 60, 50],
		down: [52, 108, 222]
	},
	dark: {
		text: "#f0f0f0",
		back: "#16181c",
		edge: "#16181c",
		root: "#3a3d44",
		native: "#3d4956",
		other: "#3a3a3a",
		hit: "#c236c2",
		hitText: "#ffffff",
		focus: "#8ab4f8",
		sat: 34,
		light: 33,
		flat: [62, 64, 70],
		up: [196, 58, 48],
		down: [52, 98, 200]
	},
};

function hashText(text) {
	let h = 2166136261;
	for (let i = 0; i < text.length; i++)
		h = Math.imul(h ^ text.charCodeAt(i), 16777619);
	return (h ^ h >>> 15) >>> 0;
}

// -1 .. 1: gone, unchanged, new.
function growthOf(box) {
	const most = Math.max(box.now, box.first);
	return most > 0 ? (box.now - box.first) / most : 0;
}

class Graph {
	constructor(canvas, scroller) {
		this.canvas = canvas;
		this.scroller = scroller;
		this.context = canvas.getContext("2d", {alpha: false});
		this.rows = []; // boxes by row, left to right: {box, x, w}
		this.colours = new Map();
		this.focus = null; // a box
	}

	// Show tree from the box zoom on; what calls it stands above, at full width.
	layout(tree, zoom) {
		this.tree = tree;
		this.zoom = zoom;
		this.width = this.scroller.clientWidth;
		this.rows = [];
		this.places = new Map();
		this.pruned = 0;
		for (let box = zoom.parent; box; box = box.parent)
			this.rows.unshift([{box, x: 0, w: this.width, above: true}]);
		this.top = this.rows.length;
		this.scale = zoom.value > 0 ? this.width / zoom.value : 0;
		let level = [{box: zoom, x: 0, w: this.width}];
		while (level.length) {
			this.rows.push(level);
			level = this.nextLevel(level);
		}
		this.rows.forEach((row, i) => row.forEach((place, j) => this.places.set(
								  place.box, {row: i, index: j})));
		this.pixelBytes = this.scale ? 1 / this.scale : 0;
	}

	nextLevel(level) {
		const next = [];
		for (const place of level) {
			// What is in a box of small ones is shown when that is zoomed to.
			if (place.box.rest && place.box !== this.zoom)
				continue;
			const kids = this.tree.children(place.box);
			let x = place.x, i = 0;
			for (; i < kids.length && kids[i].value * this.scale >= 1; i++) {
				next.push({box: kids[i], x, w: kids[i].value * this.scale});
				x += kids[i].value * this.scale;
			}
			if (i < kids.length)
				this.addRest(next, place.box, kids.slice(i), x, i === 0);
		}
		return next;
	}

	// Boxes too narrow to draw: one for all of them, or, where that would be all there is,
	// several.
	addRest(level, parent, kids, x, all) {
		const parts = all && parent.rest ? Math.min(kids.length, 40) : 1;
		for (let i = 0; i < parts; i++) {
			const some =
				kids.slice(kids.length * i / parts, kids.length * (i + 1) / parts);
			const box = this.tree.restOf(parent, some);
			for (const kid of some)
				this.pruned += this.tree.weightOf(kid);
			if (box.value * this.scale >= 2)
				level.push({box, x, w: box.value * this.scale});
			x += box.value * this.scale;
		}
	}

	height() {
		return this.rows.length * ROW + 2;
	}

	fileColour(box, palette) {
		const {frames, strings} = this.tree.data;
		if (frames.kind[box.frame] === KIND_NATIVE)
			return palette.native;
		if (frames.kind[box.frame] === KIND_OTHER)
			return palette.other;
		const file = frames.file[box.frame], key = palette.light * 1e7 + file;
		if (!this.colours.has(key)) {
			const h = hashText(strings[file]);
			this.colours.set(key, `hsl(${h % 360}, ${palette.sat + (h >>> 9) % 12}%, ` +
						      `${palette.light + (h >>> 14) % 8}%)`);
		}
		return this.colours.get(key);
	}

	growthColour(box, palette) {
		const g = growthOf(box), to = g > 0 ? palette.up : palette.down,
		      t = Math.sqrt(Math.abs(g));
		return "rgb(" +
		       palette.flat.map((c, i) => Math.round(c + (to[i] - c) * t)).join(",") + ")";
	}

	colourOf(place, style) {
		const {box} = place;
		if (style.hits && box.frame >= 0 && style.hits[box.frame])
			return style.palette.hit;
		if (style.growth)
			return this.growthColour(box, style.palette);
		return box.frame < 0 ? style.palette.root : this.fileColour(box, style.palette);
	}

	// style: {palette, growth, hits (by frame) or null, rootName}
	paint(style) {
		const ratio = window.devicePixelRatio || 1, c = this.context;
		const height = this.scroller.clientHeight, offset = this.scroller.scrollTop;
		if (this.canvas.width !== Math.round(this.width * ratio) ||
		    this.canvas.height !== Math.round(height * ratio)) {
			this.canvas.width = Math.round(this.width * ratio);
			this.canvas.height = Math.round(height * ratio);
			this.canvas.style.width = this.width + "px";
			this.canvas.style.height = height + "px";
		}
		c.setTransform(ratio, 0, 0, ratio, 0, 0);
		c.fillStyle = style.palette.back;
		c.fillRect(0, 0, this.width, height);
		c.font = FONT;
		c.textBaseline = "middle";
		this.charWidth = this.charWidth || c.measureText("mmmmmmmmmm").width / 10;
		const from = Math.max(0, Math.floor(offset / ROW));
		for (let row = from; row < this.rows.length && row * ROW - offset < height; row++)
			for (const place of this.rows[row])
				this.paintBox(place, row * ROW - offset, style);
	}

	paintBox(place, y, style) {
		const c = this.context, {box, x, w} = place;
		const hit = style.hits && box.frame >= 0 && style.hits[box.frame];
		c.globalAlpha = place.above ? 0.55 : style.hits && !hit ? 0.4 : 1;
		c.fillStyle = this.colourOf(place, style);
		c.fillRect(x, y, Math.max(w - (w > 3 ? 0.7 : 0.1), 0.6), ROW - 1);
		c.globalAlpha = 1;
		if (w > 3 * this.charWidth + 6) {
			c.fillStyle = hit ? style.palette.hitText : style.palette.text;
			c.fillText(this.label(box, Math.floor((w - 6) / this.charWidth), style),
				   x + 3, y + ROW / 2);
		}
		if (box === this.focus) {
			c.strokeStyle = style.palette.focus;
			c.lineWidth = 2;
			c.strokeRect(x + 1, y + 1, Math.max(w - 2.7, 1), ROW - 3);
		}
	}

	label(box, room, style) {
		const name = this.nameOf(box, style.rootName), place = this.tree.placeOf(box);
		let text = name;
		if (place && name.length + 8 < room) {
			const tail = place.slice(place.lastIndexOf("/") + 1);
			text = name + "  " +
			       (name.length + place.length + 2 <= room ? place : tail);
		}
		return text.length <= room ? text : text.slice(0, Math.max(room - 1, 1)) + "…";
	}

	nameOf(box, rootName) {
		if (box.rest)
			return `${formatWhole(box.kids.length)} smaller`;
		return box.parent ? frameName(this.tree.data, box.frame) : rootName;
	}

	rowAt(y) {
		return Math.floor((y + this.scroller.scrollTop) / ROW);
	}

	// The box at a place of the canvas, or null.
	at(x, y) {
		const row = this.rows[this.rowAt(y)];
		let low = 0, high = row ? row.length : 0;
		while (low < high) {
			const mid = (low + high) >> 1;
			if (row[mid].x + row[mid].w <= x)
				low = mid + 1;
			else
				high = mid;
		}
		return row && low < row.length && row[low].x <= x ? row[low].box : null;
	}

	// Where a box is drawn: {row, index}, or null.
	find(box) {
		return this.places.get(box) || null;
	}
}
