// SPDX-License-Identifier: BSD-2-Clause
/*
 * The variable is not exported, but an exported function of a few
 * instructions returns it.  Those instructions are run on symbolic values, so
 * every access model (executable, shared, descriptor, any -fPIC or frame
 * pointer flavour) is one case.
 */
#include "pytls.h"

#include <capstone/capstone.h>
#include <errno.h>
#include <string.h>

#define REGS   32
#define NO_REG REGS

/* What a register is known to hold. */
enum val_kind {
	V_UNKNOWN,
	V_ADDR,	  /* file address got + offset */
	V_SLOT,	  /* *(u64 *)got + offset */
	V_TP,	  /* thread pointer + offset */
	V_TPSLOT, /* thread pointer + *(u64 *)got + offset */
	V_PAIR,	  /* __tls_get_addr(got) + offset */
	V_DESC,	  /* what the descriptor at got yields, + offset: relative to the thread pointer */
	V_TPDESC, /* the same made absolute */
	V_VALUE,  /* the value of the variable ref */
};

struct val {
	enum val_kind kind;
	u64 got;
	s64 offset;
	struct tls_ref ref;
};

struct machine {
	struct val reg[REGS];
};

static const struct val unknown = {.kind = V_UNKNOWN};

static struct val get(const struct machine *m, u32 reg)
{
	return reg < REGS ? m->reg[reg] : unknown;
}

static void set(struct machine *m, u32 reg, struct val v)
{
	if (reg < REGS)
		m->reg[reg] = v;
}

static struct val add_const(struct val v, s64 by)
{
	if (v.kind == V_UNKNOWN || v.kind == V_VALUE)
		return unknown;
	v.offset = (s64)((u64)v.offset + (u64)by);
	return v;
}

static struct val addr_val(u64 addr)
{
	return (struct val){.kind = V_ADDR, .got = addr};
}

static u64 addr_of(struct val v)
{
	return v.got + (u64)v.offset;
}

/* Sums that make sense: the thread pointer and something relative to it. */
static struct val add(struct val a, struct val b)
{
	struct val tp = a.kind == V_TP ? a : b, rel = a.kind == V_TP ? b : a;

	if (tp.kind != V_TP || (rel.kind != V_SLOT && rel.kind != V_DESC))
		return unknown;
	rel.kind = rel.kind == V_SLOT ? V_TPSLOT : V_TPDESC;
	return add_const(rel, tp.offset);
}

/* A u64 load from the address in v. */
static struct val load(struct val v)
{
	static const struct {
		enum val_kind from;
		enum tls_ref_kind to;
	} refs[] = {
		{V_TP, TLS_REF_TP},
		{V_TPSLOT, TLS_REF_GOT},
		{V_PAIR, TLS_REF_PAIR},
		{V_TPDESC, TLS_REF_DESC},
	};

	if (v.kind == V_ADDR)
		return (struct val){.kind = V_SLOT, .got = addr_of(v)};
	for (size_t i = 0; i < ARRAY_SIZE(refs); i++)
		if (v.kind == refs[i].from)
			return (struct val){.kind = V_VALUE, .ref = {refs[i].to, v.got, v.offset}};
	return unknown;
}

/* One instruction: 0 = go on, 1 = returned, -ENOENT = cannot follow. */
typedef int (*step_fn)(struct machine *m, const cs_insn *insn);

/* x86-64: general registers by number; any width is taken for the whole. */
static u32 x86_num(x86_reg reg)
{
	static const struct {
		x86_reg r64, r32;
	} names[] = {
		{X86_REG_RAX, X86_REG_EAX},  {X86_REG_RCX, X86_REG_ECX},
		{X86_REG_RDX, X86_REG_EDX},  {X86_REG_RBX, X86_REG_EBX},
		{X86_REG_RSP, X86_REG_ESP},  {X86_REG_RBP, X86_REG_EBP},
		{X86_REG_RSI, X86_REG_ESI},  {X86_REG_RDI, X86_REG_EDI},
		{X86_REG_R8, X86_REG_R8D},   {X86_REG_R9, X86_REG_R9D},
		{X86_REG_R10, X86_REG_R10D}, {X86_REG_R11, X86_REG_R11D},
		{X86_REG_R12, X86_REG_R12D}, {X86_REG_R13, X86_REG_R13D},
		{X86_REG_R14, X86_REG_R14D}, {X86_REG_R15, X86_REG_R15D},
	};

	for (u32 i = 0; i < ARRAY_SIZE(names); i++)
		if (reg == names[i].r64 || reg == names[i].r32)
			return i;
	return NO_REG;
}

