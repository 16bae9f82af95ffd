// SPDX-License-Identifier: BSD-2-Clause
#define NCURSES_NOMACROS 1
#define NCURSES_WIDECHAR 1
#include "live_term.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <termios.h>
#include <wchar.h>

#include "live_ui.h"

/* Last: they define words like "lines". */
#include <curses.h>
#include <term.h>

/* How long the rest of a key's sequence may take behind its ESC, in ms. */
#define ESC_DELAY 25

struct live_term {
	SCREEN *screen;
	bool color;
	bool torn;   /* the last drawing did not go out as a whole: draw everything */
	u32 to_skip; /* drawings, as the terminal was stuck */
};

/* For signal handlers: what a terminal needs to be sent to be itself again. */
static struct {
	volatile sig_atomic_t armed;
	struct termios modes;
	char bytes[128];
	size_t len;
} rescue;

static const int deadly[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGQUIT, SIGSYS, SIGTRAP};

static void restore(void)
{
	size_t done = 0;

	if (!rescue.armed)
		return;
	rescue.armed = 0;
	while (done < rescue.len) {
		ssize_t n = write(STDOUT_FILENO, rescue.bytes + done, rescue.len - done);

		if (n <= 0)
			break;
		done += n;
	}
	tcsetattr(STDIN_FILENO, TCSANOW, &rescue.modes);
}

static void on_deadly(int sig)
{
	restore();
	raise(sig); /* SA_RESETHAND: now for real */
}

static void catch_deadly(bool on)
{
	struct sigaction sa = {.sa_handler = on ? on_deadly : SIG_DFL,
			       .sa_flags = on ? SA_RESETHAND | SA_NODEFER : 0};

	for (size_t i = 0; i < ARRAY_SIZE(deadly); i++)
		sigaction(deadly[i], &sa, NULL);
}

/* One string of terminfo, without the delays that nobody needs today. */
static void remember(const char *name)
{
	const char *s = tigetstr(name);

	if (!s || s == (const char *)-1)
		return;
	while (*s && rescue.len < sizeof(rescue.bytes)) {
		const char *end = s[0] == '$' && s[1] == '<' ? strchr(s, '>') : NULL;

		if (end)
			s = end + 1;
		else
			rescue.bytes[rescue.len++] = *s++;
	}
}

/* modes: as they were before curses came. */
static void arm(const struct termios *modes)
{
	static bool registered;
	static const char *const names[] = {"sgr0", "op", "cnorm", "rmkx", "rmcup"};

	rescue.modes = *modes;
	rescue.len = 0;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		remember(names[i]);
	if (!registered)
		atexit(restore);
	registered = true;
	rescue.armed = 1;
	catch_deadly(true);
}

static bool in_foreground(void)
{
	pid_t group = tcgetpgrp(STDIN_FILENO);

	return group < 0 || group == getpgrp();
}

bool live_term_usable(void)
{
	int found = 0;
	bool able;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !in_foreground())
		return false;
	if (setupterm(NULL, STDOUT_FILENO, &found) != OK)
		return false;
	able = cursor_address && clear_screen;
	del_curterm(cur_term);
	return able;
}

/* Output stopped by Ctrl-S would stop us, too. */
static void no_flow_control(void)
{
	struct termios modes;

	if (tcgetattr(STDIN_FILENO, &modes))
		return;
	modes.c_iflag &= ~(tcflag_t)IXON;
	tcsetattr(STDIN_FILENO, TCSANOW, &modes);
	def_prog_mode();
}

static bool start_colors(void)
{
	static const short colors[INK_NR] = {
		[INK_RED] = COLOR_RED,
		[INK_GREEN] = COLOR_GREEN,
		[INK_YELLOW] = COLOR_YELLOW,
		[INK_CYAN] = COLOR_CYAN,
	};
	const char *no_color = getenv("NO_COLOR");
	short ground = -1;

	if ((no_color && *no_color) || !has_colors() || start_color() != OK)
		return false;
	if (use_default_colors() != OK)
		ground = COLOR_BLACK;
	for (int i = INK_RED; i < INK_NR; i++)
		init_pair((short)i, colors[i], ground);
	return true;
}

int live_term_open(struct live_term **out)
{
	struct termios modes;
	struct live_term *t;

	if (tcgetattr(STDIN_FILENO, &modes))
		return -errno;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	/* The window's size is what the terminal says, not what the environment does. */
	use_env(FALSE);
	use_tioctl(TRUE);
	t->screen = newterm(NULL, stdout, stdin);
	if (!t->screen) {
		free(t);
		return -ENOTTY;
	}
	arm(&modes);
	set_escdelay(ESC_DELAY);
	cbreak();
	noecho();
	no_flow_control();
	nodelay(stdscr, TRUE);
	keypad(stdscr, TRUE);
	curs_set(0);
	t->color = start_colors();
	live_term_resized(t);
	*out = t;
	return 0;
}

