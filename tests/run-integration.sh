#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Runs the integration tests: those named, one file after another (leak, exact ...; "all" for all
# of them), or those of the default list, two at a time, for most of the time they wait.
# They need root and BPF; without, they are skipped loudly, and with CI=1 or
# PHT_REQUIRE_BPF=1 they fail.
set -u
cd "$(dirname "$0")/integration" || exit 1

# Not the caller's: pyenv and the like put their own python3 first.
python=${PHT_TEST_PYTHON:-/usr/bin/python3}
# Not by default: leaks and stacks for their length, tramp_hooks because it installs memray.
here="cli errors exact leak tramp tramp_exact coverage company ownstack"
beside="docs pymalloc census rss record flame live lives threads run follow builds matrix"
# What they look at belongs to the whole machine.
alone="survive kill attach_cycles"

run()
{
	failed=
	for name; do
		echo "== test_$name"
		"$python" -B "test_$name.py" || failed="$failed $name"
	done
	[ -z "$failed" ]
}

conclude()
{
	if [ -n "$1" ]; then
		echo "integration tests FAILED:$1" >&2
		exit 1
	fi
	echo "integration tests passed"
	exit 0
}

if [ $# -gt 0 ]; then
	# shellcheck disable=SC2046
	[ "$1" != all ] || set -- $(ls test_*.py | sed 's/^test_//; s/\.py$//')
	run "$@"
	conclude "$failed"
fi

log=$(mktemp)
trap 'rm -f "$log" "$log.failed"' EXIT
# shellcheck disable=SC2086
(run $beside; echo "$failed" >"$log.failed") >"$log" 2>&1 &
other=$!
trap 'pkill -TERM -P $other; exit 130' INT TERM
# shellcheck disable=SC2086
run $here
all=$failed
wait $other
cat "$log"
[ -e "$log.failed" ] || all="$all (the others were not finished)"
all="$all$(cat "$log.failed")"
# shellcheck disable=SC2086
run $alone
conclude "$all$failed"
