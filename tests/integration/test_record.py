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
# PHT_SPEEDSCOPE_SCHEMA: file-format-schema.json of the npm package speedscope.
# PHT_PPROF: a pprof binary (go install github.com/google/pprof@latest) for the test of pprof.
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
        """All ways of grouping, rows of the example's own file."""
        only = {"filters": [[True, EXAMPLE, False]]}
        for key, group, cumulative in (("lineno", "line", False), ("filename", "file", False),
                                       ("lineno", "line", True), ("traceback", "traceback", False)):
            with self.subTest(key=key, cumulative=cumulative, old=old, new=new):
                theirs = self.tidy(self.judge(interpreter, directory, old, new, key, cumulative,
                                              **only))
                ours = self.tidy(self.ours(capture, marks[old], marks[new], group, cumulative,
                                           ["--include", EXAMPLE]))
                self.assertGreater(len(theirs), 0)
                self.assertEqual([r["place"] for r in ours], [r["place"] for r in theirs])
                for one, other in zip(ours, theirs):
                    self.assert_alike(one, other, 0.002)

    def assert_alike(self, one, other, share):
        """The same numbers but for objects that came from CPython's free lists and so are no
        allocations: how many lie there depends on what ran before, in each of the two runs."""
        for key, few in (("size", 8192), ("size_diff", 8192), ("count", 32), ("count_diff", 32)):
            self.assertLessEqual(abs(one[key] - other[key]), few + share * abs(other[key]),
                                 "%s: %s, %s" % (key, one, other))

    @staticmethod
    def tidy(rows):
        """Without rows of a few objects, which may come from free lists; the program lies in
        another directory each time, and what is below the example belongs to its harness."""
        for row in rows:
            place = [[os.path.basename(f), n] for f, n in row["place"]]
            row["place"] = [f for f in place if f[0] == EXAMPLE] or place
        return [r for r in rows if abs(r["size_diff"]) > 16384 or r["size"] > 16384]

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
        # Without the import system, the heaviest lines are the same in both, in the same order
        # as far as they differ by more than what free lists hide.
        patterns = ["<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>",
                    "<unknown>", "*tutorial.py"]
        theirs = self.judge(interpreter, directory, "before", "imported", "lineno",
                            filters=[[False, p, False] for p in patterns])
        ours = self.ours(capture, marks["before"], marks["imported"], "line",
                         options=[o for p in patterns for o in ("--exclude", p)])
        self.assertEqual(ours[0]["place"], theirs[0]["place"])
        for one, other in ((ours, theirs), (theirs, ours)):
            known = {json.dumps(r["place"]): r for r in other}
            for row in one[:6]:
                self.assertIn(json.dumps(row["place"]), known)
                self.assert_alike(known[json.dumps(row["place"])], row, 0.25)
        self.assertFalse([r for r in ours if "<frozen importlib._b" in r["place"][0][0]])
        both = json_of(self, "diff", capture, "--all-frames", "--include", EXAMPLE,
                       "--from", marks["before"], "--to", marks["imported"])
        self.assertGreater(both["totals"]["size_diff"], 500 * 3000)


# ---- files


