#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What the trampoline sees of some forty kinds of objects, against exact books.

The books are kept by a hook of ours (tests/programs/ledger.c), installed through
PyMem_SetAllocator() before the tracer comes.  As that hook could itself be what
makes allocations visible, every interpreter is also traced without it, against
the books of a twin process that does the same.

PHT_KINDS_COUNT objects of each kind (15,000) where one byte in 64 KiB is sampled,
PHT_KINDS_EXACT (2,000) where all are; PHT_CHURN objects (500,000) made and freed.
With PHT_FULL=1: 30,000, 5,000 and 10 million, on every interpreter.
PHT_SEED seeds the sampling.
"""
import math
import os
import random
import re
import shutil
import subprocess
import tempfile
import unittest
import zlib

import harness

COUNT = int(os.environ.get("PHT_KINDS_COUNT", "30000" if harness.FULL else "15000"))
EXACT = int(os.environ.get("PHT_KINDS_EXACT", "5000" if harness.FULL else "2000"))
CHURN = int(os.environ.get("PHT_CHURN", "10000000" if harness.FULL else "500000"))
SEED = int(os.environ.get("PHT_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
INTERVAL = 65536
SLOW = 600
Z95 = 1.96

library_dir = None


def setUpModule():
    global library_dir
    harness.require_bpf()
    print("seed: %d" % SEED, flush=True)
    library_dir = tempfile.mkdtemp(prefix="pht-ledger-")
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror",
                    "-shared", "-fPIC", os.path.join(harness.PROGRAMS, "ledger.c"), "-lm", "-ldl",
                    "-o", os.path.join(library_dir, "ledger.so")], check=True)


def tearDownModule():
    shutil.rmtree(library_dir)


class Truth:
    def __init__(self, numbers):
        (self.blocks, self.bytes, self.live_blocks, self.live_bytes,
         self.var_blocks, self.var_bytes) = numbers


class Seen:
    """All sites below one kind's function, added up."""

    def __init__(self):
        self.blocks = self.bytes = self.live_blocks = self.live_bytes = self.samples = 0
        self.var_low = self.var_high = 0

    def add(self, site):
        self.blocks += site["allocated_blocks"]
        self.bytes += site["allocated_bytes"]
        self.live_blocks += site["live_blocks"]
        self.live_bytes += site["live_bytes"]
        self.samples += site["samples"]
        self.var_low += (site["live_bytes"] - site["live_bytes_low"]) ** 2
        self.var_high += (site["live_bytes_high"] - site["live_bytes"]) ** 2

    def live_covers(self, value):
        """The printed intervals; errors of several sites are independent."""
        return (self.live_bytes - math.sqrt(self.var_low) <= value
                <= self.live_bytes + math.sqrt(self.var_high))

    def covers(self, value):
        """Of what was allocated only the estimate is printed: it is samples times R."""
        half = Z95 * math.sqrt(self.samples + Z95 * Z95 / 4) * INTERVAL
        middle = self.bytes + Z95 * Z95 / 2 * INTERVAL
        return middle - half <= value <= middle + half


def by_kind(report):
    found = {}
    for site in report["sites"]:
        for frame in harness.python_frames(site):
            # Not kind_x.<locals>.y: a generator is closed long after, by whoever drops it.
            if re.fullmatch(r"kind_\w+", frame["function"]):
                found.setdefault(frame["function"], Seen()).add(site)
                break
    return found


def binomial_limit(n, p, tail=1e-5):
    """The least k that a binomial variable exceeds with less than this probability."""
    term, total, k = (1 - p) ** n, 0.0, 0
    while total + term < 1 - tail:
        total += term
        term *= (n - k) / (k + 1) * p / (1 - p)
        k += 1
    return k


