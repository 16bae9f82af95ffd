#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""pyheaptrace run: what short, crashing and re-executing programs hold, their
exit status, their streams and signals, and that they outlive the tracer.

At -R 512 no block of 10,000 bytes is missed (chance 3e-9); only the small ones
beside it are estimated.
"""
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import unittest

import harness

KILLS = int(os.environ.get("PHT_RUN_KILLS", "12"))
SIZE = 10000  # of tests/programs/fleet.py
ALL = ("-R", "512") + harness.UNLIMITED
SHUT_DOWN = "the interpreter began to shut down"


def setUpModule():
    harness.require_bpf()


def kept_by(report, function):
    """Bytes that the rows of a function hold."""
    return sum(s["live_bytes"] for s in report["sites"]
               if s["frames"][0]["function"] == function)


class RunTest(harness.TestCase):
    def setUp(self):
        self.dirs = {}

    def program(self, interpreter):
        """The program as the interpreter sees it."""
        if interpreter not in self.dirs:
            self.dirs[interpreter] = interpreter.workdir()
            self.addCleanup(shutil.rmtree, self.dirs[interpreter], True)
            shutil.copy(os.path.join(harness.PROGRAMS, "fleet.py"), self.dirs[interpreter])
        return interpreter.inside(os.path.join(self.dirs[interpreter], "fleet.py"))

    def run_it(self, command, *options, **kwargs):
        """(result, reports) of a run to its end."""
        with tempfile.NamedTemporaryFile(suffix=".json") as out:
            result = harness.run_tracer("run", "-f", "json", "-o", out.name, *options, "--",
                                        *command, **kwargs)
            text = out.read().decode()
        reports = json.loads(text) if text else []
        return result, reports if isinstance(reports, list) else [reports]

    def run_program(self, interpreter, *words, options=ALL, **kwargs):
        return self.run_it(interpreter.command(self.program(interpreter), *words), *options,
                           **kwargs)

    def check_kept(self, report, function, blocks):
        live = kept_by(report, function)
        # The objects of the blocks, and the list that holds them, come on top.
        self.assertGreaterEqual(live, blocks * SIZE)
        self.assertLess(live, blocks * SIZE * 1.03 + 4000)


class Programs(RunTest):
    def test_short(self):
        for interpreter in harness.interpreters():
            with self.subTest(python=str(interpreter)):
                result, reports = self.run_program(interpreter, "keep", "70", "exit", "7")
                self.assertEqual(result.code, 7, result)
                self.assertEqual(len(reports), 1, reports)
                self.check_kept(reports[0], "keep", 70)
                self.assertEqual(reports[0]["end_reason"], SHUT_DOWN)
                self.assertEqual(reports[0]["python_version"], interpreter.version)
                self.assertTrue(harness.coverage_complete(reports[0]))
                self.assert_no_losses(reports[0])

    @harness.each_of_a_few
    def test_crash(self, interpreter):
        result, reports = self.run_program(interpreter, "keep", "70", "segv")
        self.assertEqual(result.code, 128 + signal.SIGSEGV, result)
        self.check_kept(reports[0], "keep", 70)
        self.assertEqual(reports[0]["end_reason"], "the process was ended by SIGSEGV")

    @harness.each_of_a_few
    def test_exit_without_shutdown(self, interpreter):
        result, reports = self.run_program(interpreter, "keep", "70", "quit", "3")
        self.assertEqual(result.code, 3, result)
        self.check_kept(reports[0], "keep", 70)

    @harness.each_of_a_few
    def test_executes_itself_twice(self, interpreter):
        self.check_again(interpreter, "again")

    @harness.each_of_a_few
    def test_another_thread_executes_itself_twice(self, interpreter):
        self.check_again(interpreter, "rethread")

    def check_again(self, interpreter, word):
        result, reports = self.run_program(interpreter, word, "2")
        self.assertEqual(result.code, 5, result)
        self.assertEqual(len({r["pid"] for r in reports}), 1)
        self.assertEqual(len(reports), 3)
        for report, blocks in zip(reports, (200, 100, 0)):
            self.check_kept(report, "keep", blocks)
        self.assertEqual([r["end_reason"] for r in reports],
                         ["the process executed another program"] * 2 + [SHUT_DOWN])

    @harness.each_of_a_few
    def test_by_way_of_a_shell(self, interpreter):
        if interpreter.root:
            self.skipTest("the shell is not in the chroot")
        command = ["sh", "-c", 'exec env "$0" "$@"', interpreter.path, self.program(interpreter),
                   "keep", "70", "exit", "4"]
        result, reports = self.run_it(command, *ALL)
        self.assertEqual(result.code, 4, result)
        self.check_kept(reports[0], "keep", 70)

    def test_by_probes(self):
        """What the kernel's probes see of it: blocks of that size come from libc."""
        interpreter = harness.one_interpreter()
        result, reports = self.run_program(interpreter, "keep", "70", "exit", "7",
                                           options=ALL + ("--collector", "probe"))
        self.assertEqual(result.code, 7, result)
        self.assertEqual(reports[0]["collector"], "probe")
        self.assertIsNone(reports[0]["written_to_target"])
        self.check_kept(reports[0], "keep", 70)

    def test_not_python(self):
        result, reports = self.run_it(["sh", "-c", "echo there; exit 6"])
        self.assertEqual((result.code, result.out), (6, "there\n"), result)
        self.assertEqual(reports, [])
        self.assertEqual(result.err, "pyheaptrace: warning: sh ran no Python that could be traced\n")

    def test_duration(self):
        interpreter = harness.one_interpreter()
        result, reports = self.run_program(interpreter, "keep", "70", "echo", "exit", "2",
                                           options=ALL + ("-d", "3"), stdin=None,
                                           input=b"to the end\n")
        self.assertEqual((result.code, result.out), (2, "to the end\n"), result)
        self.check_kept(reports[0], "keep", 70)

    def test_text_goes_to_stderr(self):
        interpreter = harness.one_interpreter()
        result = harness.run_tracer("run", *ALL, "--",
                                    *interpreter.command(self.program(interpreter), "keep", "70",
                                                         "out", "mine"))
        self.assertEqual((result.code, result.out), (0, "mine\n"), result)
        self.assertIn("final report", result.err)
        self.assertIn("ended: " + SHUT_DOWN, result.err)


