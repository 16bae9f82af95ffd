#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The tracer is killed at any moment, injection included: the target works on,
as fast as if nobody had ever come, and the next tracer finds its way.

PHT_KILLS moments (4; with PHT_FULL=1 100), half of them at a random time, half
at a random ptrace call, where the target stands still in the middle of a step.
PHT_SPEED_SETS sets of rounds to compare speeds (4; with PHT_FULL=1 40).
"""
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
import unittest

import harness
import kernelstate

KILLS = int(os.environ.get("PHT_KILLS", "100" if harness.FULL else "4"))
SETS = int(os.environ.get("PHT_SPEED_SETS", "40" if harness.FULL else "4"))
SEED = int(os.environ.get("PHT_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
SLOWER_AT_MOST = 1.05
# Ratios of so few rounds wander on a busy machine: what lies within the noise is no proof.
NOISE_SIGMAS = 3
INTERVAL = 16384
BLOCKS, SIZE = 4000, 3000


def setUpModule():
    harness.require_bpf()


def status(pid, key):
    with open("/proc/%d/status" % pid) as f:
        return re.search(r"^%s:\s*(.*)$" % key, f.read(), re.M).group(1)


class Killed(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="pht-kill-")
        cls.shim = os.path.join(cls.dir, "killshim.so")
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-Wall", "-Werror", "-shared", "-fPIC",
                        os.path.join(harness.PROGRAMS, "tramp_killshim.c"), "-ldl",
                        "-o", cls.shim], check=True)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir)

    def start(self, interpreter, threads):
        target = self.target(interpreter, "spinner.py", str(threads))
        self.assertEqual(target.read_json(), "ready")
        return target

    def arguments(self, pid):
        return ["-p", pid, "--collector=trampoline", "-R", INTERVAL, "-f", "json",
                *harness.UNLIMITED]

    # ---- the moments

    def whole_run(self, pid):
        """How long an attach and detach takes, so that moments can be drawn from it."""
        start = time.monotonic()
        done = harness.run_tracer(*self.arguments(pid), "-d", 0.2)
        self.assertEqual(done.code, 0, done)
        return time.monotonic() - start

    def kill_at_time(self, pid, after):
        tracer = self.tracer(*self.arguments(pid), "-d", 0.2)
        time.sleep(after)
        ended = tracer.child.poll() is not None
        tracer.signal(signal.SIGKILL)
        tracer.wait()
        tracer.close()
        return "after %.3f s%s" % (after, ", too late" if ended else "")

    def kill_at_request(self, pid, number, when):
        env = dict(os.environ, LD_PRELOAD=self.shim, PHT_KILL_AT=str(number), PHT_KILL_WHEN=when)
        tracer = self.tracer(*self.arguments(pid), "-d", 0.2, env=env)
        code = tracer.wait()
        self.assertIn(code, (-signal.SIGKILL, 0), tracer.stderr())
        tracer.close()
        return "%s ptrace %d%s" % (when, number, "" if code else ", too late")

    def requests(self, pid):
        """How many ptrace calls a whole run takes."""
        low = 32
        while "too late" not in self.kill_at_request(pid, low, "before"):
            low *= 2
        return low

    # ---- the target after it

    def assert_runs_on(self, target, what):
        self.assertTrue(target.alive(), what)
        before = target.ask("ping")
        harness.wait_until("the target to work on: " + what,
                           lambda: target.ask("ping") > before + 5)
        for key, want in (("TracerPid", "0"), ("SigBlk", "0" * 16)):
            self.assertEqual(status(target.pid, key), want, what)
        half = harness.half_pages(target.pid)
        self.assertLessEqual(half, 3, what)
        self.assertLessEqual(harness.page_mappings(target.pid) - half, 1, what)

    def assert_reports_rightly(self, target, what):
        """A new tracer, over whatever the killed one left."""
        tracer = self.tracer(*self.arguments(target.pid)).wait_attached(target.pid)
        target.ask("blocks %d %d" % (BLOCKS, SIZE))
        target.ask("blocks %d %d" % (BLOCKS, SIZE))
        self.assertEqual(tracer.interrupt(), 0, tracer.stderr())
        report = tracer.report()
        tracer.close()
        self.assertEqual(report["collector"], "trampoline")
        # Whatever was left half made is gone.
        self.assertEqual(harness.page_mappings(target.pid), 1, what)
        self.assertEqual(harness.page_descriptors(target.pid), 0, what)
        live = sum(s["live_bytes"] for s in report["sites"]
                   if any(f["function"] == "blocks" for f in harness.python_frames(s)))
        truth = 2 * BLOCKS * (SIZE + 1 + 56)
        # 24 MB, a sample each 16 KiB: the standard deviation is 2.6 %.
        self.assertLess(abs(live / truth - 1), 0.13, what)
        # Gone when freed, and not for being unknown: the tracer saw both.
        tracer = self.tracer(*self.arguments(target.pid)).wait_attached(target.pid)
        target.ask("forget")
        target.ask("blocks %d %d" % (BLOCKS, SIZE))
        target.ask("forget")
        self.assertEqual(tracer.interrupt(), 0, tracer.stderr())
        report = tracer.report()
        tracer.close()
        rows = [s for s in report["sites"]
                if any(f["function"] == "blocks" for f in harness.python_frames(s))]
        self.assertGreater(sum(s["samples"] for s in rows), 400, what)
        self.assertEqual(sum(s["live_bytes"] for s in rows), 0, what)

    def kill_often(self, target, rng, kills):
        took, requests = self.whole_run(target.pid), self.requests(target.pid)
        late = 0
        for i in range(kills):
            if i % 2:
                what = self.kill_at_time(target.pid, rng.uniform(0, took))
            else:
                what = self.kill_at_request(target.pid, rng.randrange(1, requests),
                                            rng.choice(("before", "after")))
            late += "too late" in what
            what = "seed %d, kill %d, %s" % (SEED, i, what)
            self.assert_runs_on(target, what)
            if i % 10 == 9:
                self.assert_reports_rightly(target, what)
        self.assertLess(late, kills * 3 // 4)
        return kills - late

    # ---- speed

    def speeds(self, target, control):
        """Ratios of processor time, target to control, measured in turn."""
        ratios = []
        for i in range(SETS):
            pair = [target, control] if i % 2 else [control, target]
            took = {p: statistics.median(p.ask("speed 7", 300)) for p in pair}
            ratios.append(took[target] / took[control])
        return ratios

    def assert_same_speed(self, before, after):
        ratio = statistics.median(after) / statistics.median(before)
        error = 1.25 * ratio * sum(statistics.pvariance(r) / len(r)
                                   for r in (before, after)) ** 0.5
        self.assertLess(ratio, SLOWER_AT_MOST + NOISE_SIGMAS * error)
        return "%.3f +- %.3f" % (ratio, error)

    def check(self, interpreter, threads):
        rng = random.Random(SEED)
        target, control = self.start(interpreter, threads), self.start(interpreter, threads)
        watch = kernelstate.BpfWatch()
        before = self.speeds(target, control)
        in_time = self.kill_often(target, rng, KILLS)
        # The very last one leaves all pointers swapped and the page switched on.
        tracer = self.tracer(*self.arguments(target.pid)).wait_attached(target.pid)
        self.assertTrue(watch.tracer_attached(tracer.pid))
        tracer.signal(signal.SIGKILL)
        tracer.wait()
        harness.wait_until("its BPF objects to go", lambda: not watch.left_behind(), 20)
        self.assert_runs_on(target, "the last")
        after = self.speeds(target, control)
        said = self.assert_same_speed(before, after)
        self.assert_reports_rightly(target, "the last")
        print("  %s, %d threads: seed %d, %d killed, %d of them in time; time afterwards / "
              "untraced %s" % (interpreter, threads, SEED, KILLS, in_time, said), flush=True)

    @harness.each_of_a_few_or_one
    def test_one_thread(self, interpreter):
        self.check(interpreter, 1)

    def test_threads(self):
        self.check(harness.a_few_interpreters()[-1], 8)


if __name__ == "__main__":
    harness.main()
