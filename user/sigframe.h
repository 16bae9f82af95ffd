/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The signal frame that lets a stopped thread find back by itself.  While its
 * registers are borrowed, the thread always stands before an rt_sigreturn over
 * this frame: if the tracer dies, the kernel resumes the thread, and the thread
 * resumes what it was doing.
 */
#ifndef PHT_SIGFRAME_H
#define PHT_SIGFRAME_H

#include "util.h"

struct user_regs_struct;

#define SIGFRAME_MAX	 (20 << 10)
#define SIGFRAME_SCRATCH 64 /* bytes at addr that the frame does not use */

struct sigframe {
	u64 addr; /* of bytes[0] in the target */
	u64 uc;	  /* rsp for rt_sigreturn; the word below is the return address */
	u32 len;
	u8 bytes[SIGFRAME_MAX];
};

/*
 * Lay out a frame below the red zone of regs->rsp.  xstate is what
 * PTRACE_GETREGSET gave for NT_X86_XSTATE; sigreturn is the address that the
 * word below uc holds.  A system call that waits to be restarted is restarted
 * by the frame.  0 or -EINVAL.
 */
int sigframe_build(const struct user_regs_struct *regs, u64 blocked, const u8 *xstate, size_t len,
		   u64 sigreturn, struct sigframe *out);

#endif
