// SPDX-License-Identifier: BSD-2-Clause
#include "pycode.h"

#include <errno.h>
#include <string.h>

#include "linetable.h"
#include "pht_ident.h"
#include "proc.h"

#define CODE_SPAN_MAX 512 /* a code object's fields lie within this */
#define LINETABLE_MAX (1u << 20)

/* The fields of interest, as they were at one moment. */
struct fields {
	u64 filename, name, qualname, linetable;
	s32 firstlineno, firsttraceable;
};

/* Copy a field out of the object; one that the version lacks reads as 0. */
static bool take(const u8 *raw, u32 off, void *to, size_t len)
{
	if (off == PHT_ABSENT)
		return true;
	if (off > CODE_SPAN_MAX - len)
		return false;
	memcpy(to, raw + off, len);
	return true;
}

/* No more than the fields: what follows them may not be mapped. */
static size_t span(const struct pht_pyoffsets *off)
{
	const u32 at[] = {off->co_filename,    off->co_name,	  off->co_qualname,
			  off->co_firstlineno, off->co_linetable, off->co_firsttraceable};
	size_t end = 0;

	for (size_t i = 0; i < ARRAY_SIZE(at); i++)
		if (at[i] != PHT_ABSENT && at[i] + sizeof(u64) > end)
			end = at[i] + sizeof(u64);
	return end < CODE_SPAN_MAX ? end : CODE_SPAN_MAX;
}

static int read_fields(pid_t pid, const struct pht_pyoffsets *off, u64 addr, struct fields *out)
{
	u8 raw[CODE_SPAN_MAX] = {0};
	struct fields f = {0};
	int err;

	err = proc_read(pid, addr, raw, span(off));
	if (err)
		return err;
	if (!take(raw, off->co_filename, &f.filename, sizeof(f.filename)) ||
	    !take(raw, off->co_name, &f.name, sizeof(f.name)) ||
	    !take(raw, off->co_qualname, &f.qualname, sizeof(f.qualname)) ||
	    !take(raw, off->co_linetable, &f.linetable, sizeof(f.linetable)) ||
	    !take(raw, off->co_firstlineno, &f.firstlineno, sizeof(f.firstlineno)) ||
	    !take(raw, off->co_firsttraceable, &f.firsttraceable, sizeof(f.firsttraceable)))
		return -EINVAL;
	*out = f;
	return 0;
}

static int read_linetable(pid_t pid, const struct pht_pyoffsets *off, u64 addr, struct pycode *code)
{
	AUTO_FREE u8 *table = NULL;
	s64 size;
	int err;

	err = proc_read(pid, addr + off->bytes_size, &size, sizeof(size));
	if (err)
		return err;
	if (size < 0)
		return -EINVAL;
	/* No table is better than half of one, which would give wrong lines. */
	if (size > LINETABLE_MAX)
		return 0;
	table = malloc(size + 1);
	if (!table)
		return -ENOMEM;
	err = size ? proc_read(pid, addr + off->bytes_data, table, size) : 0;
	if (err)
		return err;
	code->linetable = TAKE_PTR(table);
	code->linetable_len = size;
	return 0;
}

static int read_contents(pid_t pid, const struct pht_pyoffsets *off, const struct fields *f,
			 struct pycode *code)
{
	u64 name = f->qualname ? f->qualname : f->name;
	int err;

	err = pystr_read(pid, off, f->filename, PYCODE_PATH_CLIP, &code->filename);
	if (!err)
		err = pystr_read(pid, off, name, PYCODE_NAME_CLIP, &code->name);
	if (!err)
		err = read_linetable(pid, off, f->linetable, code);
	return err;
}

/* A str's contents, 0 = not to be read: as the unwinder finds it. */
static u64 str_part(pid_t pid, const struct pht_pyoffsets *off, u64 addr)
{
	u8 head[PHT_STR_BUF] = {0}, window[PHT_ID_WINDOW] = {0};
	struct pht_span span;

	if (proc_read(pid, addr + off->str_length, head, PHT_STR_HEAD))
		return 0;
	span = pht_str_span(off, head, addr);
	if (!span.kind ||
	    (span.size && proc_read(pid, pht_window_at(&span), window, pht_window_size(&span))))
		return 0;
	return pht_window_hash(&span, window);
}

