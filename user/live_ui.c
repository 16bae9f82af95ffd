// SPDX-License-Identifier: BSD-2-Clause
/* What the keys of the live view do. */
#include "live_ui.h"

#include <errno.h>
#include <string.h>

#include "report_units.h"

#define CTRL(c) ((c)&0x1f)

void live_ui_init(struct live_ui *ui, enum group_by group_by, bool ascii)
{
	*ui = (struct live_ui){.first.group_by = group_by, .page = 1, .ascii = ascii};
}

void live_ui_free(struct live_ui *ui)
{
	for (size_t i = 0; i < ui->nmodels; i++)
		live_model_free(ui->models[i]);
	free(ui->models);
	ui->models = NULL;
	ui->nmodels = ui->at = 0;
}

struct live_model *live_ui_model(struct live_ui *ui, pid_t pid)
{
	struct live_model *m, **models;

	for (size_t i = 0; i < ui->nmodels; i++)
		if (ui->models[i]->pid == pid)
			return ui->models[i];
	models = reallocarray(ui->models, ui->nmodels + 1, sizeof(*models));
	if (!models)
		return NULL;
	ui->models = models;
	m = live_model_new(&ui->first);
	if (!m)
		return NULL;
	m->pid = pid;
	models[ui->nmodels++] = m;
	return m;
}

struct live_model *live_ui_shown(const struct live_ui *ui)
{
	return ui->at < ui->nmodels ? ui->models[ui->at] : NULL;
}

void live_ui_say(struct live_ui *ui, bool warn, const char *text)
{
	escape_text(ui->message, sizeof(ui->message), text, ui->ascii);
	ui->warn = warn;
}

static int apply(struct live_ui *ui, const struct live_settings *set)
{
	int err = live_model_set(live_ui_shown(ui), set);

	if (!err)
		ui->first = *set;
	return err;
}

static int next_column(struct live_ui *ui, int step)
{
	const struct live_model *m = live_ui_shown(ui);
	struct live_settings set = m->set;
	int n = m->has_base ? LIVE_COLUMNS : LIVE_SINCE;

	set.sort = (enum live_column)(((int)set.sort + step + n) % n);
	return apply(ui, &set);
}

static int next_group(struct live_ui *ui)
{
	static const enum group_by after[] = {
		[GROUP_LINE] = GROUP_FUNCTION,	[GROUP_FUNCTION] = GROUP_FILE,
		[GROUP_FILE] = GROUP_TRACEBACK, [GROUP_TRACEBACK] = GROUP_THREAD,
		[GROUP_THREAD] = GROUP_LINE,
	};
	struct live_settings set = live_ui_shown(ui)->set;

	set.group_by = after[set.group_by];
	if (set.group_by == GROUP_THREAD && !ui->threads)
		set.group_by = after[set.group_by];
	return apply(ui, &set);
}

static int reverse(struct live_ui *ui)
{
	struct live_settings set = live_ui_shown(ui)->set;

	set.reverse = !set.reverse;
	return apply(ui, &set);
}

static int next_process(struct live_ui *ui, size_t step)
{
	struct live_settings set = live_ui_shown(ui)->set;

	if (ui->nmodels < 2)
		return 0;
	ui->at = (ui->at + step) % ui->nmodels;
	/* What is sorted by a baseline here may have none there. */
	if (set.sort == LIVE_SINCE && !live_ui_shown(ui)->has_base)
		set.sort = LIVE_LIVE;
	return live_model_set(live_ui_shown(ui), &set);
}

static void pause_or_go(struct live_ui *ui)
{
	bool paused = !live_ui_shown(ui)->paused;

	for (size_t i = 0; i < ui->nmodels; i++)
		ui->models[i]->paused = paused;
	if (paused)
		live_ui_say(ui, false, "The display stands; sampling goes on. p: go on");
}

static int mark(struct live_ui *ui)
{
	struct live_model *m = live_ui_shown(ui);
	char at[UNITS_MAX], text[128];
	int err = live_model_mark(m);

	if (err)
		return err;
	snprintf(text, sizeof(text),
		 "Baseline marked at %s: SINCE is the growth from here. B: clear",
		 units_seconds(at, m->now.duration));
	live_ui_say(ui, false, text);
	return 0;
}

static int clear_mark(struct live_ui *ui)
{
	int err = live_model_clear(live_ui_shown(ui));

	if (ui->first.sort == LIVE_SINCE)
		ui->first.sort = LIVE_LIVE;
	return err;
}

static int enter(struct live_ui *ui)
{
	struct live_model *m = live_ui_shown(ui);

	return m->callers.open ? live_model_fold(m) : live_model_open_callers(m);
}

