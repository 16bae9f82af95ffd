#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The trampoline in real interpreters, without BPF: what its page counts, and
that the target is none the worse for it, whatever happens to the tracer."""
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import harness

SMOKE = None
SIZES = (50, 480, 481, 488, 489, 500, 512, 513, 1000, 100000)


def setUpModule():
    global SMOKE
    if os.geteuid() != 0:
        if harness.MUST_HAVE_BPF:
            raise AssertionError("root is required here")
        raise unittest.SkipTest("SKIPPED, NOTHING WAS TRACED: not root")
    build = os.path.join(harness.TOP, "build")
    SMOKE = os.path.join(build, "tramp_smoke")
    packages = "libbpf libelf zlib capstone json-c"
    subprocess.run(
        "cc -std=gnu11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Werror -Iinclude -Iuser"
        " tests/integration/tramp_smoke.c build/libpht.a"
        " $(pkg-config --cflags --libs %s) -lm -o %s" % (packages, SMOKE),
        shell=True, check=True, cwd=harness.TOP)


def values(line):
    return {k: int(v, 0) for k, v in (pair.split("=") for pair in line.split())}


class Smoke(harness.Process):
    """A tracer that was told to hold on."""

    def __init__(self, pid, interval, *options):
        super().__init__([SMOKE, str(pid), str(interval), "hold"] + list(options))
        line = self.read_line()
        if line != "enabled":
            raise AssertionError(line)

    def ask(self, text="stats", deadline=None):
        self.tell(text)
        return values(self.read_line(deadline))

    def end(self, code=0):
        self.child.stdin.close()
        last = values(self.read_line())
        got = self.child.wait(harness.DEADLINE)
        self.child.stdout.close()
        if got != code:
            raise AssertionError("the tracer's status is %d" % got)
        return last


def once(pid, interval, *options):
    out = subprocess.run([SMOKE, str(pid), str(interval)] + list(options), timeout=60,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    return out.returncode, [values(line) for line in out.stdout.splitlines()], out.stderr


def mappings(pid):
    with open("/proc/%d/maps" % pid) as f:
        return sum("memfd:pyheaptrace" in line for line in f)


def fds(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


def status(pid, key):
    with open("/proc/%d/status" % pid) as f:
        return re.search(r"^%s:\s*(.*)$" % key, f.read(), re.M).group(1)


class TrampCase(unittest.TestCase):
    def target(self, interpreter, *args, prefix=(), **env):
        work = interpreter.workdir()
        self.addCleanup(subprocess.run, ["rm", "-rf", work])
        program = os.path.join(work, "tramp_target.py")
        with open(os.path.join(harness.PROGRAMS, "tramp_target.py")) as f, \
                open(program, "w") as out:
            out.write(f.read())
        os.chmod(work, 0o755)
        command = list(prefix) + interpreter.command(*args, interpreter.inside(program))
        t = harness.Process(command, env=dict(os.environ, **env))
        self.addCleanup(self.finish, t)
        self.assertEqual(t.read_json(), "ready")
        for line in ("nothing", "blocks 10 100", "drop", "grow 10", "spin 0.01"):
            t.ask(line)
        return t

    def finish(self, t):
        """The target is alive and sane to its very end."""
        t.child.stdin.close()
        code = t.child.wait(harness.DEADLINE)
        t.child.stdout.close()
        self.assertEqual(code, 0)

    def assert_untouched(self, t, files):
        self.assertEqual(status(t.pid, "TracerPid"), "0")
        self.assertEqual(status(t.pid, "SigBlk"), "0" * 16)
        self.assertLessEqual(mappings(t.pid), 1)
        self.assertLessEqual(fds(t.pid), files)


class Counts(TrampCase):
    """Every call is counted once, whoever serves it."""

    MODES = (({}, ()), ({"PYTHONMALLOC": "debug"}, ()), ({"PYTHONMALLOC": "malloc"}, ()),
             ({"PYTHONMALLOC": "malloc_debug"}, ()), ({}, ("-Xtracemalloc",)),
             ({"PYTHONMALLOC": "debug"}, ("-Xtracemalloc",)))

    def count(self, t, s, command):
        before = s.ask()
        t.ask(command)
        after = s.ask()
        return after["samples"] - before["samples"], after["frees"] - before["frees"]

    def check(self, interpreter, env, args, *options):
        t = self.target(interpreter, *args, **env)
        s = Smoke(t.pid, 1, *options)
        self.assertEqual(s.ask("recheck")["ours"], 12)
        # The same work, but for who serves the blocks: so the same count.
        made = {}
        for size in SIZES:
            made[size] = self.count(t, s, "blocks 1000 %d" % size)[0]
            self.count(t, s, "drop")
        least = min(made.values())
        self.assertGreaterEqual(least, 1000)
        self.assertLess(max(made.values()) - least, 30, made)
        end = s.end()
        self.assertEqual((end["lost"], end["failed"], end["ours"]), (0, 0, 0))
        self.finish(t)
        self.doCleanups()

    def test_every_mode(self):
        for interpreter in harness.interpreters():
            for env, args in self.MODES:
                with self.subTest(interpreter=str(interpreter), env=env, args=args):
                    self.check(interpreter, env, args)

    def test_without_thread_block(self):
        """As on musl: per-thread words in slots."""
        for interpreter in harness.a_few_interpreters():
            with self.subTest(interpreter=str(interpreter)):
                self.check(interpreter, {}, (), "slots")

    def test_estimate(self):
        """20 MB in blocks of 1,000: at R = 64 KiB 305 samples, sd 17."""
        for interpreter in harness.interpreters():
            with self.subTest(interpreter=str(interpreter)):
                t = self.target(interpreter)
                s = Smoke(t.pid, 65536)
                made, _ = self.count(t, s, "blocks 20000 1000")
                self.assertGreater(made, 230)
                self.assertLess(made, 420)
                _, freed = self.count(t, s, "drop")
                self.assertGreater(freed, 230)
                s.end()


class Lives(TrampCase):
    """What an attach leaves behind."""

    def test_cycles(self):
        for interpreter in harness.a_few_interpreters():
            with self.subTest(interpreter=str(interpreter)):
                t = self.target(interpreter)
                files = fds(t.pid)
                t.tell("threads 4 4")
                code, lines, err = once(t.pid, 4096, "cycles=100")
                self.assertEqual((code, err), (0, ""))
                self.assertEqual(len(lines), 100)
                self.assertEqual({line["base"] for line in lines}, {lines[0]["base"]})
                self.assertEqual([line["reused"] for line in lines], [0] + [1] * 99)
                t.read_json()
                self.assert_untouched(t, files)

    def test_killed_at_random(self):
        rng = random.Random(1)
        for interpreter in harness.a_few_interpreters():
            with self.subTest(interpreter=str(interpreter)):
                t = self.target(interpreter)
                files = fds(t.pid)
                t.tell("threads 3 3")
                for _ in range(40):
                    tracer = subprocess.Popen([SMOKE, str(t.pid), "4096", "cycles=100000"],
                                              stdout=subprocess.DEVNULL)
                    time.sleep(rng.uniform(0.005, 0.05))
                    tracer.kill()
                    tracer.wait()
                t.read_json()
                # One descriptor may stay if the very first attach was cut short.
                self.assert_untouched(t, files + 1)
                s = Smoke(t.pid, 4096)
                t.ask("spin 0.2")
                got = s.end()
                self.assert_untouched(t, files)
                self.assertEqual(got["reused"], 1)
                self.assertGreater(got["samples"], 100)

    def test_killed_at_each_request(self):
        """The tracer dies before, or just after, its N-th ptrace call: every N there is."""
        shim = os.path.join(harness.TOP, "build", "tramp_killshim.so")
        subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", shim,
                        os.path.join(harness.PROGRAMS, "tramp_killshim.c")], check=True)
        for interpreter, when, command in (
                (harness.interpreters()[0], "before", "spin 0.3"),
                (harness.interpreters()[-1], "after", "wait sleep 0.3")):
            with self.subTest(interpreter=str(interpreter), when=when):
                self.killed_at_each_request(interpreter, when, command, shim)

    def killed_at_each_request(self, interpreter, when, command, shim):
        for n in range(1, 1000):
            t = self.target(interpreter)
            files = fds(t.pid)
            t.tell(command)
            tracer = subprocess.run([SMOKE, str(t.pid), "4096"], timeout=60,
                                    stdout=subprocess.DEVNULL,
                                    env=dict(os.environ, LD_PRELOAD=shim, PHT_KILL_AT=str(n),
                                             PHT_KILL_WHEN=when))
            t.read_json()
            self.assert_untouched(t, files + 1)
            # What the dead one left, be it a page, half of one or a descriptor, is dealt with.
            t.tell(command)
            code, lines, err = once(t.pid, 4096)
            self.assertEqual((code, err), (0, ""))
            t.read_json()
            self.assert_untouched(t, files)
            self.assertEqual(mappings(t.pid), 1)
            self.finish(t)
            self.doCleanups()
            if tracer.returncode == 0:
                break
            self.assertEqual(tracer.returncode, -signal.SIGKILL)
        self.assertGreater(n, 50)

    def test_second_tracer_refused(self):
        t = self.target(harness.one_interpreter())
        s = Smoke(t.pid, 65536)
        code, _, err = once(t.pid, 65536)
        self.assertEqual(code, 1)
        self.assertIn("another pyheaptrace", err)
        # mem's and obj's free stay CPython's own at this interval.
        self.assertEqual(s.ask("recheck")["ours"], 10)
        s.end()

    def test_debugger_refused(self):
        if not shutil.which("strace"):
            print("NOT TRIED: there is no strace here", flush=True)
            self.skipTest("there is no strace here")
        t = self.target(harness.one_interpreter())
        gdb = subprocess.Popen(["strace", "-f", "-o", "/dev/null", "-p", str(t.pid)],
                               stderr=subprocess.DEVNULL)
        try:
            harness.wait_until("strace", lambda: status(t.pid, "TracerPid") != "0")
            code, _, err = once(t.pid, 65536)
            self.assertEqual(code, 1)
            self.assertIn("another tracer", err)
        finally:
            gdb.terminate()
            gdb.wait()


class Disturbs(TrampCase):
    """What the stop does to what a thread was waiting for."""

    def test_waits(self):
        t = self.target(harness.one_interpreter())
        for how in ("sleep", "select", "poll", "epoll", "sigtimedwait", "lock"):
            with self.subTest(how=how):
                t.tell("wait %s 0.7" % how)
                time.sleep(0.1)
                code, _, err = once(t.pid, 65536, "cycles=3")
                self.assertEqual((code, err), (0, ""))
                took = t.read_json()
                self.assertGreater(took, 0.699)
                self.assertLess(took, 1.6)

    def test_no_eintr_in_c_code(self):
        t = self.target(harness.one_interpreter())
        for name in ("pipe_wait", "epoll_wait"):
            with self.subTest(name=name):
                t.tell(name)
                time.sleep(0.2)
                code, _, err = once(t.pid, 65536, "cycles=3")
                self.assertEqual((code, err), (0, ""))
                self.assertEqual(t.read_json()[:2], [0, 0])

    def test_signals(self):
        t = self.target(harness.one_interpreter())
        t.ask("catch")
        t.tell("spin 3")
        end = time.monotonic() + 2
        tracer = subprocess.Popen([SMOKE, str(t.pid), "65536", "cycles=200"],
                                  stdout=subprocess.DEVNULL)
        while tracer.poll() is None and time.monotonic() < end:
            os.kill(t.pid, signal.SIGUSR1)
            time.sleep(0.0005)
        self.assertEqual(tracer.wait(harness.DEADLINE), 0)
        t.read_json()
        usr1, alarms = t.ask("caught")
        self.assertGreater(usr1, 100)
        self.assertGreater(alarms, 500)

    def test_stopped(self):
        t = self.target(harness.one_interpreter())
        os.kill(t.pid, signal.SIGSTOP)
        harness.wait_until("stop", lambda: harness.state(t.pid) == "T")
        code, _, err = once(t.pid, 65536)
        self.assertEqual((code, err), (0, ""))
        harness.wait_until("stop", lambda: harness.state(t.pid) == "T")
        os.kill(t.pid, signal.SIGCONT)
        self.assertEqual(t.ask("nothing"), 0)

    def test_children(self):
        """Children of a sampled process run on; only follow_fork samples them."""
        for interpreter in harness.a_few_interpreters():
            for options in ((), ("fork",)):
                with self.subTest(interpreter=str(interpreter), options=options):
                    t = self.target(interpreter)
                    s = Smoke(t.pid, 4096, *options)
                    self.assertEqual(t.ask("fork 5"), [0] * 6)
                    s.end()

    def test_exec(self):
        t = self.target(harness.one_interpreter())
        s = Smoke(t.pid, 4096)
        t.tell("execute")
        self.assertEqual(t.read_json(), "ready")
        self.assertNotEqual(s.ask("recheck")["err"], 0)
        s.end(1)
        self.assertEqual(t.ask("nothing"), 0)
        self.assertEqual(mappings(t.pid), 0)
        code, _, err = once(t.pid, 65536)
        self.assertEqual((code, err), (0, ""))

    def test_exit(self):
        t = self.target(harness.one_interpreter())
        s = Smoke(t.pid, 4096)
        self.finish(t)
        self.assertNotEqual(s.ask("recheck")["err"], 0)
        s.end(1)


class Narrow(TrampCase):
    """The stack of a thread that waits deep down has no room for a signal frame."""

    def test_little_stack_left(self):
        library = os.path.join(harness.TOP, "build", "narrow.so")
        subprocess.run(["cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared",
                        "-fPIC", "-o", library, os.path.join(harness.PROGRAMS, "narrow.c")],
                       check=True)
        for left in (600, 2000):
            with self.subTest(left=left):
                # The main thread, which reads, is the second choice to more than are tried.
                t = self.target(harness.one_interpreter())
                files = fds(t.pid)
                t.ask("narrow %s 3 %d" % (library, left))
                code, _, err = once(t.pid, 4096)
                self.assertEqual((code, err), (0, ""))
                self.assert_untouched(t, files)
                t.ask("blocks 10 100")


class Confined(TrampCase):
    """Targets that may not do what the tracer has them do."""

    def works(self, t, pid=None):
        s = Smoke(pid or t.pid, 4096)
        t.ask("spin 0.1")
        got = s.ask()
        self.assertGreater(got["samples"], 100)
        s.end()
        self.assertEqual(mappings(pid or t.pid), 1)

    def test_seccomp(self):
        t = self.target(harness.one_interpreter())
        # memfd_create, and what would be needed by other ways to get code in.
        self.assertEqual(t.ask("seccomp 319 2 257 101 323"), 0)
        self.assertEqual(status(t.pid, "Seccomp"), "2")
        self.works(t)

    def test_no_new_executable_memory(self):
        t = self.target(harness.one_interpreter())
        if t.ask("prctl 65 1"):
            self.skipTest("no PR_SET_MDWE here")
        self.works(t)

    def test_not_dumpable(self):
        t = self.target(harness.one_interpreter())
        self.assertEqual(t.ask("prctl 4 0"), 0)
        self.works(t)

    def test_other_user(self):
        t = self.target(harness.one_interpreter(),
                        prefix=("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                                "--no-new-privs", "--bounding-set=-all"))
        self.works(t)

    def test_namespaces(self):
        harness.need_unshare(self, "--user", "--map-root-user", "--mount", "--pid", "--fork",
                          "--mount-proc")
        t = self.target(harness.one_interpreter(),
                        prefix=("unshare", "--user", "--map-root-user", "--mount", "--pid",
                                "--net", "--ipc", "--uts", "--fork", "--mount-proc"))
        child = harness.wait_until("child", lambda: subprocess.run(
            ["pgrep", "-P", str(t.pid)], stdout=subprocess.PIPE).stdout.split())
        self.works(t, int(child[0]))

    def test_memfd_noexec(self):
        path = "/proc/sys/vm/memfd_noexec"
        if not os.path.exists(path):
            self.skipTest("no vm.memfd_noexec here")
        harness.need_unshare(self, "--pid", "--fork", "--mount-proc")
        with open(path) as f:
            before = f.read()
        for value in "12":
            # Per pid namespace, and it can only be raised: so in one of its own.
            t = self.target(harness.one_interpreter(),
                            prefix=("unshare", "--pid", "--fork", "--mount-proc", "sh", "-c",
                                    'echo %s >%s && exec "$@"' % (value, path), "sh"))
            child = harness.wait_until("child", lambda: subprocess.run(
                ["pgrep", "-P", str(t.pid)], stdout=subprocess.PIPE).stdout.split())
            self.works(t, int(child[0]))
        with open(path) as f:
            self.assertEqual(f.read(), before)

    def test_no_room(self):
        t = self.target(harness.one_interpreter())
        with open("/proc/%d/statm" % t.pid) as f:
            size = int(f.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        subprocess.run(["prlimit", "--as=%d:" % (size + 65536), "--pid", str(t.pid)], check=True)
        code, _, err = once(t.pid, 4096)
        subprocess.run(["prlimit", "--as=unlimited:", "--pid", str(t.pid)], check=True)
        self.assertEqual(code, 1)
        self.assertIn("no room", err)
        self.assertEqual(mappings(t.pid), 0)
        self.works(t)


class Tracemalloc(TrampCase):
    def test_started_after(self):
        for interpreter in harness.a_few_interpreters():
            with self.subTest(interpreter=str(interpreter)):
                t = self.target(interpreter)
                s = Smoke(t.pid, 1)
                t.ask("trace start")
                look = s.ask("recheck")
                self.assertEqual((look["err"], look["gap"], look["chained"]), (0, 0, 12))
                before = s.ask()["samples"]
                t.ask("blocks 1000 100")
                self.assertGreater(s.ask()["samples"] - before, 1000)
                s.end()
                # Its saved pointers still lead through the page.
                t.ask("spin 0.05")
                s = Smoke(t.pid, 1)
                look = s.ask("recheck")
                self.assertEqual((look["reused"], look["chained"]), (1, 12))
                t.ask("trace stop")
                look = s.ask("recheck")
                self.assertEqual((look["err"], look["ours"]), (0, 12))
                s.end()

    def test_stopped_under_us(self):
        for interpreter in harness.a_few_interpreters():
            with self.subTest(interpreter=str(interpreter)):
                t = self.target(interpreter)
                t.ask("trace start")
                s = Smoke(t.pid, 1)
                self.assertEqual(s.ask("recheck")["ours"], 12)
                t.ask("trace stop")
                look = s.ask("recheck")
                self.assertEqual((look["err"], look["gap"]), (-116, 1))
                s.end()
                # A new attach finds what there is now.
                s = Smoke(t.pid, 1)
                look = s.ask("recheck")
                self.assertEqual((look["err"], look["ours"], look["reused"]), (0, 12, 0))
                t.ask("trace start")
                self.assertEqual(s.ask("recheck")["chained"], 12)
                t.ask("trace stop")
                self.assertEqual(s.ask("recheck")["ours"], 12)
                s.end()


if __name__ == "__main__":
    unittest.main(verbosity=2)
