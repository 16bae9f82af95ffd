/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The few kernel types that the programs in bpf/ use, as far as they are alike
 * on all machines.  A full dump is 5 MB and depends on the kernel it was taken
 * from; CO-RE needs only the names of the fields that are read, so the structs
 * are cut down to those.  <machine>/vmlinux.h includes this in two parts: the
 * plain types first, then what contains its own thread_struct.
 * scripts/gen-vmlinux.sh prints the running kernel's version of each.
 */
#ifndef __VMLINUX_TYPES__
#define __VMLINUX_TYPES__

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;
typedef _Bool bool;

enum { false = 0, true = 1 };

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PROG_ARRAY = 3,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum { BPF_ANY = 0, BPF_NOEXIST = 1, BPF_EXIST = 2 };
enum { BPF_F_NO_PREALLOC = 1 };
enum { BPF_RB_AVAIL_DATA = 0, BPF_RB_RING_SIZE = 1 };

#endif

#if defined(__VMLINUX_THREAD__) && !defined(__VMLINUX_TASK__)
#define __VMLINUX_TASK__
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct mm_struct;

typedef struct {
	int counter;
} atomic_t;

struct task_struct;

struct signal_struct {
	atomic_t live;
	unsigned int flags;
	struct task_struct *group_exec_task; /* 5.17 and newer */
};

/* 5.16 and older. */
struct signal_struct___old {
	struct task_struct *group_exit_task;
};

struct task_struct {
	struct mm_struct *mm;
	int pid;
	int tgid;
	int exit_code;
	__u64 start_boottime;
	struct signal_struct *signal;
	struct thread_struct thread;
};

struct bpf_raw_tracepoint_args {
	__u64 args[0];
};

#pragma clang attribute pop
#endif