enum { RAX = 0, RDI = 7 };

/* The address a memory operand stands for. */
static struct val x86_mem(const struct machine *m, const cs_insn *insn, const cs_x86_op *op)
{
	struct val v = unknown, index;

	if (op->mem.segment == X86_REG_FS)
		v = (struct val){.kind = V_TP};
	if (op->mem.base == X86_REG_RIP && v.kind == V_UNKNOWN)
		return addr_val(insn->address + insn->size + (u64)op->mem.disp);
	if (op->mem.base != X86_REG_INVALID) {
		struct val base = get(m, x86_num(op->mem.base));

		v = v.kind == V_TP ? add(v, base) : base;
	} else if (op->mem.index == X86_REG_INVALID && v.kind == V_UNKNOWN) {
		return addr_val((u64)op->mem.disp);
	}
	if (op->mem.index != X86_REG_INVALID) {
		index = get(m, x86_num(op->mem.index));
		v = op->mem.scale == 1 ? add(v, index) : unknown;
	}
	return add_const(v, op->mem.disp);
}

static struct val x86_operand(const struct machine *m, const cs_insn *insn, const cs_x86_op *op)
{
	struct val at;

	if (op->type == X86_OP_REG)
		return get(m, x86_num(op->reg));
	if (op->type == X86_OP_IMM)
		return addr_val((u64)op->imm);
	if (op->type != X86_OP_MEM || op->size != 8)
		return unknown;
	at = x86_mem(m, insn, op);
	/* fs:0 holds the thread pointer itself. */
	if (op->mem.segment == X86_REG_FS && at.kind == V_TP && !at.offset)
		return at;
	return load(at);
}

/* Only two kinds of call occur here: __tls_get_addr(pair), and a descriptor's function. */
static int x86_call(struct machine *m, const cs_insn *insn)
{
	static const u32 clobbered[] = {1, 2, 6, 7, 8, 9, 10, 11};
	const cs_x86_op *op = &insn->detail->x86.operands[0];
	struct val arg = get(m, RDI), result = unknown;

	if (op->type == X86_OP_MEM && op->mem.base == X86_REG_RAX && !op->mem.disp) {
		/* A descriptor's function keeps all registers but rax. */
		arg = get(m, RAX);
		if (arg.kind != V_ADDR)
			return -ENOENT;
		set(m, RAX, (struct val){.kind = V_DESC, .got = addr_of(arg)});
		return 0;
	}
	if (arg.kind == V_ADDR)
		result = (struct val){.kind = V_PAIR, .got = addr_of(arg)};
	for (size_t i = 0; i < ARRAY_SIZE(clobbered); i++)
		set(m, clobbered[i], unknown);
	set(m, RAX, result);
	return 0;
}

static struct val x86_sum(struct machine *m, const cs_insn *insn)
{
	const cs_x86_op *op = insn->detail->x86.operands;
	struct val dst = x86_operand(m, insn, &op[0]);

	if (op[1].type == X86_OP_IMM)
		return add_const(dst, insn->id == X86_INS_ADD ? op[1].imm : -op[1].imm);
	return insn->id == X86_INS_ADD ? add(dst, x86_operand(m, insn, &op[1])) : unknown;
}

static int x86_step(struct machine *m, const cs_insn *insn)
{
	const cs_x86 *x = &insn->detail->x86;
	const cs_x86_op *op = x->operands;
	u32 dst = x->op_count && op[0].type == X86_OP_REG ? x86_num(op[0].reg) : NO_REG;

	switch (insn->id) {
	case X86_INS_RET:
		return 1;
	case X86_INS_CALL:
		return x86_call(m, insn);
	case X86_INS_MOV:
	case X86_INS_MOVABS:
		set(m, dst, x86_operand(m, insn, &op[1]));
		return 0;
	case X86_INS_LEA:
		set(m, dst, x86_mem(m, insn, &op[1]));
		return 0;
	case X86_INS_ADD:
	case X86_INS_SUB:
		set(m, dst, x86_sum(m, insn));
		return 0;
	case X86_INS_PUSH:
	case X86_INS_NOP:
	case X86_INS_ENDBR64:
	case X86_INS_LEAVE:
		return 0;
	case X86_INS_POP:
		set(m, dst, unknown);
		return 0;
	default:
		return -ENOENT;
	}
}

/* aarch64: x0..x30 by number, w registers for the whole. */
static u32 a64_num(arm64_reg reg)
{
	if (reg >= ARM64_REG_X0 && reg <= ARM64_REG_X28)
		return reg - ARM64_REG_X0;
	return reg == ARM64_REG_X29 ? 29 : reg == ARM64_REG_X30 ? 30 : NO_REG;
}

