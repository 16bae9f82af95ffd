// SPDX-License-Identifier: BSD-2-Clause
// Which process, how it was traced, and what is not known.

function fact(list, name, text) {
	const term = document.createElement("dt"), value = document.createElement("dd");
	term.textContent = name;
	value.textContent = text;
	list.append(term, value);
}

function processName(moment) {
	return `${moment.comm || "?"} (pid ${moment.pid})`;
}

function momentText(moment) {
	const when =
		moment.time_ms
			? new Date(moment.time_ms).toISOString().replace("T", " ").slice(0, 19) +
				  " UTC"
			: "";
	return `after ${formatSeconds(moment.duration || 0)}${when ? ", " + when : ""}`;
}

function sampling(moment) {
	return moment.interval > 1 ? `1 per ${formatBytes(moment.interval)}` : "every allocation";
}

function coverageText(moment) {
	const share =
		moment.coverage_share === null
			? ""
			: `, ${formatShare(moment.coverage_share)} of live bytes block by block`;
	const complete = moment.complete ? "complete" : "partial",
	      words = moment.coverage || "unknown";
	return `${complete}${share}: ${words}`;
}

function collectorText(moment) {
	const slow = moment.overhead === null
			     ? ""
			     : `; the process ran ${formatShare(moment.overhead)} slower`;
	return moment.collector + (moment.wrote ? `, wrote ${moment.wrote} into the process` : "") +
	       slow;
}

// Losses of any moment shown; of one run they only grow, so the largest count is the last.
function lossesOf(data) {
	const found = new Map();
	for (const moment of Object.values(data.moments))
		for (const loss of moment.losses) {
			const known = found.get(loss.name);
			if (!known || known.count < loss.count)
				found.set(loss.name, loss);
		}
	return Array.from(found.values());
}

function fillHeader(data, title, list, notes) {
	const {now, first} = data.moments;
	title.textContent =
		data.diff ? `${processName(first)} → ${processName(now)}` : processName(now);
	document.title = `${title.textContent} – pyheaptrace`;
	fact(list, "Python", now.python || "unknown");
	if (data.diff) {
		fact(list, "before", momentText(first));
		fact(list, "after", momentText(now));
	} else {
		fact(list, "duration", momentText(now) + (now.end ? `; ${now.end}` : ""));
	}
	fact(list, "collector", collectorText(now));
	fact(list, "coverage", coverageText(now));
	fact(list, "sampling",
	     data.diff && first.interval !== now.interval
		     ? `${sampling(first)}, then ${sampling(now)}`
		     : sampling(now));
	fact(list, "RSS", formatBytes(now.rss));
	for (const loss of lossesOf(data))
		note(notes, `lost: ${formatWhole(loss.count)} ${loss.text}`);
	if (data.pruned.count) {
		const count = formatWhole(data.pruned.count),
		      share = formatShare(data.pruned.share);
		note(notes, `${count} frames below ${share} of every total are not in this page; ` +
				    "their bytes count for their callers");
	}
	if (data.namesCut)
		note(notes, `${formatWhole(data.namesCut)} names were cut`);
}

function note(list, text) {
	const item = document.createElement("li");
	item.textContent = text;
	list.append(item);
	list.hidden = false;
}
