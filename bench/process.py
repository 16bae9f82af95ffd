# SPDX-License-Identifier: BSD-2-Clause
"""The processes the driver runs: the program that is measured and the tracer beside it."""

import collections
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time


class Failed(Exception):
    """This cell cannot be measured; the text says why and goes into the table's notes."""


def cpu_clock(pid):
    """CPU seconds of another process, in nanoseconds' resolution (see clock_getcpuclockid)."""
    return time.clock_gettime((~pid << 3) | 2)


def cpus_of(text):
    return {int(cpu) for cpu in text.split(",")} if text else None


class Target:
    """A worker process with its workload set up."""

    def __init__(self, python, workload, layout, tmp, library):
        here = os.path.dirname(os.path.abspath(__file__))
        command = [python, os.path.join(here, "worker.py"), "--tmp", tmp, "--library", library]
        command += ["--module", workload.module, "--cls", workload.cls]
        if workload.pinned:
            command += ["--cpus", layout.target]
        command += ["--load-cpus", layout.others]
        # A group of its own: Ctrl-C is for the driver, which then ends this one properly.
        self.proc = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env=dict(os.environ, PYTHONHASHSEED="1", PYTHONDONTWRITEBYTECODE="1"),
        )
        self.pid = self.proc.pid
        self.data = b""
        try:
            self.packages = self.answer(120)["packages"]
        except BaseException:
            self.close()
            raise

    def answer(self, timeout):
        end = time.monotonic() + timeout
        while b"\n" not in self.data:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.proc.stdout], [], [], left)[0]:
                raise Failed("no answer from the program in %d s" % timeout)
            got = os.read(self.proc.stdout.fileno(), 1 << 16)
            if not got:
                raise Failed("the program died, status %s" % self.proc.wait())
            self.data += got
        line, self.data = self.data.split(b"\n", 1)
        reply = json.loads(line)
        if "error" in reply:
            raise Failed(reply["error"])
        return reply

    def ask(self, timeout=300, **command):
        try:
            self.proc.stdin.write(json.dumps(command).encode() + b"\n")
            self.proc.stdin.flush()
        except BrokenPipeError:
            raise Failed("the program died, status %s" % self.proc.wait()) from None
        return self.answer(timeout)

    def run(self, units, timeout=300):
        return self.ask(timeout, do="run", units=units)

    def close(self):
        try:
            self.proc.stdin.close()
            self.proc.wait(20)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self.proc.kill()
            self.proc.wait()
        self.proc.stdout.close()


class Tracer:
    """pyheaptrace on a target, from attached to detached."""

    # No run lasts that long: it ends the tracer where the driver was killed.
    LONGEST = "20m"

    def __init__(self, binary, config, target, layout, report, extra):
        self.report = report
        command = [binary, "-p", str(target.pid), "-d", self.LONGEST, "-v", "-f", "json"]
        command += ["-o", report, "-R", config.interval, "--collector=" + config.collector]
        self.wanted = config.collector
        self.log = collections.deque(maxlen=200)
        self.attached = threading.Event()
        self.by = None
        self.proc = subprocess.Popen(
            command + extra,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            universal_newlines=True,
            errors="replace",
        )
        if layout.others:
            os.sched_setaffinity(self.proc.pid, cpus_of(layout.others))
        self.reader = threading.Thread(target=self.read_log, args=(str(target.pid),), daemon=True)
        self.reader.start()
        try:
            self.wait_attached()
        except BaseException:
            self.kill()
            raise

    def read_log(self, pid):
        for line in self.proc.stderr:
            self.log.append(line.rstrip("\n"))
            if "attached to " + pid in line:
                self.by = line.partition(" by ")[2].partition(":")[0]
                self.attached.set()
        self.attached.set()

    def wait_attached(self):
        self.attached.wait(60)
        if self.by is None:
            last = [line for line in self.log if "attached" not in line][-1:]
            raise Failed("did not attach: " + "".join(last).replace("pyheaptrace: ", ""))
        if self.by != self.wanted:
            self.detach()
            raise Failed("%s was asked for and %s ran" % (self.wanted, self.by))

    def cpu(self):
        if self.proc.poll() is not None:
            raise Failed("the tracer ended early: " + "".join(list(self.log)[-1:]))
        return cpu_clock(self.proc.pid)

    def kill(self):
        self.proc.kill()
        self.proc.wait()
        self.reader.join(5)

    def detach(self):
        """Ends the tracer as Ctrl-C does; what it reported."""
        self.proc.send_signal(signal.SIGINT)
        try:
            self.proc.wait(120)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed("the tracer did not end within 120 s of SIGINT") from None
        self.reader.join(5)
        if self.proc.returncode != 0:
            last = "".join(list(self.log)[-1:])
            raise Failed("the tracer's exit status was %d: %s" % (self.proc.returncode, last))
        with open(self.report, encoding="utf-8") as file:
            return json.load(file)

    def warnings(self):
        return [line for line in self.log if "warning" in line.lower()]


def say(text):
    print("bench: " + text, file=sys.stderr, flush=True)
