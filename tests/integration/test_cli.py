#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Help, version, check, the formats and where they go."""
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import tempfile
import termios
import unittest

import harness

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Help(unittest.TestCase):
    """Needs no privilege."""

    def test_help(self):
        for option in ("-h", "--help"):
            result = harness.run_tracer(option)
            self.assertEqual((result.code, result.err), (0, ""))
            for word in ("--pid", "--duration", "--interval", "--top", "--group-by", "--format",
                         "--output", "--sample-interval", "--seed", "--collector", "--version",
                         "check", "xample"):
                self.assertIn(word, result.out)
            self.assertLessEqual(max(map(len, result.out.splitlines())), 100)

    def test_version(self):
        with open(os.path.join(harness.TOP, "VERSION")) as f:
            version = f.read().strip()
        result = harness.run_tracer("--version")
        self.assertEqual((result.code, result.err), (0, ""))
        self.assertEqual(result.out.strip(), "pyheaptrace " + version)


class Check(unittest.TestCase):
    def test_check_agrees_with_the_kernel(self):
        result = harness.run_tracer("check")
        if harness.why_no_bpf():
            self.assertEqual(result.code, 1, result)
        else:
            self.assertEqual(result.code, 0, result)
        lines = result.out.splitlines()
        self.assertGreater(len(lines), 4)
        for word in ("privilege|CAP_", "BTF", "uprobe"):
            self.assertRegex(result.out, re.compile(word, re.IGNORECASE))

    def test_check_without_privilege(self):
        if os.geteuid() != 0:
            self.skipTest("already without")

        with tempfile.TemporaryDirectory(prefix="pht-cli-") as d:
            os.chmod(d, 0o755)
            binary = os.path.join(d, "pyheaptrace")
            with open(harness.BIN, "rb") as src, open(binary, "wb") as dst:
                dst.write(src.read())
            os.chmod(binary, 0o755)

            def become_nobody():
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)

            result = harness.run_tracer("check", command=[binary], preexec_fn=become_nobody, cwd="/")
        self.assertEqual(result.code, 1, result)
        self.assertRegex(result.out, "CAP_")


