#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Which thread holds the memory: names, amounts, those that have ended, and the bound."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

import harness

EXACT = ("-R", "1", *harness.UNLIMITED)
# What a thread holds beside its blocks: its list, what threading made for it, stacks of names.
SLACK = 200000
MAX_THREADS = 1024
NASTY = "beta \x1b[31m;\u4e2d"

library_dir = None


def setUpModule():
    global library_dir
    harness.require_bpf()
    library_dir = tempfile.mkdtemp(prefix="pht-threads-")
    subprocess.run([os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", "-pthread",
                    os.path.join(harness.PROGRAMS, "stranger.c"),
                    "-o", os.path.join(library_dir, "stranger.so")], check=True)


def tearDownModule():
    shutil.rmtree(library_dir)


def some_interpreters():
    """One of each way in which an instance keeps its attributes."""
    found = {i.minor: i for i in harness.interpreters()}
    return [found[m] for m in ("3.8", "3.11", "3.12", "3.14") if m in found] or \
        [harness.one_interpreter()]


def threads_of(report):
    """(name, tid) -> row of a report by thread."""
    rows = {}
    for site in report["sites"]:
        (frame,) = site["frames"]
        rows[frame["function"], frame.get("tid")] = site
    return rows


class ThreadsChecks(harness.TestCase):
    """What other tests use as well."""

    def program(self, interpreter):
        workdir = interpreter.workdir()
        self.addCleanup(shutil.rmtree, workdir, True)
        library = shutil.copy(os.path.join(library_dir, "stranger.so"), workdir)
        target = self.target(interpreter, "threads.py", interpreter.inside(library))
        self.assertEqual(target.read_line(), "ready")
        return target

    def read(self, command, *args):
        result = harness.run_tracer(*args, command=[harness.BIN, *command])
        self.assertEqual(result.code, 0, result)
        return json.loads(result.out)

    def play(self, target):
        """name -> what its thread holds; the same name twice: of both."""
        told = {}
        told["MainThread"] = target.ask("main 31")
        told["alpha"] = target.ask("start 40 alpha")
        told[NASTY] = target.ask("start 55 " + NASTY)
        told["gone"] = target.ask("brief 23 gone")
        told["pool_0"] = target.ask("pool 37")
        target.ask("start 17 before")
        told["now"] = target.ask("rename now")
        told["stranger"] = target.ask("c 29 stranger")
        return told

    def check_rows(self, rows, told):
        for name, truth in told.items():
            found = [(tid, row) for (n, tid), row in rows.items()
                     if n == name and truth["tid"] in (0, tid)]
            self.assertEqual(len(found), 1, "%s: %s" % (name, sorted(rows)))
            row = found[0][1]
            self.assertEqual(row["frames"][0]["kind"], "thread")
            self.assertGreaterEqual(row["live_bytes"], truth["bytes"], name)
            self.assertLess(row["live_bytes"], truth["bytes"] + SLACK, name)
            self.assertGreaterEqual(row["live_blocks"], truth["blocks"], name)

    def check_stacks(self, stacks, told):
        """In the function that made them, the blocks are there to the byte."""
        for name, truth in told.items():
            held = [s for s in stacks if s["frames"][-1]["function"] == name
                    and (s["frames"][0]["function"], s["frames"][0]["line"])
                    in (("hold", truth["line"]), ("<thread without Python state>", None))
                    and truth["tid"] in (0, s["frames"][-1]["tid"])]
            self.assertEqual(sum(s["live_bytes"] for s in held), truth["bytes"], name)
            self.assertEqual(sum(s["live_blocks"] for s in held), truth["blocks"], name)

    def check_exactly(self, interpreter):
        target = self.program(interpreter)
        capture = os.path.join(target.dir, "heap.pht")
        tracer = self.tracer("-p", target.pid, "-o", capture, "--threads", *EXACT,
                             command=["record"])
        tracer.wait_attached(target.pid)
        told = self.play(target)
        self.assertEqual(tracer.interrupt(), 0, tracer.stderr())
        report = self.read(["report", "table"], capture, "--group-by", "thread", "-f", "json",
                           "-n", "1000")
        self.assertEqual(report["group_by"], "thread")
        self.check_rows(threads_of(report), told)
        stacks = self.read(["report", "table"], capture, "--group-by", "traceback", "-f", "json",
                           "-n", "10000")
        self.check_stacks(stacks["sites"], told)
        target.close()

    def record(self, *args, interpreter=None, play=None):
        """(capture, what was told) of a recording to the byte."""
        target = self.program(interpreter or harness.one_interpreter())
        capture = os.path.join(target.dir, "heap.pht")
        tracer = self.tracer("-p", target.pid, "-o", capture, *args, *EXACT, command=["record"])
        tracer.wait_attached(target.pid)
        told = (play or self.play)(target)
        self.assertEqual(tracer.interrupt(), 0, tracer.stderr())
        return capture, told


