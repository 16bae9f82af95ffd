# SPDX-License-Identifier: BSD-2-Clause
"""pyheaptrace rss: is every resident page explained.  Needs root, no BPF.

PHT_RSS_PYTHON: an interpreter that has numpy, pandas or django, to try these, too.
"""
import json
import os
import subprocess
import unittest

import harness

EXPLAINED = 0.97

FRAGMENTED_SMALL = r'''
import sys
n = 100
a = [b"x" * n for i in range(1000000)]
kept = a[::100]
del a
print("{}", flush=True)
sys.stdin.read()
'''

# Free chunks in malloc's heap, some of whole pages; says what malloc_trim() gave back.
FRAGMENTED_MALLOC = r'''
import ctypes, json, sys
libc = ctypes.CDLL(None)
def rss():
    with open("/proc/self/statm") as f: return int(f.read().split()[1]) * 4096
rss()
a = [bytearray(9000) for i in range(8000)]
kept = a[::8]
del a
print("{}", flush=True)
sys.stdin.readline()
before = rss()
libc.malloc_trim(0)
print(json.dumps(before - rss()), flush=True)
sys.stdin.read()
'''

THREADS = r'''
import sys, threading
ready = threading.Barrier(7)
def work():
    n = 700
    blocks = [bytearray(n) for i in range(20000)]
    kept = blocks[::4]
    del blocks
    ready.wait()
    ready.wait()
for i in range(6): threading.Thread(target=work, daemon=True).start()
ready.wait()
print("{}", flush=True)
sys.stdin.read()
'''

LEAKY = r'''
import sys
a = [[str(i)] for i in range(500000)]
print("{}", flush=True)
sys.stdin.read()
'''

LARGE = r'''
import sys, mmap
a = [bytearray(n) for n in (1000000, 20000000, 50000000)]
m = mmap.mmap(-1, 30000000)
m.write(b"x" * 30000000)
with open(sys.executable, "rb") as f:
    whole = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
    whole.read()
print("{}", flush=True)
sys.stdin.read()
'''

# As AddressSanitizer's shadow or a database's map: terabytes, of which a page is there.
SPARSE = r'''
import ctypes, sys
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
at = libc.mmap(None, 8 << 40, 3, 0x4022, -1, 0)  # private, anonymous, not reserved
ctypes.memset(at + (1 << 40), 1, 4096)
print("{}", flush=True)
sys.stdin.read()
'''

PACKAGES = {
    "numpy": "import numpy as np\na = [np.random.rand(1000) for i in range(20000)]\n"
             "b = np.ones((3000, 3000))\nc = b + 1\n",
    "pandas": "import pandas as pd, numpy as np\n"
              "d = pd.DataFrame({'a': np.arange(500000), 's': ['n%d' % i for i in range(500000)]})\n"
              "g = d.groupby(d.a % 1000).a.mean()\nm = d.merge(d.head(1000), on='a')\n",
    "django": "import django\nfrom django.conf import settings\n"
              "settings.configure(DATABASES={'default': {'ENGINE': 'django.db.backends.sqlite3',"
              "'NAME': ':memory:'}}, INSTALLED_APPS=['django.contrib.auth',"
              "'django.contrib.contenttypes', 'django.contrib.admin'])\ndjango.setup()\n"
              "from django.core.management import call_command\n"
              "call_command('migrate', verbosity=0)\n"
              "from django.contrib.auth.models import User\n"
              "User.objects.bulk_create([User(username='u%d' % i) for i in range(2000)])\n"
              "users = list(User.objects.all())\n",
}


