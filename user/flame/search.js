// SPDX-License-Identifier: BSD-2-Clause
// Which frames a search means, and what share of all has one of them in its stack.

// {matches: Uint8Array by frame, error: null or text}; an empty text matches nothing.
function findFrames(data, text) {
	const matches = new Uint8Array(data.frames.count), known = new Map();
	let regex;
	try {
		regex = new RegExp(text, /[A-Z]/.test(text) ? "u" : "iu");
	} catch (e) {
		return {matches, error: "not a regular expression"};
	}
	// Names and places are looked at once each.
	const test = (string) => {
		if (!known.has(string))
			known.set(string, regex.test(data.strings[string]));
		return known.get(string);
	};
	for (let i = 0; text && i < matches.length; i++)
		matches[i] = test(data.frames.fn[i]) || test(data.frames.file[i]) ||
					     (/\d/.test(text) && regex.test(framePlace(data, i)))
				     ? 1
				     : 0;
	return {matches, error: null};
}

// Bytes of a tree whose stack has a matching frame that is shown; each once.
function matchedBytes(tree, matches) {
	const {nodes, sites} = tree.data, hit = new Uint8Array(nodes.count);
	let sum = 0;
	for (let i = 1; i < nodes.count; i++)
		hit[i] = hit[nodes.parent[i]] || (matches[nodes.frame[i]] && !tree.hidden(i)) ? 1
											      : 0;
	for (let i = 0; i < sites.count; i++)
		if (hit[sites.node[i]])
			sum += tree.weights.value[i];
	return sum;
}

// Matches by box: boxes of several lines match where one of the lines does.
function matchedGroups(tree, matches) {
	const groups = new Uint8Array(matches.length);
	for (let i = 0; i < matches.length; i++)
		if (matches[i])
			groups[tree.groups[i]] = 1;
	return groups;
}
