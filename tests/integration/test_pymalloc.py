#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""pyheaptrace pymalloc against what the target itself says, at the same moment."""
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import harness

BULLSEYE_ROOT = os.environ.get("PHT_BULLSEYE_ROOT", "/var/tmp/pht-roots/bullseye")
WORKLOADS = ("idle", "churn", "imports", "reclaim", "freelists", "threads")

# Every kind of line, in our own words: name -> regular expression.
LINES = {
    "threshold": r"Small block threshold = \d+, in \d+ size classes\.",
    "title": r"class   size   num pools   blocks in use  avail blocks",
    "rule": r"-----   ----   ---------   -------------  ------------",
    "class": r" *\d+ +\d+ +\d+ +\d+ +\d+",
    "counter": r"# [a-z ]+ = +[\d,]+",
    "product": r"\d+ (?:arenas|unused pools) \* \d+ bytes(?:/arena)? += +[\d,]+",
    "total": r"Total += +[\d,]+",
    "map": r"arena map counts",
    "freelist": r" *\d+ free (?:\d+-sized )?Py\w+s \* \d+ bytes each = +[\d,]+",
    "blank": r"",
}


def setUpModule():
    if os.geteuid() != 0:
        print("SKIPPED: not root", flush=True)
        raise unittest.SkipTest("not root")


def interpreters():
    found = [i for i in harness.interpreters() + harness.unsupported_interpreters()
             if re.match(r"3\.(8|9|1\d)\b", i.version)]
    if os.path.exists(BULLSEYE_ROOT + "/usr/bin/python3.9"):
        found.append(harness.Interpreter("/usr/bin/python3.9", BULLSEYE_ROOT))
    return found


def pymalloc(*args, **kwargs):
    return harness.run_tracer("pymalloc", *args, **kwargs)


def stats(pid, *args):
    done = pymalloc("-p", pid, "--format", "debugmallocstats", *args)
    assert done.code == 0, done
    return done.out


def moment(pid, *args):
    done = pymalloc("-p", pid, "--format", "json", *args)
    assert done.code == 0, done
    return json.loads(done.out)


class Stopped:
    """A target that runs a workload and stops behind its own statistics."""

    def __init__(self, interpreter, env=None):
        environment = dict(os.environ, **(env or {}))
        self.target = harness.Target(interpreter, "mallocstats.py", env=environment)
        self.pid = self.target.pid
        self.target.read_line()

    def run(self, name):
        """What the target itself printed; it stands still until go_on()."""
        path = os.path.join(self.target.dir, name + ".txt")
        self.target.tell("%s %s" % (name, self.target.interpreter.inside(path)))
        harness.wait_until("the target to stop", lambda: harness.state(self.pid) in "Tt")
        with open(path) as f:
            return f.read()

    def go_on(self):
        os.kill(self.pid, signal.SIGCONT)
        self.target.read_line()

    def close(self):
        self.target.close()


class Case(unittest.TestCase):
    maxDiff = None

    def stopped(self, interpreter, env=None):
        s = Stopped(interpreter, env)
        self.addCleanup(s.close)
        return s

    def python(self, code, interpreter=None):
        p = harness.Process((interpreter or harness.one_interpreter()).command("-c", code))
        self.addCleanup(p.close)
        p.read_line()
        return p


