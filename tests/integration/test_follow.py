#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Several processes: forked workers that are followed, processes chosen by name,
one report for all.  What a worker leaks is its own, what it inherited is nobody's.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import harness

WORKERS = 8
EACH = 20  # worker I keeps EACH * (I + 1) blocks
INHERITED = 200
SIZE = 10000  # of tests/programs/fleet.py
ALL = ("-R", "512") + harness.UNLIMITED


def setUpModule():
    harness.require_bpf()


def kept_by(report, function):
    return sum(s["live_bytes"] for s in report["sites"]
               if s["frames"][0]["function"] == function)


def comm(pid):
    with open("/proc/%d/comm" % pid) as f:
        return f.read().rstrip("\n")


class FollowTest(harness.TestCase):
    def check_kept(self, report, function, blocks, unseen=0):
        live = kept_by(report, function)
        self.assertGreaterEqual(live, (blocks - unseen) * SIZE, function)
        self.assertLess(live, blocks * SIZE * 1.03 + 4000, function)

    def check_workers(self, reports, pids, unseen=0):
        """Each worker has a report of its own, with its own leak and nothing inherited.

        A thread that has run in a silenced page looks up every 16 KiB only: unseen blocks.
        """
        by_pid = {r["pid"]: r for r in reports}
        for i, pid in enumerate(pids):
            report = by_pid[pid]
            self.check_kept(report, "leak_%d" % i, EACH * (i + 1), unseen)
            for other in range(WORKERS):
                if other != i:
                    self.assertEqual(kept_by(report, "leak_%d" % other), 0)
            self.assertEqual(kept_by(report, "keep"), 0, "inherited blocks were counted")
            self.assertEqual(report["end_reason"], "the process exited")
            lost = {k: v for k, v in report["losses"].items() if v and k != "no_python_state"}
            self.assertEqual(lost, {})


class Run(FollowTest):
    @harness.each_of_a_few
    def test_workers_from_their_first_instruction(self, interpreter):
        workdir = interpreter.workdir()
        self.addCleanup(shutil.rmtree, workdir, True)
        shutil.copy(os.path.join(harness.PROGRAMS, "fleet.py"), workdir)
        out = os.path.join(workdir, "out.json")
        process = harness.Process(
            [harness.BIN, "run", "--follow", "-f", "json", "-o", out, *ALL, "--",
             *interpreter.command(interpreter.inside(os.path.join(workdir, "fleet.py")), "keep",
                                  str(INHERITED), "workers", str(WORKERS), str(EACH), "exit", "3")])
        self.addCleanup(process.close)
        words = process.read_line(3 * harness.DEADLINE).split()
        self.assertEqual(words[0], "ready")
        pids = [int(pid) for pid in words[1:]]
        process.tell("")
        self.assertEqual(process.child.wait(harness.DEADLINE), 3)
        with open(out) as f:
            reports = json.load(f)
        self.assertEqual(len(reports), 1 + WORKERS)
        self.check_workers(reports, pids)
        parent = [r for r in reports if r["pid"] not in pids][0]
        self.check_kept(parent, "keep", INHERITED)
        self.assertEqual(parent["end_reason"], "the interpreter began to shut down")

    def test_spawned_and_executed(self):
        """A child that executes Python, one that executes something else."""
        interpreter = harness.one_interpreter()
        workdir = interpreter.workdir()
        self.addCleanup(shutil.rmtree, workdir, True)
        shutil.copy(os.path.join(harness.PROGRAMS, "fleet.py"), workdir)
        out = os.path.join(workdir, "out.json")
        script = "import subprocess, sys; subprocess.run(['true'], check=True); " \
                 "sys.exit(subprocess.run([sys.executable] + sys.argv[1:]).returncode)"
        result = harness.run_tracer(
            "run", "--follow", "-f", "json", "-o", out, *ALL, "--",
            *interpreter.command("-c", script, os.path.join(workdir, "fleet.py"), "keep", "70",
                                 "exit", "6"))
        self.assertEqual(result.code, 6, result)
        with open(out) as f:
            reports = json.load(f)
        self.assertEqual(len(reports), 2, [r["pid"] for r in reports])
        self.check_kept(reports[1], "keep", 70)


