#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Python in other forms than an executable called python: without a GIL, embedded,
loaded at run time, on musl, renamed, replaced on disk while it runs.

Each runs tests/programs/builds_leak.py, whose threads keep blocks of known sizes: the
lines must be right, and their true sizes in the printed intervals.  Those are 95 %
intervals, so a miss is tried again.
"""
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

import harness

ATTEMPTS = 3
SCRIPT = os.path.join(harness.PROGRAMS, "builds_leak.py")
EMBED = os.path.join(harness.PROGRAMS, "embed.c")
CC = os.environ.get("CC", "cc")


def setUpModule():
    harness.require_bpf()


def config(interpreter, name):
    out = subprocess.run(interpreter.command(
        "-c", "import sys, sysconfig; print(sysconfig.get_config_var(sys.argv[1]) or '')", name),
        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=True, universal_newlines=True)
    return out.stdout.strip()


def uses_musl(path):
    """By the loader that it asks for."""
    out = subprocess.run(["readelf", "-l", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                         universal_newlines=True)
    return "/ld-musl-" in out.stdout


class Library:
    """A shared libpython, and what a program that uses it has to know."""

    def __init__(self, interpreter):
        self.name = "libpython " + interpreter.version
        self.directory = config(interpreter, "LIBDIR")
        # Debian's executable is static, and its library comes beside it.
        self.file = config(interpreter, "INSTSONAME")
        if not self.file.endswith(".so.1.0"):
            self.file = "libpython%s.so.1.0" % interpreter.minor
        self.path = self.find(config(interpreter, "MULTIARCH"))
        self.env = dict(os.environ)
        if not interpreter.path.startswith("/usr/"):
            self.env["PYTHONHOME"] = config(interpreter, "prefix")

    def find(self, multiarch):
        for directory in (self.directory, os.path.join(self.directory, multiarch)):
            path = os.path.join(directory, self.file)
            if os.path.exists(path):
                return path
        return None


def libraries():
    """Of the distribution's Python and of the newest other one that has any."""
    found = [Library(i) for i in harness.interpreters() if not i.root]
    found = [lib for lib in found if lib.path]
    return found[:1] + found[1:][-1:]