class SurvivalTest(RecordTest):
    ROUNDS = int(os.environ.get("PHT_KILL_ROUNDS", "5"))

    def leaking(self):
        target = self.target(harness.one_interpreter(), "leaky.py")
        target.read_line()
        return target

    def check_opens(self, path):
        for kind in ("table", "tree", "summary", "stats", "series"):
            output_of(self, "report", kind, path)
        return json_of(self, "report", "series", path)["snapshots"]

    def test_a_whole_recording(self):
        target = self.leaking()
        path = self.path("whole")
        result = harness.run_tracer("record", "-p", target.pid, "-o", path, "--every", "0.5",
                                    "-d", "3", "-R", "16K")
        self.assertEqual(result.code, 0, str(result))
        self.assertTrue(target.alive())
        self.assertGreaterEqual(len(self.check_opens(path)), 4)
        result = harness.run_tracer("report", "summary", path)
        self.assertEqual(result.err, "")
        self.assertIn("leaky.py", result.out)
        # The first row of a live report is the first here, and it is what grew most.
        table = json_of(self, "report", "table", path)
        self.assertTrue(table["sites"][0]["frames"][0]["file"].endswith("leaky.py"))
        grown = json_of(self, "diff", path, "--sort", "sure")["rows"][0]
        self.assertEqual(grown["frames"][0]["line"], table["sites"][0]["frames"][0]["line"])
        self.assertGreater(grown["size_diff_low"], 0)

    def test_tracer_killed(self):
        target = self.leaking()
        for i in range(self.ROUNDS):
            path = self.path("killed-%d" % i)
            recorder = self.recorder(target, path, "--every", "0.1", "-R", "16K")
            wait_until("a snapshot", recorder.series)
            time.sleep(random.uniform(0, 0.5))
            recorder.signal(signal.SIGKILL)
            recorder.wait()
            self.assertTrue(self.check_opens(path))
            result = harness.run_tracer("report", "summary", path)
            # Killed within a write, the file is cut off; between two, only not finished.
            self.assertRegex(result.err, r"(not finished|is cut off).* after \d+ snapshot")

    def test_target_killed(self):
        for i in range(self.ROUNDS):
            target = self.leaking()
            path = self.path("orphan-%d" % i)
            recorder = self.recorder(target, path, "--every", "0.1", "-R", "16K")
            wait_until("a snapshot", recorder.series)
            time.sleep(random.uniform(0, 0.5))
            os.kill(target.pid, signal.SIGKILL)
            self.assertEqual(recorder.wait(), 0, recorder.stderr())
            self.assertTrue(self.check_opens(path))
            result = harness.run_tracer("report", "summary", path)
            self.assertEqual(result.err, "")
            self.assertIn("the process was ended by SIGKILL", result.out)

    def test_disk_full(self):
        directory = self.path("small")
        os.mkdir(directory)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "none", directory],
                                 stderr=subprocess.PIPE)
        if mounted.returncode:
            self.skipTest("cannot mount a tmpfs: %s" % mounted.stderr)
        self.addCleanup(subprocess.run, ["umount", directory], check=True)
        target = self.leaking()
        path = os.path.join(directory, "capture")
        with open(os.path.join(directory, "filler"), "wb") as f:
            f.write(bytes(20 << 10))
        recorder = self.recorder(target, path, "--every", "0.1", "-R", "4K")
        wait_until("the disk to be full", lambda: "No space left" in recorder.stderr())
        before = len(self.check_opens(path))
        self.assertGreater(before, 0)
        # With room again, it goes on.
        os.unlink(os.path.join(directory, "filler"))
        wait_until("more snapshots", lambda: len(recorder.series()) > before)
        self.assertEqual(recorder.interrupt(), 0, recorder.stderr())
        self.check_opens(path)

    def test_standard_output(self):
        target = self.leaking()
        done = subprocess.run([harness.BIN, "record", "-p", str(target.pid), "-o", "-", "-d", "1.5",
                               "--every", "0.5"], stdout=subprocess.PIPE, check=True,
                              timeout=harness.DEADLINE)
        path = self.path("piped")
        with open(path, "wb") as f:
            f.write(done.stdout)
        self.assertTrue(self.check_opens(path))
        piped = subprocess.run([harness.BIN, "report", "table", "-", "-f", "json"],
                               input=done.stdout, stdout=subprocess.PIPE, check=True)
        self.assertEqual(json.loads(piped.stdout), json_of(self, "report", "table", path))


class ErrorTest(RecordTest):
    def check(self, code, words, *args):
        result = harness.run_tracer(*args)
        self.assertEqual(result.code, code, str(result))
        self.assertIn(words, result.err)
        self.assertEqual(result.err.count("\n"), 1, "one line: %r" % result.err)

    def test_wrong_usage(self):
        for args, words in (
                (("record",), "-p PID is missing"),
                (("record", "-p", "1"), "-o FILE is missing"),
                (("record", "-p", "1,2", "-o", "x"), "one process"),
                (("record", "-p", "1", "-o", "x", "--every", "0"), "--every"),
                (("report", "table"), "apture, please"),
                (("report", "nonsense", "x"), "nonsense"),
                (("report", "tree", "x", "-f", "json"), "JSON"),
                (("diff",), "captures"),
                (("diff", "x", "--from", "-1"), "--from"),
                (("diff", "x", "--sort", "age"), "--sort"),
                (("diff", "x", "--domain", "heap"), "--domain"),
                (("diff", "x", "--group-by", "traceback", "--cumulative"), "--cumulative"),
                (("export", "x"), "--to"),
                (("export", "--to", "xml", "x"), "xml")):
            with self.subTest(args=args):
                self.check(2, words, *args)

    def test_bad_files(self):
        path = self.path("bad")
        for content, words in ((b"", "not a pyheaptrace capture"),
                               (b"\x89PHTCAP\n" + bytes(8), "damaged"),
                               (b"# a text file of some length", "not a pyheaptrace capture")):
            with open(path, "wb") as f:
                f.write(content)
            self.check(1, words, "report", "table", path)
        self.check(1, "No such file", "diff", self.path("none"))
        self.check(1, "cannot write", "record", "-p", os.getpid(), "-o", self.path("no/such/dir"))

    def test_help_is_on_standard_output(self):
        for command in ("record", "report", "diff", "export"):
            result = harness.run_tracer(command, "--help")
            self.assertEqual((result.code, result.err), (0, ""))
            self.assertIn("Usage: pyheaptrace " + command, result.out)


# ---- exports


