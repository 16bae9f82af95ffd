// SPDX-License-Identifier: BSD-2-Clause
#include "report_place.h"

#include <string.h>

#define GAP	     2
#define MIN_FUNCTION 8

/* Of a longer path only the end is looked at: no terminal shows more. */
#define PATH_TAIL 500
#define PATH_ROOM (4 * PATH_TAIL + 32)
#define NAME_ROOM 1024

static const char *path_tail(const char *path)
{
	size_t len = strlen(path);

	if (len <= PATH_TAIL)
		return path;
	path += len - PATH_TAIL;
	while ((*path & 0xc0) == 0x80)
		path++;
	return path;
}

/* The path escaped, with its line number if that is wanted and known. */
static void file_text(char buf[PATH_ROOM], const struct paint *p, const struct frame *f,
		      unsigned int parts)
{
	size_t used;

	if (!f->file || !*f->file) {
		snprintf(buf, PATH_ROOM, "?");
		return;
	}
	used = escape_text(buf, PATH_ROOM - 16, path_tail(f->file), p->ascii);
	if (parts & PLACE_LINE && f->line > 0)
		snprintf(buf + used, PATH_ROOM - used, ":%d", f->line);
}

static void function_text(char buf[NAME_ROOM], const struct paint *p, const struct frame *f)
{
	escape_text(buf, NAME_ROOM, f->function && *f->function ? f->function : "?", p->ascii);
}

/* A frame that stands for the lack of one: it has no file, its function says what is wrong. */
static bool is_note(const struct frame *f)
{
	return f->kind == FRAME_OTHER && (!f->file || !*f->file);
}

static void raise_to(int *max, int value)
{
	if (value > *max)
		*max = value;
}

void place_measure(struct place_layout *l, const struct paint *p, const struct frame *f,
		   unsigned int parts, int indent, const char *mark)
{
	char file[PATH_ROOM], function[NAME_ROOM];

	if (is_note(f))
		return;
	file_text(file, p, f, parts);
	raise_to(&l->file_max, indent + escape_width(file));
	if (!(parts & PLACE_FUNCTION))
		return;
	function_text(function, p, f);
	raise_to(&l->function_max, escape_width(function) + (mark ? escape_width(mark) : 0));
}

void place_divide(struct place_layout *l)
{
	int room = l->total - (l->function_max ? GAP : 0);
	int function = l->function_max;

	/* Long functions and long paths share what there is. */
	if (function > room * 9 / 20)
		function = room * 9 / 20;
	l->file = room - function < l->file_max ? room - function : l->file_max;
}

/* Drop leading directories until the rest fits; the file name comes last. */
static void shorten_path(char *dst, size_t size, const char *path, int columns,
			 const char *ellipsis)
{
	int room = columns - escape_width(ellipsis);
	const char *base = strrchr(path, '/');

	if (escape_width(path) > columns && base) {
		for (const char *s = path; (s = strchr(s, '/')); s++) {
			if (s == path || escape_width(s) > room)
				continue;
			snprintf(dst, size, "%s%s", ellipsis, s);
			return;
		}
		path = base + 1;
	}
	escape_clip(dst, size, path, columns, CLIP_LEFT, ellipsis);
}

int place_file(const struct paint *p, const struct frame *f, unsigned int parts, int columns,
	       char *dst, size_t size)
{
	char text[PATH_ROOM];

	if (is_note(f))
		*text = '\0';
	else
		file_text(text, p, f, parts);
	shorten_path(dst, size, text, columns, p->glyphs->ellipsis);
	return escape_width(dst);
}

static void print_note(const struct place_layout *l, struct paint *p, const struct frame *f,
		       int indent)
{
	char name[NAME_ROOM], cut[NAME_ROOM + 8];

	function_text(name, p, f);
	escape_clip(cut, sizeof(cut), name, l->total - indent, CLIP_RIGHT, p->glyphs->ellipsis);
	paint_text(p, INK_DIM, cut);
}

/* Columns for the path here: the bare file name is worth more than an aligned function. */
static int file_columns(const struct place_layout *l, const char *path, int indent)
{
	const char *slash = strrchr(path, '/');
	int want = escape_width(slash ? slash + 1 : path);
	int most = l->total - GAP - MIN_FUNCTION - indent;

	if (want > most)
		want = most;
	return want > l->file - indent ? want : l->file - indent;
}

void place_print(const struct place_layout *l, struct paint *p, const struct frame *f,
		 unsigned int parts, int indent, const char *mark)
{
	char text[PATH_ROOM], cut[PATH_ROOM + 8];
	bool caller = indent > 0;
	int columns, room;

	if (is_note(f)) {
		print_note(l, p, f, indent);
		return;
	}
	file_text(text, p, f, parts);
	columns = parts & PLACE_FUNCTION ? file_columns(l, text, indent) : l->total - indent;
	shorten_path(cut, sizeof(cut), text, columns, p->glyphs->ellipsis);
	if (!(parts & PLACE_FUNCTION)) {
		paint_text(p, INK_PLAIN, cut);
		return;
	}
	paint_cell(p, caller ? INK_DIM : INK_PLAIN, cut, columns + GAP, false);
	function_text(text, p, f);
	room = l->total - indent - columns - GAP - (mark ? escape_width(mark) : 0);
	escape_clip(cut, sizeof(cut), text, room, CLIP_RIGHT, p->glyphs->ellipsis);
	paint_text(p, caller ? INK_DIM : INK_CYAN, cut);
	if (mark)
		paint_text(p, INK_YELLOW, mark);
}
