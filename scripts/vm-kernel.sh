#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Fetches one of Debian's kernels for vmtest.sh and unpacks what booting needs.
#
#	scripts/vm-kernel.sh KERNEL [CACHE]
#
# KERNEL is 5.10, 6.1, 6.12, 7 (the newest of trixie-backports), or the name of
# any Debian suite.  Prints the directory, which then holds vmlinuz, and modules
# in the order in which to insert them.  Packages are checked by apt against the
# archive's signatures and stay in CACHE (build/vm); run again, it downloads nothing.
# PHT_MIRROR names another mirror.  Exits with 69 where the kernel cannot be had.
set -eu

kernel=${1:?usage: $0 KERNEL [CACHE]}
mkdir -p "${2:-build/vm}"
cache=$(cd "${2:-build/vm}" && pwd)
mirror=${PHT_MIRROR:-http://deb.debian.org/debian}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# Where suites end up that are not kept any more.
ARCHIVE=http://archive.debian.org/debian

# What it takes to mount the host's root below an overlay.
WANTED="virtio_pci 9pnet_virtio 9p overlay"
# Where those, and what they depend on, are found in a package.
FOLDERS="fs net/9p drivers/virtio lib crypto"

die()
{
	echo "vm-kernel: $*" >&2
	exit 1
}

# The tools for it are missing, or the archive does not answer: no fault of ours.
unavailable()
{
	echo "vm-kernel: $*" >&2
	exit 69
}

case "$kernel" in
5.10) suite=bullseye ;;
6.1) suite=bookworm ;;
6.12) suite=trixie ;;
7) suite=trixie-backports ;;
[a-z]*) suite=$kernel ;;
*) die "unknown kernel $kernel (known: 5.10, 6.1, 6.12, 7, or a Debian suite)" ;;
esac

out=$cache/$suite
if [ -s "$out/modules/order" ] && [ -s "$out/vmlinuz" ]; then
	echo "$out"
	exit 0
fi

for tool in apt-get dpkg-deb; do
	command -v $tool >/dev/null || unavailable "$tool is missing: kernels come from Debian packages"
done
PATH=$PATH:/usr/sbin:/sbin
command -v depmod >/dev/null || unavailable "depmod is missing; run sudo scripts/install-deps.sh --vm"
[ -r $keyring ] || unavailable "$keyring is missing; run sudo scripts/install-deps.sh --vm"

# An apt of our own: the host's sources and state are not touched.
private_apt()
{
	tool=$1
	shift
	"$tool" -qq -o Dir::Etc::SourceList="$out/sources.list" -o Dir::Etc::SourceParts=/dev/null \
		-o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null \
		-o Dir::State="$out/apt" -o Dir::State::status="$out/apt/status" \
		-o Dir::Cache="$out/apt" -o APT::Architecture=amd64 -o APT::Architectures=amd64 \
		-o APT::Sandbox::User= -o APT::Update::Error-Mode=any -o Acquire::Languages=none \
		-o Acquire::Check-Valid-Until=false "$@"
}

depends()
{
	private_apt apt-cache show --no-all-versions "$1" | sed -n 's/^Depends: //p' |
		tr ',|' '\n\n' | sed 's/^ *//; s/[ (].*//'
}

# The packages behind the one that always means the newest: one, or, since 7, three.
kernel_packages()
{
	image=$(depends linux-image-amd64 | grep -E '^linux-image-[0-9].*-amd64$' | head -n 1)
	[ -n "$image" ] || unavailable "$suite has no linux-image-amd64"
	echo "$image"
	version=${image#linux-image-}
	depends "$image" | grep -E "^linux-(binary|modules|base)-" | grep -F -e "-$version" || :
}

write_sources()
{
	echo "deb [signed-by=$keyring] $mirror $suite main" >"$out/sources.list"
}

download()
{
	rm -rf "$out/debs.new"
	mkdir -p "$out/apt/lists/partial" "$out/apt/archives/partial" "$out/debs.new"
	: >"$out/apt/status"
	write_sources
	# It may be too old for the mirrors.
	private_apt apt-get update >&2 || {
		mirror=$ARCHIVE
		write_sources
		private_apt apt-get update >&2
	} || unavailable "cannot read $suite, neither here nor at $ARCHIVE"
	packages=$(kernel_packages)
	echo "vm-kernel: downloading" $packages >&2
	# shellcheck disable=SC2086
	(cd "$out/debs.new" && private_apt apt-get download $packages >&2) ||
		unavailable "cannot download" $packages
	rm -rf "$out/debs"
	mv "$out/debs.new" "$out/debs"
}

unpack()
{
	rm -rf "$out/tree"
	mkdir -p "$out/tree"
	set -- --wildcards './boot/vmlinuz-*' './usr/lib/modules/*/vmlinuz' '*/modules.builtin*' \
		'*/modules.order'
	for folder in $FOLDERS; do
		set -- "$@" "*/kernel/$folder/*"
	done
	for deb in "$out"/debs/*.deb; do
		# A package need not have them all, which tar reports as a failure.
		dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$out/tree" "$@" 2>/dev/null || :
	done
	# Both layouts become one.
	if [ -d "$out/tree/usr/lib/modules" ]; then
		mkdir -p "$out/tree/lib"
		mv "$out/tree/usr/lib/modules" "$out/tree/lib/modules"
	fi
	image=$(find "$out/tree" -name 'vmlinuz*' -type f | head -n 1)
	[ -n "$image" ] || die "no vmlinuz in" "$out"/debs/*.deb
	cp "$image" "$out/vmlinuz"
}

decompress()
{
	case "$1" in
	*.ko) cat "$1" ;;
	*.ko.xz) xz -dc "$1" ;;
	*.ko.zst) zstd -qdc "$1" ;;
	*.ko.gz) gzip -dc "$1" ;;
	*) die "unknown kind of module: $1" ;;
	esac
}

# insmod's order for the wanted modules, decompressed: the initramfs need not know how.
collect_modules()
{
	release=$(basename "$out"/tree/lib/modules/*)
	depmod -b "$out/tree" "$release" 2>/dev/null || die "depmod failed"
	rm -rf "$out/modules"
	mkdir -p "$out/modules"
	for module in $WANTED; do
		modprobe -d "$out/tree" -S "$release" --show-depends $module ||
			die "$release has no module $module"
	done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >"$out/order"
	while read -r path; do
		name=$(basename "${path%.ko*}").ko
		decompress "$path" >"$out/modules/$name"
		echo "$name"
	done <"$out/order" >"$out/order.new"
	echo "$release" >"$out/release"
	rm -rf "$out/tree" "$out/order"
	mv "$out/order.new" "$out/modules/order"
}

ls "$out"/debs/*.deb >/dev/null 2>&1 || download
unpack
collect_modules
echo "$out"