class Identity(Case):
    def compare(self, interpreter, workloads, env=None):
        s = self.stopped(interpreter, env)
        same = 0
        for name in workloads:
            with self.subTest(python=str(interpreter), workload=name, env=env):
                inside = s.run(name)
                self.assertIn(" free PyDictObjects * ", inside)
                self.assertEqual(stats(s.pid), inside)
                self.assertEqual(stats(s.pid, "--freeze"), inside)
                # let go, it goes back to its stop without running any code of its own
                harness.wait_until("it to be stopped again", lambda: harness.state(s.pid) == "T")
                self.assertEqual(stats(s.pid), inside)
                s.go_on()
                same += 1
        s.close()
        return inside, same

    def test_every_interpreter_and_workload(self):
        for interpreter in interpreters():
            inside, same = self.compare(interpreter, WORKLOADS)
            self.assertIn("# arenas allocated total", inside)
            reclaimed = re.search(r"# arenas reclaimed += +([\d,]+)", inside).group(1)
            self.assertNotEqual(reclaimed, "0", "the workloads must have given arenas back")
            print("%-60s identical after %d of %d workloads"
                  % (interpreter, same, len(WORKLOADS)), flush=True)

    def test_other_allocators(self):
        for interpreter in interpreters():
            for mode in ("malloc", "debug", "malloc_debug"):
                self.compare(interpreter, ("churn", "freelists"), {"PYTHONMALLOC": mode})
            self.compare(interpreter, ("churn",), {"PYTHONTRACEMALLOC": "1"})

    def test_each_line_is_of_a_known_kind(self):
        for interpreter in interpreters():
            s = self.stopped(interpreter)
            s.run("churn")
            kinds = {}
            for line in stats(s.pid).splitlines():
                matching = [k for k, r in LINES.items() if re.fullmatch(r, line)]
                self.assertEqual(len(matching), 1, (str(interpreter), line))
                kinds[matching[0]] = kinds.get(matching[0], 0) + 1
            self.assertGreater(kinds["class"], 20)
            self.assertGreater(kinds["freelist"], 20)
            s.close()


