// SPDX-License-Identifier: BSD-2-Clause
#include "insn_statics.h"

#include <string.h>

#include "insn_x86.h"

#define MAX_INSNS   8192 /* visited in all */
#define MAX_PENDING 256
#define SEEN_SLOTS  (2ul * MAX_INSNS) /* a power of two */
#define FETCH_BYTES 256

struct walk {
	struct x86_decoder d;
	insn_fetch_fn fetch;
	void *ctx;
	u64 pending[MAX_PENDING];
	size_t npending;
	u64 seen[SEEN_SLOTS];
	size_t nseen; /* and fetches: endless code of no effect must end, too */
	struct insn_static *out;
	size_t n, max;
};

/* True the first time; false again, and once enough has been seen. */
static bool first_visit(struct walk *w, u64 addr)
{
	size_t slot = (size_t)(addr * 0x9e3779b97f4a7c15ull >> 40) % SEEN_SLOTS;

	if (w->nseen >= MAX_INSNS)
		return false;
	while (w->seen[slot]) {
		if (w->seen[slot] == addr)
			return false;
		slot = (slot + 1) % SEEN_SLOTS;
	}
	w->seen[slot] = addr;
	w->nseen++;
	return true;
}

static void add(struct walk *w, u64 addr, u32 size)
{
	if (addr < INSN_STATIC_MIN)
		return;
	for (size_t i = 0; i < w->n; i++)
		if (w->out[i].addr == addr)
			return;
	if (w->n < w->max)
		w->out[w->n++] = (struct insn_static){addr, size};
}

static void note_memory(struct walk *w, const cs_x86_op *op)
{
	const cs_insn *insn = w->d.insn;
	bool indexed = op->mem.index != X86_REG_INVALID;
	u64 base = 0;

	if (op->mem.segment == X86_REG_FS || op->mem.segment == X86_REG_GS)
		return;
	if (op->mem.base == X86_REG_RIP)
		base = insn->address + insn->size;
	else if (op->mem.base != X86_REG_INVALID)
		return;
	add(w, base + (u64)op->mem.disp, indexed || insn->id == X86_INS_LEA ? 0 : op->size);
}

static void note_operands(struct walk *w)
{
	const cs_x86 *x86 = &w->d.insn->detail->x86;

	if (w->d.insn->id == X86_INS_NOP)
		return;
	for (u8 i = 0; i < x86->op_count; i++) {
		if (x86->operands[i].type == X86_OP_MEM)
			note_memory(w, &x86->operands[i]);
		else if (x86->operands[i].type == X86_OP_IMM && w->d.insn->id == X86_INS_MOV)
			add(w, (u64)x86->operands[i].imm, 0);
	}
}

static void add_pending(struct walk *w, u64 addr)
{
	if (w->npending < MAX_PENDING)
		w->pending[w->npending++] = addr;
}

/* True when the next instruction is reached too. */
static bool visit(struct walk *w)
{
	u64 target = 0;

	switch (x86_flow(&w->d, &target)) {
	case X86_FLOW_JCC:
		note_operands(w);
		add_pending(w, target);
		return true;
	case X86_FLOW_JMP:
		add_pending(w, target);
		return false;
	case X86_FLOW_END:
		return false;
	case X86_FLOW_CALL:
		return true;
	default:
		note_operands(w);
		return true;
	}
}

/* The next instruction; false when it is cut off, or none. */
static bool next_insn(struct x86_decoder *d)
{
	/* endbr64, which capstone 4 does not know, does nothing */
	while (d->left >= 4 && !memcmp(d->pos, "\xf3\x0f\x1e\xfa", 4))
		x86_seek(d, d->pos + 4, d->left - 4, d->addr + 4);
	return d->left && x86_next(d);
}

static void walk_block(struct walk *w, u64 addr)
{
	u8 code[FETCH_BYTES];

	for (;;) {
		x86_seek(&w->d, code, w->fetch(w->ctx, addr, code, sizeof(code)), addr);
		while (next_insn(&w->d))
			if (!first_visit(w, w->d.insn->address) || !visit(w))
				return;
		/* the last instruction fetched may be cut off: fetch again from its start */
		if (w->d.addr == addr || w->nseen++ >= MAX_INSNS)
			return;
		addr = w->d.addr;
	}
}

size_t insn_statics(u64 addr, insn_fetch_fn fetch, void *ctx, struct insn_static *out, size_t max)
{
	AUTO_FREE struct walk *w = calloc(1, sizeof(*w));
	static const u8 none[1];

#ifndef __x86_64__
	return 0;
#endif
	if (!w || x86_open(&w->d, none, 0, addr))
		return 0;
	w->fetch = fetch;
	w->ctx = ctx;
	w->out = out;
	w->max = max;
	add_pending(w, addr);
	while (w->npending)
		walk_block(w, w->pending[--w->npending]);
	x86_close(&w->d);
	return w->n;
}
