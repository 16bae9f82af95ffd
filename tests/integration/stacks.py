# SPDX-License-Identifier: BSD-2-Clause
"""Runs tests/programs/stacks_target.py under the tracer and compares stack by stack."""
import ast
import json
import os
import shutil
import signal
import subprocess
import tempfile

import harness

# Every allocation of the probe is 1 MiB and more: exp(-32) of them, none in practice, are
# not sampled, and little else is.
INTERVAL = 32768
SLOW = 600

SCENARIOS = ["plain", "generators", "coroutines", "callbacks", "classes", "comprehensions",
             "recursion", "exec", "exec_fresh", "names", "imports", "threads", "nogil", "stranger",
             "subinterpreters"]

library_dir = None


def build_library():
    global library_dir
    if library_dir is None:
        library_dir = tempfile.mkdtemp(prefix="pht-stacks-")
        subprocess.run([os.environ.get("CC", "cc"), "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g",
                        "-fno-builtin", "-fno-stack-protector", "-shared", "-fPIC",
                        "-nostdlib", os.path.join(harness.PROGRAMS, "stacks_probe.c"),
                        "-o", os.path.join(library_dir, "stacks_probe.so")], check=True)


def remove_library():
    global library_dir
    if library_dir is not None:
        shutil.rmtree(library_dir)
        library_dir = None


def escaped(text):
    """As reports write what must not reach a terminal."""
    return "".join("\\x%02x" % (ord(c) & 0xff) if 0xdc80 <= ord(c) <= 0xdcff else c for c in text)


class Tally:
    """Sampled stacks by how they compare with the interpreter's own."""

    def __init__(self):
        self.samples = 0      # compared, all in all
        self.stacks = 0       # distinct ones in the truth
        self.unresolved = 0   # a frame without a name, the rest right
        self.shape = 0        # wrong: too few or too many frames
        self.names = 0        # wrong: a function or a file
        self.lines = 0        # wrong: a line
        self.missing = 0      # allocations in the truth that no stack accounts for
        self.examples = []

    def add(self, other):
        for name in ("samples", "stacks", "unresolved", "shape", "names", "lines", "missing"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.examples += other.examples

    def wrong(self):
        return self.shape + self.names + self.lines + self.missing

    def __str__(self):
        return ("%d samples of %d stacks: %d unresolved, wrong shape %d, names %d, lines %d; "
                "%d missing" % (self.samples, self.stacks, self.unresolved, self.shape,
                                self.names, self.lines, self.missing))


def key_of(frames):
    return tuple((f["function"], f["file"], f["line"]) for f in frames)




class Truth:
    def __init__(self, path):
        with open(path) as f:
            text = f.read()
        # What is written at the very end is written by repr().
        told = ast.literal_eval(text) if text.startswith("{'") else json.loads(text)
        self.entries = told["stacks"]
        self.heads = set(tuple(h) for h in told["heads"])
        self.by_key, self.by_size = {}, {}
        for e in self.entries:
            e["key"] = tuple((escaped(n), escaped(f), line) for n, f, line in e["frames"])
            e["seen"] = 0
            assert e["key"] not in self.by_key or e["truncated"]
            self.by_key[e["key"]] = self.by_size[e["size"]] = e

    def is_probe(self, site):
        """Sampled at a line on which nothing but the probe allocates."""
        return key_of(site["frames"])[0] in self.heads

    def compare(self, sites):
        tally = Tally()
        tally.stacks = len(self.entries)
        for site in sites:
            if self.is_probe(site):
                self.compare_site(site, tally)
        for e in self.entries:
            if e["seen"] != e["count"]:
                tally.missing += abs(e["count"] - e["seen"])
                tally.examples.append(("count", e["count"], e["seen"], e["key"][:6]))
        return tally

    def compare_site(self, site, tally):
        key, blocks = key_of(site["frames"]), site["allocated_blocks"]
        tally.samples += blocks
        # One stack has one size, so the size says which stack it should have been.
        size, odd = divmod(site["allocated_bytes"], blocks)
        want = self.by_size.get(size) if not odd else None
        if want is None:
            tally.shape += blocks
            tally.examples.append(("several stacks in one", site["allocated_bytes"], blocks, key))
            return
        want["seen"] += blocks
        if key == want["key"] and site["truncated"] == want["truncated"]:
            return
        tally.examples.append(("differs", want["truncated"], want["key"], site["truncated"], key))
        if len(key) != len(want["key"]) or site["truncated"] != want["truncated"]:
            tally.shape += blocks
            return
        self.compare_frames(site, want["key"], blocks, tally)

    def compare_frames(self, site, want, blocks, tally):
        known = [(f, w) for f, w in zip(site["frames"], want) if f["kind"] == "python"]
        if any((f["function"], f["file"]) != w[:2] for f, w in known):
            tally.names += blocks
        elif any(f["line"] != w[2] for f, w in known):
            tally.lines += blocks
        else:
            tally.unresolved += blocks


class Run:
    """One target under one collector, from attach to the report."""

    def __init__(self, case, interpreter, collector, scenarios, rounds=1, interval=INTERVAL,
                 env=None, at_exit=False, from_start=False):
        build_library()
        self.interpreter, self.at_exit = interpreter, at_exit
        self.dir = interpreter.workdir()
        case.addCleanup(shutil.rmtree, self.dir, True)
        for name in ("stacks_target.py", "stacks_scenarios.py", "stacks_more.py"):
            shutil.copy(os.path.join(harness.PROGRAMS, name), self.dir)
        shutil.copy(os.path.join(library_dir, "stacks_probe.so"), self.dir)
        inside = interpreter.inside(self.dir)
        self.truth_path = os.path.join(self.dir, "truth.json")
        if from_start:
            env = dict(env or os.environ, STACKS_HALT="1",
                       LD_PRELOAD=os.path.join(inside, "stacks_probe.so"))
        self.target = harness.Process(interpreter.command(
            os.path.join(inside, "stacks_target.py"), inside,
            os.path.join(inside, "truth.json"), str(rounds), *scenarios), env=env)
        case.addCleanup(self.target.close)
        if from_start:
            harness.wait_until("the target to halt",
                               lambda: harness.state(self.target.pid) == "T")
        else:
            self.target.read_json()
        self.tracer = harness.Tracer("-p", self.target.pid, "-R", str(interval), "-f", "json",
                                     "--collector=" + collector, "--group-by", "traceback",
                                     "--max-overhead", "1000000")
        case.addCleanup(self.tracer.close)
        if from_start:
            self.tracer.wait_attached(self.target.pid)
            os.kill(self.target.pid, signal.SIGCONT)
            self.target.read_json()

    def finish(self):
        """Returns (report, tally)."""
        self.tracer.wait_attached(self.target.pid)
        self.done = self.target.ask("go", deadline=SLOW)["done"]
        if self.at_exit:
            # The truth is complete when the target is gone, and so is the trace.
            self.target.tell("exit")
            status = self.tracer.wait(deadline=SLOW)
        else:
            status = self.tracer.interrupt(deadline=SLOW)
        if status:
            raise AssertionError("the tracer failed: " + self.tracer.stderr())
        report = self.tracer.report()
        self.truth = Truth(self.truth_path)
        if self.at_exit:
            self.done = sum(e["count"] for e in self.truth.entries)
        self.target.close()
        return report, self.truth.compare(report["sites"])
