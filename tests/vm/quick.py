#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The core of the core, for every change and on old kernels: about a minute where all
is emulated.  scripts/vmtest-quick.sh runs it in its machines; it runs anywhere else as well.

`pyheaptrace check`; the service that leaks, by either collector, its line first and the
bytes inside the interval; the exact counts, by the kernel's own best way of attaching; what
threads hold.
The distribution's Python only.  tests/vm/core.sh is the whole.
"""
import os
import sys
import unittest

# Before what reads them.  Emulation is up to thirty times slower than the defaults are meant for.
os.environ.setdefault("PHT_REQUIRE_BPF", "1")
os.environ.setdefault("PHT_DEADLINE", "200")
os.environ.setdefault("PHT_LEAK_SECONDS", "4")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))

import harness  # noqa: E402
import test_exact  # noqa: E402
import test_leak  # noqa: E402
import test_threads  # noqa: E402

CALLS = int(os.environ.get("PHT_EXACT_CALLS", "100"))
# A few hundred samples: intervals that are narrow enough to be wrong.
FINELY = ("-R", "8K", *harness.UNLIMITED)

python = None


def setUpModule():
    global python
    harness.require_bpf()
    python = harness.Interpreter("/usr/bin/python3")
    print("kernel %s, Python %s" % (os.uname().release, python), flush=True)


class Check(harness.TestCase):
    def test_check(self):
        """The tracer can run here, and says what with."""
        result = harness.run_tracer("check")
        print("\n" + result.out, flush=True)
        self.assertEqual(result.code, 0, result)


class Leak(test_leak.LeakChecks):
    def check_collector(self, collector, *program_args):
        self.check_interval(python, ("--collector=" + collector, *FINELY),
                            ("--churn", "1", *program_args), always=True)

    def test_trampoline(self):
        """By the trampoline: both sizes from one line."""
        self.check_collector("trampoline")

    def test_probe(self):
        """By probes: the blocks over 512 bytes."""
        self.check_collector("probe", "--small-rate", "0")


class Exact(test_exact.ExactChecks):
    @classmethod
    def setUpClass(cls):
        test_exact.setUpModule()
        cls.addClassCleanup(test_exact.tearDownModule)

    def test_exact(self):
        """Every function of the malloc family, all counts equal to the program's own books."""
        self.check(python, CALLS)


class Threads(test_threads.ThreadsChecks):
    @classmethod
    def setUpClass(cls):
        test_threads.setUpModule()
        cls.addClassCleanup(test_threads.tearDownModule)

    def test_threads(self):
        """By thread, with names: other programs in the kernel than without."""
        self.check_exactly(python)


if __name__ == "__main__":
    unittest.main(verbosity=2)
