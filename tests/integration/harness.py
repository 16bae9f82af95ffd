# SPDX-License-Identifier: BSD-2-Clause
"""What the integration tests share: interpreters, targets, the tracer, deadlines."""
import ctypes
import errno
import functools
import glob
import json
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import zlib

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = os.path.join(TOP, "tests", "programs")
BIN = os.path.abspath(os.environ.get("PHT_BIN", os.path.join(TOP, "build", "pyheaptrace")))
# Pythons that are in no usual place; the only way to those without a GIL, but for pyenv's.
EXTRA = [p for p in os.environ.get("PHT_EXTRA_PYTHONS", "").split(":") if p]
SID_ROOT = os.environ.get("PHT_SID_ROOT", "/var/tmp/pht-roots/sid")
# Generous: a deadline is for what hangs, not for what is slow.
DEADLINE = float(os.environ.get("PHT_DEADLINE", "60"))
# The long forms of the tests that have one, on every interpreter: hours.
FULL = os.environ.get("PHT_FULL") == "1"
MUST_HAVE_BPF = os.environ.get("CI") == "1" or os.environ.get("PHT_REQUIRE_BPF") == "1"

SUPPORTED = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15")
# For tests of something else than the limit on what tracing may cost: without it
# the tracer raises the sampling interval, or leaves, on a busy target.
UNLIMITED = ("--max-overhead", "1000000")


def wait_until(what, condition, deadline=None):
    """Poll until condition() is true; returns what it returned."""
    end = time.monotonic() + (deadline or DEADLINE)
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("deadline passed waiting for " + what)
        time.sleep(0.02)


# ---- is BPF to be had here, asked of the kernel and not of the program under test


def why_no_bpf():
    """None, or the reason why no test can trace here."""
    if os.geteuid() != 0:
        return "not root"
    if not os.path.exists("/sys/kernel/btf/vmlinux"):
        return "no /sys/kernel/btf/vmlinux"
    if not os.path.isdir("/sys/bus/event_source/devices/uprobe"):
        return "no uprobe PMU"
    libc = ctypes.CDLL(None, use_errno=True)
    attr = (ctypes.c_uint32 * 32)()
    number = {"x86_64": 321, "aarch64": 280}.get(os.uname().machine)
    if number is None:
        return "no bpf() number known for this machine"
    # BPF_PROG_GET_NEXT_ID: harmless, and refused where BPF is.
    if libc.syscall(number, 11, attr, 128) < 0 and ctypes.get_errno() in (errno.EPERM, errno.ENOSYS):
        return "bpf(): " + os.strerror(ctypes.get_errno())
    return None


def require_bpf():
    """Call from setUpModule(): skips loudly, or fails where BPF is a must."""
    reason = why_no_bpf()
    if not reason:
        return
    if MUST_HAVE_BPF:
        raise AssertionError("BPF is required here (CI or PHT_REQUIRE_BPF), but: " + reason)
    print("SKIPPED, NOTHING WAS TRACED: " + reason, flush=True)
    raise unittest.SkipTest(reason)


# ---- interpreters


class Interpreter:
    """A Python at hand; root is "" or the chroot it lives in."""

    def __init__(self, path, root=""):
        self.path = path
        self.root = root
        out = subprocess.run(
            self.command("-c", "import sys, sysconfig; print(sys.version.split()[0], "
                         "int(sysconfig.get_config_var('Py_GIL_DISABLED') or 0))"),
            stdout=subprocess.PIPE, check=True, universal_newlines=True, stdin=subprocess.DEVNULL)
        self.version, free = out.stdout.split()
        self.free_threaded = free == "1"
        self.minor = ".".join(self.version.split(".")[:2])

    def command(self, *args):
        return (["chroot", self.root] if self.root else []) + [self.path] + list(args)

    def __str__(self):
        return "%s%s (%s%s)" % (self.version, "t" if self.free_threaded else "", self.root,
                                self.path)

    def workdir(self):
        """A directory that the interpreter can see: host path."""
        return tempfile.mkdtemp(prefix="pht-test-", dir=(self.root + "/tmp") if self.root else None)

    def inside(self, host_path):
        """The path as this interpreter sees it."""
        return host_path[len(self.root):] if self.root else host_path


def candidates():
    yield "/usr/bin/python3", ""
    for path in sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python3"))):
        yield path, ""
    if os.geteuid() == 0:
        for path in sorted(glob.glob(SID_ROOT + "/usr/bin/python3.[0-9]*[0-9]")):
            yield path[len(SID_ROOT):], SID_ROOT
    for path in EXTRA:
        yield path, ""


def all_interpreters():
    found = []
    for path, root in candidates():
        if not os.path.exists(root + path):
            continue
        try:
            found.append(Interpreter(path, root))
        except (OSError, subprocess.CalledProcessError) as e:
            print("cannot run %s%s: %s" % (root, path, e), flush=True)
    # The distribution's own stays first, the others by version.
    return found[:1] + sorted(found[1:], key=lambda i: [int(n) for n in re.findall(r"\d+", i.version)])


