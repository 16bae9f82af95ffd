#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""pyheaptrace leaks on programs whose memory behaves in a known way.

PHT_LEAKS_SECONDS: how long each is watched (default 12).
PHT_LEAKS_SEEDS: how often, each time with another seed (default 1).
"""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

import harness

SECONDS = float(os.environ.get("PHT_LEAKS_SECONDS", "12"))
SEEDS = int(os.environ.get("PHT_LEAKS_SEEDS", "1"))
LEAKS = ("linear_leak", "slow_leak")


def setUpModule():
    harness.require_bpf()


class Hunter(harness.Tracer):
    """pyheaptrace leaks -v."""

    def __init__(self, *args):
        self.out = tempfile.TemporaryFile()
        self.err = tempfile.TemporaryFile()
        command = [harness.BIN, "leaks", "-v", "-f", "json"] + [str(a) for a in args]
        self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.out,
                                      stderr=self.err)
        self.pid = self.child.pid


class HuntCase(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="pht-leaks-")
        cls.addClassCleanup(shutil.rmtree, cls.dir, True)
        cls.library = os.path.join(cls.dir, "leaks_native.so")
        subprocess.check_call(["cc", "-O1", "-shared", "-fPIC", "-o", cls.library,
                               os.path.join(harness.PROGRAMS, "leaks_native.c")])

    def start(self, interpreter, kind):
        target = self.target(interpreter, "leaks_zoo.py", kind, "--seconds", str(SECONDS),
                             "--library", self.library)
        return target, target.read_json()


class LeaksTest(HuntCase):
    def hunt(self, interpreter, kind, seed, *args):
        """The report, and the row of the line that is watched."""
        target, truth = self.start(interpreter, kind)
        hunter = Hunter("-p", target.pid, "--for", SECONDS, "-i", SECONDS / 48, "-R", "16K",
                        "--seed", seed, *harness.UNLIMITED, *args)
        self.addCleanup(hunter.close)
        hunter.wait_attached(target.pid)
        target.tell("go")
        self.assertEqual(hunter.wait(SECONDS + harness.DEADLINE), 0, hunter.stderr())
        self.assertTrue(target.alive(), "the target died")
        target.close()
        report = hunter.report()
        mine = [s for s in report["sites"]
                if s["frames"][0]["file"] == truth["file"]
                and s["frames"][0]["line"] == truth["line"]]
        self.assertEqual(len(mine), 1, "the line was not seen: %s" % hunter.stdout()[:4000])
        return report, mine[0]

    def hunt_each(self, kind, check):
        """On a few interpreters, with some seeds."""
        for interpreter in harness.a_few_interpreters():
            for seed in range(1, SEEDS + 1):
                with self.subTest(python=str(interpreter), seed=seed):
                    report, site = self.hunt(interpreter, kind, seed)
                    print("  %s, %s, seed %d: %s, p %s, %s bytes/h, %d samples; process: %s" % (
                        kind, interpreter.version, seed, site["verdict"], site["p"],
                        site["bytes_per_hour"]["value"], site["samples"],
                        report["process"]["verdict"]), flush=True)
                    check(report, site)

    def check_leak(self, report, site, verdicts):
        self.assertIn(site["verdict"], verdicts, json.dumps(site))
        self.assertLess(site["p"], 0.02)
        rate = site["bytes_per_hour"]
        self.assertGreater(rate["low"], 0)
        self.assertLess(rate["low"], rate["value"])
        self.assertLess(rate["value"], rate["high"])
        # Found first, and nothing else accused.
        self.assertEqual(report["sites"][0], site)
        self.check_no_leak(report, site)

    def check_no_leak(self, report, but=None):
        """Nothing else is accused: but for the list that holds what leaks, which grows too."""
        lists = ("tick", "work") if but else ()
        accused = [s for s in report["sites"] if s["leak"] and s != but
                   and s["frames"][0]["file"].endswith("leaks_zoo.py")
                   and s["frames"][0]["function"].split(".")[-1] not in lists]
        self.assertEqual(accused, [], json.dumps(accused))

    def test_linear(self):
        self.hunt_each("linear", lambda r, s: self.check_leak(r, s, ("linear_leak",)))

    def test_slow(self):
        self.hunt_each("slow", lambda r, s: self.check_leak(r, s, ("slow_leak",)))

    def test_thread_local(self):
        self.hunt_each("threadlocal", lambda r, s: self.check_leak(r, s, ("linear_leak",)))

    def test_native(self):
        self.hunt_each("native", lambda r, s: self.check_leak(r, s, LEAKS))

    def no_leak(self, kind, verdict):
        def check(report, site):
            self.assertEqual(site["verdict"], verdict, json.dumps(site))
            self.check_no_leak(report)
        self.hunt_each(kind, check)

    def test_fill(self):
        self.no_leak("fill", "cache_filled")

    def test_lru(self):
        self.no_leak("lru", "steady")

    def test_sawtooth(self):
        self.no_leak("sawtooth", "sawtooth")

    def test_fragment(self):
        def check(report, site):
            self.assertFalse(site["leak"], json.dumps(site))
            self.check_no_leak(report)
            self.assertEqual(report["process"]["verdict"], "fragmentation",
                             json.dumps(report["process"]))
        self.hunt_each("fragment", check)


class CommandTest(HuntCase):
    """The other form, the other format, and what is wrong usage."""

    def test_capture(self):
        interpreter = harness.one_interpreter()
        target, truth = self.start(interpreter, "linear")
        path = os.path.join(self.dir, "capture")
        child = subprocess.Popen([harness.BIN, "record", "-v", "-p", str(target.pid), "-o", path,
                                  "-d", str(SECONDS), "--every", str(SECONDS / 40), "-R", "16K",
                                  *harness.UNLIMITED], stderr=subprocess.PIPE)
        for line in child.stderr:
            if b"attached to" in line:
                break
        target.tell("go")
        self.assertEqual(child.wait(SECONDS + harness.DEADLINE), 0, child.stderr.read())
        child.stderr.close()
        result = harness.run_tracer("leaks", path, "-f", "json")
        self.assertEqual(result.code, 0, str(result))
        first = json.loads(result.out)["sites"][0]
        self.assertEqual(first["verdict"], "linear_leak", json.dumps(first))
        self.assertEqual(first["frames"][0]["line"], truth["line"])
        self.assertEqual(first["evidence"], "growth")
        text = harness.run_tracer("leaks", path).out
        self.assertRegex(text, r"LEAK +\+[\d.]+ [KMG]iB/h")
        self.assertIn("leaks_zoo.py:%d" % truth["line"], text)
        with open(path, "rb") as f:
            piped = harness.run_tracer("leaks", "-", "-f", "json", stdin=f)
        self.assertEqual(piped.out, result.out)

    def test_usage(self):
        for code, args in ((2, ()), (2, ("-p", "1", "file")), (2, ("-p", "1,2")), (2, ("a", "b")),
                           (2, ("file", "--for", "3")), (2, ("-p",)), (2, ("--what",)),
                           (2, ("-p", "1", "--for", "10", "--older-than", "9")),
                           (1, ("/nonexistent/file",)), (1, ("-p", "4194304", "--for", "1"))):
            with self.subTest(args=args):
                result = harness.run_tracer("leaks", *args)
                self.assertEqual(result.code, code, str(result))
                self.assertEqual(result.err.count("\n"), 1, str(result))
                self.assertEqual(result.out, "")
        self.assertIn("Examples", harness.run_tracer("leaks", "--help").out)


if __name__ == "__main__":
    harness.main()
