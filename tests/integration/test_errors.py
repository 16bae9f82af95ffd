#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Every error a user can run into: one clear line on stderr, the right exit
code, nothing on stdout.  And names that carry terminal escapes."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unicodedata
import unittest

import harness

FAILED, USAGE = 1, 2


class ErrorCase(harness.TestCase):
    def assert_error(self, result, code, *patterns):
        """Exit code, exactly one line, and what it has to say."""
        self.assertEqual(result.code, code, result)
        self.assertEqual(result.out, "", result)
        lines = result.err.splitlines()
        self.assertEqual(len(lines), 1, result)
        self.assertTrue(lines[0].startswith("pyheaptrace: "), result)
        self.assertLess(len(lines[0]), 400, result)
        for p in patterns:
            self.assertRegex(lines[0], re.compile(p, re.IGNORECASE), result)

    def sleeper(self, *command):
        child = subprocess.Popen(command or ["sleep", "1000"], stdin=subprocess.DEVNULL)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child


class Usage(ErrorCase):
    """Exit 2; none of these needs privilege, none looks at a process."""

    def check(self, *args, says=()):
        with self.subTest(args=args):
            self.assert_error(harness.run_tracer(*args), USAGE, *says)

    def test_intervals(self):
        me = str(os.getpid())
        for option in ("-i", "--interval", "-d", "--duration", "-R", "--sample-interval"):
            for value in ("abc", "", "0", "-1", "nan", "inf", "1x", "1e300", "99999999999999999999",
                          "99999999999G", "0x", " ", "-0", "1 2"):
                self.check("-p", me, option, value)

    def test_the_message_names_option_and_value(self):
        self.check("-p", "1", "-R", "12Q", says=("sample-interval|-R", "12Q"))
        self.check("-p", "1", "-i", "never", says=("interval|-i", "never"))
        self.check("-p", "1", "-d", "soon", says=("duration|-d", "soon"))

    def test_pid(self):
        for value in ("abc", "", "0", "-1", "1.5", "2147483648", "99999999999999", "1 "):
            self.check("-p", value)
        self.check(says=("-p",))
        self.check("-d", "1", says=("-p",))

    def test_others(self):
        self.check("-p", "1", "-n", "0")
        self.check("-p", "1", "-n", "many")
        self.check("-p", "1", "-f", "xml", says=("xml",))
        self.check("-p", "1", "--group-by", "colour", says=("colour",))
        self.check("-p", "1", "--collector=psychic", says=("psychic",))
        self.check("-p", "1", "--seed", "x")
        self.check("-p", "1", "--no-such-option", says=("no-such-option",))
        self.check("-p", says=("-p|pid",))
        self.check("-p", "1", "surplus", says=("surplus",))
        self.check("frobnicate", says=("frobnicate",))
        self.check("-p", "1", "--\x1b[31mred")


