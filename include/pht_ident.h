/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Identity of a code object; the unwinder and the name reader must agree on it. */
#ifndef PHT_IDENT_H
#define PHT_IDENT_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

/* Pointers of co_name and co_filename, and co_firstlineno -> 32 bits, bit 0 clear. */
static inline __attribute__((always_inline)) __u32 pht_ident(__u64 name, __u64 filename,
							     __u32 firstlineno)
{
	__u64 h = name * 0x9e3779b97f4a7c15ull;

	h ^= filename + 0x7f4a7c159e3779b9ull + (h << 6) + (h >> 2);
	h *= 0xff51afd7ed558ccdull;
	h ^= firstlineno + (h >> 29);
	h *= 0xc4ceb9fe1a85ec53ull;
	/* 0 stands for "unreadable". */
	h = (h >> 32) & ~1u;
	return h ? h : 2;
}

#endif
