// SPDX-License-Identifier: BSD-2-Clause
// Live heap against resident memory over the snapshots.

const SVG = "http://www.w3.org/2000/svg";

function svg(parent, name, attributes, text) {
	const element = document.createElementNS(SVG, name);
	for (const key of Object.keys(attributes))
		element.setAttribute(key, attributes[key]);
	if (text !== undefined)
		element.textContent = text;
	parent.appendChild(element);
	return element;
}

// A round number of bytes at or above v / parts.
function niceStep(v, parts) {
	let step = Math.pow(2, Math.floor(Math.log2(Math.max(v, 1) / parts)));
	while (step * parts < v)
		step *= 2;
	return step;
}

class Timeline {
	constructor(element, readout, series, marks) {
		this.element = element;
		this.readout = readout;
		this.series = series.map(([seconds, live, low, high, rss]) =>
						 ({seconds, live, low, high, rss}));
		this.marks = marks; // [{seconds, name}]
		element.addEventListener("pointermove", (e) => this.read(e));
		element.addEventListener("pointerleave", () => this.show(this.series.length - 1));
	}

	draw() {
		const {series, element} = this, box = element.getBoundingClientRect();
		const width = Math.max(box.width, 200), height = Math.max(box.height, 80);
		const last = series[series.length - 1].seconds || 1;
		const most = series.reduce((m, p) => Math.max(m, p.rss, p.high), 1);
		const step = niceStep(most, 4);
		this.x = (s) => 68 + (width - 80) * s / last;
		const y = (v) =>
			height - 20 - (height - 30) * Math.min(v / Math.max(most * 1.05, 1), 1);
		element.replaceChildren();
		element.setAttribute("viewBox", `0 0 ${width} ${height}`);
		svg(element, "title", {}, this.summary());
		for (let v = 0; v <= most * 1.05; v += step) {
			svg(element, "line",
			    {x1: 68, x2: width - 12, y1: y(v), y2: y(v), class: "grid"});
			svg(element, "text", {x: 62, y: y(v) + 4, "text-anchor": "end"},
			    formatBytes(v));
		}
		for (let i = 0; i <= 4; i++)
			svg(element, "text", {
				x: this.x(last * i / 4),
				y: height - 4,
				"text-anchor": i === 4 ? "end"
					       : i     ? "middle"
						       : "start"
			},
			    formatSeconds(last * i / 4));
		const path = (points, of) =>
			points.map((p, i) => (i ? "L" : "M") + this.x(p.seconds).toFixed(1) + " " +
					     y(of(p)).toFixed(1))
				.join("");
		const back = series.slice().reverse();
		svg(element, "path", {
			class: "band",
			d: path(series, (p) => p.high) +
				   path(back, (p) => p.low).replace("M", "L") + "Z"
		});
		svg(element, "path", {class: "rss", d: path(series, (p) => p.rss)});
		svg(element, "path", {class: "live", d: path(series, (p) => p.live)});
		for (const mark of this.marks)
			svg(element, "line", {
				class: "mark",
				x1: this.x(mark.seconds),
				x2: this.x(mark.seconds),
				y1: 8,
				y2: height - 20
			});
		for (const mark of this.marks)
			svg(element, "text", {
				x: this.x(mark.seconds) + (mark.seconds > last / 2 ? -4 : 4),
				y: 14,
				"text-anchor": mark.seconds > last / 2 ? "end" : "start",
				class: "marked"
			},
			    mark.name);
		this.hair = svg(element, "line", {
			class: "hair",
			x1: 0,
			x2: 0,
			y1: 8,
			y2: height - 20,
			visibility: "hidden"
		});
		this.show(series.length - 1);
	}

	summary() {
		const first = this.series[0], last = this.series[this.series.length - 1];
		return `Live heap from ${formatBytes(first.live)} to ${formatBytes(last.live)}, ` +
		       `RSS from ${formatBytes(first.rss)} to ${formatBytes(last.rss)}, ` +
		       `in ${formatSeconds(last.seconds)}`;
	}

	read(event) {
		const x = event.clientX - this.element.getBoundingClientRect().left;
		let best = 0;
		this.series.forEach((p, i) => {
			if (Math.abs(this.x(p.seconds) - x) <
			    Math.abs(this.x(this.series[best].seconds) - x))
				best = i;
		});
		this.show(best);
		this.hair.setAttribute("x1", this.x(this.series[best].seconds));
		this.hair.setAttribute("x2", this.x(this.series[best].seconds));
		this.hair.setAttribute("visibility", "visible");
	}

	show(index) {
		const p = this.series[index];
		const live =
			`${formatBytes(p.live)} (${formatBytes(p.low)} to ${formatBytes(p.high)})`;
		this.readout.textContent = `after ${formatSeconds(p.seconds)}: live ${live}, RSS ${
			formatBytes(p.rss)}`;
		if (this.hair)
			this.hair.setAttribute("visibility", "hidden");
	}
}
