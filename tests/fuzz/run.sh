#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Run each fuzzer of this directory for a while: tests/fuzz/run.sh [SECONDS] [NAME...]
# Needs clang with libFuzzer.  What is found is left in build/fuzz/NAME.crash*.
set -eu
cd "$(dirname "$0")/../.."
seconds=${1:-60}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- linetable elf insn pycode obmalloc capture
out=build/fuzz
cc=${CLANG:-clang}
mkdir -p "$out"

# What a message needs.
log="user/log.c user/progress.c user/escape.c user/report_units.c"

sources() {
	case $1 in
	linetable) echo user/linetable.c ;;
	elf) echo user/elf.c user/elf_limits.c $log ;;
	insn) echo user/insn.c user/insn_x86.c user/insn_refs.c user/insn_facts.c ;;
	pycode) echo user/pycode.c user/pystr.c user/linetable.c user/pyoffsets.c ;;
	obmalloc)
		echo user/obmalloc*.c user/freelists.c user/reader.c user/insn_statics.c \
			user/insn_x86.c user/elf.c user/elf_limits.c user/proc.c user/pyoffsets.c
		;;
	capture)
		# All of captures but the commands' options, and what that stands on.
		ls user/capture_[bcdeflrtw]*.c user/snapshot*.c user/export*.c |
			grep -v capture_report
		echo user/intern.c user/hashmap.c $log user/estimate.c user/report.c user/report_metric.c \
			user/report_json.c user/report_json_site.c
		;;
	*) echo "no fuzzer named $1" >&2; exit 2 ;;
	esac
}

# Sound inputs to start from.
seeds() {
	mkdir -p "$out/$1"
	case $1 in
	elf)
		echo 'int main(void) { return 0; }' |
			$cc -x c - -o "$out/seed" -Wl,--build-id
		cp "$out/seed" "$out/elf/seed"
		strip -o "$out/elf/seed-stripped" "$out/seed"
		;;
	insn)
		cp /bin/true "$out/seed"
		objcopy -O binary -j .text "$out/seed" "$out/text"
		for skip in 0 512 1024 2048; do
			dd if="$out/text" of="$out/insn/seed-$skip" bs=1 skip=$skip count=512 \
				2>/dev/null
		done
		;;
	esac
}

for name; do
	seeds "$name"
	# shellcheck disable=SC2046
	$cc -std=gnu11 -D_GNU_SOURCE -DPHT_VERSION='"fuzz"' -g -O1 -Iinclude -Iuser -Wno-include-next-absolute-path \
		-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
		$(pkg-config --cflags libelf capstone json-c) "tests/fuzz/fuzz_$name.c" $(sources "$name") \
		$(pkg-config --libs libelf capstone json-c) -lz -lm -o "$out/fuzz_$name"
	[ "$name" != capture ] || PHT_SEED_DIR="$out/capture" "$out/fuzz_$name" -runs=0 2>/dev/null
	"$out/fuzz_$name" -max_total_time="$seconds" -timeout=10 -print_final_stats=1 \
		-max_len=16384 -artifact_prefix="$out/$name." "$out/$name" >"$out/$name.log" 2>&1 || {
		tail -40 "$out/$name.log"
		echo "fuzz_$name: failed, see $out/$name.log" >&2
		exit 1
	}
	echo "fuzz_$name: $(sed -n 's/.*number_of_executed_units: *//p' "$out/$name.log") inputs," \
		"nothing found"
done
