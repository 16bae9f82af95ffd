// SPDX-License-Identifier: BSD-2-Clause
#include "insn.h"

#include <string.h>

#include "insn_x86.h"

/* More code than any function of an allocator has. */
#define SWEEP_MAX (64u << 10)
/* Sites further in than this many instructions are not worth the reading. */
#define SITE_INSNS 12

static const u8 endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
static const u8 nop5[] = {0x0f, 0x1f, 0x44, 0x00, 0x00};

static bool starts_with(const u8 *code, size_t len, const u8 *what, size_t n)
{
	return len >= n && !memcmp(code, what, n);
}

/* Linear sweep, passing over bytes that are no code; capstone 4 does not know endbr64. */
static bool sweep_next(struct x86_decoder *d)
{
	for (;;) {
		while (starts_with(d->pos, d->left, endbr64, sizeof(endbr64)))
			x86_seek(d, d->pos + 4, d->left - 4, d->addr + 4);
		if (x86_next(d))
			return true;
		if (!x86_skip_byte(d))
			return false;
	}
}

static enum probe_cost x86_cost(const u8 *bytes, size_t len)
{
	u8 op;

	if (!len)
		return PROBE_STEPPED;
	op = bytes[0];
	if (op >= 0x50 && op <= 0x57)
		return PROBE_EMULATED; /* push */
	if (op == 0x41 && len == 2 && bytes[1] >= 0x50 && bytes[1] <= 0x57)
		return PROBE_EMULATED; /* push r8..r15 */
	if (op == 0x90 || op == 0xeb || op == 0xe9 || op == 0xe8)
		return PROBE_EMULATED; /* nop, jmp, call */
	if (op >= 0x70 && op <= 0x7f)
		return PROBE_EMULATED; /* short jcc */
	if (op == 0x0f && len >= 2 && bytes[1] >= 0x80 && bytes[1] <= 0x8f)
		return PROBE_EMULATED; /* near jcc */
	return PROBE_STEPPED;
}

/* The lowest place past the entry that code inside the function jumps to. */
static u64 first_join(struct x86_decoder *d, const u8 *code, size_t len, u64 vaddr)
{
	u64 join = len, target = 0;

	x86_seek(d, code, len, vaddr);
	while (sweep_next(d)) {
		enum x86_flow flow = x86_flow(d, &target);

		if ((flow == X86_FLOW_JMP || flow == X86_FLOW_JCC || flow == X86_FLOW_CALL) &&
		    target > vaddr && target - vaddr < join)
			join = target - vaddr;
	}
	return join;
}

/*
 * Instructions that a site may lie behind: they go on to the next one, once,
 * and write nothing but what x86_writes() says.
 */
static bool may_pass(const struct x86_decoder *d)
{
	static const u16 plain[] = {
		X86_INS_MOV,  X86_INS_MOVABS, X86_INS_MOVZX,  X86_INS_MOVSX,  X86_INS_MOVSXD,
		X86_INS_LEA,  X86_INS_CMP,    X86_INS_TEST,   X86_INS_XOR,    X86_INS_OR,
		X86_INS_AND,  X86_INS_ADD,    X86_INS_SUB,    X86_INS_PUSH,   X86_INS_NOP,
		X86_INS_SHL,  X86_INS_SHR,    X86_INS_SAR,    X86_INS_NEG,    X86_INS_NOT,
		X86_INS_INC,  X86_INS_DEC,    X86_INS_BT,     X86_INS_PXOR,   X86_INS_XORPS,
		X86_INS_MOVQ, X86_INS_MOVD,   X86_INS_MOVAPS, X86_INS_MOVUPS,
	};
	u64 target;

	if (d->insn->detail->x86.prefix[0] || x86_flow(d, &target) != X86_FLOW_NONE)
		return false; /* lock, rep */
	for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
		if (d->insn->id == plain[i])
			return true;
	return false;
}

static u32 arg_regs(const struct prologue_query *q)
{
	static const u8 order[] = {X86_RDI, X86_RSI, X86_RDX, X86_RCX, X86_R8, X86_R9};
	u32 set = q->needs_return ? 1u << X86_RSP : 0;

	for (int i = 0; i < q->nargs && i < (int)ARRAY_SIZE(order); i++)
		set |= 1u << order[i];
	return set;
}

static bool is_null_test(const cs_insn *insn)
{
	static const u8 test_rdi[] = {0x48, 0x85, 0xff};

	return insn->size == sizeof(test_rdi) && !memcmp(insn->bytes, test_rdi, sizeof(test_rdi));
}

