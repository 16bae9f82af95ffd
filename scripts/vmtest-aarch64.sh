#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Boots one of Debian's arm64 kernels in QEMU and traces that release's Python in it.
#
#	scripts/vmtest-aarch64.sh SUITE [CACHE]
#
# SUITE is bookworm (kernel 6.1, Python 3.11) or trixie (6.12, 3.13).  The machine's
# root is an initramfs of Debian packages, kept in CACHE (build/vm-aarch64), with
# build/aarch64/pyheaptrace and tests/vm/aarch64.sh, which says what must work.
# Exits with that script's status, or 125 when the machine itself fails.
set -eu

suite=${1:?usage: $0 bookworm|trixie [CACHE]}
top=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "${2:-$top/build/vm-aarch64}/$suite"
out=$(cd "${2:-$top/build/vm-aarch64}/$suite" && pwd)
mirror=${PHT_MIRROR:-http://deb.debian.org/debian}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
binary=$top/build/aarch64/pyheaptrace

die()
{
	echo "vmtest-aarch64: $*" >&2
	exit 125
}

case "$suite" in
bookworm) python=3.11 ;;
trixie) python=3.13 ;;
*) die "unknown suite $suite (known: bookworm, trixie)" ;;
esac
for tool in qemu-system-aarch64 cpio dpkg-deb; do
	command -v $tool >/dev/null || die "$tool is missing; run sudo scripts/install-deps.sh --vm"
done
[ -r $keyring ] || die "$keyring is missing; run sudo scripts/install-deps.sh --cross"
[ -x "$binary" ] || die "make cross-aarch64 first"

private_apt()
{
	tool=$1
	shift
	"$tool" -qq -o Dir::Etc::SourceList="$out/sources.list" -o Dir::Etc::SourceParts=/dev/null \
		-o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null \
		-o Dir::State="$out/apt" -o Dir::State::status="$out/apt/status" \
		-o Dir::Cache="$out/apt" -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
		-o APT::Sandbox::User= -o Acquire::Languages=none "$@"
}

download()
{
	mkdir -p "$out/apt/lists/partial" "$out/apt/archives/partial" "$out/debs"
	: >"$out/apt/status"
	echo "deb [signed-by=$keyring] $mirror $suite main" >"$out/sources.list"
	private_apt apt-get update >&2 || die "cannot read $mirror $suite"
	image=$(private_apt apt-cache show --no-all-versions linux-image-arm64 |
		sed -n 's/^Depends: \(linux-image-[^ ,]*\).*/\1/p' | head -n 1)
	[ -n "$image" ] || die "$suite has no linux-image-arm64"
	(cd "$out/debs" && private_apt apt-get download "$image" busybox-static libc6 libgcc-s1 \
		zlib1g libexpat1 "python$python-minimal" "libpython$python-minimal" >&2) ||
		die "cannot download"
}

# A root with /lib and /bin below /usr, whether or not the packages have them there.
unpack()
{
	rm -rf "$out/root"
	mkdir -p "$out/root"
	for deb in "$out"/debs/*.deb; do
		case $deb in
		*/linux-image-*) dpkg-deb --fsys-tarfile "$deb" |
			tar -x -O --wildcards './boot/vmlinuz-*' >"$out/vmlinuz" ;;
		*) dpkg-deb -x "$deb" "$out/root" ;;
		esac
	done
	rm -rf "$out/root/usr/share/doc" "$out/root/usr/share/man"
	for folder in bin lib; do
		mkdir -p "$out/root/usr/$folder"
		if [ -d "$out/root/$folder" ]; then
			cp -a "$out/root/$folder/." "$out/root/usr/$folder/"
			rm -rf "${out:?}/root/$folder"
		fi
		ln -s usr/$folder "$out/root/$folder"
	done
	mkdir -p "$out/root/proc" "$out/root/sys" "$out/root/dev" "$out/root/tmp"
	[ -s "$out/vmlinuz" ] || die "no vmlinuz in the kernel's package"
	: >"$out/complete"
}

if [ ! -e "$out/complete" ]; then
	ls "$out"/debs/*.deb >/dev/null 2>&1 || download
	unpack
fi
# What the binary is linked with, from where it was linked.
cross=$top/build/cross/aarch64
mkdir -p "$out/root/pht"
cp -L "$cross"/usr/lib/aarch64-linux-gnu/*.so.[0-9]* "$out/root/pht/"
cp -L "$cross"/lib/aarch64-linux-gnu/*.so.[0-9]* "$out/root/pht/" 2>/dev/null || :
cp "$binary" "$top/tests/programs/two_leaks.py" "$out/root/pht/"
cp "$top/tests/vm/aarch64.sh" "$out/root/init"
ln -sf "python$python" "$out/root/usr/bin/python3"
(cd "$out/root" && find . | cpio -o -H newc --quiet) | gzip -1 >"$out/initramfs"

timeout --foreground "${VM_TIMEOUT:-400}" qemu-system-aarch64 \
	-machine virt -cpu cortex-a72 -accel tcg,thread=multi -smp 2 -m 1024 -nodefaults \
	-display none -no-reboot -serial stdio -kernel "$out/vmlinuz" -initrd "$out/initramfs" \
	-append "console=ttyAMA0 quiet panic=-1 oops=panic panic_on_warn=1 rdinit=/init" \
	</dev/null | tr -d '\r' | tee "$out/log"
status=$(sed -n 's/^status \([0-9]*\)$/\1/p' "$out/log" | tail -n 1)
[ -n "$status" ] || die "$suite ended without a status"
exit "$status"
