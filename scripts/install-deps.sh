#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Installs the packages that building and testing pyheaptrace needs, on
# Debian 12/13, Ubuntu 22.04/24.04 and Fedora.  Does nothing where all are there.
# With --lint, also what `make lint` needs; with --vm, what `make vmtest` and its like need;
# with --browser, the one that the test of flame graphs drives; with --cross, what
# `make cross-aarch64` and `make cross-check` need.
set -eu

DEBIAN="gcc libc6-dev make pkg-config clang llvm libbpf-dev libelf-dev zlib1g-dev
libcapstone-dev libjson-c-dev libncurses-dev libcmocka-dev python3"
DEBIAN_LINT="clang-format clang-tidy"
DEBIAN_BROWSER="chromium"
DEBIAN_CROSS="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user debian-archive-keyring"
DEBIAN_VM="qemu-system-x86 qemu-system-arm busybox-static cpio kmod xz-utils zstd debian-archive-keyring"
FEDORA="gcc glibc-devel make pkgconf-pkg-config clang llvm bpftool libbpf-devel
elfutils-libelf-devel zlib-devel capstone-devel json-c-devel ncurses-devel libcmocka-devel libasan
libubsan python3 gawk"
FEDORA_LINT="clang-tools-extra"
FEDORA_BROWSER="chromium"

die()
{
	echo "install-deps: $*" >&2
	exit 1
}

as_root()
{
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "must be root, or have sudo, to install packages"
	fi
}

# Show what a command printed only if it failed.
quietly()
{
	log=$(mktemp)
	if ! "$@" >"$log" 2>&1; then
		cat "$log" >&2
		rm -f "$log"
		die "failed: $*"
	fi
	rm -f "$log"
}

missing_debs()
{
	for p in "$@"; do
		status=$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null || true)
		[ "$status" = installed ] || printf '%s ' "$p"
	done
}

apt_install()
{
	want=$(missing_debs "$@")
	[ -n "$want" ] || return 0
	echo "install-deps: installing $want"
	quietly as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update
	# shellcheck disable=SC2086
	quietly as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y \
		install --no-install-recommends $want
}

dnf_install()
{
	want=
	for p in "$@"; do
		rpm -q --whatprovides "$p" >/dev/null 2>&1 || want="$want $p"
	done
	[ -n "$want" ] || return 0
	echo "install-deps: installing$want"
	# shellcheck disable=SC2086
	quietly as_root dnf -q -y install $want
}

case "${1:-}" in
"") DEBIAN_LINT= FEDORA_LINT= DEBIAN_VM= DEBIAN_BROWSER= FEDORA_BROWSER= DEBIAN_CROSS= ;;
--lint) DEBIAN_VM= DEBIAN_BROWSER= FEDORA_BROWSER= DEBIAN_CROSS= ;;
--vm) DEBIAN_LINT= FEDORA_LINT= DEBIAN_BROWSER= FEDORA_BROWSER= DEBIAN_CROSS= ;;
--browser) DEBIAN_LINT= FEDORA_LINT= DEBIAN_VM= DEBIAN_CROSS= ;;
--cross) DEBIAN_LINT= FEDORA_LINT= DEBIAN_VM= DEBIAN_BROWSER= FEDORA_BROWSER= ;;
*) die "usage: $0 [--lint|--vm|--browser|--cross]" ;;
esac
[ -r /etc/os-release ] || die "no /etc/os-release: cannot tell which distribution this is"
. /etc/os-release

# shellcheck disable=SC2086 # lists of words, meant to split
case "$ID" in
debian | raspbian)
	apt_install $DEBIAN $DEBIAN_LINT $DEBIAN_VM $DEBIAN_BROWSER $DEBIAN_CROSS bpftool
	;;
ubuntu)
	# bpftool comes with the kernel's tools there; the Makefile finds it.
	[ "${1:-}" != --browser ] || die "Ubuntu has chromium as a snap only, whose files are" \
		"out of reach; install Google Chrome or set PHT_CHROMIUM"
	apt_install $DEBIAN $DEBIAN_LINT $DEBIAN_VM $DEBIAN_CROSS linux-tools-common linux-tools-generic
	;;
fedora)
	[ "${1:-}" != --vm ] || die "make vmtest takes its kernels from Debian's archive: it needs apt"
	[ "${1:-}" != --cross ] || die "make cross-aarch64 takes its libraries from Debian's archive: it" \
		"needs apt"
	dnf_install $FEDORA $FEDORA_LINT $FEDORA_BROWSER
	;;
*)
	die "${PRETTY_NAME:-$ID} is not known to this script; install the equivalents of:" \
		$DEBIAN bpftool
	;;
esac
