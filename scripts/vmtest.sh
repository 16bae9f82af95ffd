#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Boots one of Debian's kernels in QEMU, no KVM needed, and runs a command in it.
#
#	scripts/vmtest.sh KERNEL [COMMAND [ARG...]]
#
# KERNEL as for vm-kernel.sh.  The machine sees this host's files (those that the
# caller can read) at the same paths; what it writes is gone afterwards.  COMMAND
# runs as root in the current directory with the environment variables PATH, HOME,
# LANG and PHT_*; without one, tests/vm/core.sh runs.  Exits with COMMAND's status,
# or with 124 when VM_TIMEOUT (900) seconds were not enough, or with 125 when the
# machine itself fails.  VM_MEMORY (2048 MiB), VM_CPUS (2), VM_CONSOLE=1 (the
# kernel's messages as well).
set -eu

kernel=${1:?usage: $0 KERNEL [COMMAND [ARG...]]}
shift
here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")
limit=${VM_TIMEOUT:-900}
[ $# -gt 0 ] || set -- "$top/tests/vm/core.sh"

die()
{
	echo "vmtest: $*" >&2
	exit 125
}

for tool in qemu-system-x86_64 busybox cpio; do
	command -v $tool >/dev/null ||
		die "$tool is missing; run sudo scripts/install-deps.sh --vm"
done

# Quoted for a shell to read.
quote()
{
	printf "'%s'" "$(printf %s "$1" | sed "s/'/'\\\\''/g")"
}

make_job()
{
	for name in PATH HOME LANG $(env | sed -n 's/^\(PHT_[A-Za-z0-9_]*\)=.*/\1/p'); do
		eval "value=\${$name:-}"
		# shellcheck disable=SC2154
		echo "export $name=$(quote "$value")"
	done
	echo "cd $(quote "$PWD") || exit 125"
	printf exec
	for word; do
		printf ' %s' "$(quote "$word")"
	done
	echo
}

make_initramfs()
{
	mkdir -p "$work/root/bin"
	cp "$(command -v busybox)" "$work/root/bin/busybox"
	cp "$here/vm-init.sh" "$work/root/init"
	chmod 755 "$work/root/init" "$work/root/bin/busybox"
	cp -r "$image/modules" "$work/root/modules"
	make_job "$@" >"$work/root/job"
	(cd "$work/root" && find . | cpio -o -H newc --quiet) | gzip -1 >"$work/initramfs"
}

run_machine()
{
	messages=quiet
	[ "${VM_CONSOLE:-0}" = 0 ] || messages="loglevel=7 earlyprintk=serial"
	# A kernel that oopses or warns is a failure: it stops at once, and tells no status.
	# On a busy machine emulated time stutters, and its timer check gives up: no_timer_check.
	options="no_timer_check panic=-1 oops=panic panic_on_warn=1"
	timeout --foreground "$limit" qemu-system-x86_64 \
		-accel tcg,thread=multi -cpu max -smp "${VM_CPUS:-2}" -m "${VM_MEMORY:-2048}" \
		-nodefaults -no-user-config -display none -no-reboot \
		-serial stdio -serial "file:$work/status" \
		-fsdev local,id=host,path=/,security_model=none,readonly=on,multidevs=remap \
		-device virtio-9p-pci,fsdev=host,mount_tag=host \
		-kernel "$image/vmlinuz" -initrd "$work/initramfs" \
		-append "console=ttyS0,115200 $messages $options" </dev/null &
	machine=$!
	code=0
	wait $machine || code=$?
	machine=
	return $code
}

image=$("$here/vm-kernel.sh" "$kernel" "${VM_CACHE:-$top/build/vm}") || exit 125
work=$(mktemp -d)
machine=
trap '[ -z "$machine" ] || kill $machine || :; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
make_initramfs "$@"
code=0
run_machine || code=$?
[ "$code" -ne 124 ] || { echo "vmtest: $kernel did not end within $limit s" >&2; exit 124; }
status=$(tr -d '\r' <"$work/status" | sed -n 's/^status \([0-9]*\)$/\1/p' | head -n 1)
[ -n "$status" ] || die "$kernel ended without a status (qemu: $code)"
exit "$status"