class Usage(RunTest):
    def test_not_found(self):
        result, _ = self.run_it(["no-such-program"])
        self.assertEqual(result.code, 127, result)
        self.assertEqual(result.err, "pyheaptrace: cannot execute no-such-program: No such file or "
                                     "directory\n")

    def test_not_executable(self):
        result, _ = self.run_it([os.path.abspath(__file__) + "/.."])
        self.assertEqual(result.code, 126, result)

    def test_wrong_usage(self):
        for words, text in ((("run",), "which program?"), (("run", "-n", "5"), "which program?"),
                            (("run", "-p", "1", "true"), "takes no process"),
                            (("run", "--all", "true"), "takes no process"),
                            (("run", "--no-such", "true"), "no such option")):
            result = harness.run_tracer(*words)
            self.assertEqual(result.code, 2, result)
            self.assertIn(text, result.err)
            self.assertEqual(result.err.count("\n"), 1, result)

    def test_options_of_the_program_are_its_own(self):
        result, _ = self.run_it(["sh", "-c", "echo $0 $1", "-p", "--version"])
        self.assertEqual((result.code, result.out), (0, "-p --version\n"), result)


class Signals(RunTest):
    def start(self, *words, **kwargs):
        interpreter = harness.one_interpreter()
        command = [harness.BIN, "run", "-o", os.devnull, "--",
                   *interpreter.command(self.program(interpreter), *words)]
        process = harness.Process(command, stderr=subprocess.DEVNULL, **kwargs)
        self.addCleanup(process.close)
        return process

    def test_those_sent_to_us_are_passed_on(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            process = self.start("trap", "pause", "exit", "9")
            self.assertEqual(process.read_line(), "trapping")
            process.child.send_signal(number)
            self.assertEqual(process.read_line(), "caught %s:1" % number.name)
            self.assertEqual(process.child.wait(harness.DEADLINE), 9)

    def test_death_by_signal(self):
        process = self.start("out", "here", "echo")
        self.assertEqual(process.read_line(), "here")
        process.child.send_signal(signal.SIGTERM)
        self.assertEqual(process.child.wait(harness.DEADLINE), 128 + signal.SIGTERM)

    def test_standard_input_is_the_program_s(self):
        process = self.start("echo", "exit", "8")
        process.tell("to and fro")
        self.assertEqual(process.read_line(), "to and fro")
        process.child.stdin.close()
        self.assertEqual(process.child.wait(harness.DEADLINE), 8)

    def test_the_terminal_interrupts_the_program_once(self):
        """Ctrl-C on a terminal of its own: both are in its foreground."""
        master, slave = os.openpty()
        self.addCleanup(os.close, master)
        script = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); " \
                 "os.execv(sys.argv[1], sys.argv[1:])"
        interpreter = harness.one_interpreter()
        child = subprocess.Popen(
            ["/usr/bin/python3", "-c", script, harness.BIN, "run", "-o", os.devnull, "--",
             *interpreter.command(self.program(interpreter), "trap", "pause", "exit", "9")],
            stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(slave)
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.kill)
        self.assertEqual(child.stdout.readline(), b"trapping\n")
        os.write(master, b"\x03")
        self.assertEqual(child.stdout.readline(), b"caught SIGINT:1\n")
        self.assertEqual(child.wait(harness.DEADLINE), 9)


class TracerIsKilled(RunTest):
    def test_at_any_moment(self):
        """SIGKILL from the start to after the program runs: it ends by itself, untouched."""
        interpreter = harness.one_interpreter()
        seed = random.SystemRandom().randrange(1 << 32)
        moments = random.Random(seed)
        started = 0
        for _ in range(KILLS):
            after = moments.uniform(0.2, 2.5)
            read, write = os.pipe()
            child = subprocess.Popen(
                [harness.BIN, "run", "-o", os.devnull, "--",
                 *interpreter.command(self.program(interpreter), "keep", "2000", "out", "done")],
                stdout=write, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
            os.close(write)
            try:
                child.wait(after)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            # The pipe ends when the program, and all that hold it, have ended.
            with os.fdopen(read) as f:
                out = harness.wait_until("the program to end (seed %d)" % seed,
                                         lambda f=f: (f.read(),))[0]
            self.assertIn(out, ("", "done\n"))
            started += out == "done\n"
        self.assertGreater(started, 0, "never killed late enough")


if __name__ == "__main__":
    harness.main()
