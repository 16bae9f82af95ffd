#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The trampoline in company: of other hooks, of children, of confinement.

In each case the target stays well, what is seen is counted to the block, and
what is not seen is said.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import harness

COUNT, SIZE = 3000, 1000
HEADER = 33  # of a bytes object
# A thread that went through the page while it was switched off looks up every 16 KiB.
UNTIL_IT_LOOKS = 16384 // (SIZE + HEADER) + 1
DEBUG_MODES = ("debug", "malloc", "malloc_debug", "pymalloc", "pymalloc_debug", "mimalloc",
               "mimalloc_debug")

library_dir = None


def setUpModule():
    global library_dir
    harness.require_bpf()
    library_dir = tempfile.mkdtemp(prefix="pht-company-")
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror",
                    "-shared", "-fPIC", os.path.join(harness.PROGRAMS, "ledger.c"), "-lm", "-ldl",
                    "-o", os.path.join(library_dir, "ledger.so")], check=True)


def tearDownModule():
    shutil.rmtree(library_dir)


class CompanyCase(harness.TestCase):
    def guest(self, interpreter, prefix=(), options=(), **env):
        target = Guest(interpreter, prefix, options, env=dict(os.environ, **env))
        self.addCleanup(target.close)
        self.assertEqual(target.read_json(), "ready")
        return target

    def attach(self, pid, interval=1):
        return self.tracer("-p", pid, "-R", interval, "--collector=trampoline", "-f", "json",
                           "--group-by", "traceback", *harness.UNLIMITED).wait_attached(pid)

    def detach(self, tracer, losses=()):
        self.assertEqual(tracer.interrupt(), 0, tracer.stderr())
        report = tracer.report()
        self.assertEqual(report["collector"], "trampoline")
        lost = {k: v for k, v in report["losses"].items() if v and k not in losses}
        self.assertEqual(lost, {})
        return report

    def below(self, report, function):
        """(live blocks, allocated blocks, allocated bytes) under a Python function."""
        rows = [s for s in report["sites"]
                if any(f["function"] == function for f in harness.python_frames(s))]
        return [sum(r[k] for r in rows)
                for k in ("live_blocks", "allocated_blocks", "allocated_bytes")]

    def assert_counted(self, report, live, times=1, function="blocks", missed=0, more=0,
                       mapped=0):
        """
        times COUNT blocks were made, of which live times COUNT are there.  missed: how
        many may be unseen; more: blocks of its own that a hook makes meanwhile; mapped:
        bytes that it may map.
        """
        got_live, blocks, size = self.below(report, function)
        for what, got, want, extra in (("live", got_live, live * COUNT, more),
                                       ("blocks", blocks, times * COUNT, more),
                                       ("bytes", size / (SIZE + HEADER), times * COUNT,
                                        mapped // SIZE)):
            self.assertGreaterEqual(got, want - missed, what)
            # The lists that hold them, and what the interpreter makes along the way; of
            # tracemalloc's traces the memory too.
            self.assertLess(got, want + 12 * times + extra + 0.016 * times * COUNT
                            + 0.1 * more, what)

    def assert_sees(self, target, pid=None, ask=None, missed=0):
        """A whole session, everything counted."""
        ask = ask or target.ask
        tracer = self.attach(pid or target.pid)
        ask("blocks %d %d" % (COUNT, SIZE))
        ask("churn %d %d" % (COUNT, SIZE))
        report = self.detach(tracer)
        self.assert_counted(report, 1, missed=missed)
        self.assert_counted(report, 0, function="churn")
        ask("forget")


class Guest(harness.Target):
    """guest.py with something before or after the interpreter's name."""

    def __init__(self, interpreter, prefix, options, **kwargs):
        class Modified:
            workdir, inside = interpreter.workdir, interpreter.inside

            @staticmethod
            def command(*args):
                return list(prefix) + interpreter.command(*options, *args)
        super().__init__(Modified, "guest.py", **kwargs)
        os.chmod(self.dir, 0o777)


class Modes(CompanyCase):
    """Who serves the blocks is all one."""

    def works_here(self, interpreter, mode):
        return not subprocess.run(interpreter.command("-c", ""), stderr=subprocess.DEVNULL,
                                  env=dict(os.environ, PYTHONMALLOC=mode)).returncode

    def test_pythonmalloc(self):
        tried = set()
        for interpreter in harness.many_interpreters():
            for mode in DEBUG_MODES if harness.FULL else DEBUG_MODES[:4]:
                if not self.works_here(interpreter, mode):
                    continue
                tried.add(mode)
                with self.subTest(python=str(interpreter), mode=mode):
                    target = self.guest(interpreter, PYTHONMALLOC=mode)
                    self.assert_sees(target)
                    target.close()
        self.assertGreaterEqual(tried, {"debug", "malloc", "malloc_debug", "pymalloc"})

    @harness.each_of_a_few_or_one
    def test_development_mode(self, interpreter):
        self.assert_sees(self.guest(interpreter, options=("-Xdev",)))


class Tracemalloc(CompanyCase):
    @harness.each_of_a_few_or_one
    def test_from_the_start(self, interpreter):
        self.assert_sees(self.guest(interpreter, options=("-Xtracemalloc",)))

    @harness.each_of_a_few_or_one
    def test_started_and_stopped_after_us(self, interpreter):
        target = self.guest(interpreter)
        tracer = self.attach(target.pid)
        for command in ("blocks", "trace start", "blocks", "trace stop", "blocks"):
            target.ask("%s %d %d" % (command, COUNT, SIZE) if command == "blocks" else command)
        # It gives each block a record of its own, which it takes from us.
        self.assert_counted(self.detach(tracer), 3, 3, more=COUNT)
        self.assert_sees(target)

    @harness.each_of_a_few_or_one
    def test_stopped_when_we_are_gone(self, interpreter):
        """It keeps our pointers, and puts them back."""
        target = self.guest(interpreter)
        tracer = self.attach(target.pid)
        target.ask("trace start")
        self.detach(tracer)
        target.ask("trace stop")
        target.ask("blocks %d %d" % (COUNT, SIZE))
        self.assert_sees(target, missed=UNTIL_IT_LOOKS)
        self.assertEqual(harness.page_mappings(target.pid), 1)

    @harness.each_of_a_few_or_one
    def test_stopped_under_us(self, interpreter):
        """It puts back what was before us: that is said, and a new attach sees."""
        target = self.guest(interpreter)
        target.ask("trace start")
        tracer = self.attach(target.pid)
        target.ask("blocks %d %d" % (COUNT, SIZE))
        target.ask("trace stop")
        harness.wait_until("the tracer to see it", lambda: "took the tables over" in tracer.stderr()
                           or tracer.child.poll() is not None)
        report = self.detach(tracer, losses=("table_gap",))
        self.assertGreater(report["losses"]["table_gap"], 0)
        self.assert_counted(report, 1)
        self.assert_sees(target)


    def test_comes_and_goes(self):
        """Also between our look at the tables and our exchange: then we look again."""
        target = self.guest(harness.one_interpreter())
        target.ask("flip")
        for _ in range(4):
            tracer = self.attach(target.pid)
            self.detach(tracer, losses=("table_gap",))
            self.assertNotIn("nothing is seen", tracer.stderr())
        self.assertGreater(target.ask("still"), 10)
        target.ask("forget")
        self.assert_sees(target)


class OtherHooks(CompanyCase):
    @harness.each_of_a_few_or_one
    def test_allocator_set_after_us(self, interpreter):
        target = self.guest(interpreter)
        library = interpreter.inside(shutil.copy(os.path.join(library_dir, "ledger.so"),
                                                 target.dir))
        tracer = self.attach(target.pid)
        target.ask("blocks %d %d" % (COUNT, SIZE))
        self.assertEqual(target.ask("hook " + library), 0)
        target.ask("blocks %d %d" % (COUNT, SIZE))
        self.assert_counted(self.detach(tracer), 2, 2)
        # Its calls still lead through the page, which is off, then on again.
        target.ask("blocks %d %d" % (COUNT, SIZE))
        self.assert_sees(target, missed=UNTIL_IT_LOOKS)
        self.assertEqual(harness.page_mappings(target.pid), 1)


class Memray(CompanyCase):
    """In a virtual environment below build/, made if need be with PHT_FULL=1."""

    # It swaps one pointer after the other: who looks meanwhile, sees tables of two owners.
    RACES = ("table_gap",)

    @classmethod
    def setUpClass(cls):
        cls.python = cls.find()
        if not cls.python:
            print("SKIPPED: no memray here, and none to be had", flush=True)
            raise unittest.SkipTest("no memray")

    @classmethod
    def find(cls):
        place = os.path.join(harness.TOP, "build", "memray-venv")
        python = os.environ.get("PHT_MEMRAY_PYTHON", os.path.join(place, "bin", "python3"))

        def works():
            return os.path.exists(python) and not subprocess.run(
                [python, "-c", "import memray"], stderr=subprocess.DEVNULL).returncode
        if harness.FULL and not works() and "PHT_MEMRAY_PYTHON" not in os.environ:
            base = harness.one_interpreter().path
            subprocess.run([base, "-m", "venv", place], stdout=subprocess.DEVNULL)
            subprocess.run([python, "-m", "pip", "-q", "install", "memray"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return python if works() else None

    def memray_counts(self, path):
        """What memray saw below blocks(), of blocks as large as ours."""
        code = ("import sys, memray\n"
                "r = memray.FileReader(sys.argv[1])\n"
                "n = 0\n"
                "for a in r.get_allocation_records():\n"
                "    if a.size == %d and any(f[0] == 'blocks' for f in a.stack_trace(3)):\n"
                "        n += a.n_allocations\n"
                "print(n)\n" % (SIZE + HEADER))
        out = subprocess.run([self.python, "-c", code, path], stdout=subprocess.PIPE, check=True)
        return int(out.stdout)

    def start(self):
        target = self.guest(harness.Interpreter(self.python))
        # What it loads when first used is not to fill the tables of stacks.
        target.ask("memray start " + os.path.join(target.dir, "warm.bin"))
        target.ask("blocks 10 10")
        target.ask("memray stop")
        return target, os.path.join(target.dir, "memray.bin")

    def test_memray_first(self):
        target, path = self.start()
        target.ask("memray start " + path)
        tracer = self.attach(target.pid)
        target.ask("blocks %d %d" % (COUNT, SIZE))
        report = self.detach(tracer, self.RACES)
        target.ask("memray stop")
        self.assert_counted(report, 1)
        self.assertGreaterEqual(self.memray_counts(path), COUNT)
        self.assert_sees(target)

    def test_memray_in_between(self):
        """It comes and goes while we are there: both see all that is made meanwhile."""
        target, path = self.start()
        tracer = self.attach(target.pid)
        target.ask("memray start " + path)
        target.ask("blocks %d %d" % (COUNT, SIZE))
        target.ask("memray stop")
        target.ask("blocks %d %d" % (COUNT, SIZE))
        report = self.detach(tracer, self.RACES)
        # It maps the file it writes when the first block comes: that is seen below blocks() too.
        self.assert_counted(report, 2, 2, mapped=1 << 28)
        self.assertGreaterEqual(self.memray_counts(path), COUNT)
        self.assert_sees(target)

    def test_memray_outlives_us(self):
        target, path = self.start()
        tracer = self.attach(target.pid)
        target.ask("memray start " + path)
        self.detach(tracer, self.RACES)
        target.ask("blocks %d %d" % (COUNT, SIZE))
        target.ask("memray stop")
        self.assertGreaterEqual(self.memray_counts(path), COUNT)
        self.assert_sees(target)


class Children(CompanyCase):
    def test_they_run_unharmed(self):
        """Every interpreter; sampled often, so that a broken site would be reached."""
        for interpreter in harness.many_interpreters():
            with self.subTest(python=str(interpreter)):
                target = self.guest(interpreter)
                tracer = self.attach(target.pid, 4096)
                target.ask("churn 20000 1000")
                self.assertEqual(target.ask("fork 5"), [0] * 6)
                self.assertEqual(target.ask("pool 3"), sum(n * n for n in range(40)))
                report = self.detach(tracer)
                self.assertGreater(report["totals"]["samples"], 4000)
                target.close()

    @harness.each_of_a_few_or_one
    def test_parent_is_counted_right(self, interpreter):
        """What children free is theirs, and no event of theirs is taken for the parent's."""
        target = self.guest(interpreter)
        tracer = self.attach(target.pid)
        target.ask("blocks %d %d" % (COUNT, SIZE))
        self.assertEqual(target.ask("fork 2"), [0] * 3)
        self.assertEqual(target.ask("pool 2"), sum(n * n for n in range(40)))
        target.ask("blocks %d %d" % (COUNT, SIZE))
        self.assert_counted(self.detach(tracer), 2, 2)

    @harness.each_of_a_few_or_one
    def test_a_child_is_traced(self, interpreter):
        """It has the parent's page, switched off by the kernel, and the swapped pointers."""
        target = self.guest(interpreter)
        tracer = self.attach(target.pid)
        child = target.ask("linger")
        pipe, answers = (os.path.join(target.dir, "%s.%d" % (name, child))
                         for name in ("fifo", "answers"))
        harness.wait_until("the child", lambda: os.path.exists(pipe))
        asked = 0

        def lines():
            if not os.path.exists(answers):
                return 0
            with open(answers) as f:
                return f.read().count("\n")

        with open(pipe, "w", buffering=1) as commands:
            def ask(line):
                nonlocal asked
                commands.write(line + "\n")
                asked += 1
                harness.wait_until("the child's answer", lambda: lines() == asked)

            ask("churn %d %d" % (COUNT, SIZE))
            target.ask("blocks %d %d" % (COUNT, SIZE))
            for _ in range(2):
                self.assert_sees(target, child, ask)
        self.assert_counted(self.detach(tracer), 1)


class Others(CompanyCase):
    @harness.each_of_a_few_or_one
    def test_a_second_tracer_is_refused(self, interpreter):
        """With the first one's probes on the page, which it must know all the same."""
        target = self.guest(interpreter)
        first = self.attach(target.pid)
        target.ask("blocks %d %d" % (COUNT, SIZE))
        done = harness.run_tracer("-p", target.pid, "--collector=trampoline", "-d", 1,
                                  *harness.UNLIMITED)
        self.assertEqual(done.code, 1, done)
        self.assertIn("another pyheaptrace", done.err)
        target.ask("blocks %d %d" % (COUNT, SIZE))
        self.assert_counted(self.detach(first), 2, 2)
        self.assertEqual(harness.page_mappings(target.pid), 1)
        self.assert_sees(target)

    @harness.each_of_a_few_or_one
    def test_exec(self, interpreter):
        target = self.guest(interpreter)
        tracer = self.attach(target.pid)
        target.ask("blocks %d %d" % (COUNT, SIZE))
        self.assertEqual(target.ask("exec"), "ready")
        self.assertEqual(tracer.wait(), 0, tracer.stderr())
        report = tracer.report()
        self.assertIn("another program", report["end_reason"])
        self.assert_counted(report, 1)
        self.assertEqual(harness.page_mappings(target.pid), 0)
        self.assert_sees(target)

    def test_sub_interpreters(self):
        for interpreter in harness.many_interpreters():
            with self.subTest(python=str(interpreter)):
                target = self.guest(interpreter)
                tracer = self.attach(target.pid)
                self.assertEqual(target.ask("other %d %d" % (COUNT, SIZE)), COUNT)
                target.ask("blocks %d %d" % (COUNT, SIZE))
                report = self.detach(tracer, losses=("code_gone", "name_unreadable",
                                                     "no_python_state"))
                self.assert_counted(report, 1)
                # All gone with it; by what stack, depends on whether its code was still there.
                rows = [s for s in report["sites"] if COUNT <= s["allocated_blocks"] < 2 * COUNT
                        and s["allocated_bytes"] > COUNT * SIZE
                        and "blocks" not in [f["function"] for f in s["frames"]]]
                self.assertTrue(rows, "the sub-interpreter's blocks are missing")
                self.assertEqual([r["live_blocks"] for r in rows], [0] * len(rows))
                target.close()


class Confined(CompanyCase):
    def child_of(self, target):
        found = harness.wait_until("the child", lambda: subprocess.run(
            ["pgrep", "-P", str(target.pid)], stdout=subprocess.PIPE).stdout.split())
        return int(found[0])

    @harness.each_of_a_few_or_one
    def test_seccomp(self, interpreter):
        """What would be used to get code in kills it, unless the filter is suspended."""
        target = self.guest(interpreter)
        self.assertEqual(target.ask("seccomp 319 2 257 101 323"), 0)
        with open("/proc/%d/status" % target.pid) as f:
            self.assertIn("Seccomp:\t2\n", f.read())
        self.assert_sees(target)

    @harness.each_of_a_few_or_one
    def test_not_dumpable(self, interpreter):
        target = self.guest(interpreter)
        self.assertEqual(target.ask("call prctl 4 0 0 0 0"), 0)
        self.assert_sees(target)

    @harness.each_of_a_few_or_one
    def test_no_new_executable_memory(self, interpreter):
        target = self.guest(interpreter)
        if target.ask("call prctl 65 1 0 0 0"):
            self.skipTest("no PR_SET_MDWE here")
        self.assert_sees(target)

    def test_other_user(self):
        self.assert_sees(self.guest(harness.one_interpreter(), prefix=(
            "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs",
            "--bounding-set=-all")))

    def test_namespaces(self):
        """All that a container is made of."""
        flags = ("--user", "--map-root-user", "--mount", "--pid", "--net", "--ipc", "--uts",
                 "--cgroup", "--fork", "--mount-proc")
        harness.need_unshare(self, *flags)
        target = self.guest(harness.one_interpreter(), prefix=("unshare",) + flags)
        self.assert_sees(target, self.child_of(target))

    def test_container(self):
        """Another root, its own namespaces, an unprivileged user, no capability, a filter."""
        inside = [i for i in harness.interpreters() if i.root]
        if not inside:
            print("SKIPPED: no chroot at PHT_SID_ROOT", flush=True)
            self.skipTest("no chroot")
        target = self.guest(inside[-1], prefix=(
            "unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup", "--fork",
            "setpriv", "--no-new-privs", "--bounding-set=-sys_admin,-sys_ptrace"))
        self.assertEqual(target.ask("seccomp 319 101 323"), 0)
        self.assert_sees(target, self.child_of(target))


if __name__ == "__main__":
    sys.exit(harness.main())
