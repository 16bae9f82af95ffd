# SPDX-License-Identifier: BSD-2-Clause
"""pyheaptrace census: programs that know what they hold, on every interpreter.  Needs root, no BPF."""
import json
import os
import subprocess
import tempfile
import time
import unittest

import harness

# Makes things of many types and says how many of each and what sys.getsizeof() makes of them,
# inner objects included.  It waits before (the census before is subtracted) and after.
CONTENTS = r'''
import collections, gc, json, sys
N = int(sys.argv[1])
class Inst(object):
    def __init__(self, i): self.a = i; self.b = None
class Slots(object):
    __slots__ = ("a", "b", "c")
class SubDict(dict): pass
class SubList(list): pass
class SubInt(int): pass
class SubStr(str): pass
class Failure(Exception): pass
def wait(o):
    print(json.dumps(o), flush=True)
    sys.stdin.readline()
count, size = collections.Counter(), collections.Counter()
def tell(o):
    t = type(o); k = t.__module__ + "." + t.__qualname__
    count[k] += 1; size[k] += sys.getsizeof(o)
keep = [None] * 40
numbers = [0] * N
gc.collect(); gc.disable()
wait({})
for i in range(N): numbers[i] = 10**6 + i
def made(n, f):
    for i in range(n): yield f(i)
def hold(slot, n, f):
    keep[slot] = [None] * n
    for i in range(n): keep[slot][i] = f(i)
hold(0, N, lambda i: i + .5)
hold(1, N, lambda i: "s%d" % i)
hold(2, N // 4, lambda i: "\xe9%d" % i)
hold(3, N // 4, lambda i: "\u20ac%d" % i)
hold(4, N, lambda i: b"b%d" % i)
hold(5, N, lambda i: ("t", numbers[i]))
hold(6, N, lambda i: [numbers[i], None])
hold(7, N, lambda i: {"k": numbers[i]})
hold(8, N // 10, lambda i: dict.fromkeys(numbers[:12]))
hold(9, N, lambda i: Inst(numbers[i]))
hold(10, N, lambda i: Slots())
hold(11, N // 10, lambda i: SubDict(a=1))
hold(12, N // 10, lambda i: SubList((1, 2)))
hold(13, N // 10, lambda i: SubInt(10**7 + i))
hold(14, N // 10, lambda i: SubStr("x%d" % i))
hold(15, N // 10, lambda i: set(numbers[:20]))
hold(16, N // 10, lambda i: frozenset((None, i & 1)))
hold(17, N // 10, lambda i: bytearray(1 + i % 100))
hold(18, N // 10, lambda i: complex(i))
hold(19, N // 10, lambda i: Failure(None))
hold(20, N // 10, lambda i: "L" * (600 + i % 100))
hold(21, N // 10, lambda i: b"L" * (1600 + i % 100))
hold(22, N // 10, lambda i: tuple(numbers[:100]))
hold(23, N // 10, lambda i: numbers[:i % 100])
hold(24, N // 20, lambda i: collections.deque(numbers[:i % 200]))
hold(25, N // 10, lambda i: 10**(300 + i % 100))
hold(26, N // 10, lambda i: numbers[:i % 50] and [x for x in numbers[:i % 50]])
for o in numbers: tell(o)
for l in keep:
    if l is None: continue
    tell(l)
    for o in l: tell(o)
for o in keep[19]: tell(o.args)
if sys.version_info < (3, 11):
    # Each instance with attributes has a dict; those without get one when it is looked at.
    for o in keep[9]: tell(o.__dict__)
i = o = l = None
wait({k: [count[k], size[k]] for k in count})
'''

LIMIT = 0.001


def census(pid, *args):
    result = harness.run_tracer("census", "-p", pid, "-f", "json", *args)
    assert result.code == 0, str(result)
    return json.loads(result.out)


def by_type(report):
    return {row["module"] + "." + row["name"]: (row["count"], row["bytes"])
            for row in report["types"]}


class Python(harness.Process):
    def __init__(self, interpreter, source, *args, **kwargs):
        super().__init__(interpreter.command("-c", source, *args), **kwargs)


