// SPDX-License-Identifier: BSD-2-Clause
/* The help page of the live view. */
#include "live_ui.h"

#define KEYS 22

static const struct {
	const char *keys, *text;
} help[] = {
	{"Up Down PgUp PgDn", "select a row (also k, j)"},
	{"Home End", "the first and the last row"},
	{"Enter", "who called the row; there: fold and unfold"},
	{"Esc", "back; drop the filter"},
	{"s S  or  > <", "sort by the next, the previous column"},
	{"r", "reverse the order"},
	{"g", "group by line, function, file, traceback; thread, with --threads"},
	{"/", "filter: part of a function's or file's name, or a pattern with * ?"},
	{"p  or  Space", "pause the display, go on; sampling never stops"},
	{"b", "mark a baseline: the column SINCE shows the growth from there"},
	{"B", "clear the baseline"},
	{"Tab", "the next process, where several are traced"},
	{"Ctrl-L", "draw the screen anew"},
	{"h  or  ?", "this help"},
	{"q  or  Ctrl-C", "quit, with the final report"},
	{"", ""},
	{"LIVE", "allocated since attach and not freed, estimated from samples"},
	{"95%", "how far off LIVE may be"},
	{"SHARE", "of all that is live; of the row, for its callers"},
	{"GROWTH", "the change of LIVE since the last refresh"},
	{"SINCE", "the change since the baseline; dim where it may be chance"},
	{"RATE", "allocated a second, freed again or not"},
};

void live_draw_help(struct live_ui *ui, struct canvas *c)
{
	(void)ui;
	canvas_put(c, 0, 0, c->width, INK_BOLD, "Keys (any key: back)");
	for (size_t i = 0; i < ARRAY_SIZE(help) && (int)i + 2 < c->height; i++) {
		canvas_put(c, (int)i + 2, 1, KEYS - 2, INK_CYAN, help[i].keys);
		canvas_put(c, (int)i + 2, KEYS, c->width - KEYS, INK_PLAIN, help[i].text);
	}
}