static struct val a64_ldr(const struct machine *m, const cs_arm64_op *op)
{
	struct val v;

	if (op->type != ARM64_OP_MEM)
		return unknown;
	v = get(m, a64_num(op->mem.base));
	if (op->mem.index != ARM64_REG_INVALID)
		v = op->shift.value ? unknown : add(v, get(m, a64_num(op->mem.index)));
	return load(add_const(v, op->mem.disp));
}

static struct val a64_add(const struct machine *m, const cs_arm64_op *op)
{
	struct val a = get(m, a64_num(op[1].reg));

	if (op[2].type == ARM64_OP_IMM)
		return add_const(a, op[2].imm << (op[2].shift.value & 31));
	if (op[2].type != ARM64_OP_REG || op[2].shift.value)
		return unknown;
	return add(a, get(m, a64_num(op[2].reg)));
}

/* A descriptor's function takes and returns x0, and keeps the rest. */
static int a64_blr(struct machine *m)
{
	struct val arg = get(m, 0);

	if (arg.kind != V_ADDR)
		return -ENOENT;
	set(m, 0, (struct val){.kind = V_DESC, .got = addr_of(arg)});
	return 0;
}

/* nop, bti, paciasp and the like: one encoding space, many names. */
static bool a64_is_hint(const cs_insn *insn)
{
	u32 word;

	memcpy(&word, insn->bytes, sizeof(word));
	return (word & 0xfffff01f) == 0xd503201f;
}

static int a64_step(struct machine *m, const cs_insn *insn)
{
	const cs_arm64 *a = &insn->detail->arm64;
	const cs_arm64_op *op = a->operands;
	u32 dst = a->op_count && op[0].type == ARM64_OP_REG ? a64_num(op[0].reg) : NO_REG;

	if (a64_is_hint(insn))
		return 0;
	switch (insn->id) {
	case ARM64_INS_RET:
		return 1;
	case ARM64_INS_MRS:
		set(m, dst,
		    (struct val){.kind = strstr(insn->op_str, "tpidr_el0") ? V_TP : V_UNKNOWN});
		return 0;
	case ARM64_INS_ADRP:
	case ARM64_INS_ADR:
		set(m, dst, addr_val((u64)op[1].imm));
		return 0;
	case ARM64_INS_LDR:
		set(m, dst, a64_ldr(m, &op[1]));
		return 0;
	case ARM64_INS_ADD:
		set(m, dst, a64_add(m, op));
		return 0;
	case ARM64_INS_MOV:
		set(m, dst, op[1].type == ARM64_OP_REG ? get(m, a64_num(op[1].reg)) : unknown);
		return 0;
	case ARM64_INS_BLR:
		return a64_blr(m);
	case ARM64_INS_LDP:
		set(m, dst, unknown);
		if (op[1].type == ARM64_OP_REG)
			set(m, a64_num(op[1].reg), unknown);
		return 0;
	case ARM64_INS_STP:
	case ARM64_INS_STR:
		return 0;
	default:
		return -ENOENT;
	}
}

static const struct {
	u16 machine;
	cs_arch arch;
	cs_mode mode;
	step_fn step;
} decoders[] = {
	{EM_X86_64, CS_ARCH_X86, CS_MODE_64, x86_step},
	{EM_AARCH64, CS_ARCH_ARM64, CS_MODE_ARM, a64_step},
};

int pytls_decode(u16 machine, const u8 *code, size_t len, u64 vaddr, struct tls_ref *out)
{
	struct machine m = {0};
	cs_insn *insn;
	int state = -ENOENT;
	csh cs;

	for (size_t i = 0; i < ARRAY_SIZE(decoders); i++) {
		if (decoders[i].machine != machine)
			continue;
		if (cs_open(decoders[i].arch, decoders[i].mode, &cs))
			return -ENOENT;
		cs_option(cs, CS_OPT_DETAIL, CS_OPT_ON);
		insn = cs_malloc(cs);
		state = insn ? 0 : -ENOENT;
		while (!state)
			state = cs_disasm_iter(cs, &code, &len, &vaddr, insn)
					? decoders[i].step(&m, insn)
					: -ENOENT;
		if (insn)
			cs_free(insn, 1);
		cs_close(&cs);
	}
	/* Both architectures return in register 0. */
	if (state != 1 || m.reg[0].kind != V_VALUE)
		return -ENOENT;
	*out = m.reg[0].ref;
	return 0;
}
