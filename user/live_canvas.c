// SPDX-License-Identifier: BSD-2-Clause
#include "live_canvas.h"

#include <errno.h>
#include <string.h>

static const struct canvas_cell blank = {.text = " "};

int canvas_reset(struct canvas *c, int width, int height)
{
	struct canvas_cell *cells;

	width = width < 1 ? 1 : width > CANVAS_MAX_WIDTH ? CANVAS_MAX_WIDTH : width;
	height = height < 1 ? 1 : height > CANVAS_MAX_HEIGHT ? CANVAS_MAX_HEIGHT : height;
	cells = reallocarray(c->cells, (size_t)width * height, sizeof(*cells));
	if (!cells)
		return -ENOMEM;
	*c = (struct canvas){width, height, cells};
	for (int i = 0; i < width * height; i++)
		cells[i] = blank;
	return 0;
}

void canvas_free(struct canvas *c)
{
	free(c->cells);
	*c = (struct canvas){0};
}

const struct canvas_cell *canvas_at(const struct canvas *c, int y, int x)
{
	if (y < 0 || y >= c->height || x < 0 || x >= c->width)
		return NULL;
	return &c->cells[y * c->width + x];
}

static struct canvas_cell *cell(struct canvas *c, int y, int x)
{
	return (struct canvas_cell *)canvas_at(c, y, x);
}

/* Join a mark to the character before it; where that has no room the mark is left off. */
static void combine(struct canvas_cell *to, const char *text, unsigned int len)
{
	size_t used = strlen(to->text);

	if (used && used + len < sizeof(to->text)) {
		memcpy(to->text + used, text, len);
		to->text[used + len] = '\0';
	}
}

int canvas_put(struct canvas *c, int y, int x, int columns, enum ink ink, const char *text)
{
	int end = columns < c->width - x ? x + columns : c->width;
	struct canvas_cell *last = NULL;

	if (y < 0 || y >= c->height || x < 0)
		return x;
	while (*text) {
		char one[5] = "?";
		u32 cp;
		unsigned int len = utf8_decode(text, &cp);
		int width;

		/* Callers escape; should one forget, nothing happens to the terminal. */
		if (len && !escape_unsafe(cp))
			memcpy(one, text, len);
		one[len && !escape_unsafe(cp) ? len : 1] = '\0';
		width = escape_width(one);
		text += len ? len : 1;
		if (!width) {
			if (last)
				combine(last, one, strlen(one));
			continue;
		}
		if (width > end - x)
			break;
		last = cell(c, y, x);
		*last = (struct canvas_cell){.ink = ink};
		memcpy(last->text, one, sizeof(one));
		for (int i = 1; i < width; i++)
			*cell(c, y, x + i) = (struct canvas_cell){.ink = ink};
		x += width;
	}
	return x;
}

int canvas_put_right(struct canvas *c, int y, int x, int columns, enum ink ink, const char *text)
{
	int pad = columns - escape_width(text);

	canvas_put(c, y, pad > 0 ? x + pad : x, pad > 0 ? columns - pad : columns, ink, text);
	return x + columns;
}

void canvas_mark(struct canvas *c, int y)
{
	for (int x = 0; cell(c, y, x); x++)
		cell(c, y, x)->marked = true;
}

size_t canvas_line(const struct canvas *c, int y, char *buf, size_t size)
{
	size_t used = 0, end = 0;

	for (int x = 0; x < c->width && canvas_at(c, y, x); x++) {
		const char *text = canvas_at(c, y, x)->text;
		size_t len = strlen(text);

		if (used + len >= size)
			break;
		memcpy(buf + used, text, len);
		used += len;
		if (len && strcmp(text, " "))
			end = used;
	}
	buf[end] = '\0';
	return end;
}
