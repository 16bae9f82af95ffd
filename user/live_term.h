/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The terminal of the live view; the only file that knows curses.  However
 * the process ends, short of SIGKILL, the terminal is as it was.
 */
#ifndef PHT_LIVE_TERM_H
#define PHT_LIVE_TERM_H

#include "live_canvas.h"

struct live_term; /* opaque; one at a time */

/* Standard input and output are one terminal, ours to use, and it can place the cursor. */
bool live_term_usable(void);

int live_term_open(struct live_term **out); /* 0 or -errno */
void live_term_close(struct live_term *t);  /* NULL is fine */

void live_term_size(const struct live_term *t, int *width, int *height);
/* The window has another size. */
void live_term_resized(struct live_term *t);
/* full: whatever the terminal shows now.  Left out while it takes nothing (Ctrl-S, a dead link). */
void live_term_show(struct live_term *t, const struct canvas *c, bool full);

/* 1: a key (live_ui.h) is in *key; 0: none for now; -EIO: the terminal is gone. */
int live_term_key(struct live_term *t, u32 *key);

#endif