void live_term_close(struct live_term *t)
{
	if (!t)
		return;
	endwin();
	catch_deadly(false);
	restore();
	delscreen(t->screen);
	free(t);
}

void live_term_size(const struct live_term *t, int *width, int *height)
{
	(void)t;
	*width = getmaxx(stdscr);
	*height = getmaxy(stdscr);
}

void live_term_resized(struct live_term *t)
{
	struct winsize ws;

	(void)t;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) || !ws.ws_row || !ws.ws_col)
		return;
	if (ws.ws_row != getmaxy(stdscr) || ws.ws_col != getmaxx(stdscr))
		resizeterm(ws.ws_row, ws.ws_col);
	clearok(curscr, TRUE);
}

static void set_ink(const struct live_term *t, const struct canvas_cell *cell)
{
	attr_t attr = cell->ink == INK_BOLD ? A_BOLD : cell->ink == INK_DIM ? A_DIM : A_NORMAL;
	short pair = t->color && cell->ink >= INK_RED ? cell->ink : 0;

	if (cell->marked)
		attr |= A_REVERSE;
	attr_set(attr, pair, NULL);
}

/* A terminal that takes nothing for so long is stuck (a dead link, a stopped emulator). */
#define PATIENCE_US 500000
/* Then it is left alone for so many drawings. */
#define REST 20

static volatile sig_atomic_t stuck;

/* Curses writes until all is written: what nobody reads is thrown away, so that it can go on. */
static void on_alarm(int sig)
{
	(void)sig;
	stuck = 1;
	tcflush(STDOUT_FILENO, TCOFLUSH);
}

/* doupdate() in bounded time; false: not all of it went out. */
static bool update(void)
{
	const struct itimerval on = {.it_value.tv_usec = PATIENCE_US, .it_interval.tv_usec = 10000};
	const struct itimerval off = {0};
	struct sigaction sa = {.sa_handler = on_alarm}, before;

	stuck = 0;
	sigaction(SIGALRM, &sa, &before);
	setitimer(ITIMER_REAL, &on, NULL);
	doupdate();
	setitimer(ITIMER_REAL, &off, NULL);
	sigaction(SIGALRM, &before, NULL);
	return !stuck;
}

static bool takes_output(void)
{
	struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};

	return poll(&p, 1, 0) == 1 && p.revents & POLLOUT;
}

void live_term_show(struct live_term *t, const struct canvas *c, bool full)
{
	erase();
	for (int y = 0; y < c->height; y++) {
		for (int x = 0; x < c->width; x++) {
			const struct canvas_cell *cell = canvas_at(c, y, x);

			if (!*cell->text)
				continue;
			set_ink(t, cell);
			mvaddstr(y, x, cell->text);
		}
	}
	if (full || t->torn)
		clearok(curscr, TRUE);
	wnoutrefresh(stdscr);
	if (t->to_skip && !full) {
		t->to_skip--;
		return;
	}
	t->to_skip = 0;
	if (!takes_output())
		return;
	t->torn = !update();
	if (t->torn)
		t->to_skip = REST;
}

static u32 translate(wint_t code)
{
	static const struct {
		wint_t code;
		u32 key;
	} keys[] = {
		{KEY_UP, LIVE_KEY_UP},
		{KEY_DOWN, LIVE_KEY_DOWN},
		{KEY_LEFT, LIVE_KEY_LEFT},
		{KEY_RIGHT, LIVE_KEY_RIGHT},
		{KEY_PPAGE, LIVE_KEY_PAGE_UP},
		{KEY_NPAGE, LIVE_KEY_PAGE_DOWN},
		{KEY_HOME, LIVE_KEY_HOME},
		{KEY_END, LIVE_KEY_END},
		{KEY_BACKSPACE, LIVE_KEY_BACKSPACE},
		{KEY_BTAB, LIVE_KEY_BACKTAB},
		{KEY_ENTER, LIVE_KEY_ENTER},
		{KEY_RESIZE, LIVE_KEY_REDRAW},
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (keys[i].code == code)
			return keys[i].key;
	return LIVE_KEY_OTHER;
}

int live_term_key(struct live_term *t, u32 *key)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	wint_t code = 0;
	int got = get_wch(&code);

	(void)t;
	if (got == KEY_CODE_YES)
		*key = translate(code);
	else if (got == OK)
		*key = code == 0x7f || code == '\b' ? LIVE_KEY_BACKSPACE
		       : code == '\r'		    ? '\n'
						    : code;
	else
		return poll(&p, 1, 0) == 1 && p.revents & (POLLIN | POLLHUP | POLLERR) ? -EIO : 0;
	return 1;
}
