#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes docs/matrix.md: build x collector x what is exact, every cell from a run.

usage: tests/matrix.py [-o FILE] [--rounds N] [--roots DIR:DIR...] [--only TEXT [--keep]]

Looks at the Pythons that the integration tests know and at /usr/bin/python3.N of
each directory in --roots (chroots, such as debootstrap makes).  Needs root and BPF.
PHT_EXTRA_PYTHONS names others.  --keep takes over the rows of other builds that FILE
has, where they are without a fault.  Exits 1 when a stack was wrong.
"""
import argparse
import glob
import hashlib
import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "integration"))

import harness  # noqa: E402
import stacks  # noqa: E402

COLLECTORS = ("trampoline", "probe")
OLDEST = 8  # 3.8; older ones are refused

DESCRIBE = """
import json, platform, sys, sysconfig
get = lambda name: sysconfig.get_config_var(name) or ""
release = {}
try:
    with open("/etc/os-release") as f:
        release = dict(line.rstrip().split("=", 1) for line in f if "=" in line)
except OSError:
    pass
print(json.dumps({
    "version": sys.version.split()[0],
    "debug": bool(get("Py_DEBUG")),
    "os": release.get("PRETTY_NAME", "").strip('"')}))
"""

HEAD = """# Which Pythons, and how exactly

Written by `tests/matrix.py`; not edited by hand. Each row is one run of the programs in
`tests/programs/stacks_*`: generators, coroutines, callbacks out of C, class calls, recursion
beyond 128 frames, code that is run once and freed, names in every script, frozen modules,
threads with and without the GIL or any Python state, sub-interpreters. At each allocation of
the program the interpreter's own stack is recorded, and every sampled stack is compared with
it, frame by frame.

- **stacks**: share of the samples with exactly the frames that the interpreter has
- **names**: share with every function and file name right
- **lines**: share with every line right
- **no name**: samples with a frame whose code was freed before its name could be sent
- **coverage**: what the collector says of itself; `complete` if it sees every allocation

Run on Linux %(kernel)s, %(machine)s. %(total)s.

| Python | build | collector | samples | distinct | stacks | names | lines | no name | coverage |
|---|---|---|---|---|---|---|---|---|---|
"""


class Case:
    """What stacks.Run wants of a test case."""

    def __init__(self):
        self.cleanups = []

    def addCleanup(self, function, *args):
        self.cleanups.append((function, args))

    def close(self):
        for function, args in reversed(self.cleanups):
            function(*args)


def builds(roots):
    found = harness.all_interpreters()
    for root in roots:
        for path in sorted(glob.glob(root + "/usr/bin/python3.*")):
            if re.search(r"/python3\.\d+d?$", path):
                found.append(harness.Interpreter(path[len(root):], root))
    seen, kept = set(), []
    for i in found:
        with open(os.path.realpath(i.root + i.path), "rb") as f:
            identity = hashlib.sha1(f.read()).digest()
        # The same binary may be in several places; pyenv's are small and alike.
        if int(i.minor.split(".")[1]) >= OLDEST and (not i.root or identity not in seen):
            kept.append(i)
        seen.add(identity)
    return sorted(kept, key=lambda i: [int(n) for n in re.findall(r"\d+", i.version)])


def describe(interpreter):
    out = subprocess.run(interpreter.command("-c", DESCRIBE), stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, check=True)
    told = json.loads(out.stdout.decode())
    if interpreter.path.startswith("/usr/"):
        origin = told["os"] or "the system's"
    elif ".pyenv" in interpreter.path:
        origin = "pyenv"
    else:
        origin = "built from source"
    path = os.path.realpath(interpreter.root + interpreter.path)
    needed = subprocess.run(["readelf", "-d", path], stdout=subprocess.PIPE, check=True).stdout
    kind = "shared library" if b"[libpython" in needed else "static"
    return "%s, %s%s" % (origin, kind, ", `--with-pydebug`" if told["debug"] else "")


def share(wrong, samples):
    """Never 100 % for what is not all."""
    if not wrong:
        return "100 %"
    return "%.3f %%" % min(100.0 * (samples - wrong) / samples, 99.999)


notes = []  # what partial views say of themselves


def note(text):
    if text not in notes:
        notes.append(text)
    return "partial [%d]" % (notes.index(text) + 1)


def kept_rows(path, made):
    """[(cells, tally)] of a file's rows that this run did not make, and that have no fault."""
    with open(path) as f:
        text = f.read()
    told = dict(re.findall(r"^- \[(\d+)\] (.*)$", text, re.M))
    found = []
    for line in re.findall(r"^\| (\d.*) \|$", text, re.M):
        cells = line.split(" | ")
        if len(cells) != 10 or tuple(cells[:3]) in made or set(cells[5:8]) != {"100 %"}:
            continue
        cells[9] = re.sub(r"partial \[(\d+)\]", lambda m: note(told[m.group(1)]), cells[9])
        tally = stacks.Tally()
        tally.samples, tally.unresolved = int(cells[3]), int(cells[8])
        found.append((cells, tally))
    return found


