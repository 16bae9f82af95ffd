#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Attached and detached again and again: a busy server serves on, nothing grows,
no signal is lost; and how long a thread stands still each time.

PHT_CYCLES attaches to the server (10; with PHT_FULL=1 1000), PHT_STOPS_RUNS of
each kind to measure the stops (4; with PHT_FULL=1 50).  On a machine with other
work, run the latter under chrt -r 1: a thread that waits for a processor stands still
as well, and whom that is due to nobody can tell.
"""
import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time
import unittest

import harness

CYCLES = int(os.environ.get("PHT_CYCLES", "1000" if harness.FULL else "10"))
RUNS = int(os.environ.get("PHT_STOPS_RUNS", "50" if harness.FULL else "4"))
# A busy machine, such as one of CI's, takes its time to pass a processor on.
MEDIAN_US = float(os.environ.get("PHT_STOPS_MEDIAN_US", "1000" if harness.FULL else "20000"))
CLIENTS = 4
QUEUED = signal.SIGRTMIN + 2
# Between rounds of each thread: busy, but not to the exclusion of all else at high priority.
PAUSE = 0.005
# What the allocators of a busy server wander by themselves, and how often it is looked at.
RSS_SLACK = 4 << 20
# A thread for another connection brings its stack, and glibc an arena: two mappings each.  Those
# that are ours are counted by their name, to one.
MAPS_SLACK = 16
LOOKS = 10


def setUpModule():
    harness.require_bpf()


def maps(pid):
    with open("/proc/%d/maps" % pid) as f:
        return f.read().splitlines()


def status(pid, key):
    with open("/proc/%d/status" % pid) as f:
        return re.search(r"^%s:\s*(.*)$" % key, f.read(), re.M).group(1)


def rss(pid):
    return int(status(pid, "VmRSS").split()[0]) << 10


class Load:
    """Clients that check each answer; a connection is kept for twenty requests."""

    def __init__(self, port, clients):
        self.port = port
        self.known = {}
        self.served = 0
        self.failed = []
        self.slowest = 0
        self.stopping = False
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(clients)]
        for t in self.threads:
            t.start()

    def run(self, number):
        n = number
        while not self.stopping:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            try:
                for _ in range(20):
                    self.request(connection, n % 50)
                    n += 1
            except Exception as e:  # whatever it is, it is a failed request
                self.failed.append(repr(e))
            finally:
                connection.close()

    def request(self, connection, n):
        start = time.monotonic()
        connection.request("GET", "/work/%d" % n)
        response = connection.getresponse()
        body = response.read()
        took = time.monotonic() - start
        digest = hashlib.sha1(body).digest()
        with self.lock:
            self.served += 1
            self.slowest = max(self.slowest, took)
            # The same answer as ever, and the first is one to this question.
            if response.status != 200 or self.known.setdefault(n, digest) != digest \
                    or json.loads(body)["n"] != n:
                self.failed.append("%d: %r" % (response.status, body[:100]))

    def stop(self):
        self.stopping = True
        for t in self.threads:
            t.join()


class Signals:
    """Sends real-time signals at a steady rate, and remembers how many."""

    def __init__(self, pid):
        self.pid = pid
        self.sent = 0
        self.stopping = False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.stopping:
            os.kill(self.pid, QUEUED)
            self.sent += 1
            time.sleep(0.002)

    def stop(self):
        self.stopping = True
        self.thread.join()


class ServerUnderLoad(harness.TestCase):
    def ask_signals(self, port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", "/signals")
        counts = json.loads(connection.getresponse().read())
        connection.close()
        return counts

    def cycle(self, pid):
        """One attach and detach; returns the samples taken."""
        done = harness.run_tracer("-p", pid, "--collector=trampoline", "-R", 65536, "-d", 0.15,
                                  "-f", "json", *harness.UNLIMITED)
        self.assertEqual(done.code, 0, done)
        report = json.loads(done.out)
        self.assertEqual((report["collector"], report["end_reason"]), ("trampoline", None))
        lost = {k: v for k, v in report["losses"].items() if v and k != "code_gone"}
        self.assertEqual(lost, {})
        return report["totals"]["samples"]

    def acknowledged(self, pid, port):
        """A signal that does get merged: so one at a time."""
        before = self.ask_signals(port)["user"]
        os.kill(pid, signal.SIGUSR1)
        harness.wait_until("SIGUSR1 to arrive",
                           lambda: self.ask_signals(port)["user"] == before + 1)

    def settle(self, pid, load, port):
        """Attached a few times and warm, so that what grows from here on is a leak."""
        for _ in range(5):
            self.cycle(pid)
        harness.wait_until("the server to be warm", lambda: load.served > 2000)
        self.assertEqual(harness.page_mappings(pid), 1)
        return self.ask_signals(port)["alarms"]

    def look(self, pid):
        return {"rss": rss(pid), "maps": len(maps(pid)), "threads": int(status(pid, "Threads")),
                "fds": len(os.listdir("/proc/%d/fd" % pid))}

    def run_cycles(self, server, port, load):
        samples, looks = 0, []
        alarms = self.settle(server.pid, load, port)
        for i in range(CYCLES):
            samples += self.cycle(server.pid)
            self.assertEqual(load.failed, [])
            if i % max(CYCLES // LOOKS, 1) == 0:
                looks.append(self.look(server.pid))
                if harness.FULL:
                    print("    %d cycles, %d requests: %s" % (i, load.served, looks[-1]),
                          flush=True)
                self.acknowledged(server.pid, port)
                now = self.ask_signals(port)["alarms"]
                self.assertGreater(now, alarms, "the chain of alarms broke: one was lost")
                alarms = now
        looks.append(self.look(server.pid))
        return samples, looks

    def check_looks(self, looks):
        half = len(looks) // 2
        for key, slack in (("rss", RSS_SLACK), ("maps", MAPS_SLACK), ("fds", 0), ("threads", 0)):
            # Connections come and go: the least of each half.
            first, last = min(l[key] for l in looks[:half]), min(l[key] for l in looks[half:])
            self.assertLessEqual(last, first + slack, "%s grows: %s" % (key, looks))

    def check(self, interpreter):
        server = self.target(interpreter, "server.py")
        port = server.read_json()["port"]
        load = Load(port, CLIENTS)
        self.addCleanup(load.stop)
        signals = Signals(server.pid)
        self.addCleanup(signals.stop)
        samples, looks = self.run_cycles(server, port, load)
        signals.stop()
        load.stop()
        harness.wait_until("all signals to arrive",
                           lambda: self.ask_signals(port)["queued"] >= signals.sent)
        self.assertEqual(self.ask_signals(port)["queued"], signals.sent)
        self.assertEqual(load.failed, [])
        self.assertEqual(harness.page_mappings(server.pid), 1)
        self.assertEqual(status(server.pid, "TracerPid"), "0")
        self.check_looks(looks)
        self.assertGreater(samples, CYCLES)
        print("  %s: %d cycles, %d requests, none failed, slowest %.3f s; %d samples; %d signals, "
              "all arrived; rss %s MB, maps %s, fds %s"
              % (interpreter, CYCLES, load.served, load.slowest, samples, signals.sent,
                 [round(l["rss"] / 1e6, 1) for l in looks], [l["maps"] for l in looks],
                 [l["fds"] for l in looks]), flush=True)
        server.child.stdin.close()
        self.assertEqual(server.child.wait(harness.DEADLINE), 0)

    @harness.each_of_a_few_or_one
    def test_cycles(self, interpreter):
        self.check(interpreter)


class Stops(harness.TestCase):
    """By a clock in the tracer's ptrace() and waitpid(), not by what it says itself."""

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="pht-stops-")
        cls.clock = os.path.join(cls.dir, "stopclock.so")
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-Wall", "-Wextra", "-Werror", "-shared",
                        "-fPIC", os.path.join(harness.PROGRAMS, "stopclock.c"), "-ldl",
                        "-o", cls.clock], check=True)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir)

    def read(self, path):
        if not os.path.exists(path):
            return []
        with open(path) as f:
            return [int(line) / 1e3 for line in f]

    def one(self, pid):
        """Stops in us: ([at attach], [at detach])."""
        path = os.path.join(self.dir, "stops")
        if os.path.exists(path):
            os.unlink(path)
        tracer = self.tracer("-p", pid, "--collector=trampoline", "-f", "json", *harness.UNLIMITED,
                             env=dict(os.environ, LD_PRELOAD=self.clock, PHT_STOPS=path))
        tracer.wait_attached(pid)
        attach = self.read(path)
        self.assertEqual(tracer.interrupt(), 0, tracer.stderr())
        every = self.read(path)
        tracer.close()
        return attach, every[len(attach):]

    def line(self, what, values):
        values = sorted(values)
        return "    %-36s median %6.0f  p99 %6.0f  max %6.0f us, n %d" % (
            what, statistics.median(values), values[min(len(values) - 1, len(values) * 99 // 100)],
            values[-1], len(values))

    def measure(self, interpreter, threads, fresh):
        """[(stops at attach, at detach)]: each of a new process, or all of the same."""
        found, target = [], None
        for i in range(RUNS + (not fresh)):
            if fresh or not target:
                target = self.target(interpreter, "spinner.py", str(threads),
                                     str(PAUSE * threads))
                self.assertEqual(target.read_json(), "ready")
            found.append(self.one(target.pid))
            self.assertGreater(target.ask("ping"), 0)
            if fresh:
                target.close()
        # The page of the first attach is used again by the others.
        return found if fresh else found[1:]

    def check(self, interpreter, threads, fresh):
        found = self.measure(interpreter, threads, fresh)
        print("  %s, %d threads, %s" % (interpreter, threads,
                                        "a fresh process each" if fresh else "attached before"))
        names = ["attach: swaps CPython's tables"]
        if fresh:
            names.insert(0, "attach: maps the page")
        for attach, detach in found:
            self.assertGreaterEqual(len(attach), len(names))
            self.assertGreaterEqual(len(detach), 1)
        for i, name in enumerate(names):
            print(self.line(name, [a[i] for a, _ in found]))
        more = [max(a[len(names):]) for a, _ in found if a[len(names):]]
        if more:
            print(self.line("attach: longest for modules' tables", more))
        print(self.line("detach: longest", [max(d) for _, d in found]))
        print(self.line("longest stop of all", [max(a + d) for a, d in found]))
        print(self.line("all stops together", [sum(a + d) for a, d in found]), flush=True)
        for values in ([max(a) for a, _ in found], [max(d) for _, d in found]):
            self.assertLess(statistics.median(values), MEDIAN_US)

    @harness.each_of_a_few_or_one
    def test_stops(self, interpreter):
        for threads in (1, 64):
            for fresh in (True, False):
                with self.subTest(threads=threads, fresh=fresh):
                    self.check(interpreter, threads, fresh)


if __name__ == "__main__":
    harness.main()
