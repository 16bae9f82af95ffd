#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Fetches the libraries that pyheaptrace is built with, for another machine.
#
#	scripts/cross-sysroot.sh aarch64 [DIR]
#
# They are Debian 12's, checked by apt against the archive's signatures, unpacked into
# DIR (build/cross/aarch64): nothing is installed, and no foreign architecture is added
# to this host's dpkg.  Prints the directory; run again, it downloads nothing.
# PHT_MIRROR names another mirror.
set -eu

machine=${1:?usage: $0 aarch64 [DIR]}
mkdir -p "${2:-build/cross/$machine}"
out=$(cd "${2:-build/cross/$machine}" && pwd)
mirror=${PHT_MIRROR:-http://deb.debian.org/debian}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
suite=bookworm

# What is linked with, and what that needs to run.
PACKAGES="libbpf-dev libbpf1 libelf-dev libelf1 zlib1g-dev zlib1g libcapstone-dev libcapstone4
libjson-c-dev libjson-c5 libncurses-dev libncursesw6 libtinfo6 libcmocka-dev libcmocka0"

die()
{
	echo "cross-sysroot: $*" >&2
	exit 1
}

case "$machine" in
aarch64) arch=arm64 ;;
*) die "unknown machine $machine (known: aarch64)" ;;
esac

if [ -e "$out/complete" ]; then
	echo "$out"
	exit 0
fi

for tool in apt-get dpkg-deb; do
	command -v $tool >/dev/null || die "$tool is missing: the libraries are Debian packages"
done
[ -r $keyring ] || die "$keyring is missing; run sudo scripts/install-deps.sh --cross"

# An apt of our own: the host's sources and state are not touched.
private_apt()
{
	apt-get -qq -o Dir::Etc::SourceList="$out/sources.list" -o Dir::Etc::SourceParts=/dev/null \
		-o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null \
		-o Dir::State="$out/apt" -o Dir::State::status="$out/apt/status" \
		-o Dir::Cache="$out/apt" -o APT::Architecture=$arch -o APT::Architectures=$arch \
		-o APT::Sandbox::User= -o Acquire::Languages=none "$@"
}

mkdir -p "$out/apt/lists/partial" "$out/apt/archives/partial" "$out/debs"
: >"$out/apt/status"
echo "deb [signed-by=$keyring] $mirror $suite main" >"$out/sources.list"
echo "cross-sysroot: downloading $arch libraries of $suite" >&2
private_apt update >&2 || die "cannot read $mirror $suite"
# shellcheck disable=SC2086
(cd "$out/debs" && private_apt download $PACKAGES >&2) || die "cannot download"
for deb in "$out"/debs/*.deb; do
	dpkg-deb -x "$deb" "$out"
done
# Links that lead to this host's root.
find "$out" -type l -lname '/*' | while read -r link; do
	ln -sfn "$out$(readlink "$link")" "$link"
done
rm -rf "$out/debs" "$out/apt"
: >"$out/complete"
echo "$out"