class Numbers(Case):
    def test_json_says_the_same(self):
        for interpreter in interpreters():
            with self.subTest(python=str(interpreter)):
                s = self.stopped(interpreter)
                inside = s.run("churn")
                m = moment(s.pid)
                rows = [[int(n) for n in line.split()] for line in inside.splitlines()
                        if re.fullmatch(LINES["class"], line)]
                self.assertEqual([[c["class"], c["size"], c["pools"], c["in_use"], c["available"]]
                                  for c in m["classes"]], rows)
                self.assertEqual(m["bytes"]["total"], m["arenas"]["bytes"])
                self.assertEqual(sum(b["arenas"] for b in m["fragmentation"]["arenas_by_fill"]),
                                 m["arenas"]["current"])
                self.assertEqual(sum(b["bytes_in_use"]
                                     for b in m["fragmentation"]["arenas_by_fill"]),
                                 m["bytes"]["in_use"])
                self.assertEqual([m["consistency"][k] for k in ("torn", "vanished", "walks")],
                                 [0, 0, 1])
                self.assertNotIn(None, [l["count"] for l in m["free_lists"]])
                s.close()

    def test_diff_of_files_and_of_a_moment(self):
        s = self.stopped(harness.one_interpreter())
        s.run("idle")
        with tempfile.TemporaryDirectory() as d:
            a, b = os.path.join(d, "a.json"), os.path.join(d, "b.json")
            self.assertEqual(pymalloc("-p", s.pid, "-f", "json", "-o", a).code, 0)
            s.go_on()
            s.run("imports")
            self.assertEqual(pymalloc("-p", s.pid, "-f", "json", "-o", b).code, 0)
            with open(a) as f:
                before = json.load(f)
            with open(b) as f:
                after = json.load(f)
            x, y = before["bytes"]["in_use"], after["bytes"]["in_use"]
            self.assertGreater(y, x)
            for args in (("--diff", a, b), ("--diff", a, "-p", s.pid)):
                text = pymalloc(*args)
                self.assertEqual(text.code, 0, text)
                self.assertRegex(text.out, r"bytes in blocks in use +%d +%d +\+%d\n" % (x, y, y - x))
                changes = json.loads(pymalloc(*args, "-f", "json").out)["changes"]
                self.assertEqual(changes["bytes"]["in_use"], [x, y, y - x])
                self.assertTrue(changes["same_process"])
                self.check_changes(changes, before, after)

    def check_changes(self, changes, before, after):
        """Each class and free list that differs is there with both values, and no other."""
        want = {}
        for c in before["classes"] + after["classes"]:
            pair = [next((m[k] for m in when["classes"] if m["size"] == c["size"]), 0)
                    for k in ("in_use",) for when in (before, after)]
            want[c["size"]] = pair + [pair[1] - pair[0]]
        for c in changes["classes"]:
            self.assertEqual(c["in_use"], want.pop(c["size"]))
        self.assertFalse([w for w in want.values() if w[2]])
        lists = {(l["type"], l["items"]): l["count"] for l in before["free_lists"]}
        want = {(l["type"], l["items"]): [lists[l["type"], l["items"]], l["count"],
                                          l["count"] - lists[l["type"], l["items"]]]
                for l in after["free_lists"] if l["count"] != lists[l["type"], l["items"]]}
        self.assertEqual({(l["type"], l["items"]): l["count"] for l in changes["free_lists"]}, want)

    def test_subinterpreters(self):
        """Each of 3.12's and newer's with an allocator of its own is listed, and summed."""
        code = ("import time\n"
                "try: import _interpreters as I\n"
                "except ImportError: import _xxsubinterpreters as I\n"
                "try: i = [I.create('isolated') for _ in range(2)]\n"
                "except TypeError: i = [I.create(isolated=True) for _ in range(2)]\n"
                "for x in i: I.run_string(x, 'keep = [str(n) for n in range(50000)]')\n"
                "print('x', flush=True)\ntime.sleep(1000)")
        for interpreter in interpreters():
            if tuple(int(n) for n in interpreter.minor.split(".")) < (3, 12):
                continue
            with self.subTest(python=str(interpreter)):
                p = self.python(code, interpreter)
                m = moment(p.pid)
                self.assertEqual(sorted(i["id"] for i in m["interpreters"]), [0, 1, 2])
                self.assertEqual(m["interpreters"][0]["id"], 0)
                for i in m["interpreters"][1:]:
                    self.assertGreater(i["bytes"]["in_use"], 50000 * 48)
                self.assertEqual(sum(i["bytes"]["in_use"] for i in m["interpreters"]),
                                 m["bytes"]["in_use"])
                self.assertRegex(pymalloc("-p", p.pid).out, r"\n +2 +\d+ +[\d.]+ MiB")
                p.close()

    def test_a_series(self):
        p = self.python("import time\nkeep=[]\nprint('x',flush=True)\n"
                        "while True: keep.append([bytes(100) for _ in range(300)]); time.sleep(.01)")
        done = pymalloc("-p", p.pid, "--every", "0.3", "-n", "4", "-f", "json")
        self.assertEqual(done.code, 0, done)
        moments = [json.loads(line) for line in done.out.splitlines()]
        self.assertEqual(len(moments), 4)
        self.assertNotIn("changes", moments[0])
        for a, b in zip(moments, moments[1:]):
            x, y = a["bytes"]["in_use"], b["bytes"]["in_use"]
            self.assertEqual(b["changes"]["bytes"]["in_use"], [x, y, y - x])
            self.assertGreater(y, x)
            self.assertAlmostEqual(b["time"] - a["time"], 0.3, delta=0.25)
        done = pymalloc("-p", p.pid, "--every", "0.2", "-n", "2")
        self.assertIn("Fragmentation", done.out)
        self.assertRegex(done.out, r"class 8 \(144 bytes\): in use +\d+ +\d+ +\+\d+")

    def test_the_fragmented_one(self):
        """One small object in each pool keeps all arenas."""
        code = ("import time\nblocks=[bytes(400) for _ in range(200000)]\n"
                "blocks=blocks[::400]\nprint('x',flush=True)\ntime.sleep(100)")
        p = self.python(code)
        m = moment(p.pid)
        f = m["fragmentation"]
        self.assertGreater(f["nearly_empty_arenas"], 50)
        self.assertGreater(f["excess_bytes"], 0.8 * m["arenas"]["bytes"])
        self.assertLess(f["nearly_empty_arena_bytes_in_use"],
                        0.1 * f["nearly_empty_arena_bytes"])