_interpreters = None


def interpreters(free_threaded=False):
    """The supported ones with a GIL, or without; PHT_PYTHONS=3.8,3.12 narrows the choice."""
    global _interpreters
    if _interpreters is None:
        _interpreters = all_interpreters()
    wanted = [w for w in os.environ.get("PHT_PYTHONS", "").split(",") if w]
    return [i for i in _interpreters
            if i.free_threaded == free_threaded and i.minor in SUPPORTED
            and (not wanted or i.minor in wanted or i.version in wanted)]


def unsupported_interpreters():
    """Older than any that is supported."""
    interpreters()
    return [i for i in _interpreters if [int(n) for n in i.minor.split(".")] < [3, 8]]


def one_interpreter():
    """For tests of one: the distribution's own, or else any."""
    found = interpreters()
    if not found:
        raise AssertionError("no supported Python on this host")
    return found[0]


def a_few_interpreters():
    """The distribution's (PGO, static) and the newest that is built otherwise."""
    found = interpreters()
    if not found:
        raise AssertionError("no supported Python on this host, or none that PHT_PYTHONS names")
    other = [i for i in found[1:] if not i.path.startswith("/usr/")]
    return found[:1] + other[-1:]


# ---- processes


def page_mappings(pid):
    """How many pages of ours it holds, half made ones included."""
    with open("/proc/%d/maps" % pid) as f:
        return sum("memfd:pyheaptrace" in line for line in f)


def half_pages(pid):
    """Code without data behind it: the tracer was killed in between."""
    found = 0
    with open("/proc/%d/maps" % pid) as f:
        for line in f:
            start, end = (int(n, 16) for n in line.split()[0].split("-"))
            found += "memfd:pyheaptrace" in line and end - start > 0x4000
    return found


def traps_in(pid):
    """Bytes of libc's code that are not those of its file: breakpoints, or what became of them."""
    changed = 0
    with open("/proc/%d/maps" % pid) as maps, open("/proc/%d/mem" % pid, "rb", 0) as memory:
        for line in maps:
            span, access, offset, _, _, *path = line.split()
            if "x" not in access or not path or "/libc" not in path[0]:
                continue
            start, end = (int(n, 16) for n in span.split("-"))
            with open("/proc/%d/map_files/%s" % (pid, span), "rb") as f:
                f.seek(int(offset, 16))
                as_filed = f.read(end - start)
            memory.seek(start)
            changed += sum(a != b for a, b in zip(as_filed, memory.read(end - start)))
    return changed


def page_descriptors(pid):
    """Those of a page's file: open for a moment, while the page is being made."""
    found = 0
    for name in os.listdir("/proc/%d/fd" % pid):
        try:
            found += "memfd:pyheaptrace" in os.readlink("/proc/%d/fd/%s" % (pid, name))
        except FileNotFoundError:
            pass
    return found


def state(pid):
    """The letter of /proc/PID/stat."""
    with open("/proc/%d/stat" % pid) as f:
        return f.read().rsplit(")", 1)[1].split()[0]


class Process:
    """A child that is spoken to by lines and never outlives its test."""

    def __init__(self, command, **kwargs):
        kwargs.setdefault("stdin", subprocess.PIPE)
        kwargs.setdefault("stderr", None)
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0, **kwargs)
        self.pid = self.child.pid
        self.buffer = b""

    def read_line(self, deadline=None):
        end = time.monotonic() + (deadline or DEADLINE)
        while b"\n" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.child.stdout], [], [], left)[0]:
                raise AssertionError("deadline passed waiting for a line from the target")
            data = os.read(self.child.stdout.fileno(), 65536)
            if not data:
                raise AssertionError("the target ended (status %s)" % self.child.wait())
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode()

    def read_json(self, deadline=None):
        return json.loads(self.read_line(deadline))

    def tell(self, text):
        self.child.stdin.write((text + "\n").encode())
        self.child.stdin.flush()

    def ask(self, text, deadline=None):
        self.tell(text)
        return self.read_json(deadline)

    def alive(self):
        return self.child.poll() is None

    def close(self):
        if self.alive():
            self.child.send_signal(signal.SIGCONT)
            self.child.kill()
        self.child.wait()
        for f in (self.child.stdin, self.child.stdout):
            if f:
                f.close()


class Target(Process):
    """A program of tests/programs on an interpreter, in a directory of its own."""

    def __init__(self, interpreter, program, *args, **kwargs):
        self.interpreter = interpreter
        self.dir = interpreter.workdir()
        self.script = os.path.join(self.dir, program)
        shutil.copy(os.path.join(PROGRAMS, program), self.script)
        command = interpreter.command(interpreter.inside(self.script), *args)
        try:
            super().__init__(command, **kwargs)
        except BaseException:
            shutil.rmtree(self.dir)
            raise

    def close(self):
        super().close()
        shutil.rmtree(self.dir, ignore_errors=True)