class ThreadsTest(ThreadsChecks):
    def test_exactly(self):
        """A recording, by thread and by stack: what each thread holds, to the byte."""
        for interpreter in some_interpreters():
            with self.subTest(python=str(interpreter)):
                self.check_exactly(interpreter)

    def test_a_live_report(self):
        interpreter = harness.one_interpreter()
        target = self.program(interpreter)
        args = ("-p", target.pid, "--group-by", "thread", *EXACT)
        as_json = self.tracer(*args, "-f", "json")
        as_json.wait_attached(target.pid)
        told = self.play(target)
        self.assertEqual(as_json.interrupt(), 0, as_json.stderr())
        report = as_json.report()
        self.assert_no_losses({**report, "losses": {**report["losses"], "no_python_state": 0}})
        rows = threads_of(report)
        self.check_rows(rows, told)
        self.assertEqual(sum(r["live_bytes"] for r in rows.values()),
                         report["totals"]["live_bytes"])
        # A second tracer, which comes when the threads are there already.
        as_text = self.tracer(*args)
        as_text.wait_attached(target.pid)
        again = target.ask("brief 12 " + NASTY)
        main = target.ask("main 31")
        self.assertEqual(as_text.interrupt(), 0, as_text.stderr())
        text = as_text.stdout()
        self.assertIn("tid %d  " % main["tid"], text)
        self.assertIn("MainThread", text)
        self.assertRegex(text, r"tid %d +beta \\x1b\[31m;" % again["tid"])
        self.assertNotIn("\x1b", text)

    def test_intervals(self):
        """Sampled, what each thread holds is in its interval: 95 % of them, so twice may miss."""
        target = self.program(harness.one_interpreter())
        tracer = self.tracer("-p", target.pid, "--group-by", "thread", "-f", "json", "-R", "128K",
                             *harness.UNLIMITED)
        tracer.wait_attached(target.pid)
        told = {"w%d" % i: target.ask("start %d w%d" % (60 + 20 * i, i)) for i in range(12)}
        self.assertEqual(tracer.interrupt(), 0, tracer.stderr())
        rows = threads_of(tracer.report())
        missed = [name for name, t in told.items()
                  if not rows[name, t["tid"]]["live_bytes_low"] - SLACK <= t["bytes"]
                  <= rows[name, t["tid"]]["live_bytes_high"]]
        self.assertLessEqual(len(missed), 2, missed)
        for name, t in told.items():
            self.assertLess(abs(rows[name, t["tid"]]["live_bytes"] - t["bytes"]), 3 << 20)

    def test_an_id_that_comes_again(self):
        """Two threads that have the same id one after the other are two."""
        def play(target):
            first = target.ask("brief 10 one")
            return first, target.ask("again 20 other %d" % first["tid"])

        capture, (first, second) = self.record("--threads", play=play)
        if not second["blocks"]:
            print("NOT TRIED: the kernel gave the thread id to nobody", flush=True)
            self.skipTest("no thread with a given id")
        self.assertEqual(first["tid"], second["tid"])
        rows = threads_of(self.read(["report", "table"], capture, "--group-by", "thread", "-f",
                                    "json"))
        for name, truth in (("one", first), ("other", second)):
            row = rows[name, truth["tid"]]
            self.assertGreaterEqual(row["live_bytes"], truth["bytes"])
            self.assertLess(row["live_bytes"], truth["bytes"] + SLACK // 2)

    def test_more_than_there_is_room_for(self):
        target = self.program(harness.one_interpreter())
        tracer = self.tracer("-p", target.pid, "--group-by", "thread", "-f", "json", "-n", "5000",
                             *EXACT)
        tracer.wait_attached(target.pid)
        early = target.ask("start 50 early")
        alike = target.ask("alike %d 1" % (MAX_THREADS + 50))
        early_again = target.ask("main 10")
        self.assertEqual(tracer.interrupt(), 0, tracer.stderr())
        report = tracer.report()
        rows = threads_of(report)
        # A thread has its place from its first sample on, whether or not that led to a row.
        self.assertLessEqual(len(rows), MAX_THREADS + 1)
        self.assertGreater(len(rows), MAX_THREADS * 0.98)
        self.assertGreater(report["losses"]["threads_merged"], 50)
        others = rows["<other threads>", None]
        self.assertGreaterEqual(others["live_bytes"], 50 * early["bytes"] // early["blocks"])
        self.assertGreaterEqual(rows["early", early["tid"]]["live_bytes"], early["bytes"])
        self.assertGreaterEqual(rows["MainThread", target.pid]["live_bytes"],
                                early_again["bytes"])
        self.assertGreaterEqual(report["totals"]["live_bytes"],
                                alike["bytes"] + early["bytes"] + early_again["bytes"])

    def end_of_main(self, *args, **kwargs):
        """(report, what was told) of a process that goes on without its first thread."""
        target = self.program(harness.one_interpreter())
        tracer = self.tracer("-p", target.pid, "--group-by", "thread", "-f", "json", *EXACT, *args,
                             **kwargs)
        tracer.wait_attached(target.pid)
        told = {"MainThread": target.ask("main 20")}
        target.tell("leave")
        target.ask("left")
        return target, tracer, told

    def test_the_first_thread_ends(self):
        """Probes hang on it; they are placed for another one, and that is told."""
        for style in ("trampoline", "cookie"):
            with self.subTest(style=style):
                env = {**os.environ, "PHT_ATTACH": "cookie"}
                target, tracer, told = self.end_of_main(
                    "--collector", "trampoline" if style == "trampoline" else "probe", env=env)
                heir = {"tid": 0, "blocks": 0, "bytes": 0}

                def placed():
                    """One block at a time until one is seen, which may be some milliseconds."""
                    more = target.ask("main 1")
                    heir.update(tid=more["tid"], blocks=heir["blocks"] + 1,
                                bytes=heir["bytes"] + more["bytes"])
                    return "placed anew" in tracer.stderr()

                harness.wait_until("probes to be placed anew", placed)
                held = target.ask("main 100")
                told["later"] = target.ask("start 50 later")
                self.assertEqual(tracer.interrupt(), 0, tracer.stderr())
                self.assertTrue(target.alive())
                report = tracer.report()
                self.assertEqual(report["losses"]["anchor_gap"], 1)
                self.assertGreater(report["rss_bytes"], 1 << 20)
                rows = threads_of(report)
                self.check_rows(rows, told)
                row = rows["heir", held["tid"]]
                self.assertGreaterEqual(row["live_bytes"], held["bytes"])
                self.assertLess(row["live_bytes"], held["bytes"] + heir["bytes"] + SLACK)
                target.close()

    def test_the_first_thread_ends_where_all_hangs_on_it(self):
        target, tracer, told = self.end_of_main("--collector=probe")
        if "placed anew" not in tracer.stderr():
            self.assertEqual(tracer.wait(), 0, tracer.stderr())
            report = tracer.report()
            self.assertIn("first thread has ended", report["end_reason"])
            self.check_rows(threads_of(report), told)
        self.assertTrue(target.alive())

    def test_captures(self):
        """Differences by name, exports that have the thread, and a capture that has none."""
        first, told = self.record("--threads")
        second, _ = self.record("--threads")
        diff = self.read(["diff"], first, second, "--group-by", "thread", "-f", "json", "-n", "99")
        changes = {c["frames"][0]["function"]: c for c in diff["rows"]}
        self.assertEqual(len(changes), len(diff["rows"]), "names of two runs are matched")
        for name, truth in told.items():
            self.assertGreaterEqual(changes[name]["size"], truth["bytes"])
            self.assertLess(abs(changes[name]["size_diff"]), SLACK)
        diff = self.read(["diff"], first, "--group-by", "thread", "-f", "json", "-n", "99")
        self.assertLessEqual(set(told), {c["frames"][0]["function"] for c in diff["rows"]})
        done = harness.run_tracer("--to", "folded", first, command=[harness.BIN, "export"])
        self.assertEqual(done.code, 0, done)
        self.assertIn("alpha (tid %d);" % told["alpha"]["tid"], done.out)
        for form in ("pprof", "speedscope", "csv", "tracemalloc", "json"):
            out = os.path.join(library_dir, form)
            done = harness.run_tracer("--to", form, first, "-o", out,
                                      command=[harness.BIN, "export"])
            self.assertEqual(done.code, 0, done)
        done = harness.run_tracer("tree", first, command=[harness.BIN, "report"])
        self.assertIn("alpha", done.out)
        plain, _ = self.record()
        done = harness.run_tracer("table", plain, "--group-by", "thread",
                                  command=[harness.BIN, "report"])
        self.assertEqual(done.code, 1, done)
        self.assertIn("threads were not recorded", done.err)
        sites = self.read(["report", "table"], plain, "-f", "json", "-n", "999")["sites"]
        self.assertEqual([s for s in sites for f in s["frames"] if f["kind"] == "thread"], [])


if __name__ == "__main__":
    harness.main()
