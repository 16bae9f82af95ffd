// SPDX-License-Identifier: BSD-2-Clause
// The page: its state, controls, keys and tooltip.

const $ = (id) => document.getElementById(id);

class Page {
	constructor(data) {
		this.data = data;
		this.views = viewsOf(data);
		this.state = {
			view: 0,
			inverted: false,
			native: true,
			merge: false,
			growth: data.diff,
			search: "",
			dark: matchMedia("(prefers-color-scheme: dark)").matches
		};
		this.graph = new Graph($("graph"), $("scroller"));
		this.tooltip = new Tooltip(this, $("tooltip"));
		this.hits = null;
		fillHeader(data, $("title"), $("about"), $("notes"));
		$("coverage").textContent = this.headline();
		this.makeViews();
		this.makeTimeline();
		this.listen();
		$("growth").hidden = !data.sites.first;
		$("native").hidden = !data.frames.kind.includes(KIND_NATIVE);
		this.setDark(this.state.dark);
		this.rebuild([]);
	}

	headline() {
		const {now, first} = this.data.moments;
		const parts = this.data.diff ? [`${momentText(first)} → ${momentText(now)}`]
					     : [momentText(now)];
		return [
			"Python " + now.python, ...parts, "collector " + now.collector,
			"coverage " + coverageText(now), "sampling " + sampling(now)
		].join(" · ");
	}

	makeViews() {
		this.views.forEach((view, i) => {
			const button = document.createElement("button");
			button.type = "button";
			button.textContent = view.name;
			button.title = view.title;
			button.setAttribute("role", "radio");
			button.setAttribute("aria-label", `${view.name}: ${view.title}`);
			button.addEventListener("click", () => this.setView(i));
			$("views").append(button);
		});
	}

	makeTimeline() {
		const {series, moments, diff} = this.data;
		if (diff || series.length < 2)
			return;
		const marks = [];
		if (moments.first)
			marks.push({seconds: moments.first.duration, name: "first"});
		if (moments.peak)
			marks.push({seconds: moments.peak.duration, name: "peak"});
		if (moments.now.duration < series[series.length - 1][0])
			marks.push({seconds: moments.now.duration, name: "shown"});
		$("time").hidden = false;
		this.timeline = new Timeline($("timeline"), $("moment"), series, marks);
		this.timeline.draw();
	}

	// A new tree; path is the zoom to keep, as far as it is there.
	rebuild(path) {
		const view = this.views[this.state.view];
		this.tree = new BoxTree(this.data, {
			view,
			inverted: this.state.inverted,
			native: this.state.native,
			byFunction: this.state.merge
		});
		this.graph.focus = null;
		this.search(this.state.search);
		this.zoomTo(this.tree.follow(path));
		Array.from($("views").children).forEach((button, i) => {
			button.setAttribute("aria-checked", String(i === this.state.view));
			button.tabIndex = i === this.state.view ? 0 : -1;
		});
		for (const [id, on] of [["invert", "inverted"], ["native", "native"],
					["merge", "merge"], ["growth", "growth"]])
			$(id).setAttribute("aria-pressed", String(this.state[on]));
	}

	rootName() {
		const view = this.views[this.state.view];
		return `${view.name}: ${formatBytes(this.tree.root.value)}`;
	}

	zoomTo(box) {
		this.graph.layout(this.tree, box);
		this.graph.focus = box === this.tree.root ? null : box;
		$("room").style.height = this.graph.height() + "px";
		$("scroller").scrollTop = 0;
		$("reset").disabled = box === this.tree.root;
		this.fillCrumbs(box);
		const {pruned, pixelBytes} = this.graph, least = formatBytes(pixelBytes);
		$("pruned").textContent =
			pruned ? `${formatWhole(pruned)} frames below ${least} not shown` : "";
		this.describe();
		this.redraw();
	}

