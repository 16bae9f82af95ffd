// SPDX-License-Identifier: BSD-2-Clause
#include "insn_refs.h"

#include "insn_x86.h"

/* Registers that a call leaves undefined: rax, rcx, rdx, rsi, rdi, r8-r11. */
#define CALL_CLOBBERS 0x0fc7u

struct tracker {
	struct x86_decoder d;
	insn_peek_fn peek;
	void *ctx;
	u32 known;  /* registers whose value is */
	u32 loaded; /* of these, the ones that came out of memory: no constants */
	u64 value[16];
	struct insn_ref *out;
	size_t n, max;
};

static void add_ref(struct tracker *t, enum insn_ref_kind kind, u64 value, u32 size)
{
	if (t->n < t->max)
		t->out[t->n++] = (struct insn_ref){.kind = kind, .value = value, .size = size};
}

static bool reg_value(const struct tracker *t, x86_reg reg, u64 *value)
{
	int i = x86_reg_index(reg);

	if (i < 0 || !(t->known & (1u << i)))
		return false;
	*value = t->value[i];
	return true;
}

/* The address that a memory operand stands for, when it is the same on every call. */
static bool operand_addr(const struct tracker *t, const cs_x86_op *op, u64 *addr)
{
	const cs_insn *insn = t->d.insn;
	u64 base = 0;

	if (op->type != X86_OP_MEM || op->mem.index != X86_REG_INVALID)
		return false;
	if (op->mem.segment == X86_REG_FS || op->mem.segment == X86_REG_GS)
		return false;
	if (op->mem.base == X86_REG_RIP)
		base = insn->address + insn->size;
	else if (op->mem.base != X86_REG_INVALID && !reg_value(t, op->mem.base, &base))
		return false;
	*addr = base + (u64)op->mem.disp;
	return true;
}

static bool is_compare(unsigned int id)
{
	return id == X86_INS_CMP || id == X86_INS_TEST;
}

static void note_loads(struct tracker *t)
{
	const cs_x86 *x86 = &t->d.insn->detail->x86;
	unsigned int id = t->d.insn->id;
	u64 addr;

	if (id == X86_INS_LEA || id == X86_INS_NOP)
		return;
	for (u8 i = 0; i < x86->op_count; i++) {
		bool store = i == 0 && x86->op_count > 1 && !is_compare(id);

		if (!store && operand_addr(t, &x86->operands[i], &addr))
			add_ref(t, INSN_REF_LOAD, addr, x86->operands[i].size);
	}
}

static void note_compare(struct tracker *t)
{
	const cs_x86 *x86 = &t->d.insn->detail->x86;
	u64 value;

	if (t->d.insn->id != X86_INS_CMP)
		return;
	for (u8 i = 0; i < x86->op_count; i++) {
		const cs_x86_op *op = &x86->operands[i];

		if (op->type == X86_OP_IMM)
			add_ref(t, INSN_REF_CMP, (u64)op->imm, op->size);
		else if (op->type == X86_OP_REG && reg_value(t, op->reg, &value) &&
			 !(t->loaded & (1u << x86_reg_index(op->reg))))
			add_ref(t, INSN_REF_CMP, value, op->size);
	}
}

/* The value that the current instruction gives its destination, when it can be known. */
static bool result_value(const struct tracker *t, u64 *value, bool *loaded)
{
	const cs_x86 *x86 = &t->d.insn->detail->x86;
	const cs_x86_op *dst = &x86->operands[0], *src = &x86->operands[1];
	unsigned int id = t->d.insn->id;
	u64 addr;

	if (x86->op_count != 2 || dst->type != X86_OP_REG || dst->size < 4)
		return false;
	if (id == X86_INS_LEA)
		return dst->size == 8 && operand_addr(t, src, value);
	if (id != X86_INS_MOV && id != X86_INS_MOVABS)
		return false;
	if (src->type == X86_OP_IMM) {
		*value = dst->size == 4 ? (u32)src->imm : (u64)src->imm;
		return true;
	}
	if (dst->size != 8)
		return false;
	if (src->type == X86_OP_REG) {
		if (!reg_value(t, src->reg, value))
			return false;
		*loaded = t->loaded & (1u << x86_reg_index(src->reg));
		return true;
	}
	*loaded = true;
	return operand_addr(t, src, &addr) && t->peek && t->peek(t->ctx, addr, value);
}

static void step(struct tracker *t)
{
	u64 target = 0, value = 0;
	enum x86_flow flow = x86_flow(&t->d, &target);
	bool known, loaded = false;

	note_loads(t);
	note_compare(t);
	known = result_value(t, &value, &loaded);
	t->known &= ~x86_writes(&t->d);
	if (flow == X86_FLOW_CALL || flow == X86_FLOW_OTHER)
		t->known &= ~CALL_CLOBBERS;
	if (known) {
		int i = x86_reg_index(t->d.insn->detail->x86.operands[0].reg);

		if (i >= 0) {
			t->known |= 1u << i;
			t->loaded &= ~(1u << i);
			t->loaded |= (u32)loaded << i;
			t->value[i] = value;
		}
	}
}

size_t insn_refs(const u8 *code, size_t len, u64 addr, insn_peek_fn peek, void *ctx,
		 struct insn_ref *out, size_t max)
{
	struct tracker t = {.peek = peek, .ctx = ctx, .out = out, .max = max};

#ifndef __x86_64__
	return 0;
#endif
	if (!len || x86_open(&t.d, code, len, addr))
		return 0;
	while (t.n < t.max) {
		if (x86_next(&t.d))
			step(&t);
		else if (!x86_skip_byte(&t.d))
			break;
	}
	x86_close(&t.d);
	return t.n;
}
