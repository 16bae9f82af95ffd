#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Print the running kernel's definition of each type in vmlinux/<arch>/vmlinux.h,
# to compare it with the trimmed one there when a field is added.
set -eu
bpftool=$(command -v bpftool || echo /usr/sbin/bpftool)
full=$("$bpftool" btf dump file /sys/kernel/btf/vmlinux format c)
for type in task_struct thread_struct pt_regs bpf_raw_tracepoint_args; do
	printf '%s\n' "$full" | awk -v start="struct $type {" '
		$0 == start { on = 1 }
		on { print }
		on && $0 == "};" { exit }'
done