class Targets(ErrorCase):
    @classmethod
    def setUpClass(cls):
        harness.require_bpf()

    def test_no_such_pid(self):
        child = subprocess.Popen(["true"])
        child.wait()
        self.assert_error(harness.run_tracer("-p", child.pid), FAILED, r"\b%d\b" % child.pid,
                          "no (such )?process")

    def test_pid_beyond_the_limit(self):
        # One more than any kernel gives out.
        self.assert_error(harness.run_tracer("-p", 4194304), FAILED, "4194304",
                          "no (such )?process")

    def test_zombie(self):
        child = subprocess.Popen(["true"])
        harness.wait_until("a zombie", lambda: harness.state(child.pid) == "Z")
        result = harness.run_tracer("-p", child.pid)
        child.wait()
        self.assert_error(result, FAILED, r"\b%d\b" % child.pid)

    def test_kernel_thread(self):
        self.assert_error(harness.run_tracer("-p", 2), FAILED, r"\b2\b", "python")

    def test_not_python(self):
        child = self.sleeper()
        harness.wait_until("exec", lambda: os.readlink("/proc/%d/exe" % child.pid).endswith("sleep")
                           or "coreutils" in os.readlink("/proc/%d/exe" % child.pid))
        self.assert_error(harness.run_tracer("-p", child.pid), FAILED, r"\b%d\b" % child.pid,
                          "not a python process")

    def test_not_supported_python(self):
        found = harness.unsupported_interpreters()
        if not found:
            self.skipTest("no Python older than 3.8 on this host")
        for interpreter in found:
            with self.subTest(python=str(interpreter)):
                child = subprocess.Popen(
                    interpreter.command("-c", "import sys; sys.stdout.write('up\\n'); "
                                        "sys.stdout.flush(); sys.stdin.readline()"),
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                child.stdout.readline()
                result = harness.run_tracer("-p", child.pid)
                child.communicate(b"\n")
                self.assertEqual(child.returncode, 0)
                self.assert_error(result, FAILED, re.escape(interpreter.minor), r"3\.8", r"3\.15",
                                  "support")

    def test_one_bad_pid_among_good_ones(self):
        good = self.target(harness.one_interpreter(), "steady.py")
        good.read_json()
        bad = self.sleeper()
        result = harness.run_tracer("-p", good.pid, "-p", bad.pid, "-d", "1")
        self.assertEqual(result.code, FAILED, result)
        self.assertRegex(result.err, r"\b%d\b" % bad.pid)
        good.ask("ping")


class Host(ErrorCase):
    @classmethod
    def setUpClass(cls):
        harness.require_bpf()
        cls.dir = tempfile.mkdtemp(prefix="pht-errors-")
        os.chmod(cls.dir, 0o755)
        cls.bin = shutil.copy(harness.BIN, cls.dir)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir)

    def test_no_privilege(self):
        """As nobody, on a process of nobody's: which capability is named."""
        def become_nobody():
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)

        child = subprocess.Popen(["/usr/bin/python3", "-c", "input()"], stdin=subprocess.PIPE,
                                 preexec_fn=become_nobody, cwd="/")
        self.addCleanup(child.communicate, b"\n")
        result = harness.run_tracer("-p", child.pid, command=[self.bin], cwd="/",
                                    preexec_fn=become_nobody)
        self.assert_error(result, FAILED, "CAP_", "sudo|root")

    def test_no_btf(self):
        """/sys/kernel/btf hidden by an empty file system, for this one run."""
        target = self.target(harness.one_interpreter(), "steady.py")
        target.read_json()
        # In a chroot / is no mount and unshare's own way of going private fails: /sys is one.
        hidden = ("mount --make-rprivate /sys && mount -t tmpfs none /sys/kernel/btf"
                  " && exec \"$@\"")
        command = ["unshare", "-m", "--propagation", "unchanged", "sh", "-ec", hidden, "sh",
                   harness.BIN]
        result = harness.run_tracer("-p", target.pid, "-d", "1", command=command)
        self.assert_error(result, FAILED, "BTF")
        check = harness.run_tracer("check", command=command)
        self.assertEqual(check.code, FAILED, check)
        self.assertRegex(check.out, "BTF")

    def test_output_not_writable(self):
        target = self.target(harness.one_interpreter(), "steady.py")
        target.read_json()
        for path in ("/nonexistent/dir/report", self.dir, "/proc/version/x", ""):
            with self.subTest(path=path):
                result = harness.run_tracer("-p", target.pid, "-d", "1", "-o", path)
                code = USAGE if path == "" and result.code == USAGE else FAILED
                self.assert_error(result, code, re.escape(path))

    def test_output_is_kept_until_there_is_another(self):
        sleeper = self.sleeper()
        path = os.path.join(self.dir, "kept")
        for command in ((), ("rss",), ("census",), ("pymalloc",), ("record", "-d", "1")):
            with self.subTest(command=command):
                with open(path, "w") as f:
                    f.write("of yesterday")
                result = harness.run_tracer(*command, "-p", sleeper.pid, "-o", path)
                self.assert_error(result, FAILED, "not a python process")
                with open(path) as f:
                    self.assertEqual(f.read(), "of yesterday")
        # And then nothing of it is left, however short the new one.
        target = self.target(harness.one_interpreter(), "steady.py")
        target.read_json()
        for command in (("rss",), ("census",), ("pymalloc",)):
            with self.subTest(command=command):
                with open(path, "w") as f:
                    f.write("of yesterday" * 100000)
                result = harness.run_tracer(*command, "-p", target.pid, "-o", path)
                self.assertEqual(result.code, 0, result)
                with open(path) as f:
                    text = f.read()
                self.assertIn(str(target.pid), text)
                self.assertNotIn("yesterday", text)

    def test_output_fills_up(self):
        target = self.target(harness.one_interpreter(), "steady.py")
        target.read_json()
        result = harness.run_tracer("-p", target.pid, "-d", "1", "-f", "json", "-o", "/dev/full")
        self.assert_error(result, FAILED, "space")
        # And on stdout, which the tracer was handed.
        with open("/dev/full", "w") as full:
            done = subprocess.run([harness.BIN, "-p", str(target.pid), "-d", "1"], stdout=full,
                                  stderr=subprocess.PIPE, timeout=harness.DEADLINE)
        self.assertEqual(done.returncode, FAILED)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_low_limits(self):
        """Of open files, which is raised, but not for a program; and of a file's size."""
        targets = [self.target(harness.one_interpreter(), "steady.py") for _ in range(3)]
        for t in targets:
            t.read_json()
        few = ["prlimit", "--nofile=40:4096", harness.BIN]
        result = harness.run_tracer("-p", ",".join(str(t.pid) for t in targets), "-d", "0.5", "-f",
                                    "json", command=few)
        self.assertEqual(result.code, 0, result)
        self.assertEqual({r["pid"] for r in json.loads(result.out)}, {t.pid for t in targets})
        program = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))"
        result = harness.run_tracer("run", "--", "/usr/bin/python3", "-c", program, command=few)
        self.assertEqual(result.out, "(40, 4096)\n", result)
        result = harness.run_tracer("-p", targets[0].pid, "-d", "0.5", "-o",
                                    os.path.join(self.dir, "large"),
                                    command=["prlimit", "--fsize=0", harness.BIN])
        self.assert_error(result, FAILED, "too large")
        targets[0].ask("ping")

    def test_closed_streams(self):
        """No file of ours takes the number of a closed stream, and our words with it."""
        target = self.target(harness.one_interpreter(), "steady.py")
        target.read_json()
        path = os.path.join(self.dir, "streams")
        run = [harness.BIN, "-p", str(target.pid), "-d", "0.5", "-v"]
        for closed, code, options in ((">&-", FAILED, ()), ("2>&-", 0, ("-o", path)),
                                      ("<&- >&- 2>&-", 0, ("-o", path, "-f", "json"))):
            with self.subTest(closed=closed):
                done = subprocess.run(["sh", "-c", "exec \"$@\" " + closed, "sh", *run, *options],
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      timeout=harness.DEADLINE, universal_newlines=True)
                self.assertEqual(done.returncode, code, done.stderr)
                if code:
                    self.assertIn("cannot write the report: Bad file descriptor", done.stderr)
                    continue
                with open(path) as f:
                    text = f.read()
                self.assertNotIn("attached to", text)
                if "json" in options:
                    self.assertEqual(json.loads(text)["pid"], target.pid)
        target.ask("ping")

    def test_closed_pipe(self):
        """`pyheaptrace ... | head -1`: ends quietly, does not crash."""
        target = self.target(harness.one_interpreter(), "steady.py")
        target.read_json()
        tracer = subprocess.Popen([harness.BIN, "-p", str(target.pid), "-i", "0.2", "-d", "20"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        tracer.stdout.read(1)
        tracer.stdout.close()
        try:
            tracer.wait(harness.DEADLINE)
        finally:
            tracer.kill()
            tracer.wait()
        err = tracer.stderr.read()
        tracer.stderr.close()
        self.assertIn(tracer.returncode, (0, 1, -signal.SIGPIPE), err)
        self.assertEqual(err, b"")
        target.ask("ping")


class Vanishing(ErrorCase):
    """The target dies while the tracer attaches, at chosen moments."""

    @classmethod
    def setUpClass(cls):
        harness.require_bpf()
        cls.dir = tempfile.mkdtemp(prefix="pht-shim-")
        cls.shim = os.path.join(cls.dir, "killshim.so")
        subprocess.run([os.environ.get("CC", "cc"), "-D_GNU_SOURCE", "-O1", "-shared", "-fPIC",
                        os.path.join(harness.PROGRAMS, "killshim.c"), "-o", cls.shim, "-ldl"],
                       check=True)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir)

    def run_with_shim(self, at):
        """Returns (result, number of calls)."""
        target = self.target(harness.one_interpreter(), "steady.py")
        target.read_json()
        reaper = threading.Thread(target=target.child.wait)
        if at:
            reaper.start()
        count = os.path.join(self.dir, "count")
        env = dict(os.environ, LD_PRELOAD=self.shim, PHT_SHIM_AT=str(at),
                   PHT_SHIM_PID=str(target.pid), PHT_SHIM_COUNT=count)
        # LD_PRELOAD for the tracer alone: not for a helper in between.
        result = harness.run_tracer("-p", target.pid, "-d", "0.5", "-f", "json", env=env)
        if at:
            target.child.kill()
            reaper.join()
        with open(count) as f:
            return result, int(f.read())

    def test_exits_while_attaching(self):
        result, calls = self.run_with_shim(0)
        self.assertEqual(result.code, 0, result)
        self.assertGreater(calls, 10)
        errors = 0
        for at in sorted({1 + calls * i // 16 for i in range(16)}):
            with self.subTest(at=at, calls=calls):
                result, _ = self.run_with_shim(at)
                if result.code == 0:
                    # It was attached by then: a report about a target that exited.
                    self.assertIn("sites", json.loads(result.out))
                else:
                    self.assert_error(result, FAILED,
                                      r"exited|went away|no process")
                    self.assertNotIn("No such process", result.err)
                    errors += bool(re.search("exited", result.err))
        self.assertGreater(errors, 0, "no run ended with 'exited while attaching'")


def harmful(text):
    """Characters of a report that a terminal might obey."""
    return sorted({c for c in text if c != "\n" and (
        unicodedata.category(c) in ("Cc", "Cf") or "\udc80" <= c <= "\udcff")})


class Escapes(ErrorCase):
    @classmethod
    def setUpClass(cls):
        harness.require_bpf()

    def traced(self, interpreter, *options):
        target = self.target(interpreter, "escapes.py")
        told = target.read_json()
        # Wide, so that no name is cut short.
        tracer = self.tracer("-p", target.pid, "-R", "4K", *harness.UNLIMITED, *options,
                             env=dict(os.environ, COLUMNS="400"))
        tracer.wait_attached(target.pid)
        for _ in range(20):
            target.ask("")
        self.assertEqual(tracer.interrupt(), 0, tracer.stderr())
        return told, tracer

    def test_text(self):
        for interpreter in harness.a_few_interpreters():
            with self.subTest(python=str(interpreter)):
                _, tracer = self.traced(interpreter)
                out = tracer.stdout()
                self.assertIn("owned-title", out, "the row is missing or cut")
                self.assertIn("app.py", out)
                self.assertEqual(harmful(out), [])
                self.assertEqual(harmful(tracer.stderr()), [])
                rows = [l for l in out.splitlines() if "owned-title" in l]
                self.assertTrue(all("row" in l for l in rows), "a name broke its line")

    def test_json(self):
        """Valid, and the names come through; as they are, or escaped to text."""
        told, tracer = self.traced(harness.one_interpreter(), "-f", "json")
        out = tracer.stdout()
        self.assertEqual(harmful(out), [])
        frame = json.loads(out)["sites"][0]["frames"][0]
        self.assertIn("owned-title", frame["function"])
        self.assertIn("app.py", frame["file"])
        if harmful(frame["function"]):
            self.assertEqual((frame["function"], frame["file"]), (told["function"], told["file"]))

    def test_error_line_about_such_a_process(self):
        """comm holds escapes too, and is quoted in errors."""
        code = "open('/proc/self/comm','wb').write(b'\\x1b[31mevil'); print(1, flush=True); input()"
        old = [i for i in harness.unsupported_interpreters() if i.version[0] == "3"]
        path = old[0].path if old else sys.executable
        child = subprocess.Popen([path, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        child.stdout.readline()
        result = harness.run_tracer("-p", child.pid, "-d", "0.5")
        child.communicate(b"\n")
        self.assertEqual(harmful(result.err + result.out), [])
        self.assertEqual(result.code, FAILED if old else 0, result)


if __name__ == "__main__":
    harness.main()
