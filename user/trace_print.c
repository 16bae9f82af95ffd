// SPDX-License-Identifier: BSD-2-Clause
/* The reports of a run: on a terminal, in a file, or to whoever asked for them. */
#include "trace_priv.h"

#include <errno.h>
#include <string.h>

#include "log.h"
#include "report_style.h"

/* One process gives one object, unless there could have been more. */
static bool as_array(const struct trace *t)
{
	return !t->opts->merge && (t->nsessions != 1 || trace_may_be_many(t->opts));
}

int trace_print_report(struct trace *t, struct report *r, size_t index)
{
	struct report_style style;

	trace_add_losses(t, r);

	report_style_for(t->out, &style);
	style.clear = t->tty && index == 0;
	/* The last report stays: it may be longer than the screen. */
	if (r->final || t->nsessions > 1)
		style.height = 0;
	if (!t->opts->json)
		return report_text(t->out, r, &style);
	if (as_array(t))
		fputs(index ? ",\n" : "[\n", t->out);
	return report_json(t->out, r);
}

static int sink_reports(struct trace *t, bool final)
{
	struct drained d;
	int err = drain_tables(t->probes, &d);

	if (err)
		return err;
	for (size_t i = 0; i < t->nsessions && !err; i++) {
		struct report r;

		err = session_report(&t->sessions[i], t->probes, &d, t->opts, &r);
		if (err)
			break;
		r.final = final;
		trace_add_losses(t, &r);
		err = t->sink->report(t->sink->ctx, &r, &d);
		free(r.rows);
	}
	drained_free(&d);
	return err;
}

/* The last report is printed like any other: growth and rates are of the whole run. */
static void leave_screen(struct trace *t)
{
	t->screen->close(t->screen->ctx);
	t->opts = t->screen->final;
	t->sink = NULL;
	t->out = stdout;
	for (size_t i = 0; i < t->nsessions; i++) {
		/* The rows of a report that is kept point into it. */
		if (t->sessions[i].last)
			continue;
		aggregate_history_free(&t->sessions[i].history);
		t->sessions[i].history.when = 0;
	}
}

int trace_cannot_write(int err)
{
	/* The reader of a pipe has seen enough: no news. */
	if (err != -EPIPE)
		log_error("cannot write the report: %s", strerror(-err));
	return err;
}

static int print_each(struct trace *t, const struct drained *d, bool final)
{
	int err = 0;

	for (size_t i = 0; i < t->nsessions && !err; i++) {
		struct report r;

		err = session_report(&t->sessions[i], t->probes, d, t->opts, &r);
		if (err)
			break;
		r.final = final;
		err = trace_print_report(t, &r, i);
		free(r.rows);
		if (err)
			trace_cannot_write(err);
	}
	return err ? err : trace_print_refused(t);
}

int trace_print_reports(struct trace *t, bool final)
{
	struct drained d;
	int err;

	if (final && t->screen)
		leave_screen(t);
	if (t->sink)
		return sink_reports(t, final);
	err = drain_tables(t->probes, &d);
	if (err)
		return err;
	if (t->opts->output && ftruncate(fileno(t->out), 0) && errno != EINVAL)
		err = log_err_r(-errno, "cannot write %s: %s", t->opts->output, strerror(errno));
	if (!err)
		err = t->opts->merge ? trace_print_merged(t, &d, final) : print_each(t, &d, final);
	if (!err && t->opts->json && as_array(t))
		fputs(t->nsessions + t->nrefused ? "]\n" : "[]\n", t->out);
	if (fflush(t->out) && !err)
		err = trace_cannot_write(-errno);
	drained_free(&d);
	return err;
}
