#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Makes the pictures of the README again, from real runs:
#   sudo tests/gen/pictures.sh PYTHON [OUTPUT-DIRECTORY]
# PYTHON needs django and numpy; flame graphs need chromium.  The programs are run from copies in /srv/shop,
# because their paths are in the pictures.
set -eu

python=${1:?usage: pictures.sh PYTHON [OUTPUT-DIRECTORY]}
here=$(cd "$(dirname "$0")/../.." && pwd)
out=${2:-$here/docs/images}
bin=$(mktemp -d)
pids=
trap 'kill $pids 2>/dev/null || true; rm -rf "$bin"' EXIT
cp "$here/build/pyheaptrace" "$bin/"
PATH=$bin:$PATH
mkdir -p /srv/shop
cp "$here"/docs/examples/*.py /srv/shop/
cd /srv/shop

start()
{
	"$python" "$1" &
	pid=$!
	pids="$pids $pid"
	sleep "$2"
}

# picture NAME COLUMNS TITLE PROMPT-PREFIX COMMAND...
picture()
{
	name=$1 columns=$2 title=$3 prefix=$4
	shift 4
	python3 "$here/tests/gen/term2svg.py" --columns "$columns" --title "$title" \
		--prompt "$prefix$*" -o "$out/$name.svg" -- "$@"
}

start fragments.py 3
picture rss 100 "is it a leak?" "sudo " pyheaptrace rss -p "$pid" -n 2
start radar.py 2
picture numpy 112 "NumPy: a view of ten values keeps two megabytes" "sudo " \
	pyheaptrace -p "$pid" -d 10 -n 3
kill "$pid"
start shop.py 3
picture live-heap 112 "a Django process, live heap by line" "sudo " \
	pyheaptrace -p "$pid" -R 128K -d 30 -n 4
python3 "$here/tests/gen/term2svg.py" --columns 112 --rows 24 --keys "20 b 30 S" \
	--title "the same, full screen, 30 seconds after a baseline" -o "$out/live-view.svg" \
	-- pyheaptrace -p "$pid" -R 128K
python3 "$here/tests/gen/term2svg.py" --columns 112 --rows 20 --keys "30 Enter" \
	--title "Enter: who called it" -o "$out/live-callers.svg" -- pyheaptrace -p "$pid" -R 128K
pyheaptrace record -p "$pid" -R 128K -o "$bin/heap.pht" -d 45 --every 5
cd "$bin"
picture diff 104 "what grew while we recorded" "" pyheaptrace diff heap.pht -n 5
pyheaptrace report flamegraph heap.pht -o heap.html
python3 "$here/tests/gen/page2png.py" heap.html "$out/flamegraph" "audit.<locals>.middleware"
