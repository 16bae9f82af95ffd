/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * See ../common.h.  pt_regs is the probe context and is laid out in full, as
 * arch/x86's ptrace.h has it.
 */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

#include "../common.h"

struct pt_regs {
	unsigned long r15, r14, r13, r12;
	unsigned long bp, bx;
	unsigned long r11, r10, r9, r8;
	unsigned long ax, cx, dx, si, di;
	unsigned long orig_ax;
	unsigned long ip;
	unsigned long cs;
	unsigned long flags;
	unsigned long sp;
	unsigned long ss;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct thread_struct {
	unsigned long fsbase;
};

#pragma clang attribute pop

#define __VMLINUX_THREAD__
#include "../common.h"

#endif