class Rss(harness.TestCase):
    def start(self, command, source):
        p = harness.Process(command + ["-c", source])
        self.addCleanup(p.close)
        p.read_json(deadline=180)
        return p

    def look(self, pid, *args):
        result = harness.run_tracer("rss", "-p", pid, "-f", "json", *args)
        self.assertEqual(result.code, 0, str(result))
        report = json.loads(result.out)
        # Every resident byte has one kind.
        self.assertEqual(sum(report["kinds"].values()), report["rss_bytes"])
        self.assertGreaterEqual(report["explained_share"], EXPLAINED,
                                json.dumps(report["unexplained"]))
        return report

    def on_each(self, source, check):
        for interpreter in harness.interpreters():
            with self.subTest(python=str(interpreter)):
                target = self.start(interpreter.command(), source)
                check(target, self.look(target.pid))

    def test_fragmented_pymalloc(self):
        def check(target, report):
            self.assertTrue(report["fragmented"])
            k = report["kinds"]
            self.assertGreater(k["pymalloc_partly"] + k["pymalloc_free"], 80 << 20)
            self.assertIn("pymalloc keeps", report["findings"][0]["text"])
            text = harness.run_tracer("rss", "-p", target.pid).out
            self.assertIn("fragmentation, not a leak", " ".join(text.split()))
        self.on_each(FRAGMENTED_SMALL, check)

    def test_fragmented_malloc(self):
        def check(target, report):
            self.assertTrue(report["fragmented"])
            self.assertTrue(report["malloc"]["known"])
            said = report["malloc"]["trimmable_bytes"]
            given = target.ask("trim")
            self.assertGreater(given, 20 << 20)
            self.assertLess(abs(given - said), 0.03 * said, "malloc_trim gave back %d" % given)
        self.on_each(FRAGMENTED_MALLOC, check)

    def test_leak_is_no_fragmentation(self):
        def check(target, report):
            self.assertFalse(report["fragmented"], json.dumps(report["findings"]))
        self.on_each(LEAKY, check)

    def test_threads(self):
        def check(target, report):
            arenas = report["malloc"]["arenas"]
            self.assertGreaterEqual(len(arenas), 2)
            self.assertEqual(sum(a["main"] for a in arenas), 1)
            self.assertEqual(report["threads"], 7)
            self.assertGreater(report["kinds"]["stack_threads"], 6 * 4096)
            self.assertGreater(report["kinds"]["malloc_free"], 20 << 20)
        self.on_each(THREADS, check)

    def test_mappings(self):
        def check(target, report):
            self.assertGreaterEqual(report["kinds"]["malloc_mmap"], 71000000)
            self.assertGreaterEqual(report["kinds"]["shared"], 30000000)
        self.on_each(LARGE, check)

    def test_sparse(self):
        """Looking puts nothing into the process: no pages, nor tables for them."""
        target = self.start(harness.one_interpreter().command(), SPARSE)

        def tables():
            with open("/proc/%d/status" % target.pid) as f:
                return next(int(line.split()[1]) for line in f if line.startswith("VmPTE:"))
        before = tables()
        self.look(target.pid)
        self.assertLess(tables() - before, 256)

    def test_freeze(self):
        target = self.start(harness.one_interpreter().command(), LEAKY)
        report = self.look(target.pid, "--freeze")
        self.assertGreater(report["stopped_ms"], 0)
        self.assertEqual(self.look(target.pid)["stopped_ms"], 0)
        self.assertIn(harness.state(target.pid), "SR")

    def test_packages(self):
        python = os.environ.get("PHT_RSS_PYTHON", "/usr/bin/python3")
        missing = []
        for name, source in PACKAGES.items():
            if subprocess.call([python, "-c", "import " + name], stderr=subprocess.DEVNULL):
                missing.append(name)
                continue
            with self.subTest(package=name):
                target = self.start([python], source + "import sys\nprint('{}', flush=True)\n"
                                                       "sys.stdin.read()\n")
                report = self.look(target.pid)
                print("%s: %.1f %% of %d MiB" % (name, 100 * report["explained_share"],
                                                 report["rss_bytes"] >> 20))
        if missing:
            self.skipTest("NOT TRIED, %s has no %s (see PHT_RSS_PYTHON)"
                          % (python, ", ".join(missing)))

    def test_errors(self):
        sleeper = subprocess.Popen(["sleep", "60"])
        self.addCleanup(sleeper.wait)
        self.addCleanup(sleeper.kill)
        target = self.start(harness.one_interpreter().command(), "print('{}', flush=True)\ninput()")
        for code, args in ((2, ()), (2, ("-p", "-1")), (2, ("-p", "1", "2")), (2, ("--what",)),
                           (2, ("-p",)), (1, ("-p", 4194304)), (1, ("-p", sleeper.pid)),
                           (1, ("-p", target.pid, "-o", "/nonexistent/x"))):
            with self.subTest(args=args):
                result = harness.run_tracer("rss", *args)
                self.assertEqual(result.code, code, str(result))
                self.assertEqual(result.err.count("\n"), 1, str(result))
        self.assertIn("Examples", harness.run_tracer("rss", "--help").out)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("SKIPPED, NOTHING WAS READ: not root", flush=True)
    else:
        harness.main()
