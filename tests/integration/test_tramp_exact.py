#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Every call counted by the trampoline, at sample interval 1, against programs that keep books."""
import glob
import json
import os
import re
import subprocess
import time
import unittest

import harness
import test_exact

OPTIONS = ("-R", "1", "--collector=trampoline", "--max-overhead", "1000000", "-f", "json",
           "--group-by", "line", "-n", "10000")


def setUpModule():
    test_exact.setUpModule()


def tearDownModule():
    test_exact.tearDownModule()


class FamilyTest(test_exact.ExactTest):
    """The whole family as a library calls it through its GOT."""

    def tracer(self, *args):
        """The same trace() by another collector."""
        self.assertEqual(args[0], "-p")
        return super().tracer(*args[:2], *OPTIONS)

    def check(self, interpreter, calls):
        start = time.monotonic()
        report, truth = self.trace(interpreter, calls)
        self.assertEqual(report["collector"], "trampoline")
        self.compare(report, truth)
        self.assert_no_losses(report)
        print("  %s: %d calls of each, all equal, %.0f s"
              % (interpreter, calls, time.monotonic() - start), flush=True)

    def test_many_calls(self):
        self.check(harness.one_interpreter(), 20000)


class MappingsTest(harness.TestCase):
    """Mappings by Python's own mmap module, and what must not be taken for one."""

    def attach(self, interpreter, **env):
        target = self.target(interpreter, "mappings.py", env=dict(os.environ, **env))
        self.assertEqual(target.read_json(), "ready")
        tracer = self.tracer("-p", target.pid, *OPTIONS).wait_attached(target.pid)
        return target, tracer

    def rows(self, target, tracer):
        self.assertEqual(tracer.interrupt(), 0, tracer.stderr())
        report = tracer.report()
        self.assertEqual(report["collector"], "trampoline")
        self.assert_no_losses(report)
        target.close()
        found = {}
        for site in report["sites"]:
            for name in {f["function"] for f in harness.python_frames(site)}:
                row = found.setdefault(name, dict.fromkeys(("live_bytes", "allocated_bytes"), 0))
                for field in row:
                    row[field] += site[field]
        return found

    def hits(self, tracer):
        """How often the tracer's probes on the page ran."""
        out = subprocess.run(["bpftool", "-j", "prog", "show"], check=True,
                             stdout=subprocess.PIPE).stdout
        own = set()
        for name in os.listdir("/proc/%d/fdinfo" % tracer.pid):
            with open("/proc/%d/fdinfo/%s" % (tracer.pid, name)) as f:
                own.update(int(i) for i in re.findall(r"^prog_id:\s*(\d+)", f.read(), re.M))
        return sum(p.get("run_cnt", 0) for p in json.loads(out)
                   if p["id"] in own and p.get("name", "").startswith("tramp_"))

    @harness.each_of_a_few
    def test_mmap_module(self, interpreter):
        self.check_maps(*self.attach(interpreter))

    def test_preloaded_allocators(self):
        """Their own mappings are not the program's; theirs is operator new, unseen and named."""
        found = glob.glob("/usr/lib/*/libjemalloc.so.2") + glob.glob("/usr/lib/*/libtcmalloc*[a-z].so.4")
        if not found:
            self.skipTest("SKIPPED: neither jemalloc nor tcmalloc is installed")
        for library in found:
            with self.subTest(library=library):
                target, tracer = self.attach(harness.one_interpreter(), LD_PRELOAD=library)
                self.assertIn("operator new", self.check_maps(target, tracer)["description"])

    def check_maps(self, target, tracer):
        truth = target.ask("maps")
        rows = self.rows(target, tracer)
        self.assertGreater(len(truth), 4)
        for function, (live, allocated) in truth.items():
            row = rows[function]
            # Beside the mapping each object has a few hundred bytes of its own.
            for got, want in ((row["live_bytes"], live), (row["allocated_bytes"], allocated)):
                self.assertGreaterEqual(got, want, function)
                self.assertLess(got - want, 4096, function)
        return tracer.report()["coverage"]

    @harness.each_of_a_few
    def test_arenas_are_none(self, interpreter):
        """100 MB of small objects: the arenas below them would count them twice."""
        target, tracer = self.attach(interpreter)
        want = target.ask("small")
        got = self.rows(target, tracer)["small"]["live_bytes"]
        self.assertGreaterEqual(got, want)
        self.assertLess(got, want * 1.03)

    @harness.each_of_a_few
    def test_big_buffers_map_unseen(self, interpreter):
        """malloc maps 256 KiB buffers: at R = 1 GiB no call of its own may enter the kernel."""
        target = self.target(interpreter, "mappings.py")
        self.assertEqual(target.read_json(), "ready")
        tracer = self.tracer("-p", target.pid, "-R", 1 << 30, "--collector=trampoline",
                             "-f", "json").wait_attached(target.pid)
        time.sleep(0.3)
        before = self.hits(tracer)
        self.assertEqual(target.ask("buffers"), 20000)
        hits = self.hits(tracer) - before
        self.assertEqual(tracer.interrupt(), 0, tracer.stderr())
        # 5 GB at one sample a GiB, each with its free.
        self.assertGreater(hits, 0)
        self.assertLess(hits, 60)


if __name__ == "__main__":
    harness.main()
