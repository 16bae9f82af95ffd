// SPDX-License-Identifier: BSD-2-Clause
// What is known of a box, in lines, beside the mouse.

function valueFact(page, box, sums) {
	const view = page.views[page.state.view], text = `${formatBytes(box.value)} ${view.title}`;
	if (!view.moment)
		return text;
	const {interval} = page.data.moments[view.moment];
	return text + formatInterval(intervalOf(sums[view.moment], interval), formatBytes);
}

function changeFact(page, sums) {
	const {now, first} = page.data.moments, {sameRun} = page.data;
	const d = differenceOf(sums.first, first.interval, sums.now, now.interval, sameRun);
	const noise = d.value !== 0 && d.low <= 0 && d.high >= 0 ? "; may be noise" : "";
	const interval = formatInterval(d, formatSignedBytes);
	return `change ${formatSignedBytes(d.value)}${interval}${noise}`;
}

function boxFacts(page, box) {
	const {root} = page.tree, {zoom} = page.graph, sums = page.tree.sumsOf(box);
	const shareOf = (whole) => formatShare(whole.value > 0 ? box.value / whole.value : 0);
	const lines = [valueFact(page, box, sums)];
	lines.push(`${shareOf(root)} of all, ${formatCount(sums.blocks)} blocks`);
	if (zoom.parent && box !== zoom)
		lines.push(`${shareOf(zoom)} of the zoomed frame`);
	if (page.data.sites.first)
		lines.push(changeFact(page, sums));
	return lines;
}

class Tooltip {
	constructor(page, element) {
		this.page = page;
		this.element = element;
		this.box = null;
	}

	// box null: hide it.
	show(box, x, y) {
		this.element.hidden = !box;
		if (box && box !== this.box)
			this.fill(box);
		this.box = box;
		this.place(x, y);
	}

	fill(box) {
		const {page} = this, add = (text, name) => {
			const line = document.createElement("div");
			line.textContent = text;
			line.className = name;
			this.element.append(line);
		};
		this.element.replaceChildren();
		add(page.graph.nameOf(box, page.rootName()), "name");
		add(page.tree.placeOf(box), "place");
		for (const fact of boxFacts(page, box))
			add(fact, "fact");
	}

	// Beside the mouse, and within the window.
	place(x, y) {
		const box = this.element.getBoundingClientRect();
		const left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 6));
		const above = y + 18 + box.height > innerHeight;
		this.element.style.left = left + "px";
		this.element.style.top = (above ? Math.max(4, y - box.height - 10) : y + 18) + "px";
	}
}
