// SPDX-License-Identifier: BSD-2-Clause
/*
 * Code objects, strings and line tables read out of a corrupted target: a
 * sound image of each version, changed as the input says.  Some changes come
 * only after a number of reads, as if the target ran meanwhile.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pht_ident.h"
#include "proc.h"
#include "pycode.h"
#include "pyoffsets.h"

#define BASE	 0x7f0000000000ull
#define SIZE	 0x4000
#define CODE	 0x0000
#define NAME	 0x1000
#define FILENAME 0x1800
#define TABLE	 0x2000

/* A change: eight bytes at an offset, after so many reads. */
struct patch {
	u16 at;
	u8 after, width;
	u64 value;
};

static struct {
	u8 memory[SIZE];
	const u8 *patches;
	size_t npatches;
	unsigned reads;
} target;

static void apply(void)
{
	for (size_t i = 0; i < target.npatches; i++) {
		struct patch p;

		memcpy(&p, target.patches + i * sizeof(p), sizeof(p));
		p.at %= SIZE - 8;
		if (p.after % 16 == target.reads)
			memcpy(target.memory + p.at, &p.value, 1 + p.width % 8);
	}
}

/* Stands for the one in proc.c. */
int proc_read(pid_t pid, u64 addr, void *buf, size_t len)
{
	(void)pid;
	apply();
	target.reads++;
	if (addr < BASE || len > SIZE || addr - BASE > SIZE - len)
		return -EFAULT;
	memcpy(buf, target.memory + (addr - BASE), len);
	return 0;
}

static void put(u64 at, u64 value, size_t len)
{
	memcpy(target.memory + at, &value, len);
}

static void put_str(const struct pht_pyoffsets *off, u64 at, const char *s)
{
	put(at + off->str_length, strlen(s), 8);
	put(at + off->str_state,
	    1u << off->str_kind_shift | 1u << off->str_compact_bit | 1u << off->str_ascii_bit, 4);
	memcpy(target.memory + at + off->str_data_ascii, s, strlen(s));
}

static void build(const struct pht_pyoffsets *off)
{
	static const u8 table[] = {0x80, 0x00, 0xd8, 0x08, 0x09, 0x80, 0x41, 0xe0, 0x09, 0x0a};
	u32 name = off->co_qualname == PHT_ABSENT ? off->co_name : off->co_qualname;

	memset(&target.memory, 0, SIZE);
	put(CODE + off->co_name, BASE + NAME, 8);
	put(CODE + name, BASE + NAME, 8);
	put(CODE + off->co_filename, BASE + FILENAME, 8);
	put(CODE + off->co_linetable, BASE + TABLE, 8);
	put(CODE + off->co_firstlineno, 7, 4);
	put_str(off, NAME, "function");
	put_str(off, FILENAME, "/usr/lib/file.py");
	put(TABLE + off->bytes_size, sizeof(table), 8);
	memcpy(target.memory + TABLE + off->bytes_data, table, sizeof(table));
}

static u32 ident(const struct pht_pyoffsets *off)
{
	u64 name, filename;
	u32 line;

	memcpy(&name, target.memory + off->co_name, 8);
	memcpy(&filename, target.memory + off->co_filename, 8);
	memcpy(&line, target.memory + off->co_firstlineno, 4);
	return pht_ident(name, filename, line);
}

static void check(const struct pht_pyoffsets *off, int err, struct pycode *code)
{
	bool incomplete;

	if (err)
		return;
	/* A clipped name may end in an escape of its last character. */
	if (strlen(code->filename) > 4096 + 16 || strlen(code->name) > 1024 + 16 ||
	    code->linetable_len > 1 << 20)
		abort();
	for (s32 pos = -8; pos < 512; pos++)
		if (pycode_line(off, code, pos, pos & 1, &incomplete) < 0)
			abort();
	pycode_line(off, code, INT32_MAX, false, &incomplete);
	pycode_line(off, code, INT32_MIN, true, &incomplete);
	pycode_free(code);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct pht_pyoffsets off;
	struct pycode code;
	char *s = NULL;

	if (!size || pyoffsets_fill(0x03080000u + (data[0] % 5) * 0x10000u, false, NULL, 0, &off))
		return 0;
	build(&off);
	target.patches = data + 1;
	target.npatches = (size - 1) / sizeof(struct patch);
	target.reads = 0;
	apply();
	check(&off, pycode_read(1, &off, BASE + CODE, ident(&off), &code), &code);
	if (!pystr_read(1, &off, BASE + NAME, 100, &s))
		free(s);
	return 0;
}
