#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Programs at uprobes run on the stack of their thread (bpf/ownstack.bpf.h): their machine
code, as the kernel made it, has none of the instructions that reach for a stack per CPU.
"""
import os
import unittest

import harness
import kernelstate

# add %gs:OFFSET, %r9: with this a function finds its stack on this CPU.
PER_CPU_STACK = bytes.fromhex("654c030c25")
AT_UPROBES = ("session_", "cookie_", "enter_", "return_", "tramp_")


def setUpModule():
    harness.require_bpf()
    if os.uname().machine != "x86_64":
        raise unittest.SkipTest("the machine code of x86-64 is looked at")


class OwnStack(harness.TestCase):
    def programs(self, style):
        """{name: how many of its functions have a stack per CPU} of what a tracer has loaded."""
        target = self.target(harness.one_interpreter(), "leaky.py", "--hold")
        target.read_line()
        tracer = self.tracer("-p", target.pid, "--collector=probe", *harness.UNLIMITED,
                             env={**os.environ, "PHT_ATTACH": style})
        tracer.wait_attached(target.pid)
        found = {}
        for kind, number in kernelstate.held_by(tracer.pid):
            if kind == "prog":
                name, code = kernelstate.machine_code(number)
                self.assertTrue(code, "no machine code of " + name)
                found[name] = code.count(PER_CPU_STACK)
        self.assertEqual(tracer.interrupt(), 0, tracer.stderr())
        target.close()
        tracer.close()
        return found

    def check(self, style, at_least):
        found = self.programs(style)
        ours = {name: n for name, n in found.items() if name.startswith(AT_UPROBES)}
        self.assertGreaterEqual(len(ours), at_least, found)
        self.assertEqual({name: n for name, n in ours.items() if n}, {}, "have a stack per CPU")
        print("  %d programs; of those elsewhere, which the kernel does not enter twice, have one: %s"
              % (len(ours), ", ".join(sorted(name for name, n in found.items() if n)) or "none"),
              flush=True)

    def test_best_style(self):
        """As it is used: the trampoline's two, and those for all functions."""
        self.check("", 3)

    def test_oldest_style(self):
        """One or two for each function."""
        self.check("perf", 30)


if __name__ == "__main__":
    harness.main()
