// SPDX-License-Identifier: BSD-2-Clause
#include "progress.h"

#include <langinfo.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>

#include "escape.h"
#include "report_units.h"

/* Work that is quicker shows nothing; then so often. */
#define DELAY_NS  500000000ull
#define PERIOD_NS 200000000ull

static struct {
	const char *what; /* the work under way */
	u64 next;	  /* when to print again */
	bool shown, forbidden;
} state;

static u64 now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* Who reads our output from a pipe may be a pager: the terminal is its own then. */
static bool output_is_piped(void)
{
	struct stat st;

	return !fstat(STDOUT_FILENO, &st) && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
}

static bool wanted(void)
{
	static int terminal = -1;
	const char *term;

	if (terminal < 0) {
		term = getenv("TERM");
		terminal = isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") &&
			   !output_is_piped();
	}
	return terminal && !state.forbidden;
}

static int columns(void)
{
	struct winsize ws;

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &ws) || !ws.ws_col ? 80 : ws.ws_col;
}

static void print(const char *line)
{
	/* One write: a line in parts would flicker. */
	fprintf(stderr, "\r%s\033[K", line);
	fflush(stderr);
	state.shown = true;
}

void progress_line(char *buf, size_t size, const char *what, u64 done, u64 total, int width)
{
	bool ascii = strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
	char count[UNITS_MAX], text[256], safe[1024];

	if (total)
		units_share(count, done < total ? (double)done / total : 1, true);
	else
		units_count(count, (double)done);
	snprintf(text, sizeof(text), "%s: %s", what, count);
	escape_text(safe, sizeof(safe), text, ascii);
	/* The last column stays free: some terminals go to the next line behind it. */
	escape_clip(buf, size, safe, width - 1, CLIP_RIGHT, "..");
}

void progress_at(const char *what, u64 done, u64 total)
{
	char line[1100];
	u64 now;

	if (!wanted())
		return;
	now = now_ns();
	if (what != state.what) {
		state.what = what;
		/* Another part of work that is seen already takes its place at once. */
		if (!state.shown)
			state.next = now + DELAY_NS;
	}
	if (now < state.next)
		return;
	state.next = now + PERIOD_NS;
	progress_line(line, sizeof(line), what, done, total, columns());
	print(line);
}

void progress_say(const char *text)
{
	char safe[1024], line[1100];

	if (!wanted())
		return;
	escape_text(safe, sizeof(safe), text, strcmp(nl_langinfo(CODESET), "UTF-8") != 0);
	escape_clip(line, sizeof(line), safe, columns() - 1, CLIP_RIGHT, "..");
	print(line);
}

void progress_hide(void)
{
	if (!state.shown)
		return;
	fputs("\r\033[K", stderr);
	fflush(stderr);
	state.shown = false;
}

void progress_end(void)
{
	progress_hide();
	state.what = NULL;
}

void progress_forbid(bool forbid)
{
	if (forbid)
		progress_end();
	state.forbidden = forbid;
}
