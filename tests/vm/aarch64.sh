#!/bin/busybox sh
# SPDX-License-Identifier: BSD-2-Clause
# The first process of scripts/vmtest-aarch64.sh's machine: what must work on aarch64.
bb=/bin/busybox
$bb mount -t proc proc /proc
$bb mount -t sysfs sys /sys
$bb mount -t devtmpfs dev /dev
$bb mount -t tracefs tracefs /sys/kernel/tracing
$bb mount -t tmpfs tmp /tmp
export PATH=/bin HOME=/tmp
failed=0

trace()
{
	LD_LIBRARY_PATH=/pht $bb timeout 120 /pht/pyheaptrace "$@"
}

# expect NAME TEXT: the last output has a line that matches.
expect()
{
	if $bb grep -qE "$2" /tmp/out; then
		echo "ok: $1"
	else
		echo "FAILED: $1 (no $2)"
		failed=1
	fi
}

$bb uname -srm
trace check >/tmp/out 2>&1
$bb cat /tmp/out
expect "the tracer can run" '^pyheaptrace can run here'

/bin/python3 -S /pht/two_leaks.py >/tmp/leaks 2>&1 &
pid=$!
while ! $bb grep -q ready /tmp/leaks; do
	[ -d /proc/$pid ] || break
	$bb sleep 0.2
done

trace -p $pid --collector=trampoline -d 1 >/tmp/out 2>&1
expect "the trampoline is refused in a line" 'written for x86-64 only'
trace -p $pid --collector=growth -d 1 >/tmp/out 2>&1
expect "growth is refused in a line" 'no page fault tracepoint'

# Emulated traps are dear.
trace -v -p $pid -d 15 -i 60 -R 1024 --max-overhead 1000 >/tmp/out 2>&1
$bb cat /tmp/out
expect "auto takes probes" '^collector   probe'
expect "the other thread's leak, without the GIL's help" 'two_leaks.py:16 +leak_in_thread'
expect "whom it was called by" '<- /pht/two_leaks.py:22 +in_thread'
expect "the main thread's leak" 'two_leaks.py:12 +leak_in_main'
$bb grep -qE 'unreadable|no Python state' /tmp/out && { echo "FAILED: stacks that were lost"; failed=1; }

trace rss -p $pid >/tmp/out 2>&1
$bb head -n 12 /tmp/out
expect "rss" 'RSS|resident'
trace census -p $pid >/tmp/out 2>&1
$bb head -n 8 /tmp/out
expect "census" "objects of [0-9]+ types"

[ -d /proc/$pid ] || { echo "FAILED: the traced program has ended"; $bb cat /tmp/leaks; failed=1; }
echo "status $failed"
$bb poweroff -f