	fillCrumbs(box) {
		const path = [];
		for (; box; box = box.parent)
			path.unshift(box);
		const shown =
			path.length > 8 ? path.slice(0, 2).concat(null, path.slice(-5)) : path;
		$("crumbs").replaceChildren(...shown.map((step) => {
			const item = document.createElement("li"),
			      button = document.createElement("button");
			if (!step) {
				item.textContent = `… ${path.length - 7} more`;
				return item;
			}
			button.type = "button";
			button.textContent = this.graph.nameOf(step, "all");
			button.addEventListener("click", () => this.zoomTo(step));
			item.append(button);
			return item;
		}));
	}

	redraw() {
		if (this.pending)
			return;
		this.pending = true;
		requestAnimationFrame(() => {
			this.pending = false;
			this.graph.paint({
				palette: palettes[this.state.dark ? "dark" : "light"],
				growth: this.state.growth,
				hits: this.hits,
				rootName: this.rootName()
			});
			// For measuring: when the last frame was painted, and how many there were.
			this.painted = performance.now();
			this.firstPainted = this.firstPainted || this.painted;
			this.paints = (this.paints || 0) + 1;
		});
	}

	search(text) {
		const {matches, error} = findFrames(this.data, text);
		this.state.search = text;
		this.hits = text && !error ? matchedGroups(this.tree, matches) : null;
		$("search").setAttribute("aria-invalid", String(Boolean(error)));
		this.matched = this.hits ? matchedBytes(this.tree, matches) : 0;
		const share = this.tree.root.value > 0 ? this.matched / this.tree.root.value : 0;
		$("matched").textContent =
			error ||
			(this.hits ? `${formatShare(share)} matched, ${formatBytes(this.matched)}`
				   : "");
		this.redraw();
	}

	setView(i) {
		if (i >= this.views.length)
			return;
		this.state.view = i;
		this.rebuild(this.tree.pathOf(this.graph.zoom));
	}

	toggle(name) {
		if (name === "growth" && !this.data.sites.first)
			return;
		// Callers and callees have no paths in common.
		const path = name === "inverted" ? [] : this.tree.pathOf(this.graph.zoom);
		this.state[name] = !this.state[name];
		this.rebuild(path);
		this.fillLegend();
	}

	fillLegend() {
		const parts = [], palette = palettes[this.state.dark ? "dark" : "light"];
		const add = (colour, text) => {
			const key = document.createElement("span");
			key.className = "key";
			key.style.background = colour;
			parts.push(key, text);
		};
		if (this.state.growth) {
			add(`rgb(${palette.up})`, "grew");
			add(`rgb(${palette.down})`, "shrank");
		} else if (!$("native").hidden) {
			add(palette.native, "native");
		}
		$("legend").replaceChildren(...parts);
	}

	setDark(dark) {
		this.state.dark = dark;
		document.documentElement.dataset.theme = dark ? "dark" : "light";
		$("theme").textContent = dark ? "Light" : "Dark";
		this.fillLegend();
		if (this.tree)
			this.redraw();
	}

	describe() {
		const box = this.graph.focus, parts = [];
		if (box)
			parts.push(this.graph.nameOf(box, "all"), this.tree.placeOf(box),
				   ...boxFacts(this, box));
		$("focused").textContent = parts.filter(Boolean).join(", ");
	}

	boxUnder(event) {
		const canvas = $("graph").getBoundingClientRect();
		return this.graph.at(event.clientX - canvas.left, event.clientY - canvas.top);
	}

	setFocus(box) {
		if (!box)
			return;
		this.graph.focus = box;
		const top = (this.graph.find(box) || {row: 0}).row * ROW, scroller = $("scroller");
		if (top < scroller.scrollTop)
			scroller.scrollTop = top;
		else if (top + ROW > scroller.scrollTop + scroller.clientHeight)
			scroller.scrollTop = top + ROW - scroller.clientHeight;
		this.describe();
		this.redraw();
	}

