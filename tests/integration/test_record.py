#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Recordings: what tracemalloc would have said, files that survive, exports that open."""
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import harness
from harness import wait_until

EXAMPLE = "examples.py"
# Set to a pprof binary (go install github.com/google/pprof@latest) for the test of pprof.
PPROF = os.environ.get("PHT_PPROF") or shutil.which("pprof")


def setUpModule():
    harness.require_bpf()


class Recorder(harness.Tracer):
    """pyheaptrace record -v."""

    def __init__(self, pid, path, *args):
        self.path = path
        self.out = tempfile.TemporaryFile()
        self.err = tempfile.TemporaryFile()
        command = [harness.BIN, "record", "-v", "-p", pid, "-o", path] + list(args)
        self.child = subprocess.Popen([str(a) for a in command], stdin=subprocess.DEVNULL,
                                      stdout=self.out, stderr=self.err)
        self.pid = self.child.pid

    def series(self):
        if not os.path.exists(self.path):
            return []
        result = harness.run_tracer("report", "series", self.path, "-f", "json")
        return json.loads(result.out)["snapshots"] if result.code == 0 else []

    def snapshot_after(self, moment_ns):
        """The time of a snapshot that was begun after that moment."""
        # One that is written later may have been begun before: so the next but one.
        def two():
            later = [s["time_ns"] for s in self.series() if s["time_ns"] > moment_ns]
            return later[1] if len(later) > 1 else None

        return wait_until("a snapshot", two)

    def number_of(self, time_ns):
        return [s["number"] for s in self.series() if s["time_ns"] == time_ns][0]


def output_of(test, *args):
    result = harness.run_tracer(*args)
    test.assertEqual(result.code, 0, str(result))
    return result.out


def json_of(test, *args):
    return json.loads(output_of(test, *args, "-f", "json"))


class RecordTest(harness.TestCase):
    maxDiff = 6000

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="pht-record-")
        self.addCleanup(shutil.rmtree, self.dir, True)

    def path(self, name):
        return os.path.join(self.dir, name)

    def recorder(self, target, path, *args):
        r = Recorder(target.pid, path, *args)
        self.addCleanup(r.close)
        return r


# ---- against tracemalloc


# Run by the interpreter under test: what tracemalloc's own methods say, as JSON.
JUDGE = r"""
import json, sys, tracemalloc
old, new, key, cumulative, filters = json.loads(sys.argv[1])
def load(path):
    s = tracemalloc.Snapshot.load(path)
    return s.filter_traces([tracemalloc.Filter(i, p, all_frames=a) for i, p, a in filters])
rows = []
if old:
    found = load(new).compare_to(load(old), key, cumulative)
else:
    found = load(new).statistics(key, cumulative)
for s in found:
    rows.append({"place": [[f.filename, f.lineno] for f in s.traceback][::-1],
                 "size": s.size, "count": s.count,
                 "size_diff": getattr(s, "size_diff", None),
                 "count_diff": getattr(s, "count_diff", None)})
print(json.dumps(rows))
"""