class BuildsTest(harness.TestCase):
    def directory(self):
        path = tempfile.mkdtemp(prefix="pht-builds-")
        self.addCleanup(shutil.rmtree, path, True)
        return path

    def start(self, command, **kwargs):
        target = harness.Process(command, **kwargs)
        self.addCleanup(target.close)
        line = ""
        while not line.startswith('{"ready"'):
            line = target.read_line()  # uWSGI talks
        return target, json.loads(line)["ready"]

    def trace(self, target, pid, collector):
        tracer = self.tracer("-p", pid, "-f", "json", "-R", "16384", *harness.UNLIMITED,
                             "--collector=" + collector)
        tracer.wait_attached(pid)
        truth = target.ask("go")
        self.assertEqual(tracer.interrupt(), 0, tracer.stderr())
        target.tell("end")
        report = tracer.report()
        tracer.close()
        return truth, report

    def check_lines(self, truth, report):
        """Names, lines and callers are never tried again; returns what misses its interval."""
        sites = {str(s["frames"][0]["line"]): s for s in report["sites"]
                 if s["frames"][0]["function"] == truth["function"]
                 and s["frames"][0]["file"] == truth["file"]}
        missed = []
        for line, size in truth["lines"].items():
            self.assertIn(line, sites)
            site = sites[line]
            self.assertEqual([f["function"].split(".")[-1] for f in site["frames"][1:3]],
                             [name.split(".")[-1] for name in truth["callers"]])
            if not site["live_bytes_low"] <= size <= site["live_bytes_high"]:
                missed.append("line %s: %d not in [%d, %d]" % (
                    line, size, site["live_bytes_low"], site["live_bytes_high"]))
        return missed

    def check(self, name, command, collector="trampoline", before_attach=None, **kwargs):
        missed = []
        for _ in range(ATTEMPTS):
            target, pid = self.start(command, **kwargs)
            if before_attach:
                before_attach()
            truth, report = self.trace(target, pid, collector)
            target.close()
            self.assertEqual(report["collector"], collector)
            self.assertTrue(harness.coverage_complete(report), report["coverage"])
            self.assertEqual({k: v for k, v in report["losses"].items()
                              if v and k != "no_python_state"}, {})
            # Not known is not nothing.
            if report["before_attach"]:
                self.assertGreater(report["before_attach"]["objects"], 0)
            missed = self.check_lines(truth, report)
            if not missed:
                print("  %s, %s: Python %s, %d samples" % (
                    name, collector, report["python_version"], report["totals"]["samples"]),
                    flush=True)
                return
        self.fail("%s: %s" % (name, missed))

    def embedder(self, directory, *args):
        path = os.path.join(directory, "embedder")
        subprocess.run([CC, "-O1", "-Wall", EMBED, "-o", path, *args], check=True)
        return path

    def test_free_threaded(self):
        found = harness.interpreters(free_threaded=True)
        if not found:
            print("  SKIPPED: no free-threaded Python here (PHT_EXTRA_PYTHONS names one)", flush=True)
            self.skipTest("no free-threaded Python here")
        # Under wrappers, too, nothing of mimalloc's reaches libc.  (Probes also see the
        # memory of tracemalloc itself, in the lines that it is needed for.)
        modes = {"trampoline": ({}, {"PYTHONMALLOC": "debug"}, {"PYTHONTRACEMALLOC": "1"}),
                 "probe": ({}, {"PYTHONMALLOC": "debug"})}
        for interpreter in found:
            for collector in sorted(modes):
                for mode in modes[collector]:
                    with self.subTest(python=str(interpreter), collector=collector, **mode):
                        self.check("%s %s" % (interpreter, mode or ""), interpreter.command(SCRIPT),
                                   collector, env=dict(os.environ, **mode))

    def test_not_read_where_free_threaded(self):
        """What is pymalloc's only is refused in one line that says why."""
        found = harness.interpreters(free_threaded=True)
        if not found:
            print("  SKIPPED: no free-threaded Python here (PHT_EXTRA_PYTHONS names one)", flush=True)
            self.skipTest("no free-threaded Python here")
        for interpreter in found:
            target = harness.Process(interpreter.command("-c", "print(1, flush=True); input()"))
            self.addCleanup(target.close)
            target.read_line()
            for command in ("census", "pymalloc"):
                with self.subTest(python=str(interpreter), command=command):
                    result = harness.run_tracer(command, "-p", target.pid)
                    self.assertEqual((result.code, result.out), (1, ""), result)
                    self.assertRegex(result.err, r"\Apyheaptrace: .*free-threaded.*mimalloc.*\n\Z")

    def need_libraries(self):
        found = libraries()
        if not found:
            print("  SKIPPED: no shared libpython here", flush=True)
            self.skipTest("no shared libpython here")
        return found

    def test_embedded(self):
        for lib in self.need_libraries():
            with self.subTest(library=lib.path):
                program = self.embedder(self.directory(), "-DLINKED", lib.path, "-Wl,-rpath,"
                                        + os.path.dirname(lib.path))
                self.check("embedded " + lib.name, [program, SCRIPT], env=lib.env)

    def test_loaded_at_run_time(self):
        for lib in self.need_libraries():
            with self.subTest(library=lib.path):
                program = self.embedder(self.directory(), "-ldl")
                self.check("loaded " + lib.name, [program, SCRIPT, lib.path], env=lib.env)

    def test_library_replaced(self):
        """As an upgrade does it: the process keeps the old file, which has no name any more."""
        lib = self.need_libraries()[0]
        directory = self.directory()
        program = self.embedder(directory, "-ldl")
        copy = os.path.join(directory, lib.file)
        self.check("replaced " + lib.name,
                   ["/bin/sh", "-c", 'cp "$2" "$3"; exec "$0" "$1" "$3"', program, SCRIPT, lib.path,
                    copy],
                   env=lib.env, before_attach=lambda: self.replace(copy))

    @staticmethod
    def replace(path):
        shutil.copy("/bin/true", path + ".new")
        os.rename(path + ".new", path)

    def own_copy(self, name):
        """The distribution's executable under another name."""
        interpreter = harness.one_interpreter()
        path = os.path.join(self.directory(), name)
        shutil.copy(os.path.realpath(interpreter.path), path)
        return path, dict(os.environ, PYTHONHOME=config(interpreter, "prefix"))

    @staticmethod
    def run_copy(path):
        """path.run, made anew: each attempt takes it away."""
        return ["/bin/sh", "-c", 'cp "$0" "$0.run"; exec "$0.run" "$1"', path, SCRIPT]

    def test_renamed(self):
        path, env = self.own_copy("billing-worker")
        self.check("renamed executable", [path, SCRIPT], env=env)

    def test_deleted(self):
        path, env = self.own_copy("python3")
        self.check("deleted executable", self.run_copy(path), env=env,
                   before_attach=lambda: os.unlink(path + ".run"))

    def test_replaced(self):
        path, env = self.own_copy("python3")
        self.check("replaced executable", self.run_copy(path), env=env,
                   before_attach=lambda: self.replace(path + ".run"))

    def test_uwsgi(self):
        """PHT_UWSGI is the command, with what finds the plugin for Python."""
        command = shlex.split(os.environ.get("PHT_UWSGI", ""))
        if not command and shutil.which("uwsgi"):
            command = ["uwsgi", "--plugin", "python3"]
        if not command:
            print("  SKIPPED: no uWSGI here (PHT_UWSGI names one)", flush=True)
            self.skipTest("no uWSGI here")
        self.check("uWSGI", command + ["--enable-threads", "--die-on-term", "--pyrun", SCRIPT],
                   stderr=subprocess.STDOUT)

    def test_musl(self):
        found = [p for p in harness.EXTRA if uses_musl(p)]
        if not found:
            print("  SKIPPED: no Python on musl here (PHT_EXTRA_PYTHONS names one)", flush=True)
            self.skipTest("no Python on musl here")
        for path in found:
            for collector in ("trampoline", "probe"):
                with self.subTest(python=path, collector=collector):
                    self.check(path + " on musl", [path, SCRIPT], collector)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    harness.main()