	move(key) {
		const {graph} = this, place = graph.find(graph.focus);
		if (!place)
			return this.setFocus(graph.zoom);
		const row = graph.rows[place.row], next = graph.rows[place.row + 1] || [];
		if (key === "ArrowUp")
			this.setFocus(graph.focus.parent);
		else if (key === "ArrowDown")
			this.setFocus((next.find((p) => p.box.parent === graph.focus) || {}).box);
		else
			this.setFocus(
				(row[place.index + (key === "ArrowLeft" ? -1 : 1)] || {}).box);
	}

	escape() {
		if (this.state.search) {
			$("search").value = "";
			this.search("");
		} else {
			this.zoomTo(this.tree.root);
		}
		$("graph").focus();
	}

	key(event) {
		if (event.ctrlKey || event.metaKey || event.altKey || $("help").open)
			return;
		const typing = event.target === $("search");
		if (event.key === "Escape")
			this.escape();
		else if (typing && event.key === "Enter")
			$("graph").focus();
		else if (typing)
			return;
		else if (!this.pressed(event))
			return;
		event.preventDefault();
	}

	// Keys beside Escape outside of the search; whether it was one.
	pressed(event) {
		const toggles = {i: "inverted", n: "native", m: "merge", g: "growth"},
		      {key} = event;
		if (event.target.closest("#views") && key.startsWith("Arrow")) {
			const n = this.views.length,
			      step = key === "ArrowRight" || key === "ArrowDown" ? 1 : n - 1;
			this.setView((this.state.view + step) % n);
			$("views").children[this.state.view].focus();
		} else if (key.startsWith("Arrow")) {
			this.move(key);
		} else if (key === "Enter" && event.target.tagName !== "BUTTON") {
			this.zoomTo(this.graph.focus || this.tree.root);
		} else if (key === "Backspace") {
			this.zoomTo(this.graph.zoom.parent || this.tree.root);
		} else if (key === "/") {
			$("search").focus();
			$("search").select();
		} else if (key === "?") {
			$("help").showModal();
		} else if (key === "d") {
			this.setDark(!this.state.dark);
		} else if (toggles[key]) {
			this.toggle(toggles[key]);
		} else if (/^[1-9]$/.test(key)) {
			this.setView(Number(key) - 1);
		} else {
			return false;
		}
		return true;
	}

	listen() {
		const canvas = $("graph");
		canvas.addEventListener("click", (e) => {
			const box = this.boxUnder(e);
			if (box)
				this.zoomTo(box);
		});
		canvas.addEventListener(
			"pointermove",
			(e) => this.tooltip.show(this.boxUnder(e), e.clientX, e.clientY));
		canvas.addEventListener("pointerleave", () => this.tooltip.show(null, 0, 0));
		$("scroller").addEventListener("scroll", () => this.redraw());
		document.addEventListener("keydown", (e) => this.key(e));
		$("search").addEventListener("input", (e) => this.search(e.target.value));
		$("reset").addEventListener("click", () => this.zoomTo(this.tree.root));
		for (const [id, name] of [["invert", "inverted"], ["native", "native"],
					  ["merge", "merge"], ["growth", "growth"]])
			$(id).addEventListener("click", () => this.toggle(name));
		$("theme").addEventListener("click", () => this.setDark(!this.state.dark));
		matchMedia("(prefers-color-scheme: dark)")
			.addEventListener("change", (e) => this.setDark(e.matches));
		$("help-open").addEventListener("click", () => $("help").showModal());
		$("help-close").addEventListener("click", () => $("help").close());
		$("details").addEventListener("click", () => {
			$("about").hidden = !$("about").hidden;
			$("details").setAttribute("aria-expanded", String(!$("about").hidden));
		});
		new ResizeObserver(() => this.resized()).observe($("scroller"));
	}

	resized() {
		if (!this.graph.tree)
			return;
		if (this.graph.width !== $("scroller").clientWidth) {
			this.graph.layout(this.tree, this.graph.zoom);
			if (this.timeline)
				this.timeline.draw();
		}
		this.redraw();
	}
}

const data = readData(JSON.parse($("data").textContent));
const page = new Page(data);
