/* SPDX-License-Identifier: BSD-2-Clause */
/* The current thread as the machine of bpf/machine.bpf.h keeps it. */
#ifndef PHT_MACHINE_SIM_H
#define PHT_MACHINE_SIM_H

#include "bpf_shim.h"
#include "machine.bpf.h"

/* Size of the thread descriptor: any under a page, where the pointer is behind it. */
#define MACHINE_SELF_SIZE (MACHINE_SELF_SPAN > 1 ? 0x740 : 0)

static inline __u64 machine_self(__u64 tp)
{
	return tp - MACHINE_SELF_SIZE;
}

/* From here on the thread with that pointer runs. */
static inline void machine_thread(__u64 tp)
{
	shim.task.thread.MACHINE_THREAD_POINTER = tp;
}

#endif
