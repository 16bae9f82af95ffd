#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Boots kernels in QEMU, all at once, and runs tests/vm/quick.py in each.
#
#	scripts/vmtest-quick.sh [KERNEL...]
#
# KERNEL as for vm-kernel.sh; 5.10 and 6.1 by default.  Part of `make test`.  Without QEMU,
# or where the archive does not hand out a kernel, it says so and skips it; with
# PHT_REQUIRE_VM=1 that is a failure.  Where both are there, a failure is one.
set -u

here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")
cache=${VM_CACHE:-$top/build/vm}
# Enough to boot and for one Python; the deadline is for what hangs.
export VM_MEMORY="${VM_MEMORY:-1024}" VM_TIMEOUT="${VM_TIMEOUT:-600}" VM_CACHE="$cache"
UNAVAILABLE=69

# Its status: 0 or 1, as the caller requires.
skip()
{
	echo "SKIPPED, NOT TESTED ON KERNEL $1: $2" >&2
	[ "${PHT_REQUIRE_VM:-0}" != 1 ]
}

[ $# -gt 0 ] || set -- 5.10 6.1
for tool in qemu-system-x86_64 busybox cpio; do
	if ! command -v $tool >/dev/null; then
		skip "$(echo $* | sed 's/ / and /g')" "no $tool; sudo scripts/install-deps.sh --vm"
		exit
	fi
done

work=$(mktemp -d)
clean_up()
{
	for pid in $(cat "$work"/*.pid 2>/dev/null); do
		kill "$pid" 2>/dev/null
	done
	rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# Leaves in files what it printed, and passed, failed or skipped.
on_kernel()
{
	began=$(date +%s)
	outcome=failed
	"$here/vm-kernel.sh" "$1" "$cache" >/dev/null
	code=$?
	if [ $code -eq $UNAVAILABLE ]; then
		skip "$1" "there is no such kernel to be had" && outcome=skipped
	elif [ $code -eq 0 ]; then
		# In the background: only so it can be ended when this script is.
		"$here/vmtest.sh" "$1" "$top/tests/vm/quick.py" &
		echo $! >"$work/$1.pid"
		wait $! && outcome=passed
		rm -f "$work/$1.pid"
		echo "== kernel $1 took $(($(date +%s) - began)) s"
	fi
	echo $outcome >"$work/$1.outcome"
}

for kernel; do
	on_kernel "$kernel" >"$work/$kernel.log" 2>&1 </dev/null &
done
wait

failed=
summary=
for kernel; do
	outcome=$(cat "$work/$kernel.outcome")
	echo "== kernel $kernel"
	cat "$work/$kernel.log"
	summary="$summary $kernel $outcome,"
	[ "$outcome" != failed ] || failed=yes
done
echo "quick core tests:${summary%,}"
[ -z "$failed" ]