class Census(harness.TestCase):
    def start(self, interpreter, source, *args, **kwargs):
        p = Python(interpreter, source, *args, **kwargs)
        self.addCleanup(p.close)
        return p

    def compare(self, interpreter, n=50000, **kwargs):
        target = self.start(interpreter, CONTENTS, str(n), **kwargs)
        target.read_json()
        before = by_type(census(target.pid))
        truth = target.ask("go", deadline=120)
        report = census(target.pid)
        after = by_type(report)
        wrong = []
        for kind, (count, size) in sorted(truth.items()):
            c = after.get(kind, (0, 0))[0] - before.get(kind, (0, 0))[0]
            b = after.get(kind, (0, 0))[1] - before.get(kind, (0, 0))[1]
            # The sums themselves are ints, and the line that asked for them made a few objects.
            if abs(c - count) > max(LIMIT * count, 60) or abs(b - size) > max(LIMIT * size, 16384):
                wrong.append("%s: %d objects, %d bytes; census: %d, %d" % (kind, count, size, c, b))
        self.assertEqual(wrong, [])
        self.assertEqual(report["losses"]["torn_pools"], 0)
        self.assertEqual(report["stopped_ms"], 0)
        return report

    def test_known_contents(self):
        for interpreter in harness.interpreters():
            with self.subTest(python=str(interpreter)):
                report = self.compare(interpreter)
                # Next to nothing in the pools is of unknown owner.
                self.assertLess(report["other_small_bytes"], 0.01 * report["object_bytes"])

    def test_other_allocators(self):
        for mode in ("malloc", "debug", "malloc_debug"):
            for interpreter in harness.a_few_interpreters():
                with self.subTest(python=str(interpreter), mode=mode):
                    self.compare(interpreter, 10000, env=dict(os.environ, PYTHONMALLOC=mode))

    def test_running(self):
        """A program that makes and drops objects all the time, and keeps 100,000 of one type."""
        source = r'''
class Kept: __slots__ = ("a",)
kept = [Kept() for i in range(100000)]
print("{}", flush=True)
while True:
    for n in range(1000):
        x = [str(i) for i in range(n)]
        y = {i: [i] for i in range(n)}
'''
        for interpreter in harness.a_few_interpreters():
            with self.subTest(python=str(interpreter)):
                target = self.start(interpreter, source)
                target.read_json()
                for args in ((), ("--freeze",)):
                    report = census(target.pid, *args)
                    kept = by_type(report)["__main__.Kept"][0]
                    # While it runs, pools may be lost for a moment; stopped, none is.
                    self.assertLessEqual(abs(kept - 100000), 0 if args else 500)
                    if args:
                        self.assertGreater(report["stopped_ms"], 0)
                        self.assertLess(report["stopped_ms"], 2000)
                        self.assertEqual(report["losses"]["torn_pools"], 0)
                self.assertTrue(target.alive())

    def test_diff(self):
        source = r'''
import sys
class Thing: pass
a = [Thing() for i in range(100)]
print("{}", flush=True)
while sys.stdin.readline():
    a += [Thing() for i in range(1000)]
    print("{}", flush=True)
'''
        target = self.start(harness.one_interpreter(), source)
        target.read_json()
        with tempfile.TemporaryDirectory() as tmp:
            old, new = os.path.join(tmp, "old"), os.path.join(tmp, "new")
            self.assertEqual(harness.run_tracer("census", "-p", target.pid, "-f", "json", "-o",
                                                old).code, 0)
            target.ask("go")
            self.assertEqual(harness.run_tracer("census", "-p", target.pid, "-f", "json", "-o",
                                                new).code, 0)
            for args in (("--diff", old, new), ("-p", target.pid, "--diff", old)):
                result = harness.run_tracer("census", "-f", "json", *args)
                self.assertEqual(result.code, 0, str(result))
                rows = {r["name"]: r for r in json.loads(result.out)["diff"]}
                self.assertEqual(rows["Thing"]["count_before"], 100)
                self.assertEqual(rows["Thing"]["count_after"], 1100)
            result = harness.run_tracer("census", "--diff", old, new)
            self.assertIn("Thing", result.out)

    def test_text(self):
        target = self.start(harness.one_interpreter(), "print('{}', flush=True)\ninput()")
        target.read_json()
        result = harness.run_tracer("census", "-p", target.pid, "--all")
        self.assertEqual(result.code, 0, str(result))
        for word in ("function", "TYPE", "MODULE", "LARGEST STRINGS", "never stopped", "  512 "):
            self.assertIn(word, result.out)

    def test_referrers(self):
        source = r'''
import sys
class Target: pass
class Holder: __slots__ = ("t",)
one = Target()
holders = [Holder() for i in range(30)]
for h in holders: h.t = one
print("[%d]" % id(one), flush=True)
sys.stdin.read()
'''
        for interpreter in harness.a_few_interpreters():
            with self.subTest(python=str(interpreter)):
                target = self.start(interpreter, source)
                address = target.read_json()[0]
                for what in ("__main__.Target", hex(address)):
                    report = census(target.pid, "--referrers", what)
                    self.assertEqual(report["targets"], 1)
                    held = {r["name"]: r["references"] for r in report["types"]}
                    self.assertEqual(held["Holder"], 30)

    def test_errors(self):
        target = self.start(harness.one_interpreter(), "print('{}', flush=True)\ninput()")
        target.read_json()
        sleeper = subprocess.Popen(["sleep", "60"])
        self.addCleanup(sleeper.wait)
        self.addCleanup(sleeper.kill)
        cases = [
            (2, ()), (2, ("-p", "x")), (2, ("-p", "0")), (2, ("--nonsense",)),
            (2, ("-p", target.pid, "extra")), (2, ("-p", target.pid, "-f", "xml")),
            (2, ("--diff", "/nonexistent")),
            (2, ("-p", target.pid, "--every", "5", "--referrers", "dict")),
            (1, ("-p", 4194304)), (1, ("-p", sleeper.pid)),
            (1, ("-p", target.pid, "-o", "/nonexistent/x")),
            (1, ("-p", target.pid, "--diff", "/dev/null")),
            (1, ("--diff", "/nonexistent", "/nonexistent")),
            (1, ("-p", target.pid, "--referrers", "no.such.Type")),
            (1, ("-p", target.pid, "--referrers", "0xzz")),
        ]
        for code, args in cases:
            with self.subTest(args=args):
                result = harness.run_tracer("census", *args)
                self.assertEqual(result.code, code, str(result))
                self.assertEqual(result.err.count("\n"), 1, str(result))
                self.assertEqual(result.out, "")
        self.assertIn("Examples", harness.run_tracer("census", "--help").out)

    def test_large_heap(self):
        """Speed and memory: a heap of small objects, 1 GiB or PHT_CENSUS_GIB."""
        gib = float(os.environ.get("PHT_CENSUS_GIB", "1"))
        source = r'''
import sys, time
n = int(float(sys.argv[1]) * 2**30 / 250)
a = [10**7 + i for i in range(n)]
b = ["str%d" % i for i in range(n)]
c = [(x,) for x in a]
d = [[x] for x in a[::4]]
e = [{"k": x} for x in a[::8]]
print("{}", flush=True)
sys.stdin.read()
'''
        target = self.start(harness.one_interpreter(), source, str(gib))
        target.read_json(deadline=300)
        began = time.monotonic()
        child = subprocess.Popen([harness.BIN, "census", "-p", str(target.pid), "-f", "json"],
                                 stdout=subprocess.PIPE)
        out = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = status
        child.stdout.close()
        took = time.monotonic() - began
        report = json.loads(out)
        rss = report["rss_bytes"]
        print("\n%.2f GiB: %.2f s (%.2f s of CPU), %d MiB" % (
            rss / 2**30, took, usage.ru_utime + usage.ru_stime, usage.ru_maxrss >> 10))
        self.assertLess(usage.ru_maxrss, 200 << 10)
        # 5 s for 4 GiB.  Others may be using the CPUs: their time does not count.
        self.assertLess(usage.ru_utime + usage.ru_stime, max(1, 5 * rss / 2**32))


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("SKIPPED, NO CENSUS WAS TAKEN: not root", flush=True)
    else:
        harness.main()