class CoverageCase(harness.TestCase):
    def kinds(self, interpreter, interval, books=True, own=False):
        """The program, ready.  Below a hook the tracer takes nothing for pymalloc's own."""
        argument = "-"
        if books:
            place = interpreter.workdir()
            self.addCleanup(shutil.rmtree, place, True)
            argument = interpreter.inside(shutil.copy(os.path.join(library_dir, "ledger.so"),
                                                      place))
        target = self.target(interpreter, "kinds.py", argument, str(interval), str(int(own)),
                             env=dict(os.environ, PYTHONHASHSEED="0"))
        self.assertEqual(target.read_json(), "ready")
        return target

    def attach(self, target, interval):
        # Of its own for each, or all interpreters would be lucky or unlucky together.
        seed = (SEED + zlib.crc32((self.id() + str(target.interpreter)).encode())) % (1 << 32)
        return self.tracer("-p", target.pid, "-R", interval, "--seed", seed,
                           "--collector=trampoline", "-f", "json", "--group-by", "traceback",
                           *harness.UNLIMITED).wait_attached(target.pid)

    def detach(self, tracer):
        self.assertEqual(tracer.interrupt(SLOW), 0, tracer.stderr())
        report = tracer.report()
        self.assertEqual(report["collector"], "trampoline")
        self.assert_no_losses(report)
        return report

    def truth(self, target):
        found = {k: Truth(v) for k, v in target.ask("truth").items()}
        self.assertGreaterEqual(len(found), 26)
        return found

    def do(self, target, *commands):
        for command in commands:
            target.ask(command, SLOW)


class Exact(CoverageCase):
    """R = 1: every block, to a thousandth; the rest is the books' own calls."""

    FIELDS = ("blocks", "bytes", "live_blocks", "live_bytes")
    # When pymalloc's own tables grow depends on the heap's past: in a twin, below another kind.
    TABLES = 16384

    def compare(self, report, truth, slack, wrong):
        """Returns the largest relative deviation."""
        seen = by_kind(report)
        worst = 0
        for field in self.FIELDS:
            rows = [(kind, getattr(seen.get(kind, Seen()), field), getattr(want, field))
                    for kind, want in truth.items()]
            rows.append(("all", sum(r[1] for r in rows), sum(r[2] for r in rows)))
            for kind, got, want in rows:
                allowed = slack if "bytes" in field and kind != "all" else 4
                if abs(got - want) > max(0.001 * want, allowed):
                    wrong.append("%s: %s is %d, truth %d" % (kind, field, got, want))
                if want > 1000:
                    worst = max(worst, abs(got - want) / want)
        return worst

    def check(self, interpreter, target, twin):
        wrong, worst = [], 0
        slack = self.TABLES if twin is not target else 4
        for after in ("half", "drop"):
            self.do(twin, "reset")
            tracer = self.attach(target, 1)
            for process in {target, twin}:
                self.do(process, "make %d" % EXACT, after)
            report = self.detach(tracer)
            self.assertEqual(report["sample_interval"], 1)
            worst = max(worst, self.compare(report, self.truth(twin), slack, wrong))
            self.do(target, "drop")
            self.do(twin, "drop")
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))
        print("  %s: largest deviation of any kind %.4f %%" % (interpreter, 100 * worst),
              flush=True)

    def test_with_books(self):
        for interpreter in harness.many_interpreters():
            with self.subTest(python=str(interpreter)):
                target = self.kinds(interpreter, 1)
                self.check(interpreter, target, target)
                target.close()

    def test_against_a_twin(self):
        for interpreter in harness.many_interpreters():
            with self.subTest(python=str(interpreter)):
                target = self.kinds(interpreter, 1, books=False)
                twin = self.kinds(interpreter, 1, own=True)
                self.check(interpreter, target, twin)
                target.close()
                twin.close()


class Tally:
    """How often intervals held, and how far estimates were off, in standard deviations."""

    def __init__(self):
        self.intervals = {"allocated": [0, 0], "live": [0, 0]}
        self.z = {"blocks": [], "bytes": []}

    def interval(self, what, covers):
        self.intervals[what][0] += not covers
        self.intervals[what][1] += 1

    def error(self, what, got, want, variance):
        self.z[what].append((got - want) / math.sqrt(variance))

    def merge(self, other):
        for what, (missed, of) in other.intervals.items():
            self.intervals[what][0] += missed
            self.intervals[what][1] += of
        for what, values in other.z.items():
            self.z[what] += values

    def __str__(self):
        parts = ["%s: %d of %d intervals missed" % (what, missed, of)
                 for what, (missed, of) in self.intervals.items()]
        for what, z in self.z.items():
            if not z:
                continue
            mean = sum(z) / len(z)
            spread = math.sqrt(sum(v * v for v in z) / len(z))
            parts.append("%s: error %+.2f +- %.2f sd, spread %.2f"
                         % (what, mean, 1 / math.sqrt(len(z)), spread))
        return "; ".join(parts)