static bool is_je(const cs_insn *insn)
{
	return insn->bytes[0] == 0x74 || (insn->bytes[0] == 0x0f && insn->bytes[1] == 0x84);
}

/* Walk the straight line from the entry; the first cheap instruction wins. */
static struct probe_site walk_line(struct x86_decoder *d, const struct prologue_query *q,
				   size_t len, u64 join)
{
	struct probe_site best = {.offset = 0, .cost = PROBE_STEPPED};
	bool patchable = starts_with(q->code, len, nop5, sizeof(nop5));
	bool null_test = false, past_null = false;
	u32 keep = arg_regs(q);

	x86_seek(d, q->code, len, q->vaddr);
	if (starts_with(q->code, len, endbr64, sizeof(endbr64)))
		x86_seek(d, q->code + 4, len - 4, q->vaddr + 4);
	for (int n = 0; n < SITE_INSNS; n++) {
		u64 offset = (u64)(d->pos - q->code);
		enum probe_cost cost;

		if ((offset && offset >= join) || !x86_next(d))
			break;
		cost = x86_cost(d->insn->bytes, d->insn->size);
		if (cost == PROBE_EMULATED && (best.cost != cost || past_null)) {
			best = (struct probe_site){.offset = offset, .cost = cost};
			if (past_null || !q->null_skip_ok)
				break;
		}
		/* an optimised nop5 kills forked children on some kernels: go behind it */
		if (patchable && offset && best.offset == 0)
			best = (struct probe_site){.offset = offset, .cost = cost};
		if (null_test && q->null_skip_ok && is_je(d->insn)) {
			past_null = true;
			null_test = false;
			continue;
		}
		if (!may_pass(d) || (x86_writes(d) & keep))
			break;
		null_test = is_null_test(d->insn);
	}
	return best;
}

static struct probe_site x86_probe_site(const struct prologue_query *q)
{
	size_t len = q->size && q->size < q->len ? q->size : q->len;
	struct probe_site site = {.offset = 0, .cost = PROBE_STEPPED};
	struct x86_decoder d;

	if (len > SWEEP_MAX)
		len = SWEEP_MAX;
	if (!len || x86_open(&d, q->code, len, q->vaddr))
		return site;
	site = walk_line(&d, q, len, first_join(&d, q->code, len, q->vaddr));
	x86_close(&d);
	return site;
}

static size_t add_target(u64 target, u64 start, size_t len, u64 *targets, size_t n, size_t max)
{
	if (target - start < len || n >= max)
		return n;
	for (size_t i = 0; i < n; i++)
		if (targets[i] == target)
			return n;
	targets[n] = target;
	return n + 1;
}

static size_t x86_branch_targets(const u8 *code, size_t len, u64 vaddr, u64 *targets, size_t max)
{
	struct x86_decoder d;
	u64 target = 0;
	size_t n = 0;

	if (!len || x86_open(&d, code, len, vaddr))
		return 0;
	while (n < max && sweep_next(&d)) {
		enum x86_flow flow = x86_flow(&d, &target);

		if (flow == X86_FLOW_CALL || flow == X86_FLOW_JMP || flow == X86_FLOW_JCC)
			n = add_target(target, vaddr, len, targets, n, max);
	}
	x86_close(&d);
	return n;
}

/* B and BL: bits 30..26 are 00101, then a signed count of words. */
static size_t a64_branch_targets(const u8 *code, size_t len, u64 vaddr, u64 *targets, size_t max)
{
	size_t n = 0;

	for (size_t at = 0; at + 4 <= len && n < max; at += 4) {
		u32 word;
		s32 words;

		memcpy(&word, code + at, sizeof(word));
		if ((word & 0x7c000000u) != 0x14000000u)
			continue;
		words = (s32)(word << 6) >> 6;
		n = add_target(vaddr + at + (u64)((s64)words * 4), vaddr, len, targets, n, max);
	}
	return n;
}

#ifdef __aarch64__
#define NATIVE_A64 1
#else
#define NATIVE_A64 0
#endif

struct probe_site insn_probe_site(const struct prologue_query *q)
{
	if (NATIVE_A64)
		return (struct probe_site){.offset = 0, .cost = PROBE_STEPPED};
	return x86_probe_site(q);
}

size_t insn_branch_targets(const u8 *code, size_t len, u64 vaddr, u64 *targets, size_t max)
{
	if (len > SWEEP_MAX)
		len = SWEEP_MAX;
	if (NATIVE_A64)
		return a64_branch_targets(code, len, vaddr, targets, max);
	return x86_branch_targets(code, len, vaddr, targets, max);
}
