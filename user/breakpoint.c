// SPDX-License-Identifier: BSD-2-Clause
#include "breakpoint.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>

static int attach(struct perf_event_attr *attr, pid_t tid, struct bpf_program *prog,
		  struct bpf_link **out)
{
	struct bpf_link *link;
	int fd;

	attr->size = sizeof(*attr);
	attr->sample_period = 1;
	attr->inherit = 1;
	/* A thread that is stopped inside of a system call could not be borrowed. */
	attr->exclude_kernel = 1;
	fd = (int)syscall(SYS_perf_event_open, attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return -errno;
	link = bpf_program__attach_perf_event(prog, fd);
	if (!link) {
		int err = -errno;

		close(fd);
		return err;
	}
	*out = link; /* which owns fd */
	return 0;
}

int breakpoint_set(const struct probes *probes, pid_t tid, u64 addr, enum breakpoint_kind kind,
		   struct bpf_link **out)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.bp_type = kind == BREAK_EXEC ? HW_BREAKPOINT_X : HW_BREAKPOINT_W,
		.bp_addr = addr,
		.bp_len = kind == BREAK_EXEC ? sizeof(long) : HW_BREAKPOINT_LEN_4,
	};

	return attach(&attr, tid, probes_breakpoint_program(probes), out);
}

int breakpoint_births(const struct probes *probes, pid_t tid, struct bpf_link **out)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_PAGE_FAULTS,
	};

	return attach(&attr, tid, probes_birth_program(probes), out);
}

void breakpoint_remove(struct bpf_link *link)
{
	bpf_link__destroy(link);
}
