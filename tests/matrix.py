#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes docs/matrix.md: build x collector x what is exact, every cell from a run.

usage: tests/matrix.py [-o FILE] [--rounds N] [--roots DIR:DIR...] [--only TEXT [--keep]]

Looks at the Pythons that the integration tests know and at /usr/bin/python3.N of
each directory in --roots (chroots, such as debootstrap makes).  Needs root and BPF.
PHT_EXTRA_PYTHONS names others (tests/build-pythons.sh makes some).  --keep takes over
the rows of other builds that FILE has, where they are without a fault.  Exits 1 when
a stack was wrong.  tests/integration/test_matrix.py compares with what is written here.
"""
import argparse
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "integration"))

import harness  # noqa: E402
import rows  # noqa: E402
import stacks  # noqa: E402

HEAD = """# Which Pythons, and how exactly

Written by `tests/matrix.py`; not edited by hand. Each row is one run of the programs in
`tests/programs/stacks_*`: generators, coroutines, callbacks out of C, class calls, recursion
beyond 128 frames, code that is run once and freed, names in every script, frozen modules,
threads with and without the GIL or any Python state, sub-interpreters. At each allocation of
the program the interpreter's own stack is recorded, and every sampled stack is compared with
it, frame by frame. `tests/run-integration.sh matrix`, a part of CI, makes the rows of the
Pythons at hand once more, shorter, and fails where one is less exact or covers something else
than this table says.

`tests/build-pythons.sh` made those with clang (as python-build-standalone builds, but without a
profile; and with a profile of a short run) and those with `-fno-plt` (as conda does, the profile
from a short run). The free-threaded ones and that on musl are without optional modules.

- **stacks**: share of the samples with exactly the frames that the interpreter has
- **names**: share with every function and file name right
- **lines**: share with every line right
- **no name**: samples with a frame whose code was freed before its name could be sent
- **coverage**: what the collector says of itself; `complete` if it sees every allocation

Run on Linux %(kernel)s, %(machine)s. %(total)s.

| Python | build | collector | samples | distinct | stacks | names | lines | no name | coverage |
|---|---|---|---|---|---|---|---|---|---|
"""


def order(row):
    return rows.numbers(row.version), row.version, row.build


def written(row, notes):
    """A line of the table; what a partial view says of itself goes to the notes."""
    cells = list(row.cells)
    words, semicolon, lost = cells[-1].partition("; lost: ")
    if words and words != "complete":
        if words not in notes:
            notes.append(words)
        cells[-1] = "partial [%d]%s%s" % (notes.index(words) + 1, semicolon, lost)
    return "| " + " | ".join(cells) + " |\n"


def write(path, made, summary):
    notes = []
    with open(path, "w") as f:
        f.write(HEAD % {"kernel": os.uname().release, "machine": os.uname().machine,
                        "total": summary[0].upper() + summary[1:]})
        for row in sorted(made, key=order):
            f.write(written(row, notes))
        f.write("\n")
        f.writelines("- [%d] %s\n" % (i + 1, text) for i, text in enumerate(notes))


def run_all(args, total):
    """[Row], and total added up."""
    made = []
    for interpreter in rows.builds([r for r in args.roots.split(":") if r]):
        if not interpreter.version.startswith(tuple(args.only.split(","))):
            continue
        build, version = rows.describe(interpreter), rows.version_of(interpreter)
        if any((r.version, r.build) == (version, build) for r in made):
            print("left out, a row of another is alike: %s" % interpreter, flush=True)
            continue
        for collector in rows.COLLECTORS:
            row, tally = rows.make(interpreter, build, collector, args.rounds)
            made.append(row)
            print("| " + " | ".join(row.cells) + " |", flush=True)
            if tally:
                total.add(tally)
    return made


def kept(path, made, total):
    """The file's rows that this run did not make and that have no fault, and total added up."""
    keys = {r.key for r in made}
    found = [r for r in rows.read(path) if r.key not in keys and r.faultless]
    for row in found:
        tally = stacks.Tally()
        tally.samples, tally.unresolved = int(row.samples), int(row.no_name)
        total.add(tally)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", "--output", default=rows.DOCUMENT)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--roots", default=os.environ.get("PHT_MATRIX_ROOTS", ""))
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--only", default="", help="versions that begin so, comma-separated")
    args = parser.parse_args()
    reason = harness.why_no_bpf()
    if reason:
        parser.exit(1, "matrix: cannot trace here: %s\n" % reason)
    total = stacks.Tally()
    made = run_all(args, total)
    stacks.remove_library()
    if args.keep:
        made += kept(args.output, made, total)
    for example in total.examples[:5]:
        print(example)
    summary = "%d samples in all, %d of them wrong, %d with a frame without a name" % (
        total.samples, total.wrong(), total.unresolved)
    print(summary)
    write(args.output, made, summary)
    return 1 if total.wrong() or not total.samples else 0


if __name__ == "__main__":
    sys.exit(main())
