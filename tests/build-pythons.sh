#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Builds a Python as others build and ship theirs, for the rows of docs/matrix.md.
#
# usage: tests/build-pythons.sh standalone|conda|clang-pgo SOURCES PREFIX
#
# SOURCES: an unpacked CPython (copied, not written to).  What is made:
#   standalone  clang and lld of the ziglang wheel from PyPI (CLANG=... for another), ThinLTO,
#               libpython in the executable, the tail-calling interpreter from 3.14 on, stripped
#   conda       gcc, -O2 -flto -fno-plt, libpython in the executable with its symbols exported,
#               RPATH, profile of a short run, stripped
#   clang-pgo   clang 14, profile of a short run, no LTO, stripped
# The profile is of a few test files instead of the whole suite: what is inlined is near to
# that of the real ones, not equal to it.
set -eu

usage()
{
	sed -n '3,14s/^# \{0,1\}//p' "$0" >&2
	exit 2
}

[ $# -eq 3 ] || usage
kind=$1 sources=$2 prefix=$3
work=$(mktemp -d)
trap '[ $? -ne 0 ] && echo "left as it is: $work" >&2 || rm -rf "$work"' EXIT
cp -a "$sources" "$work/python"
cd "$work/python"
minor=$(sed -n 's/^#define PY_MINOR_VERSION[^0-9]*//p' Include/patchlevel.h)

# Optional modules need the headers of their libraries and do not matter here.
for m in _ssl _hashlib _sqlite3 _curses _curses_panel _tkinter _dbm _gdbm readline _bz2 _lzma \
	_decimal _ctypes_test _uuid _zstd _crypt nis ossaudiodev _codecs_cn _codecs_hk \
	_codecs_iso2022 _codecs_jp _codecs_kr _codecs_tw _multibytecodec; do
	export "py_cv_module_$m=n/a"
done
common="--prefix=$prefix --without-ensurepip --disable-test-modules"
profile="-m test test_json test_re test_dict test_generators test_dataclasses"

# A command with arguments of its own, as one; $3 comes after those that it is called with.
wrapper()
{
	printf '#!/bin/sh\nexec %s "$@" %s\n' "$2" "${3:-}" >"$work/$1"
	chmod +x "$work/$1"
	echo "$work/$1"
}

zig_clang()
{
	python3 -m venv "$work/zig"
	"$work/zig/bin/pip" install -q --disable-pip-version-check ziglang
	zig="$work/zig/bin/python -m ziglang"
	machine=$(uname -m)
	# It builds against a glibc of its own: no header or library of the host counts.
	CC=$(wrapper clang "$zig cc -target $machine-linux-gnu.2.28 -fno-sanitize=undefined" \
		"-Wno-date-time -g0")
	export PKG_CONFIG=false
	# But libffi, that _ctypes is there.
	mkdir "$work/ffi"
	for f in /usr/include/$machine-linux-gnu/ffi*.h /usr/include/ffi*.h \
		/usr/lib/$machine-linux-gnu/libffi.so /usr/lib64/libffi.so; do
		[ ! -e "$f" ] || ln -s "$f" "$work/ffi/"
	done
	export LIBFFI_CFLAGS="-I$work/ffi" LIBFFI_LIBS="-L$work/ffi -lffi"
	CXX=$CC
	AR=$(wrapper llvm-ar "$zig ar")
	RANLIB=$(wrapper ranlib "$zig ranlib")
	export CC CXX AR RANLIB LLVM_AR="$AR" LLVM_AR_FOUND=found
}

case $kind in
standalone)
	[ -n "${CLANG:-}" ] && export CC="$CLANG" || zig_clang
	tail=
	[ "$minor" -lt 14 ] || tail=--with-tail-call-interp
	./configure $common $tail --with-lto=thin CFLAGS=-fno-semantic-interposition
	make
	;;
conda)
	export CC="$(wrapper gcc gcc -g0)"
	./configure $common --enable-optimizations --with-lto \
		CFLAGS="-O2 -ftree-vectorize -fPIC -fstack-protector-strong -fno-plt -ffunction-sections" \
		LDFLAGS="-Wl,-O2,--sort-common,--as-needed,-z,now -Wl,-rpath,$prefix/lib"
	make PROFILE_TASK="$profile || true"
	;;
clang-pgo)
	export CC="$(wrapper clang clang-14 -g0)" LLVM_PROFDATA=llvm-profdata-14
	./configure $common --enable-optimizations \
		CFLAGS=-fno-semantic-interposition
	make PROFILE_TASK="$profile || true"
	;;
*)
	usage
	;;
esac
make install >/dev/null
strip "$prefix/bin/python3.$minor"
"$prefix/bin/python3" -c 'import sys; print(sys.version)'
