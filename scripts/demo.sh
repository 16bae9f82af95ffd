#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Starts the bundled leaking program, traces it, prints the report, ends it.
set -eu

bin=${1:-build/pyheaptrace}
seconds=${2:-10}
python=${PYTHON:-$(command -v python3 || true)}
[ -n "$python" ] || { echo "demo: no python3 found; run sudo scripts/install-deps.sh" >&2; exit 1; }

sudo=
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || { echo "demo: must be root, or have sudo" >&2; exit 1; }
	sudo=sudo
	# Ask for a password before the clock runs.
	sudo -v
fi

"$python" tests/programs/leaky.py >/dev/null &
pid=$!
trap 'kill "$pid" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM
echo "demo: PID $pid runs tests/programs/leaky.py, whose remember() keeps 660,000 bytes a second"
echo "demo: ${sudo:+$sudo }$bin -p $pid -d $seconds -R 64K -n 6"
$sudo "$bin" -p "$pid" -d "$seconds" -R 64K -n 6
