#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# What must work on every kernel; scripts/vmtest.sh runs it in its machine.  It
# runs anywhere else as well, as root.
#
#	tests/vm/core.sh [TEST...]
#
# `pyheaptrace check`; the integration tests leak and survive, or those named; what
# a target may do, under the trampoline as well; the exact counts, once per way
# of placing probes that this kernel has.  PHT_* variables as for the integration
# tests, with other defaults.
set -u
cd "$(dirname "$0")/../.." || exit 1

bin=${PHT_BIN:-build/pyheaptrace}
# Emulation is up to thirty times slower than what the tests' own defaults are meant for.
export PHT_REQUIRE_BPF=1
export PHT_DEADLINE="${PHT_DEADLINE:-200}"
export PHT_EXACT_CALLS="${PHT_EXACT_CALLS:-500}"
export PHT_EXACT_FEW="${PHT_EXACT_FEW:-100}"
# A trap is so dear here that few samples fit into the default --max-overhead.
export PHT_LEAK_SECONDS="${PHT_LEAK_SECONDS:-30}"
export PHT_SLOWER_AT_MOST="${PHT_SLOWER_AT_MOST:-5}"
# The distribution's own, and one that is built otherwise, where there is one.
distribution=$(/usr/bin/python3 -c 'import sys; print(sys.version.split()[0])')
export PHT_PYTHONS="${PHT_PYTHONS:-$distribution,3.12}"

[ $# -gt 0 ] || set -- leak survive
failed=

# timed NAME COMMAND...
timed()
{
	name=$1
	shift
	began=$(date +%s)
	"$@" || failed="$failed $name"
	echo "== $name took $(($(date +%s) - began)) s"
}

# Fork, exec, exit, threads and stops, where kernels differ in what becomes of a probe.
under_trampoline()
{
	(cd tests/integration && PHT_COLLECTOR=trampoline \
		"${PHT_TEST_PYTHON:-/usr/bin/python3}" -B test_survive.py TargetActs)
}

# Each way to attach; one that is not there would only repeat another.
exact_styles()
{
	"$bin" check | sed -n 's/^uprobe \(session\|multi\)  *yes.*/\1/p
		s/^attach cookies  *yes.*/cookie/p; s/^uprobes  *yes.*/perf/p'
}

echo "== check on $(uname -r)"
timed check "$bin" check
for name; do
	timed "$name" tests/run-integration.sh "$name"
done
timed trampoline under_trampoline
for style in $(exact_styles); do
	echo "== exact counts, probes placed by $style"
	PHT_ATTACH=$style timed "exact-$style" tests/run-integration.sh exact
done

if [ -n "$failed" ]; then
	echo "core tests FAILED on $(uname -r):$failed" >&2
	exit 1
fi
echo "core tests passed on $(uname -r)"
