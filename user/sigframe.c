// SPDX-License-Identifier: BSD-2-Clause
#include "sigframe.h"

#ifdef __x86_64__
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/user.h>

#define RED_ZONE 128

/* struct ucontext as the x86-64 kernel reads it in rt_sigreturn. */
struct frame_context {
	u64 flags;
	u64 link;
	u64 stack_sp;
	u32 stack_flags;
	u32 pad;
	u64 stack_size;
	u64 r8, r9, r10, r11, r12, r13, r14, r15;
	u64 rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
	u16 cs, gs, fs, ss;
	u64 err, trapno, oldmask, cr2;
	u64 fpstate;
	u64 reserved[8];
	u64 sigmask;
};
_Static_assert(sizeof(struct frame_context) == 304, "ucontext");

#define CONTEXT_FP_XSTATE   1
#define CONTEXT_SS	    2
#define CONTEXT_STRICT_SS   4
#define STACK_FLAGS_INVALID 0x7f /* refused, and the refusal ignored: the alternate stack stays */

/* The words a signal frame adds to an XSAVE image, so that the kernel takes all of it. */
#define XSTATE_SW      464
#define XSTATE_BV      512
#define XSTATE_MAGIC1  0x46505853u
#define XSTATE_MAGIC2  0x46505845u
#define XSTATE_MIN     576
#define XSTATE_AMX     2752	    /* where the AMX tiles begin, */
#define XSTATE_PRE_AMX 2696	    /* what ends before them, */
#define XSTATE_AMX_BV  (3ull << 17) /* and their components */

struct xstate_words {
	u32 magic1;
	u32 extended_size;
	u64 features;
	u32 size;
	u32 pad[7];
};

/* Errors that mean "restart me": include/linux/errno.h, not exported. */
#define ERR_RESTART_SYS	  -512
#define ERR_RESTART_NOINT -513
#define ERR_RESTART_NOHND -514
#define ERR_RESTART_BLOCK -516

static bool waits_for_restart(const struct user_regs_struct *regs)
{
	if ((s64)regs->orig_rax < 0)
		return false;
	switch ((s64)regs->rax) {
	case ERR_RESTART_SYS:
	case ERR_RESTART_NOINT:
	case ERR_RESTART_NOHND:
	case ERR_RESTART_BLOCK: /* sigreturn forgets the rest of a sleep: the whole again */
		return true;
	}
	return false;
}

static void fill_context(const struct user_regs_struct *regs, u64 blocked, u64 fpstate,
			 struct frame_context *uc)
{
	bool restart = waits_for_restart(regs);

	*uc = (struct frame_context){
		.flags = CONTEXT_FP_XSTATE | CONTEXT_SS | CONTEXT_STRICT_SS,
		.stack_flags = STACK_FLAGS_INVALID,
		.r8 = regs->r8,
		.r9 = regs->r9,
		.r10 = regs->r10,
		.r11 = regs->r11,
		.r12 = regs->r12,
		.r13 = regs->r13,
		.r14 = regs->r14,
		.r15 = regs->r15,
		.rdi = regs->rdi,
		.rsi = regs->rsi,
		.rbp = regs->rbp,
		.rbx = regs->rbx,
		.rdx = regs->rdx,
		.rax = restart ? regs->orig_rax : regs->rax,
		.rcx = regs->rcx,
		.rsp = regs->rsp,
		.rip = restart ? regs->rip - 2 : regs->rip,
		.eflags = regs->eflags,
		.cs = (u16)regs->cs,
		.ss = (u16)regs->ss,
		.fpstate = fpstate,
		.sigmask = blocked,
	};
}

int sigframe_build(const struct user_regs_struct *regs, u64 blocked, const u8 *xstate, size_t len,
		   u64 sigreturn, struct sigframe *out)
{
	struct frame_context uc;
	struct xstate_words words = {.magic1 = XSTATE_MAGIC1};
	u32 magic2 = XSTATE_MAGIC2;
	u64 top, fp, bv;
	size_t fp_off;

	if (len < XSTATE_MIN || len > SIGFRAME_MAX - 1024 || regs->rsp < SIGFRAME_MAX + 65536)
		return -EINVAL;
	memcpy(&words.features, xstate + XSTATE_SW, sizeof(words.features));
	memcpy(&bv, xstate + XSTATE_BV, sizeof(bv));
	/* A thread that never asked for AMX has no room for its tiles: the kernel would refuse. */
	if (len > XSTATE_AMX && !(bv & XSTATE_AMX_BV)) {
		len = XSTATE_PRE_AMX;
		words.features &= ~XSTATE_AMX_BV;
	}
	words.size = (u32)len;
	words.extended_size = (u32)(len + sizeof(magic2));

	top = regs->rsp - RED_ZONE;
	fp = (top - words.extended_size) & ~63ull;
	out->uc = (fp - sizeof(uc)) & ~15ull;
	out->addr = out->uc - sizeof(u64) - SIGFRAME_SCRATCH;
	fp_off = fp - out->addr;
	out->len = (u32)(fp_off + words.extended_size);

	memset(out->bytes, 0, out->len);
	fill_context(regs, blocked, fp, &uc);
	memcpy(out->bytes + SIGFRAME_SCRATCH, &sigreturn, sizeof(sigreturn));
	memcpy(out->bytes + SIGFRAME_SCRATCH + sizeof(sigreturn), &uc, sizeof(uc));
	memcpy(out->bytes + fp_off, xstate, len);
	memcpy(out->bytes + fp_off + XSTATE_SW, &words, sizeof(words));
	memcpy(out->bytes + fp_off + len, &magic2, sizeof(magic2));
	return 0;
}
#endif
