#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Runs the README's two commands in a fresh copy of a debootstrapped system, on
# this kernel, on a clean copy of the last commit.
#
#	scripts/chroot-test.sh SUITE [DIR]
#
# Makes DIR/SUITE (minbase, git and sudo) if it is not there; DIR is
# /var/tmp/pht-roots by default.  Must run as root.
set -eu

suite=${1:?usage: $0 SUITE [DIR]}
base=${2:-/var/tmp/pht-roots}
mirror=${PHT_MIRROR:-http://deb.debian.org/debian}
src=$(cd "$(dirname "$0")/.." && pwd)
pristine=$base/$suite
root=$base/run-$suite-$$

[ "$(id -u)" -eq 0 ] || { echo "chroot-test: must be root" >&2; exit 1; }

unmount_all()
{
	# Innermost first; a busy mount must not make rm walk into the host's /sys.
	for m in sys/kernel/tracing sys/kernel/debug sys/fs/bpf sys dev/pts dev proc; do
		mountpoint -q "$root/$m" && umount "$root/$m"
	done
	! grep -q " $root/" /proc/mounts
}

clean_up()
{
	unmount_all && rm -rf "$root"
}

# The commands of the README, so that what is tested is what a reader types.
readme_command()
{
	awk -v mark="<!-- $1 -->" '
		$0 == mark { armed = 1; next }
		armed && /^```/ { if (inside) exit; inside = 1; next }
		inside { print }' "$src/README.md"
}

if [ ! -e "$pristine/.pht-done" ]; then
	debootstrap --variant=minbase --include=git,sudo "$suite" "$pristine" "$mirror"
	touch "$pristine/.pht-done"
fi

trap clean_up EXIT
trap 'exit 130' INT TERM
mkdir -p "$root"
cp -a "$pristine/." "$root/"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
echo "127.0.1.1 $(hostname)" >>"$root/etc/hosts" # or sudo complains
for m in proc sys dev dev/pts sys/fs/bpf sys/kernel/debug sys/kernel/tracing; do
	if [ -d "/$m" ] && mountpoint -q "/$m"; then
		mount --bind "/$m" "$root/$m"
	fi
done

git clone -q --no-local "$src" "$root/src"
first=$(readme_command demo-command)
second=$(readme_command test-command)
[ -n "$first" ] && [ -n "$second" ] || {
	echo "chroot-test: README.md lacks <!-- demo-command --> or <!-- test-command -->" >&2
	exit 1
}

for command in "$first" "$second"; do
	echo "== $suite: $command"
	env -i HOME=/tmp PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		LANG=C.UTF-8 PHT_REQUIRE_BPF="${PHT_REQUIRE_BPF:-1}" \
		chroot "$root" sh -ec "cd /src && $command"
done
echo "== $suite: both commands passed"