/* Out of what was opened last. */
static int leave(struct live_ui *ui)
{
	struct live_model *m = live_ui_shown(ui);
	struct live_settings set = m->set;

	if (m->callers.open) {
		live_model_close_callers(m);
		return 0;
	}
	if (!*set.filter)
		return 0;
	*set.filter = '\0';
	return apply(ui, &set);
}

static void start_typing(struct live_ui *ui)
{
	ui->typing = true;
	ui->draft = live_ui_shown(ui)->set;
}

static bool move(struct live_model *m, u32 key, int page)
{
	switch (key) {
	case LIVE_KEY_UP:
	case 'k':
		live_model_move(m, -1);
		return true;
	case LIVE_KEY_DOWN:
	case 'j':
		live_model_move(m, 1);
		return true;
	case LIVE_KEY_PAGE_UP:
	case CTRL('b'):
		live_model_move(m, -page);
		return true;
	case LIVE_KEY_PAGE_DOWN:
	case CTRL('f'):
		live_model_move(m, page);
		return true;
	case LIVE_KEY_HOME:
		live_model_home(m);
		return true;
	case LIVE_KEY_END:
	case 'G':
		live_model_end(m);
		return true;
	default:
		return false;
	}
}

/* A key while the table or the callers are on the screen: 0 or -ENOMEM. */
static int command(struct live_ui *ui, u32 key)
{
	switch (key) {
	case 's':
	case '>':
		return next_column(ui, 1);
	case 'S':
	case '<':
		return next_column(ui, -1);
	case 'r':
		return reverse(ui);
	case 'g':
		return next_group(ui);
	case '/':
		start_typing(ui);
		return 0;
	case LIVE_KEY_ENTER:
	case LIVE_KEY_RIGHT:
		return enter(ui);
	case LIVE_KEY_ESC:
	case LIVE_KEY_LEFT:
	case LIVE_KEY_BACKSPACE:
		return leave(ui);
	case 'p':
	case ' ':
		pause_or_go(ui);
		return 0;
	case 'b':
		return mark(ui);
	case 'B':
		return clear_mark(ui);
	case LIVE_KEY_TAB:
		return next_process(ui, 1);
	case LIVE_KEY_BACKTAB:
		return next_process(ui, ui->nmodels - 1);
	default:
		return 0;
	}
}

static void delete_last(char *text)
{
	size_t len = strlen(text);

	while (len && ((u8)text[len - 1] & 0xc0) == 0x80)
		len--;
	if (len)
		len--;
	text[len] = '\0';
}

static void append(char *text, size_t size, u32 cp)
{
	size_t len = strlen(text);
	char one[5] = "";

	if (cp < 0x80)
		one[0] = (char)cp;
	else if (cp < 0x800)
		snprintf(one, sizeof(one), "%c%c", 0xc0 | cp >> 6, 0x80 | (cp & 0x3f));
	else if (cp < 0x10000)
		snprintf(one, sizeof(one), "%c%c%c", 0xe0 | cp >> 12, 0x80 | (cp >> 6 & 0x3f),
			 0x80 | (cp & 0x3f));
	else
		snprintf(one, sizeof(one), "%c%c%c%c", 0xf0 | cp >> 18, 0x80 | (cp >> 12 & 0x3f),
			 0x80 | (cp >> 6 & 0x3f), 0x80 | (cp & 0x3f));
	if (len + strlen(one) < size)
		memcpy(text + len, one, strlen(one) + 1);
}

/* A key while the filter is typed; the table follows every one. */
static int type(struct live_ui *ui, u32 key)
{
	struct live_settings set = live_ui_shown(ui)->set;

	switch (key) {
	case LIVE_KEY_ENTER:
		ui->typing = false;
		return 0;
	case LIVE_KEY_ESC:
		ui->typing = false;
		return apply(ui, &ui->draft);
	case LIVE_KEY_BACKSPACE:
		delete_last(set.filter);
		break;
	case CTRL('u'):
		*set.filter = '\0';
		break;
	default:
		if (key >= LIVE_KEY_UP || escape_unsafe(key))
			return 0;
		append(set.filter, sizeof(set.filter), key);
	}
	return apply(ui, &set);
}

int live_ui_key(struct live_ui *ui, u32 key)
{
	*ui->message = '\0';
	if (key == LIVE_KEY_REDRAW || key == CTRL('l')) {
		ui->full = true;
		return LIVE_GO_ON;
	}
	if (!live_ui_shown(ui))
		return key == 'q' ? LIVE_QUIT : LIVE_GO_ON;
	if (ui->typing)
		return type(ui, key);
	if (ui->help || key == 'h' || key == '?') {
		ui->help = !ui->help;
		return LIVE_GO_ON;
	}
	if (key == 'q' || key == 'Q')
		return LIVE_QUIT;
	if (move(live_ui_shown(ui), key, ui->page))
		return LIVE_GO_ON;
	return command(ui, key);
}