class Freezing(Case):
    CODE = ("import threading,time\n"
            "def work():\n"
            "    keep=[]\n"
            "    while True:\n"
            "        keep=[(i,str(i)) for i in range(2000)]\n"
            "t=[threading.Thread(target=work,daemon=True) for _ in range(4)]\n"
            "[x.start() for x in t]\nprint('x',flush=True)\ntime.sleep(1000)")

    def states(self, pid):
        found = ""
        for tid in os.listdir("/proc/%d/task" % pid):
            found += harness.state(int(tid))
        return found

    def test_all_threads_stop_and_go_on(self):
        p = self.python(self.CODE)
        for _ in range(10):
            c = moment(p.pid, "--freeze")["consistency"]
            self.assertTrue(c["frozen"])
            self.assertFalse(c["thawed_early"])
            self.assertGreater(c["frozen_ms"], 0)
            self.assertLess(c["frozen_ms"], 2000)
            self.assertEqual((c["torn"], c["vanished"]), (0, 0))
        self.assertNotRegex(self.states(p.pid), "[tT]")
        with open("/proc/%d/status" % p.pid) as f:
            self.assertIn("TracerPid:\t0\n", f.read())

    def test_reading_a_busy_one(self):
        p = self.python(self.CODE)
        for _ in range(20):
            m = moment(p.pid)
            self.assertFalse(m["consistency"]["frozen"])
            self.assertEqual(m["consistency"]["frozen_ms"], 0)
            self.assertGreater(m["bytes"]["in_use"], 100000)
            self.assertLess(m["consistency"]["torn"], 100)

    def test_killed_while_it_holds(self):
        """A tracer that dies lets go."""
        p = self.python(self.CODE)
        for delay in [n / 1000 for n in range(0, 30, 3)]:
            child = subprocess.Popen([harness.BIN, "pymalloc", "-p", str(p.pid), "--freeze",
                                      "--every", "0.1"], stdout=subprocess.DEVNULL)
            time.sleep(0.05 + delay)
            child.kill()
            child.wait()
            harness.wait_until("all threads to run", lambda: "t" not in self.states(p.pid))

    def test_a_stopped_one_stays_stopped(self):
        p = self.python(self.CODE)
        os.kill(p.pid, signal.SIGSTOP)
        harness.wait_until("it to stop", lambda: harness.state(p.pid) == "T")
        self.assertEqual(pymalloc("-p", p.pid, "--freeze").code, 0)
        harness.wait_until("it to be stopped again", lambda: harness.state(p.pid) == "T")
        os.kill(p.pid, signal.SIGCONT)
        harness.wait_until("it to run", lambda: harness.state(p.pid) != "T")

    def test_signals_are_not_lost(self):
        code = ("import os,signal,time\nn=0\n"
                # Not print(): a second signal may come while it writes.
                "def hit(*a):\n    global n; n+=1; os.write(1,b'%d\\n'%n)\n"
                "signal.signal(signal.SIGUSR1,hit)\nprint('x',flush=True)\n"
                "while True: time.sleep(1000)")
        p = self.python(code)
        stop = threading.Event()

        def freeze():
            while not stop.is_set():
                pymalloc("-p", p.pid, "--freeze")

        thread = threading.Thread(target=freeze)
        thread.start()
        try:
            for n in range(1, 201):
                os.kill(p.pid, signal.SIGUSR1)
                self.assertEqual(p.read_line(), str(n))
        finally:
            stop.set()
            thread.join()