LOADER = r"""
import json, sys, tracemalloc
s = tracemalloc.Snapshot.load(sys.argv[1])
stats = s.statistics("traceback")
frozen = s.filter_traces([tracemalloc.Filter(False, "*leaky.py")])
print(json.dumps({"size": sum(x.size for x in stats), "count": sum(x.count for x in stats),
                  "same": not any(x.size_diff or x.count_diff
                                  for x in s.compare_to(s, "lineno", True)),
                  "others": len(frozen.traces), "lines": s.traces[0].traceback.format()}))
"""


class ExportTest(RecordTest):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.mkdtemp(prefix="pht-export-")
        cls.capture = os.path.join(cls.shared, "capture")
        target = harness.Target(harness.one_interpreter(), "leaky.py")
        try:
            target.read_line()
            result = harness.run_tracer("record", "-p", target.pid, "-o", cls.capture, "-d", "3",
                                        "-R", "16K")
            assert result.code == 0, str(result)
        finally:
            target.close()

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared)

    def export(self, to, *args):
        path = self.path("export." + to)
        output_of(self, "export", "--to", to, self.capture, "-o", path, *args)
        return path

    def totals(self):
        return json_of(self, "report", "table", self.capture)["totals"]

    def test_stable(self):
        for to in ("pprof", "speedscope", "folded", "folded-allocated", "csv", "json",
                   "tracemalloc"):
            with open(self.export(to), "rb") as f:
                first = f.read()
            with open(self.export(to), "rb") as f:
                self.assertEqual(f.read(), first, to)
            piped = subprocess.run([harness.BIN, "export", "--to", to, self.capture],
                                   stdout=subprocess.PIPE, check=True)
            self.assertEqual(piped.stdout, first, to)

    def test_full(self):
        """Whatever notices it, what is said is why."""
        for to in ("pprof", "speedscope", "folded", "csv", "json", "tracemalloc"):
            result = harness.run_tracer("export", "--to", to, self.capture, "-o", "/dev/full")
            self.assertEqual(result.code, 1, to)
            self.assertIn("No space left on device", result.err, to)
        for reporter in ("summary", "table", "tree", "stats", "flamegraph"):
            result = harness.run_tracer("report", reporter, self.capture, "-o", "/dev/full")
            self.assertEqual(result.code, 1, reporter)
            self.assertIn("No space left on device", result.err, reporter)

    def test_tracemalloc_loads_it(self):
        path = self.export("tracemalloc")
        totals = self.totals()
        for interpreter in harness.interpreters() + harness.unsupported_interpreters():
            with self.subTest(python=str(interpreter)):
                directory = interpreter.workdir()
                self.addCleanup(shutil.rmtree, directory, True)
                copy = shutil.copy(path, directory)
                out = subprocess.run(interpreter.command("-c", LOADER, interpreter.inside(copy)),
                                     stdout=subprocess.PIPE, check=True, timeout=harness.DEADLINE)
                told = json.loads(out.stdout)
                self.assertEqual(told["size"], totals["live_bytes"])
                rows = json_of(self, "report", "table", self.capture)["sites"]
                self.assertLess(abs(told["count"] - totals["live_blocks"]), 2 * len(rows) + 50)
                self.assertTrue(told["same"])
                self.assertTrue(told["lines"][0].startswith("  File \""))

    @unittest.skipUnless(PPROF, "no pprof: set PHT_PPROF")
    def test_pprof_says_the_same(self):
        path = self.export("pprof")
        table = json_of(self, "report", "table", self.capture)
        for index, key in (("inuse_space", "live_bytes"), ("alloc_space", "allocated_bytes")):
            out = subprocess.run([PPROF, "-top", "-nodefraction=0", "-unit=B",
                                  "-sample_index=" + index, path], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, check=True, universal_newlines=True).stdout
            self.assertIn("of %dB total" % table["totals"][key], out)
            heaviest = max(table["sites"], key=lambda s: s[key])
            self.assertIn(heaviest["frames"][0]["function"], out)

    def test_speedscope(self):
        with open(self.export("speedscope")) as f:
            data = json.load(f)
        self.assertEqual(sum(data["profiles"][0]["weights"]), self.totals()["live_bytes"])
        schema = os.environ.get("PHT_SPEEDSCOPE_SCHEMA")
        if not schema:
            return
        try:
            import jsonschema
        except ImportError:
            self.skipTest("no jsonschema to check the schema with")
        with open(schema) as f:
            jsonschema.validate(data, json.load(f))

    def test_lines(self):
        with open(self.export("folded")) as f:
            total = sum(int(line.rsplit(" ", 1)[1]) for line in f)
        self.assertEqual(total, self.totals()["live_bytes"])
        import csv
        with open(self.export("csv"), newline="") as f:
            rows = list(csv.DictReader(f))
        self.assertEqual(sum(int(r["live_bytes"]) for r in rows), self.totals()["live_bytes"])
        with open(self.export("folded", "--include", "*leaky.py")) as f:
            for line in f:
                self.assertIn("leaky.py", line)


if __name__ == "__main__":
    harness.main()
