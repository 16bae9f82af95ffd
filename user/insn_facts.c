// SPDX-License-Identifier: BSD-2-Clause
/* A function whose end is not known: follow its branches and collect what it calls. */
#include <errno.h>
#include <string.h>

#include "insn_refs.h"
#include "insn_x86.h"

#define REGION_BYTES 2048
/* The function itself, and parts of it that the compiler moved far away as unlikely. */
#define MAX_REGIONS 8
#define MAX_PENDING 256

struct region {
	u64 addr;
	size_t len;
	u8 code[REGION_BYTES];
	u8 seen[REGION_BYTES]; /* an instruction that starts here was visited */
};

struct walk {
	struct x86_decoder d;
	insn_fetch_fn fetch;
	void *ctx;
	struct region *regions;
	size_t nregions;
	u64 pending[MAX_PENDING];
	size_t npending;
	bool shifted; /* a size was made smaller by one more than pymalloc's limit */
	struct insn_facts facts;
};

static struct region *find_region(struct walk *w, u64 addr)
{
	for (size_t i = 0; i < w->nregions; i++)
		if (addr - w->regions[i].addr < w->regions[i].len)
			return &w->regions[i];
	return NULL;
}

static struct region *get_region(struct walk *w, u64 addr)
{
	struct region *r = find_region(w, addr);

	if (r || w->nregions == MAX_REGIONS)
		return r;
	r = &w->regions[w->nregions];
	r->len = w->fetch(w->ctx, addr, r->code, sizeof(r->code));
	if (!r->len)
		return NULL;
	r->addr = addr;
	memset(r->seen, 0, sizeof(r->seen));
	w->nregions++;
	return r;
}

static void add_pending(struct walk *w, u64 addr)
{
	if (w->npending < MAX_PENDING)
		w->pending[w->npending++] = addr;
}

static void add_target(u64 *targets, size_t *n, u64 target)
{
	for (size_t i = 0; i < *n; i++)
		if (targets[i] == target)
			return;
	if (*n < INSN_FACTS_CALLS)
		targets[(*n)++] = target;
}

/*
 * clang asks in one comparison whether a size is 0 or over 512: it takes 513
 * off, and all from 1 to 512 are then, without a sign, from -512 on.
 */
static void note_shift(struct walk *w)
{
	const cs_x86_op *ops = w->d.insn->detail->x86.operands;
	u8 n = w->d.insn->detail->x86.op_count;

	if (n != 2)
		return;
	switch (w->d.insn->id) {
	case X86_INS_LEA:
		w->shifted |= ops[1].mem.disp == -513;
		break;
	case X86_INS_ADD:
		w->shifted |= ops[1].type == X86_OP_IMM && ops[1].imm == -513;
		break;
	case X86_INS_SUB:
		w->shifted |= ops[1].type == X86_OP_IMM && ops[1].imm == 513;
		break;
	default:
		break;
	}
}

static void note_limit(struct walk *w)
{
	const cs_x86 *x86 = &w->d.insn->detail->x86;
	s64 limit;

	note_shift(w);
	if (w->d.insn->id != X86_INS_CMP || x86->op_count != 2 ||
	    x86->operands[1].type != X86_OP_IMM)
		return;
	/* the first border on the way tells: behind it come other functions' */
	if (w->facts.small_limit || w->facts.mi_limit)
		return;
	limit = x86->operands[1].imm;
	w->facts.small_limit = limit == 511 || limit == 512 || (w->shifted && limit == -512);
	w->facts.mi_limit = limit == 1023 || limit == 1024;
}

/* True when the next instruction is reached too. */
static bool visit(struct walk *w)
{
	u64 target = 0;

	note_limit(w);
	switch (x86_flow(&w->d, &target)) {
	case X86_FLOW_CALL:
		add_target(w->facts.calls, &w->facts.ncalls, target);
		return true;
	case X86_FLOW_JCC:
		/* compilers branch to their own far parts, and call others, not the reverse */
		add_pending(w, target);
		return true;
	case X86_FLOW_JMP:
		if (find_region(w, target))
			add_pending(w, target);
		else
			add_target(w->facts.jumps, &w->facts.njumps, target);
		return false;
	case X86_FLOW_END:
		return false;
	default:
		return true;
	}
}

static void walk_block(struct walk *w, u64 addr)
{
	struct region *r = get_region(w, addr);

	if (!r)
		return;
	x86_seek(&w->d, r->code + (addr - r->addr), r->len - (addr - r->addr), addr);
	for (;;) {
		size_t at = (size_t)(w->d.pos - r->code);

		if (at >= r->len || r->seen[at])
			return;
		r->seen[at] = 1;
		/* endbr64, which capstone 4 does not know, must not end the block */
		if (r->len - at >= 4 && !memcmp(r->code + at, "\xf3\x0f\x1e\xfa", 4)) {
			x86_seek(&w->d, w->d.pos + 4, w->d.left - 4, w->d.addr + 4);
			continue;
		}
		if (!x86_next(&w->d) || !visit(w))
			return;
	}
}

int insn_facts(u64 addr, insn_fetch_fn fetch, void *ctx, struct insn_facts *out)
{
	struct walk w = {.fetch = fetch, .ctx = ctx};
	int err = 0;

#ifndef __x86_64__
	return -EFAULT;
#endif
	w.regions = malloc(MAX_REGIONS * sizeof(*w.regions));
	if (!w.regions)
		return -ENOMEM;
	if (!get_region(&w, addr))
		err = -EFAULT;
	else
		err = x86_open(&w.d, w.regions[0].code, w.regions[0].len, addr);
	if (!err) {
		add_pending(&w, addr);
		while (w.npending)
			walk_block(&w, w.pending[--w.npending]);
		*out = w.facts;
		x86_close(&w.d);
	}
	free(w.regions);
	return err;
}
