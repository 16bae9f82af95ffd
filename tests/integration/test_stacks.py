#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Every sampled stack against the interpreter's own, in every kind of frame.

PHT_STACKS_ROUNDS (1) says how often each scenario runs; tests/matrix.py does
the same over more builds and writes docs/matrix.md.
"""
import os
import shutil
import subprocess
import sys

import harness
import rows
import stacks

ROUNDS = int(os.environ.get("PHT_STACKS_ROUNDS", "1"))
# Of the frames that had no name: code that ran, was freed, and could not be sent in time.
UNRESOLVED = 0.001
SOME = ["plain", "generators", "classes", "threads", "nogil"]
PACKAGES = os.path.join(os.path.dirname(harness.BIN), "packages")


def setUpModule():
    harness.require_bpf()
    stacks.build_library()


def tearDownModule():
    stacks.remove_library()


def wheel_for(interpreter, package):
    """A directory with the package in it, or None: it takes pip and an index that answers.

    The wheel is chosen for the interpreter, which needs no pip of its own.
    """
    where = os.path.join(PACKAGES, package, rows.version_of(interpreter))
    if not os.path.isdir(os.path.join(where, package)):
        digits = interpreter.minor.replace(".", "")
        tags = ["--platform=%s_%s" % (tag, os.uname().machine)
                for tag in ("manylinux2014", "manylinux_2_17", "manylinux_2_28")]
        done = subprocess.run(
            ["/usr/bin/python3", "-m", "pip", "install", "-q", "--disable-pip-version-check",
             "--only-binary=:all:", "--implementation=cp", "--python-version=" + interpreter.minor,
             "--abi=cp%s%s" % (digits, "t" if interpreter.free_threaded else ""), "--abi=none",
             "--target", where, package] + tags,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        if done.returncode:
            return None
    return where


class StacksTest(harness.TestCase):
    def check(self, run, also_lost=()):
        report, tally = run.finish()
        print("  %s, %s: %s" % (run.interpreter, report["collector"], tally), flush=True)
        self.assertGreater(tally.samples, 0)
        self.assertEqual(run.done, sum(e["count"] for e in run.truth.entries))
        shown = "\n".join(str(e) for e in tally.examples[:5])
        self.assertEqual(tally.wrong(), 0, "%s\n%s" % (tally, shown))
        self.assertLessEqual(tally.unresolved, UNRESOLVED * tally.samples, shown)
        expected = ("stack_truncated", "no_python_state") + also_lost
        self.assertEqual({k: v for k, v in report["losses"].items() if v and k not in expected}, {})
        return report, tally

    def each(self, collector):
        for interpreter in harness.interpreters() + harness.interpreters(free_threaded=True):
            with self.subTest(python=str(interpreter), collector=collector):
                run = stacks.Run(self, interpreter, collector, stacks.SCENARIOS, ROUNDS)
                report, _ = self.check(run)
                self.assertEqual(report["collector"], collector)
                # 20 allocations a round, each in a thread that Python knows nothing of.
                self.assertGreaterEqual(report["losses"]["no_python_state"], 20 * ROUNDS)
                strangers = [s for s in report["sites"]
                             if s["frames"][0]["function"] == "<thread without Python state>"
                             and s["allocated_bytes"] >= 20 * ROUNDS << 20]
                self.assertEqual(len(strangers), 1)
                # Three calls of do_recursion go deeper than 128 frames.
                self.assertGreaterEqual(report["losses"]["stack_truncated"], 3 * ROUNDS)

    def test_trampoline(self):
        self.each("trampoline")

    def test_probe(self):
        self.each("probe")

    def test_every_allocation(self):
        """Sample interval 1: a storm of other samples changes nothing."""
        for interpreter in harness.a_few_interpreters():
            with self.subTest(python=str(interpreter)):
                run = stacks.Run(self, interpreter, "trampoline",
                                 ["plain", "generators", "classes", "names"], interval=1)
                self.check(run, also_lost=("set_full",))

    def importable(self, interpreter, package):
        """A PYTHONPATH with the package in it, as the interpreter sees it, or None."""
        where = wheel_for(interpreter, package)
        if where and interpreter.root:
            outside = interpreter.workdir()
            self.addCleanup(shutil.rmtree, outside)
            where = interpreter.inside(shutil.copytree(where, os.path.join(outside, package)))
        return where

    def switching(self, scenario, package):
        """Stacks that are put aside and taken up again, by a package that may not be had."""
        done = 0
        for interpreter in harness.many_interpreters():
            where = self.importable(interpreter, package)
            if not where:
                print("  SKIPPED: no %s for %s" % (package, interpreter), flush=True)
                continue
            for collector in rows.COLLECTORS:
                with self.subTest(python=str(interpreter), collector=collector):
                    self.check(stacks.Run(self, interpreter, collector, [scenario], ROUNDS,
                                          env=dict(os.environ, PYTHONPATH=where)))
            done += 1
        if not done:
            print("SKIPPED, NOTHING WAS TRACED: %s cannot be had here" % package, flush=True)
            self.skipTest("%s cannot be had here" % package)

    def test_greenlets(self):
        self.switching("greenlets", "greenlet")

    def test_gevent(self):
        self.switching("gevent", "gevent")

    def test_start(self):
        """Attached before the interpreter's first instruction."""
        for interpreter in harness.a_few_interpreters():
            if interpreter.root:
                continue  # chroot(1) would be halted instead
            with self.subTest(python=str(interpreter)):
                report, _ = self.check(stacks.Run(self, interpreter, "probe", SOME, from_start=True))
                # Site runs before the program does: that part of the start was seen.
                self.assertTrue(any("<frozen " in (f["file"] or "") or "site.py" in (f["file"] or "")
                                    for s in report["sites"] for f in s["frames"]))

    def test_finalization(self):
        for interpreter in harness.a_few_interpreters():
            with self.subTest(python=str(interpreter)):
                self.check(stacks.Run(self, interpreter, "trampoline", ["at_exit"], at_exit=True))


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    harness.main()
