#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Whatever happens to the tracer or the target: the target stays as healthy
and as fast as it was, nothing is left behind, and a living tracer reports."""
import json
import os
import signal
import statistics
import time
import unittest

import harness
import kernelstate

ROUNDS = 40
# Processor time, median: on a busy machine even that wanders.  A breakpoint left on
# malloc() costs a factor of 3 to 20; where processors are emulated they wander as much.
SLOWER_AT_MOST = float(os.environ.get("PHT_SLOWER_AT_MOST", "1.4"))
# The one that puts breakpoints into the target's code, on however busy a target.
COLLECTOR = ("--collector=" + os.environ.get("PHT_COLLECTOR", "probe"),) + harness.UNLIMITED


def setUpModule():
    harness.require_bpf()
    if not kernelstate.bpftool():
        raise AssertionError("no bpftool: cannot see what is left behind")


class SurviveCase(harness.TestCase):
    def start(self, interpreter, *options):
        """A working target with a tracer on it; the state before is noted."""
        self.steady = self.target(interpreter, "steady.py")
        self.steady.read_json()
        self.steady.ask("threads")  # whatever is loaded on demand is loaded now
        self.addresses = self.steady.ask("functions")["addresses"]
        self.speed_before = self.speed()
        self.pages_before = kernelstate.code_pages(self.steady.pid)
        self.watch = kernelstate.BpfWatch()
        tracer = self.tracer("-p", self.steady.pid, "-f", "json", *COLLECTOR, *options)
        tracer.wait_attached(self.steady.pid)
        owned = self.watch.tracer_attached(tracer.pid)
        self.assertTrue([k for k in owned if k[0] == "prog"], "the tracer has no BPF program?")
        return tracer

    def speed(self):
        return statistics.median(self.steady.ask("speed %d" % ROUNDS)["rounds"])

    def assert_breakpoints(self):
        """Says that the look at the code pages can see a probe."""
        changed = kernelstate.changed_pages(self.pages_before,
                                            kernelstate.code_pages(self.steady.pid))
        self.assertTrue(changed, "no probe to be seen in the target's code")

    def assert_nothing_left(self, alive=True):
        harness.wait_until("the tracer's BPF objects to go: %s" % self.watch.left_behind(),
                           lambda: not self.watch.left_behind(), 20)
        if not alive:
            return
        changed = kernelstate.changed_pages(self.pages_before,
                                            kernelstate.code_pages(self.steady.pid))
        self.assertEqual([hex(a) for a in changed], [], "code of the target is not as before")
        self.assertEqual(self.steady.ask("functions")["addresses"], self.addresses)

    def assert_speed_is_back(self):
        seen = []
        for _ in range(8):
            seen.append(self.speed() / self.speed_before)
            if seen[-1] < SLOWER_AT_MOST:
                return
        self.fail("the target is slower than before: %s" % seen)

    def assert_healthy(self):
        self.assertTrue(self.steady.alive())
        self.assertEqual(self.steady.ask("threads")["threads"], 4)
        self.assertEqual(os.WEXITSTATUS(self.steady.ask("fork")["status"]), 7)
        self.assert_speed_is_back()

    def assert_report(self, tracer):
        report = tracer.report()
        self.assertEqual(report["pid"], self.steady.pid)
        self.assertGreater(report["duration_seconds"], 0)
        self.assertIn("sites", report)
        return report


class TracerEnds(SurviveCase):
    @harness.each_of_a_few
    def test_sigkill(self, interpreter):
        tracer = self.start(interpreter)
        self.assert_breakpoints()
        tracer.signal(signal.SIGKILL)
        tracer.wait()
        self.assert_nothing_left()
        self.assert_healthy()

    def test_sigkill_while_attaching(self):
        """At twenty moments between start and the first report."""
        interpreter = harness.one_interpreter()
        tracer = self.start(interpreter)
        tracer.interrupt()
        for step in range(20):
            tracer = self.tracer("-p", self.steady.pid, "-f", "json", *COLLECTOR)
            time.sleep(step * 0.025)
            tracer.signal(signal.SIGKILL)
            tracer.wait()
        self.assert_nothing_left()
        self.assert_healthy()

    @harness.each_of_a_few
    def test_sigint_reports(self, interpreter):
        tracer = self.start(interpreter)
        self.assert_breakpoints()
        self.steady.ask("speed 20")
        self.assertEqual(tracer.interrupt(), 0, tracer.stderr())
        self.assert_report(tracer)
        self.assert_nothing_left()
        self.assert_healthy()

    def test_sigterm_reports(self):
        tracer = self.start(harness.one_interpreter())
        tracer.signal(signal.SIGTERM)
        tracer.wait()
        self.assert_report(tracer)
        self.assert_nothing_left()

    def test_duration_reports(self):
        started = time.monotonic()
        tracer = self.start(harness.one_interpreter(), "-d", "2")
        self.assertEqual(tracer.wait(), 0, tracer.stderr())
        self.assertGreater(time.monotonic() - started, 1.9)
        report = self.assert_report(tracer)
        self.assertGreater(report["duration_seconds"], 1.9)
        self.assertLess(report["duration_seconds"], 4)
        self.assert_nothing_left()
        self.assert_healthy()

    def test_attached_many_times(self):
        tracer = self.start(harness.one_interpreter())
        tracer.interrupt()
        for _ in range(5):
            again = self.tracer("-p", self.steady.pid, "-f", "json", *COLLECTOR, "-d", "0.3")
            self.assertEqual(again.wait(), 0, again.stderr())
        self.assert_nothing_left()
        self.assert_healthy()

    def test_two_tracers_at_once(self):
        first = self.start(harness.one_interpreter())
        second = self.tracer("-p", self.steady.pid, "-f", "json", *COLLECTOR)
        second.wait_attached(self.steady.pid)
        self.assertEqual(first.interrupt(), 0, first.stderr())
        self.steady.ask("ping")
        self.assertEqual(second.interrupt(), 0, second.stderr())
        self.assert_report(second)
        self.assert_nothing_left()
        self.assert_healthy()


class TargetActs(SurviveCase):
    @harness.each_of_a_few
    def test_target_exits(self, interpreter):
        tracer = self.start(interpreter)
        self.steady.ask("exit")
        self.assertEqual(self.steady.child.wait(harness.DEADLINE), 0)
        # Nobody tells the tracer: it has to see by itself.
        self.assertEqual(tracer.wait(), 0, tracer.stderr())
        self.assert_report(tracer)
        self.assert_nothing_left(alive=False)

    def test_target_is_killed(self):
        tracer = self.start(harness.one_interpreter())
        self.steady.child.kill()
        self.steady.child.wait()
        self.assertEqual(tracer.wait(), 0, tracer.stderr())
        self.assert_report(tracer)
        self.assert_nothing_left(alive=False)

    @harness.each_of_a_few
    def test_target_execs(self, interpreter):
        tracer = self.start(interpreter)
        self.assertTrue(self.steady.ask("exec")["ready"])
        self.steady.ask("speed 5")
        # Ended by itself or going on with the new program: either way it reports.
        if tracer.child.poll() is None:
            tracer.signal(signal.SIGINT)
        self.assertEqual(tracer.wait(), 0, tracer.stderr())
        self.assert_report(tracer)
        harness.wait_until("BPF objects to go", lambda: not self.watch.left_behind(), 20)
        self.assertEqual(self.steady.ask("threads")["threads"], 4)
        self.assert_speed_is_back()

    @harness.each_of_a_few
    def test_target_forks(self, interpreter):
        tracer = self.start(interpreter)
        for _ in range(3):
            self.assertEqual(os.WEXITSTATUS(self.steady.ask("fork")["status"]), 7)
        self.assertIsNone(tracer.child.poll(), "the tracer ended with the child")
        self.assertEqual(tracer.interrupt(), 0, tracer.stderr())
        self.assert_report(tracer)
        self.assert_nothing_left()
        self.assert_healthy()

    def test_target_starts_threads(self):
        tracer = self.start(harness.one_interpreter())
        for _ in range(3):
            self.assertEqual(self.steady.ask("threads")["threads"], 4)
        self.assertEqual(tracer.interrupt(), 0, tracer.stderr())
        self.assert_report(tracer)
        self.assert_nothing_left()

    @harness.each_of_a_few
    def test_target_is_stopped(self, interpreter):
        """SIGSTOP mid-run: the tracer ends on time and reports, the target goes on."""
        tracer = self.start(interpreter, "-d", "2")
        os.kill(self.steady.pid, signal.SIGSTOP)
        self.assertEqual(tracer.wait(), 0, tracer.stderr())
        self.assert_report(tracer)
        os.kill(self.steady.pid, signal.SIGCONT)
        self.assert_nothing_left()
        self.assert_healthy()

    def test_attach_to_a_stopped_target(self):
        tracer = self.start(harness.one_interpreter())
        tracer.interrupt()
        os.kill(self.steady.pid, signal.SIGSTOP)
        again = self.tracer("-p", self.steady.pid, "-f", "json", *COLLECTOR, "-d", "1")
        self.assertEqual(again.wait(), 0, again.stderr())
        self.assertEqual(json.loads(again.stdout())["pid"], self.steady.pid)
        os.kill(self.steady.pid, signal.SIGCONT)
        self.assert_nothing_left()
        self.assert_healthy()


if __name__ == "__main__":
    harness.main()
