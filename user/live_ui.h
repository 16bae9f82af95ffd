/* SPDX-License-Identifier: BSD-2-Clause */
/* The live view between keyboard and screen: what a key does, what there is to draw. */
#ifndef PHT_LIVE_UI_H
#define PHT_LIVE_UI_H

#include "live_canvas.h"
#include "live_model.h"

/* Keys that are no characters; characters are their code points. */
enum live_key {
	LIVE_KEY_UP = 0x110000,
	LIVE_KEY_DOWN,
	LIVE_KEY_LEFT,
	LIVE_KEY_RIGHT,
	LIVE_KEY_PAGE_UP,
	LIVE_KEY_PAGE_DOWN,
	LIVE_KEY_HOME,
	LIVE_KEY_END,
	LIVE_KEY_BACKSPACE,
	LIVE_KEY_BACKTAB,
	LIVE_KEY_REDRAW,
	LIVE_KEY_OTHER,
};
#define LIVE_KEY_ESC   27
#define LIVE_KEY_ENTER '\n'
#define LIVE_KEY_TAB   '\t'

struct live_ui {
	struct live_model **models; /* one per process, in order of arrival; owned */
	size_t nmodels, at;	    /* at: the one on the screen */
	struct live_settings first; /* how to look at the next process */
	int page;		    /* lines of the table, found when drawing */
	bool help;
	bool typing; /* the filter; draft is what it was before */
	struct live_settings draft;
	char message[256]; /* escaped; until the next key */
	bool warn;	   /* it is a warning */
	bool ascii;
	bool threads; /* threads are known: rows can be grouped by them */
	bool full;    /* draw everything anew: the terminal may have been written over */
};

enum live_verdict { LIVE_GO_ON, LIVE_QUIT };

void live_ui_init(struct live_ui *ui, enum group_by group_by, bool ascii);
void live_ui_free(struct live_ui *ui);

/* The model of a process, made when first seen; NULL: no memory. */
struct live_model *live_ui_model(struct live_ui *ui, pid_t pid);
/* The model shown, or NULL. */
struct live_model *live_ui_shown(const struct live_ui *ui);

/* enum live_verdict or -ENOMEM. */
int live_ui_key(struct live_ui *ui, u32 key);
void live_ui_say(struct live_ui *ui, bool warn, const char *text); /* text is escaped here */

/* Draw all of it; 0 or -ENOMEM. */
int live_draw(struct live_ui *ui, struct canvas *c, int width, int height);

/* Parts of it, for live_draw*.c. */
int live_draw_header(const struct live_ui *ui, struct canvas *c);
void live_draw_list(struct live_ui *ui, struct canvas *c, int top, int lines);
void live_draw_help(struct live_ui *ui, struct canvas *c);
const char *live_group_name(enum group_by by);
const char *live_column_name(enum live_column column);

#endif
