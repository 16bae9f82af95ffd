#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# What must work on every kernel.  scripts/vmtest.sh runs it in its machine; it
# runs anywhere else as well, as root.
#
#	tests/vm/core.sh [TEST...]
#
# `pyheaptrace check`, then the integration tests named (leak, tramp, survive and
# errors by default), then the exact counts once per way of placing probes that
# this kernel has.
set -u
cd "$(dirname "$0")/../.." || exit 1

bin=${PHT_BIN:-build/pyheaptrace}
# Emulation is thirty times slower than the machines that the defaults are meant for.
export PHT_REQUIRE_BPF=1
export PHT_DEADLINE="${PHT_DEADLINE:-300}"
export PHT_EXACT_CALLS="${PHT_EXACT_CALLS:-300}"
export PHT_EXACT_FEW="${PHT_EXACT_FEW:-100}"
export PHT_LEAK_SECONDS="${PHT_LEAK_SECONDS:-10}"
# The distribution's own, and one that is built otherwise.
distribution=$(/usr/bin/python3 -c 'import sys; print(sys.version.split()[0])')
export PHT_PYTHONS="${PHT_PYTHONS:-$distribution,3.13}"

[ $# -gt 0 ] || set -- leak tramp survive errors
failed=

echo "== check on $(uname -r)"
"$bin" check || failed="$failed check"

began=$(date +%s)
tests/run-integration.sh "$@" || failed="$failed integration"

# Each way to attach; one that is not there would only repeat the next.
for style in session multi perf; do
	case $style in
	perf) feature=uprobes ;;
	*) feature="uprobe $style" ;;
	esac
	"$bin" check | grep -q "^$feature  *yes" || continue
	echo "== exact counts, probes placed by $style"
	PHT_ATTACH=$style tests/run-integration.sh exact || failed="$failed exact-$style"
done

echo "== $(uname -r): $(($(date +%s) - began)) s"
if [ -n "$failed" ]; then
	echo "core tests FAILED:$failed" >&2
	exit 1
fi
echo "core tests passed"
