/* SPDX-License-Identifier: BSD-2-Clause */
/* How a thread of the target reaches its own PyThreadState (cpython-internals A.3). */
#ifndef PHT_PYTLS_H
#define PHT_PYTLS_H

#include "elf.h"
#include "pyinfo.h"

/* A thread-local variable as the code that reads it names it; addresses as in the file. */
enum tls_ref_kind {
	TLS_REF_TP,   /* thread pointer + offset */
	TLS_REF_GOT,  /* thread pointer + *(u64 *)got + offset */
	TLS_REF_PAIR, /* {module, offset} at got, for __tls_get_addr; + offset */
	TLS_REF_DESC, /* TLS descriptor {function, argument} at got; + offset */
};

struct tls_ref {
	enum tls_ref_kind kind;
	u64 got;
	s64 offset;
};

/*
 * The variable that a function without branches returns the value of.
 * machine is EM_X86_64 or EM_AARCH64; vaddr is code[0]'s.  Pure; the bytes are
 * hostile.  0, or -ENOENT (it does something else).
 */
int pytls_decode(u16 machine, const u8 *code, size_t len, u64 vaddr, struct tls_ref *out);

/*
 * Fill info->tls_* and info->tss_key from the object's code and the live
 * process; what cannot be found stays PHT_TLS_NONE / PHT_ABSENT.  0, or
 * -ESRCH, -EPERM.
 */
int pytls_find(struct pyinfo *info, struct elf_file *elf);

#endif