static u64 bytes_part(pid_t pid, const struct pht_pyoffsets *off, u64 addr)
{
	struct pht_span span = {.at = addr + off->bytes_data};
	u8 window[PHT_ID_WINDOW] = {0};
	u64 size;

	if (proc_read(pid, addr + off->bytes_size, &size, sizeof(size)) || size > PHT_SPAN_MAX)
		return 0;
	span.size = (u32)size;
	if (size && proc_read(pid, span.at, window, pht_window_size(&span)))
		return 0;
	return pht_window_hash(&span, window);
}

static void read_parts(pid_t pid, const struct pht_pyoffsets *off, const struct fields *f,
		       u64 parts[PHT_PART_NR])
{
	parts[PHT_PART_NAME] = str_part(pid, off, f->qualname ? f->qualname : f->name);
	parts[PHT_PART_FILE] = str_part(pid, off, f->filename);
	parts[PHT_PART_TABLE] = bytes_part(pid, off, f->linetable);
}

static u32 ident_of(const struct fields *f, const u64 parts[PHT_PART_NR], u32 without)
{
	u32 ident = pht_ident(f->name, f->filename, f->firstlineno);

	for (int i = 0; i < PHT_PART_NR; i++)
		if (parts[i] && !(without & 1u << i))
			ident = pht_ident_add(ident, i, parts[i]);
	return ident;
}

/*
 * The unwinder takes no page faults: what was not in memory then, as parts of
 * a static code object may well not have been, is missing from its identity.
 */
static int check_ident(pid_t pid, const struct pht_pyoffsets *off, const struct fields *f, u32 want)
{
	u64 parts[PHT_PART_NR];

	read_parts(pid, off, f, parts);
	for (u32 without = 0; without < 1u << PHT_PART_NR; without++)
		if (ident_of(f, parts, without) == want)
			return 0;
	return -EAGAIN;
}

int pycode_ident(pid_t pid, const struct pht_pyoffsets *off, u64 addr, u32 *out)
{
	u64 parts[PHT_PART_NR];
	struct fields f;
	int err = read_fields(pid, off, addr, &f);

	if (err)
		return err;
	read_parts(pid, off, &f, parts);
	*out = ident_of(&f, parts, 0);
	return 0;
}

int pycode_read(pid_t pid, const struct pht_pyoffsets *off, u64 addr, u32 want_ident,
		struct pycode *out)
{
	struct fields before, after;
	struct pycode code = {0};
	int err, err_after;

	err = read_fields(pid, off, addr, &before);
	if (err)
		return err;
	code.firstlineno = before.firstlineno;
	code.firsttraceable = before.firsttraceable;
	err = check_ident(pid, off, &before, want_ident & ~PHT_IDENT_GEN);
	if (err)
		return err;
	code.ident = want_ident & ~PHT_IDENT_GEN;
	err = read_contents(pid, off, &before, &code);
	err_after = read_fields(pid, off, addr, &after);
	/* A failure to read what has been replaced meanwhile is the replacement's. */
	if (!err_after && memcmp(&before, &after, sizeof(before)))
		err = -EAGAIN;
	else if (!err)
		err = err_after;
	if (err) {
		pycode_free(&code);
		return err;
	}
	*out = code;
	return 0;
}

void pycode_free(struct pycode *code)
{
	free(code->filename);
	free(code->name);
	free(code->linetable);
	memset(code, 0, sizeof(*code));
}

/* Byte offset in the bytecode; negative when the frame has not started. */
static s64 bytecode_offset(const struct pht_pyoffsets *off, s32 pos)
{
	switch (off->pos_kind) {
	case PHT_POS_LASTI_UNITS:
		return 2 * (s64)pos;
	case PHT_POS_INSTR_PTR:
		return (s64)pos - off->co_code_adaptive;
	default:
		return pos;
	}
}

s32 pycode_line(const struct pht_pyoffsets *off, const struct pycode *code, s32 pos, bool generator,
		bool *incomplete)
{
	s64 at = bytecode_offset(off, pos);

	/* Only 3.11+ has frames of generators that are told apart, and a first traceable. */
	*incomplete = off->pos_kind == PHT_POS_INSTR_PTR
			      ? !generator && at < 2 * (s64)code->firsttraceable
			      : at < 0;
	if (at < 0 || at & 1 || at > INT32_MAX || !code->linetable)
		return 0;
	return linetable_lookup(off->line_kind, code->linetable, code->linetable_len,
				code->firstlineno, (s32)at);
}