class TracemallocTest(RecordTest):
    def by_tracemalloc(self, interpreter, example):
        """A directory of snapshots, one file per mark."""
        directory = interpreter.workdir()
        self.addCleanup(shutil.rmtree, directory, True)
        target = self.target(interpreter, "tutorial.py", example, interpreter.inside(directory))
        self.assertEqual(target.read_line(), "done")
        target.close()
        return directory

    def by_us(self, interpreter, example):
        """A capture, and which snapshot belongs to which mark."""
        target = self.target(interpreter, "tutorial.py", example)
        self.assertEqual(target.read_line(), "ready")
        recorder = self.recorder(target, self.path("capture"), "-R", 1, "--every", "0.3",
                                 "--max-overhead", 100000)
        recorder.wait_attached(target.pid)
        marks = {}
        while True:
            target.tell("")
            name = target.read_line()
            if name == "done":
                break
            marks[name] = recorder.snapshot_after(time.time_ns())
        self.assertEqual(recorder.interrupt(), 0, recorder.stderr())
        return recorder.path, {name: recorder.number_of(at) for name, at in marks.items()}

    def judge(self, interpreter, directory, old, new, key, cumulative=False, filters=()):
        inside = interpreter.inside(directory)
        question = [old and os.path.join(inside, old), os.path.join(inside, new), key, cumulative,
                    list(filters)]
        out = subprocess.run(interpreter.command("-c", JUDGE, json.dumps(question)),
                             stdout=subprocess.PIPE, check=True, timeout=harness.DEADLINE)
        return json.loads(out.stdout)

    def ours(self, capture, old, new, group, cumulative=False, options=()):
        args = ["diff", capture, "--from", old, "--to", new, "--group-by", group] + list(options)
        if cumulative:
            args.append("--cumulative=frames")
        rows = json_of(self, *args)["rows"]
        if group == "traceback":
            places = [[[f["file"] or "<unknown>", f["line"] or 0] for f in r["frames"]]
                      for r in rows]
        else:
            places = [[[r["frames"][0]["file"] or "<unknown>",
                        (r["frames"][0]["line"] or 0) if group == "line" else 0]] for r in rows]
        return [{"place": p, "size": r["size"], "count": r["count"], "size_diff": r["size_diff"],
                 "count_diff": r["count_diff"]} for p, r in zip(places, rows)]

    def compare(self, interpreter, directory, capture, marks, old, new):
        """All ways of grouping, rows of the example's own file, to the last byte."""
        only = {"filters": [[True, EXAMPLE, False]]}
        for key, group, cumulative in (("lineno", "line", False), ("filename", "file", False),
                                       ("lineno", "line", True), ("traceback", "traceback", False)):
            with self.subTest(key=key, cumulative=cumulative, old=old, new=new):
                theirs = self.judge(interpreter, directory, old, new, key, cumulative, **only)
                ours = self.ours(capture, marks[old], marks[new], group, cumulative,
                                 ["--include", EXAMPLE])
                # Frames below the example's belong to the harness of it.
                for rows in (theirs, ours):
                    for row in rows:
                        row["place"] = [f for f in row["place"] if f[0] == EXAMPLE] \
                            or row["place"]
                self.assertGreater(len(theirs), 0)
                self.assertEqual(self.tidy(ours), self.tidy(theirs))

    @staticmethod
    def tidy(rows):
        """Rows that no allocation is live in at either time are not tracemalloc's to list;
        the program lies in another directory each time."""
        for row in rows:
            row["place"] = [[os.path.basename(f), n]
                            for f, n in row["place"]]
        return [r for r in rows if r["size"] or r["size_diff"] or r["count_diff"]]

    def check_example(self, interpreter, example, pairs):
        directory = self.by_tracemalloc(interpreter, example)
        capture, marks = self.by_us(interpreter, example)
        for old, new in pairs:
            self.compare(interpreter, directory, capture, marks, old, new)
        return directory, capture, marks

    @harness.each_of_a_few
    def test_in_a_helper(self, interpreter):
        self.check_example(interpreter, "in-a-helper",
                           [("before", "first"), ("first", "second"), ("before", "second")])

    @harness.each_of_a_few
    def test_in_a_loop(self, interpreter):
        self.check_example(interpreter, "in-a-loop",
                           [("before", "after-10"), ("after-10", "after-20"),
                            ("after-20", "after-30")])

    @harness.each_of_a_few
    def test_through_imports(self, interpreter):
        directory = self.by_tracemalloc(interpreter, "through-imports")
        capture, marks = self.by_us(interpreter, "through-imports")
        # Without the import system, the heaviest lines are the same in both.  Not to the last
        # byte here: objects that come from CPython's free lists are no allocations, and how
        # many there are depends on what ran before.
        patterns = ["<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>",
                    "<unknown>"]
        theirs = self.judge(interpreter, directory, "before", "imported", "lineno",
                            filters=[[False, p, False] for p in patterns])
        ours = self.ours(capture, marks["before"], marks["imported"], "line",
                         options=[o for p in patterns for o in ("--exclude", p)])
        self.assertEqual([r["place"] for r in ours[:5]], [r["place"] for r in theirs[:5]])
        self.assertFalse([r for r in ours if "<frozen importlib._b" in r["place"][0][0]])
        both = json_of(self, "diff", capture, "--all-frames", "--include", EXAMPLE,
                       "--from", marks["before"], "--to", marks["imported"])
        self.assertGreater(both["totals"]["size_diff"], 500 * 3000)


if __name__ == "__main__":
    harness.main()
