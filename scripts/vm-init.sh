#!/bin/busybox sh
# SPDX-License-Identifier: BSD-2-Clause
# The first process of vmtest.sh's machine.  Mounts the host's root, read-only,
# below an overlay that forgets; runs /job in it; tells its exit status on the
# second serial line; switches the machine off.
#
# It is run twice: from the initramfs, and with "job" once the root is in place.

bb=/bin/busybox

power_off()
{
	# The driver may give up on a byte when emulation is slow: say it again.
	for again in 1 2 3; do
		echo "status $1" >/dev/ttyS1
		$bb usleep 100000
	done
	$bb poweroff -f
	# It takes effect in its own time, and the kernel panics if we return.
	while :; do $bb sleep 60; done
}

die()
{
	echo "vm-init: $*"
	power_off 125
}

# What the job left running would hold the pipe open.
end_all_but()
{
	for dir in /proc/[0-9]*; do
		pid=${dir#/proc/}
		[ "$pid" = 1 ] || [ "$pid" = "$1" ] || kill -9 "$pid" 2>/dev/null
	done
}

if [ "${1:-}" = job ]; then
	bb=/run/vm/busybox
	# Through a pipe: programs must not take the serial line for a person's terminal.
	$bb mkfifo /run/vm/out
	$bb cat /run/vm/out >/dev/console &
	reader=$!
	code=0
	/bin/sh /run/vm/job </dev/null >/run/vm/out 2>&1 || code=$?
	end_all_but $reader
	wait $reader
	power_off $code
fi

$bb mkdir -p /proc /sys /dev /lower /rw /root
$bb mount -t devtmpfs dev /dev
$bb mount -t proc proc /proc
while read -r module; do
	$bb insmod "/modules/$module" || die "cannot load $module"
done </modules/order

# The host's files do not change below us for as long as a test takes: cache them.
$bb mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=262144,cache=loose host /lower ||
	die "cannot mount the host's root"
$bb mount -t tmpfs rw /rw || die "no tmpfs"
$bb mkdir /rw/upper /rw/work
$bb mount -t overlay -o lowerdir=/lower,upperdir=/rw/upper,workdir=/rw/work root /root ||
	die "cannot lay the overlay"
$bb umount /proc
$bb umount /dev

r=/root
$bb mount -t proc proc $r/proc
$bb mount -t sysfs sys $r/sys
$bb mount -t devtmpfs dev $r/dev
$bb mkdir -p $r/dev/pts $r/dev/shm
$bb mount -t devpts pts $r/dev/pts
$bb mount -t tmpfs shm $r/dev/shm
$bb mount -t tmpfs run $r/run
$bb mount -t bpf bpf $r/sys/fs/bpf
$bb mount -t tracefs t $r/sys/kernel/tracing
$bb mount -t debugfs d $r/sys/kernel/debug
$bb mount -t cgroup2 c $r/sys/fs/cgroup
$bb ip link set lo up
$bb hostname vmtest

$bb mkdir $r/run/vm
$bb cp /bin/busybox /job /init $r/run/vm/
exec $bb switch_root $r /run/vm/busybox sh /run/vm/init job