def order(cells):
    return [int(n) for n in re.findall(r"\d+", cells[0])], cells[0], cells[1]


def row(interpreter, collector, rounds):
    """(cells, tally)"""
    case = Case()
    try:
        report, tally = stacks.Run(case, interpreter, collector, stacks.SCENARIOS, rounds).finish()
    except AssertionError as e:
        reason = str(e).strip().splitlines()[-1]
        reason = re.sub(r"^.*?pyheaptrace: ", "", reason)[:160]
        return [collector, "not traced: " + reason.replace("|", "/")] + [""] * 6, None
    finally:
        case.close()
    lost = {k: v for k, v in report["losses"].items()
            if v and k not in ("stack_truncated", "no_python_state", "code_gone")}
    coverage = report["coverage"]
    seen = "complete" if coverage["complete"] else note(coverage["description"])
    if lost:
        seen += "; lost: " + ", ".join("%s %d" % kv for kv in sorted(lost.items()))
    n = tally.samples
    return [report["collector"], str(n), str(tally.stacks), share(tally.shape + tally.missing, n),
            share(tally.names + tally.shape, n), share(tally.lines + tally.names + tally.shape, n),
            str(tally.unresolved), seen], tally


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", "--output", default=os.path.join(harness.TOP, "docs", "matrix.md"))
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--roots", default=os.environ.get("PHT_MATRIX_ROOTS", ""))
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--only", default="", help="versions that begin so, comma-separated")
    args = parser.parse_args()
    reason = harness.why_no_bpf()
    if reason:
        parser.exit(1, "matrix: cannot trace here: %s\n" % reason)
    rows, total, seen = [], stacks.Tally(), set()
    for interpreter in builds([r for r in args.roots.split(":") if r]):
        if not interpreter.version.startswith(tuple(args.only.split(","))):
            continue
        build = describe(interpreter)
        if interpreter.root and (interpreter.version, build) in seen:
            continue
        seen.add((interpreter.version, build))
        for collector in COLLECTORS:
            cells, tally = row(interpreter, collector, args.rounds)
            version = interpreter.version + ("t" if interpreter.free_threaded else "")
            rows.append([version, build] + cells)
            print("| " + " | ".join(rows[-1]) + " |", flush=True)
            if tally:
                total.add(tally)
    stacks.remove_library()
    for cells, tally in kept_rows(args.output, {tuple(r[:3]) for r in rows}) if args.keep else ():
        rows.append(cells)
        total.add(tally)
    for example in total.examples[:5]:
        print(example)
    summary = "%d samples in all, %d of them wrong, %d with a frame without a name" % (
        total.samples, total.wrong(), total.unresolved)
    print(summary)
    with open(args.output, "w") as f:
        f.write(HEAD % {"kernel": os.uname().release, "machine": os.uname().machine,
                        "total": summary[0].upper() + summary[1:]})
        for cells in sorted(rows, key=order):
            f.write("| " + " | ".join(cells) + " |\n")
        f.write("\n")
        f.writelines("- [%d] %s\n" % (i + 1, text) for i, text in enumerate(notes))
    return 1 if total.wrong() or not total.samples else 0


if __name__ == "__main__":
    sys.exit(main())