class Attached(FollowTest):
    def test_workers_of_a_process_that_runs(self):
        target = self.target(harness.one_interpreter(), "fleet.py", "keep", str(INHERITED), "line",
                             "crew", str(WORKERS), str(EACH), "exit", "0")
        self.assertEqual(target.read_line(), "line")
        tracer = self.tracer("-p", target.pid, "--follow", "-f", "json", *ALL)
        tracer.wait_attached(target.pid)
        harness.wait_until("the process to be followed",
                           lambda: "follows process" in tracer.stderr())
        target.tell("")
        words = target.read_line().split()
        pids = [int(pid) for pid in words[1:]]
        for pid in pids:
            tracer.wait_attached(pid)
        target.tell("")
        self.assertEqual(target.read_line().split()[0], "ready")
        target.tell("")
        self.assertEqual(tracer.wait(), 0, tracer.stderr())
        self.assertEqual(target.child.wait(harness.DEADLINE), 0)
        reports = tracer.report()
        self.assertEqual(len(reports), 1 + WORKERS)
        self.check_workers(reports, pids, unseen=2)

    def test_children_that_nobody_traces_pay_nothing(self):
        """A child has a copy of the traps; they are taken out again, and the parent's stay."""
        target = self.target(harness.one_interpreter(), "fleet.py", "line", "crew", "2", str(EACH),
                             "exit", "0")
        self.assertEqual(target.read_line(), "line")
        self.assertEqual(harness.traps_in(target.pid), 0)
        tracer = self.tracer("-p", target.pid, "--collector=probe", *ALL)
        tracer.wait_attached(target.pid)
        had = harness.traps_in(target.pid)
        self.assertGreater(had, 5)
        target.tell("")
        pids = [int(pid) for pid in target.read_line().split()[1:]]
        for pid in pids:
            harness.wait_until("the traps to go", lambda: harness.traps_in(pid) == 0)
        self.assertEqual(harness.traps_in(target.pid), had)
        target.tell("")
        self.assertEqual(target.read_line().split()[0], "ready")
        target.tell("")
        self.assertEqual(tracer.wait(), 0, tracer.stderr())
        self.assertEqual(target.child.wait(harness.DEADLINE), 0)


class Chosen(FollowTest):
    def named(self, name, *words):
        """A target whose comm is name."""
        interpreter = harness.one_interpreter()
        workdir = interpreter.workdir()
        self.addCleanup(shutil.rmtree, workdir, True)
        path = os.path.join(workdir, name)
        os.symlink(os.path.realpath(interpreter.path), path)
        shutil.copy(os.path.join(harness.PROGRAMS, "fleet.py"), workdir)
        process = harness.Process([path, os.path.join(workdir, "fleet.py"), *words])
        self.addCleanup(process.close)
        return process

    def test_by_name(self):
        name = "pht%d" % os.getpid()
        early = self.named(name + "a", "line", "keep", "40", "out", "kept", "echo")
        self.named(name[:-1] + "x", "echo")
        self.assertEqual(early.read_line(), "line")
        sleeper = subprocess.Popen(["sleep", "1000"], executable=shutil.which("sleep"))
        self.addCleanup(sleeper.wait)
        self.addCleanup(sleeper.kill)
        tracer = self.tracer("--comm", name + "*", "-f", "json", *ALL)
        tracer.wait_attached(early.pid)
        late = self.named(name + "b", "line", "keep", "60", "out", "kept", "echo")
        tracer.wait_attached(late.pid)
        for process in (early, late):
            process.tell("")
            while process.read_line() != "kept":
                pass
        self.assertEqual(tracer.interrupt(), 0, tracer.stderr())
        reports = {r["pid"]: r for r in tracer.report()}
        self.assertEqual(set(reports), {early.pid, late.pid})
        self.check_kept(reports[early.pid], "keep", 40)
        self.check_kept(reports[late.pid], "keep", 60)

    def test_not_traceable_is_told(self):
        name = "pht%dn" % os.getpid()
        with tempfile.TemporaryDirectory() as workdir:
            path = os.path.join(workdir, name)
            os.symlink(os.path.realpath(shutil.which("sleep")), path)
            sleeper = subprocess.Popen([path, "1000"])
            self.addCleanup(sleeper.wait)
            self.addCleanup(sleeper.kill)
            harness.wait_until("its name", lambda: comm(sleeper.pid) == name)
            result = harness.run_tracer("--comm", name, "-d", "1", "-f", "json")
            self.assertEqual(result.code, 0, result)
            reports = json.loads(result.out)
            self.assertEqual([r["pid"] for r in reports], [sleeper.pid])
            self.assertRegex(reports[0]["end_reason"], "^not traced: .*not a Python process")
            self.assertEqual(reports[0]["sites"], [])
            result = harness.run_tracer("--comm", name, "-d", "1")
            self.assertRegex(result.out, r"Not traced:\n +%d %s +not traced: .*not a Python"
                             % (sleeper.pid, name))

    def test_none_fits(self):
        result = harness.run_tracer("--comm", "no such name", "-d", "0.5", "-f", "json")
        self.assertEqual((result.code, json.loads(result.out)), (0, []), result)
        self.assertIn("no process was found that fits", result.err)


