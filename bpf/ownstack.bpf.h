/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Keeps uprobe programs on the stack of the thread that they run in.
 *
 * From 6.13 on the JIT moves the stack of a larger program into memory of its own, one
 * piece per CPU, because it takes it for granted that a program is not entered a second
 * time on a CPU before it has left.  Of uprobe programs nobody sees to that: where the
 * kernel can be preempted (PREEMPT, PREEMPT_LAZY, which is the only choice on 7.x), a
 * thread that is switched out inside of one shares its variables with the next thread that
 * runs it there.  Wrong counts are the least that comes of it: the pointers that the
 * verifier has checked lie on that stack as well, and the kernel may crash.
 *
 * A program with a tail call anywhere is never given such a stack.  This one is never taken:
 * it is cut out as dead by the verifier, after the choice of the stack was made.
 */
#ifndef PHT_OWNSTACK_BPF_H
#define PHT_OWNSTACK_BPF_H

/* Programs that use the same one must be of one kind: one for each way of attaching. */
#define NO_PROGRAMS(name)                                                                          \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_PROG_ARRAY);                                             \
		__uint(key_size, sizeof(__u32));                                                   \
		__uint(value_size, sizeof(__u32));                                                 \
		__uint(max_entries, 1);                                                            \
	} name SEC(".maps")

NO_PROGRAMS(no_probes);
NO_PROGRAMS(no_sites);

/* Always 0; the compiler must not know. */
const volatile __u32 cfg_tail_call;

#define KEEP_TASK_STACK(programs)                                                                  \
	do {                                                                                       \
		if (cfg_tail_call)                                                                 \
			bpf_tail_call(ctx, &programs, 0);                                          \
	} while (0)

#endif
