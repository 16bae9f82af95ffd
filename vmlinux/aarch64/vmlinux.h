/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * See ../common.h.  user_pt_regs is the probe context and is laid out in full,
 * as arch/arm64's uapi ptrace.h has it; pt_regs begins with it and is a name only.
 */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

#include "../common.h"

struct user_pt_regs {
	__u64 regs[31];
	__u64 sp;
	__u64 pc;
	__u64 pstate;
};

struct pt_regs;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct thread_struct {
	struct {
		unsigned long tp_value;
	} uw;
};

#pragma clang attribute pop

#define __VMLINUX_THREAD__
#include "../common.h"

#endif