class Hostile(Case):
    """A process that lies about its heap."""

    # Overwrites its own table of arenas: found where the JSON of a first look says.
    LIAR = """
import ctypes, mmap, sys, time
print("ready", flush=True)
at, maxat, times, high, n, carved = map(int, sys.stdin.readline().split())
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
NORESERVE, PRIVATE_ANON = 0x4000, 0x22
def space(size, prot):
    p = libc.mmap(None, size, prot, NORESERVE | PRIVATE_ANON, -1, 0)
    assert p != ctypes.c_void_p(-1).value
    return p
table = space(n * 48, 3)
base = (space((n + 1) << 20, 1) + (1 << 20) - 1) & ~((1 << 20) - 1)
words = (ctypes.c_uint64 * (n * 6)).from_address(table)
for i in range(n):
    words[6 * i] = base + (i << 20)
    words[6 * i + 1] = base + (i << 20) + (carved << 14)
    words[6 * i + 2] = 64 << 32
ctypes.c_uint64.from_address(times).value = ctypes.c_uint64.from_address(high).value = n
ctypes.c_uint64.from_address(at).value = table
ctypes.c_uint32.from_address(maxat).value = n
sys.stdout.write("done\\n"); sys.stdout.flush()
time.sleep(1000)
"""

    def lie(self, n, carved):
        """A process that claims n arenas of 1 MiB, with so many pools each."""
        interpreter = next((i for i in interpreters() if i.version == "3.11.7"), None)
        if not interpreter:
            self.skipTest("needs pyenv's 3.11, whose variables have symbols")
        p = harness.Process(interpreter.command("-c", self.LIAR))
        self.addCleanup(p.close)
        p.read_line()
        with open("/proc/%d/maps" % p.pid) as f:
            lib = next(l.split() for l in f if "libpython3.11" in l)
        nm = subprocess.run(["nm", lib[5]], stdout=subprocess.PIPE, check=True,
                            universal_newlines=True).stdout
        symbols = {l.split()[2]: int(l.split()[0], 16) for l in nm.splitlines()
                   if len(l.split()) == 3}
        base = int(lib[0].split("-")[0], 16)
        names = ("arenas", "maxarenas", "ntimes_arena_allocated", "narenas_highwater")
        p.tell(" ".join(str(base + symbols[name]) for name in names) + " %d %d" % (n, carved))
        self.assertEqual(p.read_line(), "done")
        return p

    def look(self, p):
        start = time.monotonic()
        # 200 MiB of address space beyond what an idle one needs
        done = pymalloc("-p", p.pid, "-f", "json", command=[
            "prlimit", "--as=%d" % (600 << 20), harness.BIN])
        self.assertLess(time.monotonic() - start, 12)
        return done

    def test_a_terabyte(self):
        done = self.look(self.lie(1 << 20, 64))
        self.assertEqual(done.code, 1, done)
        self.assertIn("in time", done.err)

    def test_many_arenas_without_pools(self):
        done = self.look(self.lie(1 << 19, 0))
        self.assertEqual(done.code, 0, done)
        m = json.loads(done.out)
        self.assertEqual(m["arenas"]["current"], 1 << 19)
        self.assertEqual(m["bytes"]["in_use"], 0)

    def test_a_count_beyond_belief(self):
        done = self.look(self.lie((1 << 20) + 1, 0))
        self.assertEqual(done.code, 1, done)
        self.assertEqual(len(done.err.splitlines()), 1, done)


class Errors(Case):
    def error(self, code, *args):
        done = pymalloc(*args)
        self.assertEqual(done.code, code, done)
        self.assertEqual(done.out, "", done)
        self.assertEqual(len(done.err.splitlines()), 1, done)
        return done.err

    def test_usage(self):
        self.error(2)
        self.error(2, "-p")
        self.error(2, "-p", "0")
        self.error(2, "-p", "1", "--format", "xml")
        self.error(2, "-p", "1", "--every", "soon")
        self.error(2, "-p", "1", "-n", "3")
        self.error(2, "-p", "1", "more")
        self.error(2, "-p", "1", "--freeze=0")
        self.error(2, "--diff", "x")
        self.error(2, "-p", "1", "--diff", "x", "--every", "1")
        self.error(2, "--no-such-option")

    def test_help(self):
        done = pymalloc("--help")
        self.assertEqual((done.code, done.err), (0, ""))
        self.assertIn("--freeze", done.out)

    def test_no_python(self):
        child = subprocess.Popen(["sleep", "100"])
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        self.assertIn("not a Python process", self.error(1, "-p", child.pid))
        self.assertIn("no process", self.error(1, "-p", "4194303"))

    def test_bad_files(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "f")
            for text in ("", "x", "{}", "[]", '{"pymalloc":2}', '{"pymalloc":1,"pool_size":3}',
                         "[" * 100000, '{"pymalloc":1,"pool_size":4096,"arena_size":-1}'):
                with open(path, "w") as f:
                    f.write(text)
                self.error(1, "--diff", path, path)
            self.error(1, "--diff", d, path)
            self.error(1, "--diff", os.path.join(d, "none"), path)

    def test_strange_values_in_a_file(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "f")
            strange = {"pymalloc": 1, "pool_size": 4096, "arena_size": 262144,
                       "command": "\x1b[31mred", "time": "never",
                       "classes": [7, {"class": 99}, {"class": 3, "pools": -5, "in_use": 2**70}],
                       "free_lists": [None, {"type": "PyEvilObject"}, {"type": "PyDictObject"}],
                       "arenas": [], "bytes": {"unused_pools": 1e300}}
            with open(path, "w") as f:
                json.dump(strange, f)
            done = pymalloc("--diff", path, path)
            self.assertEqual(done.code, 0, done)
            self.assertNotIn("\x1b", done.out)


if __name__ == "__main__":
    harness.main() if hasattr(harness, "main") else unittest.main()