class Merged(FollowTest):
    def test_one_report(self):
        targets = [self.target(harness.one_interpreter(), "fleet.py", "line", "keep", str(n), "out",
                               "kept", "echo") for n in (30, 50)]
        for target in targets:
            self.assertEqual(target.read_line(), "line")
        tracer = self.tracer("-p", ",".join(str(t.pid) for t in targets), "--merge",
                             "--group-by", "function", "-f", "json", *ALL)
        for target in targets:
            tracer.wait_attached(target.pid)
            target.tell("")
            self.assertEqual(target.read_line(), "kept")
        self.assertEqual(tracer.interrupt(), 0, tracer.stderr())
        report = tracer.report()
        self.assertIsNone(report["pid"])
        self.assertEqual({p["pid"] for p in report["processes"]}, {t.pid for t in targets})
        # The programs are in directories of their own: the rows differ by their files.
        self.check_kept(report, "keep", 80)
        self.assertAlmostEqual(report["totals"]["live_bytes"],
                               sum(p["live_bytes"] for p in report["processes"]), delta=10)


@unittest.skipUnless(os.environ.get("PHT_GUNICORN"), "installs gunicorn: PHT_GUNICORN=1")
class Gunicorn(FollowTest):
    """Pre-forked workers of a real server, each leaking at the requests it answers."""

    APP = """
import os
kept = []
base = [bytearray(10000) for _ in range(300)]
def leak():
    kept.append(bytearray(100000))
def app(environ, start_response):
    leak()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(os.getpid()).encode()]
"""

    def venv(self):
        path = os.path.join(harness.TOP, "build", "gunicorn-venv")
        if not os.path.exists(os.path.join(path, "bin", "gunicorn")):
            subprocess.run([sys.executable, "-m", "venv", path], check=True)
            subprocess.run([os.path.join(path, "bin", "pip"), "install", "-q", "gunicorn"],
                           check=True)
        return os.path.join(path, "bin", "python")

    def test_each_worker_has_its_leak(self):
        python = self.venv()
        with tempfile.TemporaryDirectory() as workdir:
            with open(os.path.join(workdir, "app.py"), "w") as f:
                f.write(self.APP)
            out = os.path.join(workdir, "out.json")
            socket = "127.0.0.1:%d" % (20000 + os.getpid() % 20000)
            tracer = subprocess.Popen(
                [harness.BIN, "run", "--follow", "-f", "json", "-o", out, *ALL, "--", python, "-m",
                 "gunicorn", "-w", "4", "--preload", "-b", socket, "app:app"], cwd=workdir,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(tracer.kill)

            def answer():
                try:
                    with urllib.request.urlopen("http://%s/" % socket, timeout=10) as reply:
                        return int(reply.read())
                except OSError:
                    return None

            served = {harness.wait_until("the server", answer): 1}
            end = time.monotonic() + harness.DEADLINE
            while (len(served) < 2 or sum(served.values()) < 60) and time.monotonic() < end:
                pid = answer()
                served[pid] = served.get(pid, 0) + 1
            tracer.send_signal(signal.SIGTERM)
            self.assertEqual(tracer.wait(harness.DEADLINE), 0)
            with open(out) as f:
                reports = {r["pid"]: r for r in json.load(f)}
            for pid, times in served.items():
                leaked = kept_by(reports[pid], "leak")
                self.assertGreaterEqual(leaked, 100000 * times)
                self.assertLess(leaked, 100000 * times * 1.03 + 4000)
                self.assertEqual(kept_by(reports[pid], "<listcomp>"), 0)


if __name__ == "__main__":
    harness.main()
