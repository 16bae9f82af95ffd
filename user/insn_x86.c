// SPDX-License-Identifier: BSD-2-Clause
#include "insn_x86.h"

#include <errno.h>

int x86_open(struct x86_decoder *d, const u8 *code, size_t len, u64 vaddr)
{
	*d = (struct x86_decoder){0};
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &d->handle) != CS_ERR_OK)
		return -ENOMEM;
	cs_option(d->handle, CS_OPT_DETAIL, CS_OPT_ON);
	d->insn = cs_malloc(d->handle);
	if (!d->insn) {
		cs_close(&d->handle);
		return -ENOMEM;
	}
	x86_seek(d, code, len, vaddr);
	return 0;
}

void x86_close(struct x86_decoder *d)
{
	if (d->insn)
		cs_free(d->insn, 1);
	if (d->handle)
		cs_close(&d->handle);
	*d = (struct x86_decoder){0};
}

void x86_seek(struct x86_decoder *d, const u8 *code, size_t len, u64 vaddr)
{
	d->pos = code;
	d->left = len;
	d->addr = vaddr;
}

bool x86_next(struct x86_decoder *d)
{
	uint64_t addr = d->addr;
	bool ok = cs_disasm_iter(d->handle, &d->pos, &d->left, &addr, d->insn);

	d->addr = addr;
	return ok;
}

bool x86_skip_byte(struct x86_decoder *d)
{
	if (!d->left)
		return false;
	d->pos++;
	d->left--;
	d->addr++;
	return true;
}

enum x86_flow x86_flow(const struct x86_decoder *d, u64 *target)
{
	const cs_insn *insn = d->insn;
	const cs_x86 *x86 = &insn->detail->x86;
	bool direct = x86->op_count == 1 && x86->operands[0].type == X86_OP_IMM;

	switch (insn->id) {
	case X86_INS_HLT:
	case X86_INS_UD2:
	case X86_INS_INT3:
		return X86_FLOW_END;
	case X86_INS_SYSCALL:
	case X86_INS_SYSENTER:
		return X86_FLOW_OTHER;
	}
	if (cs_insn_group(d->handle, insn, CS_GRP_RET) ||
	    cs_insn_group(d->handle, insn, CS_GRP_IRET))
		return X86_FLOW_END;
	if (cs_insn_group(d->handle, insn, CS_GRP_CALL)) {
		if (!direct)
			return X86_FLOW_OTHER;
		*target = (u64)x86->operands[0].imm;
		return X86_FLOW_CALL;
	}
	if (cs_insn_group(d->handle, insn, CS_GRP_JUMP)) {
		if (!direct)
			return X86_FLOW_END;
		*target = (u64)x86->operands[0].imm;
		return insn->id == X86_INS_JMP ? X86_FLOW_JMP : X86_FLOW_JCC;
	}
	if (cs_insn_group(d->handle, insn, CS_GRP_INT))
		return X86_FLOW_OTHER;
	return X86_FLOW_NONE;
}

/* One row per register in encoding order: 64, 32, 16, low 8 and high 8 bits. */
static const u16 reg_names[16][5] = {
	{X86_REG_RAX, X86_REG_EAX, X86_REG_AX, X86_REG_AL, X86_REG_AH},
	{X86_REG_RCX, X86_REG_ECX, X86_REG_CX, X86_REG_CL, X86_REG_CH},
	{X86_REG_RDX, X86_REG_EDX, X86_REG_DX, X86_REG_DL, X86_REG_DH},
	{X86_REG_RBX, X86_REG_EBX, X86_REG_BX, X86_REG_BL, X86_REG_BH},
	{X86_REG_RSP, X86_REG_ESP, X86_REG_SP, X86_REG_SPL},
	{X86_REG_RBP, X86_REG_EBP, X86_REG_BP, X86_REG_BPL},
	{X86_REG_RSI, X86_REG_ESI, X86_REG_SI, X86_REG_SIL},
	{X86_REG_RDI, X86_REG_EDI, X86_REG_DI, X86_REG_DIL},
	{X86_REG_R8, X86_REG_R8D, X86_REG_R8W, X86_REG_R8B},
	{X86_REG_R9, X86_REG_R9D, X86_REG_R9W, X86_REG_R9B},
	{X86_REG_R10, X86_REG_R10D, X86_REG_R10W, X86_REG_R10B},
	{X86_REG_R11, X86_REG_R11D, X86_REG_R11W, X86_REG_R11B},
	{X86_REG_R12, X86_REG_R12D, X86_REG_R12W, X86_REG_R12B},
	{X86_REG_R13, X86_REG_R13D, X86_REG_R13W, X86_REG_R13B},
	{X86_REG_R14, X86_REG_R14D, X86_REG_R14W, X86_REG_R14B},
	{X86_REG_R15, X86_REG_R15D, X86_REG_R15W, X86_REG_R15B},
};

int x86_reg_index(x86_reg reg)
{
	if (reg == X86_REG_INVALID)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(reg_names); i++)
		for (size_t j = 0; j < ARRAY_SIZE(reg_names[i]); j++)
			if (reg_names[i][j] == reg)
				return (int)i;
	return -1;
}

static bool only_reads(unsigned int id)
{
	return id == X86_INS_CMP || id == X86_INS_TEST || id == X86_INS_PUSH;
}

u32 x86_writes(const struct x86_decoder *d)
{
	const cs_x86 *x86 = &d->insn->detail->x86;
	cs_regs reads, writes;
	u8 nreads = 0, nwrites = 0;
	u32 set = 0;
	int i;

	if (!cs_regs_access(d->handle, d->insn, reads, &nreads, writes, &nwrites)) {
		for (u8 n = 0; n < nwrites; n++) {
			i = x86_reg_index(writes[n]);
			if (i >= 0)
				set |= 1u << i;
		}
	}
	/* capstone's access tables have gaps: the first operand is the destination */
	if (x86->op_count && x86->operands[0].type == X86_OP_REG && !only_reads(d->insn->id)) {
		i = x86_reg_index(x86->operands[0].reg);
		if (i >= 0)
			set |= 1u << i;
	}
	return set;
}
