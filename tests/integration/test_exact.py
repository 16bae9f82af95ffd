#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Every call counted, at sample interval 1, against a program that keeps books.

100,000 calls of each function of the malloc family, on one interpreter; on the
others, which call the very same libc, PHT_EXACT_FEW (2,000) of each.
"""
import os
import shutil
import subprocess
import tempfile
import time
import unittest

import harness

MANY = int(os.environ.get("PHT_EXACT_CALLS", "100000"))
FEW = int(os.environ.get("PHT_EXACT_FEW", "2000"))
# A trap takes up to 25 us in a virtual machine and there are two million calls.
SLOW = 600

library_dir = None


def setUpModule():
    global library_dir
    harness.require_bpf()
    library_dir = tempfile.mkdtemp(prefix="pht-exact-")
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g",
                    "-fno-builtin", "-shared", "-fPIC", "-pthread",
                    os.path.join(harness.PROGRAMS, "exact.c"),
                    "-o", os.path.join(library_dir, "exact.so")], check=True)


def tearDownModule():
    shutil.rmtree(library_dir)


class ExactChecks(harness.TestCase):
    FIELDS = ("live_blocks", "live_bytes", "allocated_blocks", "allocated_bytes")

    def trace(self, interpreter, calls):
        """Returns (report, truth by (file, function, line))."""
        workdir = interpreter.workdir()
        self.addCleanup(shutil.rmtree, workdir, True)
        library = shutil.copy(os.path.join(library_dir, "exact.so"), workdir)
        target = self.target(interpreter, "exact.py", interpreter.inside(library), str(calls))
        self.assertEqual(target.read_json()["ready"], target.pid)
        tracer = self.tracer("-p", target.pid, "-R", "1", "--collector=probe", "-f", "json",
                             "--group-by", "line", "-n", "10000", *harness.UNLIMITED)
        tracer.wait_attached(target.pid)
        told = target.ask("go", deadline=SLOW)
        self.assertEqual(told["surprises"], 0, "the script itself went wrong")
        self.assertEqual(tracer.interrupt(deadline=SLOW), 0, tracer.stderr())
        report = tracer.report()
        target.close()
        truth = {(t["file"], t["function"], t["line"]): t for t in told["truth"]}
        self.assertEqual(len(truth), len(told["truth"]))
        return report, truth

    def compare(self, report, truth):
        """Equal, line by line; and none of the lines is missing or there twice."""
        seen = {}
        for site in report["sites"]:
            frames = harness.python_frames(site)
            if frames:
                key = (frames[0]["file"], frames[0]["function"], frames[0]["line"])
                if key in truth:
                    self.assertNotIn(key, seen, "two rows for one line")
                    seen[key] = site
        wrong = []
        for key, want in sorted(truth.items(), key=lambda kv: kv[1]["line"]):
            got = seen.get(key, dict.fromkeys(self.FIELDS, 0))
            for field in self.FIELDS:
                if got[field] != want[field]:
                    wrong.append("%s: %s is %s, truth %s"
                                 % (want["op"], field, got[field], want[field]))
            if key in seen and (got["live_bytes_low"] != got["live_bytes"]
                                or got["live_bytes_high"] != got["live_bytes"]):
                wrong.append("%s: an exact count with an interval around it" % want["op"])
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))

    def check(self, interpreter, calls):
        start = time.monotonic()
        report, truth = self.trace(interpreter, calls)
        self.assertEqual(report["collector"], "probe")
        self.assertEqual(report["sample_interval"], 1)
        self.compare(report, truth)
        self.assert_no_losses(report)
        print("  %s: %d calls of each, all equal, %.0f s"
              % (interpreter, calls, time.monotonic() - start), flush=True)


class ExactTest(ExactChecks):
    def test_many_calls(self):
        self.check(harness.one_interpreter(), MANY)

    def test_every_interpreter(self):
        for interpreter in harness.interpreters()[1:]:
            with self.subTest(python=str(interpreter)):
                self.check(interpreter, FEW)


if __name__ == "__main__":
    harness.main()
