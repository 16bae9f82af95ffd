// SPDX-License-Identifier: BSD-2-Clause
#include "live.h"

#include <errno.h>
#include <langinfo.h>
#include <string.h>

#include "live_term.h"
#include "live_ui.h"
#include "log.h"
#include "progress.h"
#include "session.h"
#include "trace.h"

/* Refreshes may come more often than anybody can read. */
#define MIN_SECONDS_BETWEEN 0.25
/* Keys taken at a time; the rest waits for the next round of the loop. */
#define MAX_KEYS 256
#define MAX_KEPT 64

struct live {
	struct live_ui ui;
	struct canvas canvas;
	struct live_term *term; /* NULL until there is something to show */
	double drawn;		/* CLOCK_MONOTONIC seconds */
	/* Messages that came meanwhile: printed when the terminal is back. */
	char *kept[MAX_KEPT];
	size_t nkept;
	u64 dropped;
};

bool live_possible(const struct opts *opts)
{
	return !opts->plain && !opts->merge && !opts->follow && !choose_any(&opts->choose) &&
	       opts->metric == METRIC_LIVE && !opts->json && !opts->output && live_term_usable();
}

static int draw(struct live *l)
{
	int width, height, err;

	live_term_size(l->term, &width, &height);
	err = live_draw(&l->ui, &l->canvas, width, height);
	if (err)
		return log_err_r(err, "out of memory");
	live_term_show(l->term, &l->canvas, l->ui.full);
	l->ui.full = false;
	l->drawn = monotonic_seconds();
	return 0;
}

static void on_message(void *ctx, const char *line)
{
	struct live *l = ctx;
	char *copy = l->nkept < MAX_KEPT ? strdup(line) : NULL;

	live_ui_say(&l->ui, true, line);
	if (copy)
		l->kept[l->nkept++] = copy;
	else
		l->dropped++;
}

static int start(struct live *l)
{
	int err = live_term_open(&l->term);

	if (err)
		return log_err_r(err, "cannot use this terminal: %s (try --plain)", strerror(-err));
	log_divert(on_message, l);
	progress_forbid(true);
	return 0;
}

static void stop(void *ctx)
{
	struct live *l = ctx;

	if (!l->term)
		return;
	live_term_close(l->term);
	l->term = NULL;
	log_divert(NULL, NULL);
	progress_forbid(false);
	for (size_t i = 0; i < l->nkept; i++) {
		fprintf(stderr, "%s\n", l->kept[i]);
		free(l->kept[i]);
	}
	l->nkept = 0;
	if (l->dropped)
		log_warn("%llu more messages", (unsigned long long)l->dropped);
}

static int nothing_to_open(void *ctx)
{
	(void)ctx;
	return 0;
}

static int report(void *ctx, const struct report *r, const struct drained *d)
{
	struct live *l = ctx;
	struct live_model *m = live_ui_model(&l->ui, r->pid);
	int err = m ? live_model_feed(m, r) : -ENOMEM;
	bool due = monotonic_seconds() - l->drawn >= MIN_SECONDS_BETWEEN || r->end_reason;

	(void)d;
	if (err)
		return log_err_r(err, "cannot make a snapshot: %s", strerror(-err));
	if (!l->term)
		err = start(l);
	return err || m != live_ui_shown(&l->ui) || !due ? err : draw(l);
}

static int typed(void *ctx)
{
	struct live *l = ctx;
	int got = 0, verdict;
	u32 key;

	/* Somebody is waiting already. */
	if (!l->term && (verdict = start(l)) < 0)
		return verdict;
	for (int i = 0; i < MAX_KEYS && (got = live_term_key(l->term, &key)) > 0; i++) {
		verdict = live_ui_key(&l->ui, key);
		if (verdict == LIVE_QUIT)
			return 1;
		if (verdict < 0)
			return log_err_r(verdict, "out of memory");
	}
	/* Nobody is there any more. */
	return got < 0 ? 1 : draw(l);
}

static int resized(void *ctx)
{
	struct live *l = ctx;

	if (!l->term)
		return 0;
	live_term_resized(l->term);
	return draw(l);
}

int live_main(const struct opts *opts)
{
	struct live l = {0};
	struct opts by_stack = *opts;
	const struct trace_sink sink = {nothing_to_open, report, &l};
	const struct trace_screen screen = {
		.input = STDIN_FILENO,
		.typed = typed,
		.resized = resized,
		.close = stop,
		.final = opts,
		.ctx = &l,
	};
	int rc;

	/* Rows are grouped here, in whatever way is asked for at the moment. */
	by_stack.group_by = GROUP_TRACEBACK;
	live_ui_init(&l.ui, opts->group_by, strcmp(nl_langinfo(CODESET), "UTF-8") != 0);
	l.ui.threads = opts->threads;
	rc = trace_on_screen(&by_stack, &sink, &screen);
	canvas_free(&l.canvas);
	live_ui_free(&l.ui);
	return rc;
}
