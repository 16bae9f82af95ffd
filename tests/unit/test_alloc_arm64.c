// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_alloc_bpf with aarch64's registers: the return address in one of them,
 * the same stack pointer at entry and return, thread descriptors below the
 * thread pointer.
 */
#define __TARGET_ARCH_arm64
#include "test_alloc_bpf.c"