class Sampled(CoverageCase):
    """R = 64 KiB: nineteen of twenty intervals hold, none is far off, no bias."""

    def compare(self, report, truth):
        seen, tally = by_kind(report), Tally()
        for kind, want in truth.items():
            if not want.blocks or kind == "kind_churn":
                continue
            got = seen.get(kind, Seen())
            tally.interval("allocated", got.covers(want.bytes))
            if want.live_bytes:
                tally.interval("live", got.live_covers(want.live_bytes))
            tally.error("blocks", got.blocks, want.blocks, want.var_blocks)
            tally.error("bytes", got.bytes, want.bytes, want.var_bytes)
        return tally

    def assert_calibrated(self, tally):
        for what, (missed, of) in tally.intervals.items():
            self.assertLessEqual(missed, binomial_limit(of, 0.05), "%s: %s" % (what, tally))
        for what, z in tally.z.items():
            self.assertTrue(z, "nothing was compared")
            self.assertLess(abs(sum(z)) / math.sqrt(len(z)), 4.5, "%s: %s" % (what, tally))
            self.assertLess(max(abs(v) for v in z), 6, "%s: %s" % (what, tally))

    def check(self, interpreter, target, twin):
        self.do(twin, "reset")
        tracer = self.attach(target, INTERVAL)
        for process in {target, twin}:
            self.do(process, "make %d" % COUNT, "half")
        report = self.detach(tracer)
        tally = self.compare(report, self.truth(twin))
        self.assertGreaterEqual(tally.intervals["live"][1], 25)
        print("  %s: %s" % (interpreter, tally), flush=True)
        self.assert_calibrated(tally)
        return tally

    def test_with_books(self):
        total = Tally()
        for interpreter in harness.many_interpreters():
            with self.subTest(python=str(interpreter)):
                target = self.kinds(interpreter, INTERVAL)
                total.merge(self.check(interpreter, target, target))
                target.close()
        print("  all: %s" % total, flush=True)
        self.assert_calibrated(total)

    def test_against_a_twin(self):
        total = Tally()
        for interpreter in harness.many_interpreters():
            with self.subTest(python=str(interpreter)):
                target = self.kinds(interpreter, INTERVAL, books=False)
                twin = self.kinds(interpreter, INTERVAL, own=True)
                total.merge(self.check(interpreter, target, twin))
                target.close()
                twin.close()
        print("  all: %s" % total, flush=True)
        self.assert_calibrated(total)


class Emptied(CoverageCase):
    """What is freed is gone from the report: not nearly, but to the last sample."""

    def assert_empty(self, report, kinds, truth):
        seen = by_kind(report)
        self.assertGreater(sum(s.samples for s in seen.values()), 1000)
        for kind in kinds:
            if truth and truth[kind].live_bytes:
                # On a free list, which the tracer cannot know of.
                self.assertLess(truth[kind].live_bytes, 200000, kind)
                continue
            self.assertEqual(seen[kind].live_bytes if kind in seen else 0, 0, kind)

    def test_all_freed(self):
        for interpreter in harness.many_interpreters():
            with self.subTest(python=str(interpreter)):
                target = self.kinds(interpreter, INTERVAL)
                self.do(target, "reset")
                tracer = self.attach(target, INTERVAL)
                self.do(target, "make %d" % COUNT, "drop")
                truth = self.truth(target)
                report = self.detach(tracer)
                gone = [k for k, t in truth.items() if t.blocks and not t.live_bytes]
                self.assertGreaterEqual(len(gone), 25)
                self.assert_empty(report, [k for k, t in truth.items() if t.blocks], truth)
                target.close()

    def test_churn(self):
        """Without the books, whose locks and tables are not what is to be stressed."""
        for interpreter in harness.many_interpreters():
            with self.subTest(python=str(interpreter)):
                target = self.kinds(interpreter, INTERVAL, books=False)
                tracer = self.attach(target, INTERVAL)
                self.do(target, "churn %d" % CHURN, "drop")
                report = self.detach(tracer)
                seen = by_kind(report)["kind_churn"]
                # The last round's objects are gone as well when the function returns.
                self.assertEqual(seen.live_bytes, 0)
                self.assertGreater(seen.samples, CHURN * 40 // INTERVAL // 2)
                print("  %s: %d objects, %d samples, none live"
                      % (interpreter, CHURN, seen.samples), flush=True)
                target.close()


if __name__ == "__main__":
    harness.main()
