#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Runs the integration tests, one file after another, or those named: leak, exact ..., or all.
# They need root and BPF; without, they are skipped loudly, and with CI=1 or
# PHT_REQUIRE_BPF=1 they fail.
set -u
cd "$(dirname "$0")/integration" || exit 1

# Not the caller's: pyenv and the like put their own python3 first.
python=${PHT_TEST_PYTHON:-/usr/bin/python3}
# Not by default: leaks and stacks for their length, tramp_hooks because it installs memray.
[ $# -gt 0 ] || set -- cli docs errors exact leak survive tramp tramp_exact pymalloc census rss \
	record flame live lives run follow coverage attach_cycles kill company \
	builds
[ "$1" != all ] || set -- $(ls test_*.py | sed 's/^test_//; s/\.py$//')

failed=
for name in "$@"; do
	echo "== test_$name"
	"$python" -B "test_$name.py" || failed="$failed $name"
done
if [ -n "$failed" ]; then
	echo "integration tests FAILED:$failed" >&2
	exit 1
fi
echo "integration tests passed"