class Tracer:
    """pyheaptrace -v, its two streams kept in files so that no pipe can fill up."""

    def __init__(self, *args, command=(), **kwargs):
        self.out = tempfile.TemporaryFile()
        self.err = tempfile.TemporaryFile()
        self.child = subprocess.Popen([BIN, *command, "-v"] + [str(a) for a in args], stdin=subprocess.DEVNULL,
                                      stdout=self.out, stderr=self.err, **kwargs)
        self.pid = self.child.pid

    @staticmethod
    def _text(f):
        """Without moving the offset, which the child shares."""
        return os.pread(f.fileno(), 1 << 28, 0).decode("utf-8", "surrogateescape")

    def stdout(self):
        return self._text(self.out)

    def stderr(self):
        return self._text(self.err)

    def wait_attached(self, pid=None, deadline=None):
        pattern = re.compile(r"attached to (?:PID |process )?%s\b" % (pid or r"\d+"))

        def attached():
            if pattern.search(self.stderr()):
                return True
            if self.child.poll() is not None and not pattern.search(self.stderr()):
                raise AssertionError("the tracer ended (status %s): %s"
                                     % (self.child.returncode, self.stderr()))
            return False

        wait_until("the tracer to attach", attached, deadline)
        return self

    def signal(self, number):
        self.child.send_signal(number)

    def wait(self, deadline=None):
        try:
            return self.child.wait(deadline or DEADLINE)
        except subprocess.TimeoutExpired:
            raise AssertionError("the tracer does not end; stderr: " + self.stderr()) from None

    def interrupt(self, deadline=None):
        self.signal(signal.SIGINT)
        return self.wait(deadline)

    def report(self):
        return json.loads(self.stdout())

    def close(self):
        if self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(10)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        self.out.close()
        self.err.close()


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __str__(self):
        return "exit %s\nstdout: %r\nstderr: %r" % (self.code, self.out, self.err)


def run_tracer(*args, command=None, **kwargs):
    """Run to the end, capture both streams."""
    kwargs.setdefault("timeout", DEADLINE)
    kwargs.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run((command or [BIN]) + [str(a) for a in args], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, **kwargs)
    return Result(done.returncode, done.stdout.decode("utf-8", "surrogateescape"),
                  done.stderr.decode("utf-8", "surrogateescape"))


def coverage_complete(report):
    coverage = report["coverage"]
    if isinstance(coverage, dict):
        return bool(coverage["complete"])
    return bool(report["coverage_complete"])


def python_frames(site):
    return [f for f in site["frames"] if f["kind"] == "python"]


def each_of_a_few(test):
    """For a test method that takes an interpreter: run it on a few, each a subtest."""
    @functools.wraps(test)
    def run(self):
        for interpreter in a_few_interpreters():
            with self.subTest(python=str(interpreter)):
                test(self, interpreter)
    return run


def each_of_a_few_or_one(test):
    """As each_of_a_few; in the short form on one of them, which differs from test to test."""
    @functools.wraps(test)
    def run(self):
        few = a_few_interpreters()
        if not FULL:
            few = [few[zlib.crc32(test.__name__.encode()) % len(few)]]
        for interpreter in few:
            with self.subTest(python=str(interpreter)):
                test(self, interpreter)
    return run


def many_interpreters():
    """All; a few in the short form."""
    return interpreters() if FULL else a_few_interpreters()


def need_unshare(test, *flags):
    """In a chroot / is no mount, and the kernel refuses what these tests are about."""
    if subprocess.run(["unshare", *flags, "true"], stderr=subprocess.DEVNULL).returncode:
        print("NOT TRIED: unshare %s is refused here" % " ".join(flags), flush=True)
        test.skipTest("unshare is refused here (a chroot?)")


class TestCase(unittest.TestCase):
    """Makes targets and tracers that are gone when the test is."""

    def target(self, interpreter, program, *args, **kwargs):
        t = Target(interpreter, program, *args, **kwargs)
        self.addCleanup(t.close)
        return t

    def tracer(self, *args, **kwargs):
        t = Tracer(*args, **kwargs)
        self.addCleanup(t.close)
        return t

    def assert_no_losses(self, report):
        lost = {k: v for k, v in report["losses"].items() if v}
        if report["python_version"].startswith("3.15"):
            # No pthread key leads to the state of a thread that begins or ends.
            lost.pop("no_python_state", None)
        self.assertEqual(lost, {}, "losses were counted")


def main():
    print("pythons: " + ", ".join(str(i) for i in interpreters() + interpreters(True)), flush=True)
    print("tracer: " + BIN, flush=True)
    unittest.main(verbosity=2)
