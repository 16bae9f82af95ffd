#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What docs/matrix.md says, made once more for the Pythons that are here.

PHT_MATRIX_ROUNDS (1) says how often each program of a row runs, about 1,200 samples each
time; with PHT_FULL=1 as often as for the document (4).  PHT_MATRIX_ROOTS names chroots
besides, PHT_PYTHONS narrows the choice.  A Python that the document has no row for fails
in CI; elsewhere it need only be exact, for whoever tests on another distribution.
"""
import os
import re
import sys
import unittest

import harness
import rows
import stacks

ROUNDS = int(os.environ.get("PHT_MATRIX_ROUNDS", "4" if harness.FULL else "1"))
ROOTS = [r for r in os.environ.get("PHT_MATRIX_ROOTS", "").split(":") if r]
WANTED = [w for w in os.environ.get("PHT_PYTHONS", "").split(",") if w]
# Below this a row shows nothing: a run of one round has twice as many.
SAMPLES = 500
# Of the samples, those with a frame that has no name.
UNRESOLVED = 0.001
# What the document must show, as (versions, builds): patterns.
REQUIRED = ([(r"3\.%d\.\d+" % n, "pyenv") for n in range(8, 14)]
            + [(r"3\.\d+\.\d+", r"Debian GNU/Linux (%s\b|.*%s)" % (n, name)) for n, name in (
                (11, "bullseye"), (12, "bookworm"), (13, "trixie"), ("sid", "sid"))]
            + [(r"3\.13\.\d+t", ""), (r"3\.14\.\d+t", ""), (r"3\.11\.\d+", ".*--with-pydebug")])


def percent(cell):
    return float(cell.split()[0])


class DocumentTest(unittest.TestCase):
    """That the document is whole: no Python is needed for it."""

    def setUp(self):
        self.rows = rows.read()

    def test_required(self):
        for version, build in REQUIRED:
            for collector in rows.COLLECTORS:
                self.assertTrue(
                    [r for r in self.rows if r.collector == collector
                     and re.fullmatch(version, r.version) and re.match(build, r.build)],
                    "no row of %s %s, %s" % (version, build, collector))

    def test_sums(self):
        with open(rows.DOCUMENT) as f:
            told = re.search(r"(\d+) samples in all, (\d+) of them wrong, (\d+) with", f.read())
        samples, wrong, unresolved = (int(n) for n in told.groups())
        self.assertEqual(samples, sum(int(r.samples) for r in self.rows))
        self.assertEqual(unresolved, sum(int(r.no_name) for r in self.rows))
        self.assertGreaterEqual(samples, 100000)
        self.assertEqual(wrong, 0)
        self.assertLess(unresolved, UNRESOLVED * samples)
        self.assertEqual([r.key for r in self.rows if not r.faultless], [])


class MatrixTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        harness.require_bpf()
        stacks.build_library()
        cls.addClassCleanup(stacks.remove_library)
        cls.documented = rows.read()

    def test_rows(self):
        builds = [i for i in rows.builds(ROOTS)
                  if not WANTED or i.minor in WANTED or i.version in WANTED]
        self.assertTrue(builds, "no supported Python is here")
        compared = 0
        for interpreter in builds:
            build = rows.describe(interpreter)
            for collector in rows.COLLECTORS:
                with self.subTest(python=str(interpreter), collector=collector):
                    self.compare(interpreter, build, collector)
                    compared += 1
        minors = {rows.series(rows.version_of(i)) for i in builds}
        print("  %d rows of %d builds, %d minor versions" % (compared, len(builds), len(minors)),
              flush=True)
        if len(minors) < 5:
            print("COMPARED LITTLE: only %s are here" % ", ".join(sorted(minors)), flush=True)

    def compare(self, interpreter, build, collector):
        key = (rows.version_of(interpreter), build, collector)
        want = rows.row_for(self.documented, key)
        if want is None:
            missing = ("docs/matrix.md has no row for %s, %s; this writes it: %stests/matrix.py "
                       "--keep --only %s" % (key[0], build, self.where(interpreter),
                                             interpreter.version))
            self.assertNotEqual(os.environ.get("CI"), "1", missing)
            print("  COMPARED WITH NO ROW: " + missing, flush=True)
        row, tally = rows.make(interpreter, build, collector, ROUNDS)
        print("  | " + " | ".join(row.cells) + " |", flush=True)
        self.assertIsNotNone(tally, row.samples)
        shown = "%s\n%s" % (tally, "\n".join(str(e) for e in tally.examples[:5]))
        self.assertGreaterEqual(tally.samples, SAMPLES, "too few to tell anything")
        self.assertEqual(row.collector, collector)
        for name in ("stacks", "names", "lines"):
            self.assertGreaterEqual(percent(getattr(row, name)),
                                    percent(getattr(want, name)) if want else 100,
                                    "%s less exact than docs/matrix.md says\n%s" % (name, shown))
        self.assertLessEqual(tally.unresolved, UNRESOLVED * tally.samples, shown)
        if want:
            self.assertEqual(row.coverage, want.coverage)

    @staticmethod
    def where(interpreter):
        """The setting that leads matrix.py to a Python in no usual place."""
        if interpreter.root and interpreter.root != harness.SID_ROOT:
            return "PHT_MATRIX_ROOTS=%s " % interpreter.root
        if interpreter.path in harness.EXTRA:
            return "PHT_EXTRA_PYTHONS=%s " % interpreter.path
        return ""


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    harness.main()
