// SPDX-License-Identifier: BSD-2-Clause
#include "bpfsys.h"

#include <errno.h>
#include <sys/syscall.h>

#define SYS_BPF_LINK_CREATE   28
#define UPROBE_MULTI_F_RETURN 1u

/* union bpf_attr's link_create with uprobe_multi, as the uapi lays it out. */
struct link_create_attr {
	u32 prog_fd;
	u32 target_fd;
	u32 attach_type;
	u32 flags;
	u64 path;
	u64 offsets;
	u64 ref_ctr_offsets;
	u64 cookies;
	u32 cnt;
	u32 multi_flags;
	u32 pid;
	u32 pad;
};

int bpfsys_uprobe_multi(int prog_fd, u32 attach_type, const char *path, const u64 *offsets,
			const u64 *cookies, u32 n, pid_t pid, bool ret_probe)
{
	struct link_create_attr attr = {
		.prog_fd = prog_fd,
		.attach_type = attach_type,
		.path = (u64)(uintptr_t)path,
		.offsets = (u64)(uintptr_t)offsets,
		.cookies = (u64)(uintptr_t)cookies,
		.cnt = n,
		.multi_flags = ret_probe ? UPROBE_MULTI_F_RETURN : 0,
		.pid = pid,
	};
	int fd = syscall(SYS_bpf, SYS_BPF_LINK_CREATE, &attr, sizeof(attr));

	return fd < 0 ? -errno : fd;
}
