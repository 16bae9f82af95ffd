/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a thread's pointer, its descriptor and its vector of TLS blocks are, by machine. */
#ifndef PHT_PYTLS_MACHINE_H
#define PHT_PYTLS_MACHINE_H

#include "proc.h"

struct pytls_machine {
	u64 tp;	 /* thread pointer - pthread_self() */
	u64 dtv; /* the vector's address is at thread pointer + this */
};

/*
 * For a process whose interpreter is of that ELF machine (EM_X86_64, EM_AARCH64).
 * 0; -ENOENT: unknown machine, or a libc that does not tell the descriptor's size.
 */
int pytls_machine(pid_t pid, u16 machine, struct pytls_machine *out);

/* Size of glibc's thread descriptor in that process; 0 or -ENOENT. */
int pytls_descriptor_size(pid_t pid, u64 *size);

#endif