class Formats(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        harness.require_bpf()

    def leaking(self, interpreter=None):
        target = self.target(interpreter or harness.one_interpreter(), "leaky.py", "--rate", "2000",
                             "--churn", "1")
        target.read_line()
        return target

    def test_json(self):
        number = (int, float)
        top = {"pid": int, "python_version": str, "collector": str, "coverage": (str, dict),
               "sample_interval": int, "duration_seconds": number, "totals": dict, "losses": dict,
               "sites": list}
        site_fields = {"live_bytes": number, "live_bytes_low": number, "live_bytes_high": number,
                       "live_blocks": number, "allocated_bytes": number, "allocated_blocks": number,
                       "samples": int, "frames": list}
        frame_fields = {"function": str, "file": str, "line": (int, type(None)), "kind": str}
        for interpreter in harness.a_few_interpreters():
            with self.subTest(python=str(interpreter)):
                target = self.leaking(interpreter)
                result = harness.run_tracer("-p", target.pid, "-d", "2", "-f", "json", "-R", "64K",
                                            *harness.UNLIMITED)
                self.assertEqual((result.code, result.err), (0, ""), result)
                report = json.loads(result.out, parse_constant=self.fail)
                self.has_fields(report, top)
                self.assertEqual(report["pid"], target.pid)
                self.assertEqual(report["python_version"], interpreter.version)
                self.assertEqual(report["sample_interval"], 65536)
                self.assertTrue(1.5 < report["duration_seconds"] < 5)
                self.assertTrue(report["sites"])
                for site in report["sites"]:
                    self.has_fields(site, site_fields)
                    self.assertLessEqual(site["live_bytes_low"], site["live_bytes"])
                    self.assertLessEqual(site["live_bytes"], site["live_bytes_high"])
                    for frame in site["frames"]:
                        self.has_fields(frame, frame_fields)
                        self.assertTrue(frame["line"] is None or frame["line"] >= 0)
                live = [s["live_bytes"] for s in report["sites"]]
                self.assertEqual(live, sorted(live, reverse=True))
                self.assertTrue(all(v >= 0 for v in report["losses"].values()))

    def has_fields(self, record, fields):
        for name, kind in fields.items():
            self.assertIn(name, record)
            self.assertIsInstance(record[name], kind, name)
            self.assertNotIsInstance(record[name], bool, name)

    def test_text(self):
        target = self.leaking()
        result = harness.run_tracer("-p", target.pid, "-d", "2", "-R", "64K")
        self.assertEqual((result.code, result.err), (0, ""), result)
        self.assertNotIn("\x1b", result.out)
        for word in (str(target.pid), "leaky.py:", "remember", "RSS",
                     harness.one_interpreter().version):
            self.assertIn(word, result.out)

    def test_output_file(self):
        target = self.leaking()
        with tempfile.TemporaryDirectory() as d:
            for form in ("text", "json"):
                path = os.path.join(d, "report." + form)
                result = harness.run_tracer("-p", target.pid, "-d", "1", "-f", form, "-o", path)
                self.assertEqual((result.code, result.out, result.err), (0, "", ""))
                with open(path) as f:
                    text = f.read()
                self.assertNotIn("\x1b", text)
                if form == "json":
                    json.loads(text)
                else:
                    self.assertIn("leaky.py", text)

    def test_top(self):
        target = self.leaking()
        texts = [harness.run_tracer("-p", target.pid, "-d", "2", "-n", n, "-R", "1K").out
                 for n in (1, 20)]
        for text in texts:
            self.assertIn("remember", text)
        self.assertLess(len(texts[0].splitlines()), len(texts[1].splitlines()))

    def test_group_by(self):
        target = self.leaking()
        for group in ("traceback", "line", "function", "file"):
            with self.subTest(group=group):
                result = harness.run_tracer("-p", target.pid, "-d", "1", "-f", "json", "-R", "64K",
                                            "--group-by", group)
                self.assertEqual(result.code, 0, result)
                first = harness.python_frames(json.loads(result.out)["sites"][0])[0]
                self.assertTrue(first["file"].endswith("/leaky.py"), first)
                if group == "function":
                    self.assertEqual(first["function"], "remember")

    def test_seed_is_accepted(self):
        target = self.leaking()
        result = harness.run_tracer("-p", target.pid, "-d", "1", "--seed", "7", "-f", "json")
        self.assertEqual((result.code, result.err), (0, ""), result)

    def test_two_processes(self):
        first, second = self.leaking(), self.leaking()
        result = harness.run_tracer("-p", first.pid, "-p", second.pid, "-d", "2")
        self.assertEqual((result.code, result.err), (0, ""), result)
        for target in (first, second):
            self.assertRegex(result.out, r"\b%d\b" % target.pid)

    def on_terminal(self, width, **env):
        """What a terminal of that width is sent."""
        target = self.leaking()
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
        environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
        environment.update(TERM="xterm-256color", **env)
        child = subprocess.Popen([harness.BIN, "-p", str(target.pid), "-d", "2", "-i", "0.5"],
                                 stdin=subprocess.DEVNULL, stdout=slave, env=environment)
        os.close(slave)
        sent = b""
        while True:
            try:
                data = os.read(master, 65536)
            except OSError:  # how Linux tells that the other side is closed
                break
            if not data:
                break
            sent += data
        os.close(master)
        self.assertEqual(child.wait(harness.DEADLINE), 0)
        return sent.decode()

    def test_terminal(self):
        for width in (80, 132):
            with self.subTest(width=width):
                sent = self.on_terminal(width)
                self.assertRegex(sent, COLOUR)
                self.assertGreaterEqual(sent.count("remember"), 2, "no refresh to be seen")
                lines = [ESCAPE.sub("", l).rstrip("\r") for l in sent.split("\n")]
                self.assertLessEqual(max(map(len, lines)), width)

    def test_no_color(self):
        sent = self.on_terminal(100, NO_COLOR="1")
        self.assertNotRegex(sent, COLOUR)


class Overhead(harness.TestCase):
    def report(self, pause, sample_interval, percent):
        target = self.target(harness.one_interpreter(), "spinner.py", "1", pause)
        result = harness.run_tracer("-p", target.pid, "-R", sample_interval, "-d", "4",
                                    "-f", "json", "--collector=trampoline", "--max-overhead",
                                    percent)
        self.assertEqual(result.code, 0, result)
        return json.loads(result.out)

    def test_busy(self):
        report = self.report("0", "16K", "5")
        self.assertGreater(report["sample_interval"], 16384)
        self.assertGreater(report["totals"]["samples"], 100)

    def test_idle(self):
        """Its samples are much of what it does, and next to nothing of what the machine does."""
        report = self.report("0.04", "64K", "0.5")
        self.assertGreater(report["overhead"], 0.005)
        self.assertEqual(report["sample_interval"], 65536)
        self.assertGreater(report["totals"]["samples"], 20)


if __name__ == "__main__":
    harness.main()
