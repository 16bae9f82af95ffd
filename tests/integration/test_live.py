#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The full-screen view, in a pseudo-terminal with a person's keys."""
import array
import fcntl
import os
import re
import signal
import termios
import unittest

import harness
from terminal import Session

UP, DOWN, PAGE_DOWN, END, HOME = "\x1bOA", "\x1bOB", "\x1b[6~", "\x1bOF", "\x1bOH"
ENTER, ESC, CTRL_C = "\r", "\x1b", "\x03"
ROW = re.compile(r"^ *([\d.]+ [KMGT]?i?B) .*?(\S+\.py):(\d+) +(\S+)")


def setUpModule():
    harness.require_bpf()


def heading(terminal):
    """The number of the line that heads the table, or None."""
    for y, line in enumerate(terminal.lines()):
        if "LIVE" in line and re.search("ALLOCATED|CALLED FROM", line):
            return y
    return None


def rows(terminal):
    """Lines of the table."""
    top = heading(terminal)
    return [] if top is None else [l for l in terminal.lines()[top + 1:-1] if l.strip()]


def setting(terminal):
    """The line that tells how rows are chosen and sorted."""
    return next((l for l in terminal.lines() if re.match("(rows|callers) +\\d", l)), "")


class LiveTestCase(harness.TestCase):
    def leaking(self, *args):
        target = self.target(harness.one_interpreter(), "leaky.py", "--rate", "500", *args)
        target.read_line()
        return target

    def view(self, target, *args, **kwargs):
        pids = ",".join(str(t.pid) for t in (target if isinstance(target, tuple) else (target,)))
        session = Session([harness.BIN, "-p", pids, "-R", "16K", "-i", "0.5",
                           *harness.UNLIMITED, *args], **kwargs)
        self.addCleanup(session.close)
        return session

    def table(self, target, *args, **kwargs):
        session = self.view(target, *args, **kwargs)
        session.wait("the leaking line on top",
                     lambda t: rows(t) and "remember" in rows(t)[0])
        return session

    def is_restored(self, session, target=None):
        """The terminal is as it was, and nothing strange was ever sent to it."""
        t = session.terminal
        self.assertEqual(session.modes(), session.before)
        self.assertFalse(t.alternate)
        self.assertTrue(t.cursor_shown)
        self.assertEqual(t.style, (None, False, False, False))
        self.assertEqual(t.unknown, [])
        if target:
            self.assertTrue(target.alive(), "the target has died")

    def quit(self, session, target=None):
        session.type("q")
        self.assertEqual(session.finish(harness.DEADLINE), 0, session.terminal.text())
        self.is_restored(session, target)
        self.assertIn("final report", session.printed())
        self.assertIn("remember", session.printed())


class Keys(LiveTestCase):
    def test_table(self):
        target = self.leaking()
        session = self.table(target)
        t = session.terminal
        self.assertTrue(t.alternate)
        self.assertFalse(t.cursor_shown)
        self.assertNotEqual(session.modes(), session.before)
        self.assertIn("(pid %d)  Python %s" % (target.pid, harness.one_interpreter().version),
                      t.line(0))
        for words in ("since attach; RSS", "block by block", "one per 16.0 KiB", "sorted by LIVE"):
            self.assertIn(words, t.text())
        match = ROW.match(rows(t)[0])
        self.assertTrue(match, rows(t)[0])
        self.assertTrue(match[2].endswith("/leaky.py"))
        self.assertEqual(t.marked(), heading(t) + 1)
        # It goes on by itself.
        first = t.line(1)
        session.wait("a refresh", lambda t: t.line(1) != first)
        self.quit(session, target)

    def test_moving(self):
        session = self.table(self.leaking())
        top = heading(session.terminal) + 1
        for keys, line in ((DOWN, 1), (DOWN, 2), (UP, 1), ("j", 2), ("k", 1), (HOME, 0)):
            session.type(keys)
            session.wait("line %d selected" % line, lambda t: t.marked() == top + line)
        session.type(END)
        session.wait("the last line selected",
                     lambda t: t.marked() == top + len(rows(t)) - 1 and t.marked() > top)
        self.quit(session)

    def test_scrolling(self):
        session = self.table(self.leaking(), rows=8)
        session.wait("more rows than fit",
                     lambda t: int(re.search(r"\d+", setting(t) or "0")[0]) > 4)
        session.type(PAGE_DOWN + PAGE_DOWN)
        session.wait("other rows", lambda t: rows(t) and "remember" not in rows(t)[0])
        session.type(HOME)
        session.wait("the first row", lambda t: "remember" in rows(t)[0])
        self.quit(session)

    def test_sorting(self):
        session = self.table(self.leaking())
        for column in ("GROWTH", "BLOCKS", "RATE", "LIVE"):
            session.type("s")
            session.wait(column, lambda t: "sorted by " + column in setting(t))
            self.assertIn(column + "\u25bc", session.terminal.line(heading(session.terminal)))
        session.type("S")
        session.wait("RATE", lambda t: "sorted by RATE" in setting(t))
        session.wait("churn on top", lambda t: re.search("render_page|read_row", rows(t)[0]))
        session.type("r")
        session.wait("the order reversed", lambda t: "reversed" in setting(t)
                     and not re.search("render_page|read_row", rows(t)[0]))
        self.quit(session)

    def test_grouping(self):
        session = self.table(self.leaking())
        for group in ("function", "file", "traceback", "line"):
            session.type("g")
            session.wait(group, lambda t: "by %s," % group in setting(t))
            first = rows(session.terminal)[0]
            self.assertEqual(bool(re.search(r"\.py:\d+", first)), group in ("line", "traceback"))
            self.assertEqual("remember" in first, group != "file")
        self.quit(session)

    def test_filter(self):
        session = self.table(self.leaking())
        session.type("/render")
        session.wait("one row", lambda t: len(rows(t)) == 1 and "render_page" in rows(t)[0])
        session.type(ENTER)
        session.wait("the filter kept", lambda t: 'with "render"' in setting(t)
                     and "q quit" in t.lines()[-1])
        session.type("/" + "\x7f" * 6 + "re*er")
        session.wait("the pattern", lambda t: len(rows(t)) == 1 and "remember" in rows(t)[0])
        session.type(ENTER + ESC)
        session.wait("all rows", lambda t: "with" not in setting(t) and len(rows(t)) > 3)
        session.type("/nothing-has-this-name")
        session.wait("why it is empty", lambda t: "such a name" in t.text())
        session.type(ESC)
        self.quit(session)

    def test_callers(self):
        session = self.table(self.leaking())
        session.type(ENTER)
        session.wait("the callers", lambda t: "CALLED FROM" in t.text())
        t = session.terminal
        self.assertIn("remember", rows(t)[0])
        self.assertIn("Cache.add", rows(t)[1])
        self.assertRegex(t.text(), r"100\.0%|9\d\.\d%")
        for function in ("Service.tick", "Service.run", "main", "<module>"):
            self.assertIn(function, t.text())
        session.type(ENTER)
        session.wait("them folded", lambda t: len(rows(t)) == 2 and "+" in rows(t)[1])
        session.type(ENTER)
        session.wait("them unfolded", lambda t: len(rows(t)) > 4)
        session.type(ESC)
        session.wait("the table again", lambda t: "ALLOCATED AT" in t.text())
        self.quit(session)

    def test_baseline(self):
        session = self.table(self.leaking())
        self.assertNotIn("SINCE", session.terminal.line(heading(session.terminal)))
        session.type("b")
        session.wait("the column", lambda t: "SINCE" in t.line(heading(t)))
        self.assertIn("Baseline marked", session.terminal.lines()[-1])
        session.type("S")
        session.wait("it sorts", lambda t: "sorted by SINCE" in setting(t))
        session.wait("growth since", lambda t: "remember" in rows(t)[0]
                     and len(re.findall(r"\+[\d.]+ [KM]iB", rows(t)[0])) == 2)
        session.type("B")
        session.wait("it is gone", lambda t: "SINCE" not in t.text())
        self.quit(session)

    def test_pause(self):
        session = self.table(self.leaking())
        session.type("p")
        session.wait("the pause", lambda t: "PAUSED" in t.line(0))
        text = session.terminal.text()
        # Nothing to wait for: four refreshes would have come in this time.
        while session.read(2):
            pass
        self.assertEqual(session.terminal.text(), text)
        session.type(DOWN)
        session.wait("keys to work", lambda t: t.marked() == heading(t) + 2)
        session.type(" ")
        session.wait("it to go on", lambda t: "PAUSED" not in t.line(0)
                     and t.line(1) != text.split("\n")[1])
        self.quit(session)

    def test_help(self):
        session = self.table(self.leaking())
        session.type("h")
        session.wait("help", lambda t: "mark a baseline" in t.text())
        session.type("x")
        session.wait("the table", lambda t: "remember" in t.text() and rows(t))
        session.type("?q")
        session.wait("the table", lambda t: rows(t))
        self.quit(session)

    def test_two_processes(self):
        first, second = self.leaking(), self.leaking()
        session = self.table((first, second))
        session.wait("both", lambda t: "process 1 of 2" in t.line(0))
        session.type("\t")
        session.wait("the second", lambda t: "process 2 of 2" in t.line(0)
                     and "(pid %d)" % second.pid in t.line(0))
        session.type("\x1b[Z")
        session.wait("the first", lambda t: "(pid %d)" % first.pid in t.line(0))
        self.quit(session)


class Screen(LiveTestCase):
    def test_resize(self):
        session = self.table(self.leaking())
        for height, width in ((50, 160), (16, 80), (8, 40), (3, 20), (24, 132)):
            session.resize(height, width)
            session.wait("%dx%d" % (width, height), lambda t: (
                "too small" in t.text() if height < 7 else rows(t) and "remember" in rows(t)[0]
                and ("q quit" in t.lines()[-1])))
        self.quit(session)

    def test_colour_is_a_choice(self):
        target = self.leaking()
        colour = re.compile(rb"\x1b\[(\d+;)*3[0-7](;\d+)*m")
        session = self.table(target)
        self.quit(session, target)
        self.assertRegex(session.raw, colour)
        session = self.table(target, env={"NO_COLOR": "1"})
        self.assertIsNotNone(session.terminal.marked())
        session.type("q")
        session.finish()
        self.assertNotRegex(session.raw, colour)

    def test_ascii(self):
        session = self.table(self.leaking(), env={"LANG": "C", "LC_ALL": "C"})
        session.type("b" + ENTER)
        session.wait("callers", lambda t: "CALLED FROM" in t.text())
        self.quit(session)
        self.assertTrue(session.raw.isascii())

    def test_hostile_names(self):
        target = self.target(harness.one_interpreter(), "escapes.py")
        target.read_line()
        session = self.view(target)
        kept = 0

        def allocated(t):
            nonlocal kept
            if heading(t) and kept < 50:
                target.ask("")
                kept += 1
            return kept >= 20 and rows(t) and "\\x1b" in rows(t)[0]

        session.wait("the row", allocated)
        self.assertIn("\\x1b[31mevil\\x0a", session.terminal.line(0))
        session.type(ENTER)
        session.wait("callers", lambda t: "CALLED FROM" in t.text())
        session.type("q")
        self.assertEqual(session.finish(), 0)
        self.is_restored(session, target)
        self.assertEqual((session.terminal.titles, session.terminal.bells), ([], 0))
        self.assertNotIn(b"\x1b[41m", session.raw)

    def test_draws_little(self):
        """A refresh sends what has changed, not the screen."""
        session = self.table(self.leaking())
        sent = len(session.raw)
        line = session.terminal.line(0)
        session.wait("a refresh", lambda t: t.line(0) != line)
        self.assertLess(len(session.raw) - sent, 3000)
        self.quit(session)


class Endings(LiveTestCase):
    def test_duration(self):
        target = self.leaking()
        session = self.table(target, "-d", "4")
        self.assertEqual(session.finish(), 0)
        self.is_restored(session, target)
        self.assertIn("final report", session.printed())

    def test_signals(self):
        target = self.leaking()
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=signum):
                session = self.table(target)
                os.kill(session.pid, signum)
                self.assertEqual(session.finish(), 0)
                self.is_restored(session, target)
                self.assertIn("final report", session.printed())

    def test_ctrl_c(self):
        target = self.leaking()
        session = self.table(target)
        session.type(CTRL_C)
        self.assertEqual(session.finish(), 0)
        self.is_restored(session, target)
        self.assertIn("final report", session.printed())

    def test_crash(self):
        target = self.leaking()
        for signum in (signal.SIGSEGV, signal.SIGABRT, signal.SIGQUIT):
            with self.subTest(signal=signum):
                session = self.table(target)
                os.kill(session.pid, signum)
                self.assertEqual(os.WTERMSIG(session.finish()), signum)
                self.is_restored(session, target)

    def test_suspend(self):
        """Ctrl-Z gives the shell its terminal back, fg the view its screen."""
        target = self.leaking()
        session = Session(["bash", "--norc", "--noprofile", "-i"], env={"PS1": "prompt> "})
        self.addCleanup(session.close)
        session.wait("the prompt", lambda t: "prompt>" in t.text())
        session.type("%s -p %d -i 0.5 -R 16K\r" % (harness.BIN, target.pid))
        session.wait("the table", lambda t: rows(t) and "remember" in rows(t)[0])
        session.type("\x1a")
        session.wait("the shell", lambda t: not t.alternate and "Stopped" in t.text()
                     and t.cursor_shown)
        session.type("echo t'ype'd\r")
        session.wait("what is typed", lambda t: "typed" in t.text())
        session.type("fg\r")
        session.wait("the table again", lambda t: t.alternate and rows(t)
                     and "remember" in rows(t)[0] and not t.cursor_shown)
        line = session.terminal.line(0)
        session.wait("a refresh", lambda t: t.line(0) != line)
        session.type("q")
        session.wait("the shell", lambda t: not t.alternate and "prompt>" in t.lines()[t.y])
        session.type("exit\r")
        self.assertEqual(session.finish(), 0)

    def test_typed_ahead(self):
        """A key before there is anything to see."""
        target = self.leaking()
        session = self.view(target, "-i", "3")
        session.type("\rq")
        self.assertEqual(session.finish(), 0)
        self.is_restored(session, target)

    def test_target_exits(self):
        target = self.leaking()
        session = self.table(target)
        target.child.kill()
        session.wait("the end", lambda t: "the process was ended by SIGKILL" in t.text())
        self.assertTrue(rows(session.terminal))
        session.type("s" + ENTER)
        session.wait("keys to work", lambda t: "CALLED FROM" in t.text())
        self.quit(session)
        self.assertIn("ended by SIGKILL", session.printed())

    def test_stuck_terminal(self):
        """Nobody reads what is drawn, more than the terminal keeps: the loop goes on."""
        target = self.target(harness.one_interpreter(), "many.py")
        target.read_line()
        session = self.view(target, "-R", "1", rows=150, columns=200)
        session.wait("the screen", lambda t: heading(t))
        target.tell("")
        session.wait("many rows", lambda t: sum("places.py" in row for row in rows(t)) > 120)
        session.type("\x0c")
        # More of it than fits is under way: without an end to its patience it stays there.
        harness.wait_until("the drawing to begin", lambda: self.unread(session) > 3500)
        harness.wait_until("it to be back in its loop",
                           lambda: self.system_call(session) == "232")
        session.wait("the screen again", lambda t: session.type("\x0c") or (
            sum("places.py" in row for row in rows(t)) > 120 and "q quit" in t.lines()[-1]))
        session.type("q")
        self.assertEqual(session.finish(), 0)
        self.assertEqual(session.modes(), session.before)

    @staticmethod
    def unread(session):
        """Bytes that wait for the reader, as far as the kernel counts them (4095)."""
        count = array.array("i", [0])
        fcntl.ioctl(session.master, termios.FIONREAD, count)
        return count[0]

    @staticmethod
    def system_call(session):
        """The number of the one it is in: 1 is write, 232 epoll_wait."""
        with open("/proc/%d/syscall" % session.pid) as f:
            return f.read().split()[0]

    def test_terminal_goes_away(self):
        session = self.table(self.leaking())
        os.close(session.master)
        session.master = os.open(os.devnull, os.O_RDWR)
        harness.wait_until("its end", lambda: session.poll() is not None)
        self.assertTrue(os.WIFEXITED(session.status), session.status)


class Degrades(LiveTestCase):
    """Where there is no such terminal, plain refreshes as ever."""

    def plain(self, *args, **kwargs):
        target = self.leaking()
        session = self.view(target, "-d", "2", *args, **kwargs)
        self.assertEqual(session.finish(), 0)
        self.assertNotIn(b"\x1b[?1049h", session.raw)
        self.assertEqual(session.modes(), session.before)
        return session

    def test_dumb(self):
        for term in ("dumb", "no-such-terminal", ""):
            with self.subTest(term=term):
                self.assertIn(b"final report", self.plain(term=term).raw)

    def test_asked_for(self):
        self.assertIn(b"final report", self.plain("--plain").raw)
        self.assertIn(b'"sites"', self.plain("-f", "json").raw)

    def test_input_is_no_terminal(self):
        target = self.leaking()
        session = Session(["sh", "-c", 'exec "$0" -p "$1" -d 2 -i 0.5 </dev/null', harness.BIN,
                           str(target.pid)])
        self.addCleanup(session.close)
        self.assertEqual(session.finish(), 0)
        self.assertNotIn(b"\x1b[?1049h", session.raw)
        self.assertGreater(session.raw.count(b"live heap"), 1)

    def test_output_is_no_terminal(self):
        target = self.leaking()
        session = Session(["sh", "-c", '"$0" -p "$1" -d 1 | cat', harness.BIN, str(target.pid)])
        self.addCleanup(session.close)
        self.assertEqual(session.finish(), 0)
        self.assertNotIn(b"\x1b", session.raw)
        self.assertIn(b"final report", session.raw)


class Progress(LiveTestCase):
    """One line on stderr, gone at the end."""

    def test_countdown(self):
        target = self.leaking()
        session = Session([harness.BIN, "leaks", "-p", str(target.pid), "--for", "4",
                           *harness.UNLIMITED])
        self.addCleanup(session.close)
        session.wait("the countdown", lambda t: re.search(r"watching, \d\.\d s to go", t.text()))
        self.assertEqual(session.finish(), 0)
        self.assertNotIn("watching,", session.terminal.text())
        self.assertEqual(session.terminal.unknown, [])

    def test_countdown_beside_a_file(self):
        target = self.leaking()
        session = Session(["sh", "-c", '"$0" -p "$1" -d 3 >/dev/null', harness.BIN,
                           str(target.pid)])
        self.addCleanup(session.close)
        session.wait("the countdown", lambda t: "watching," in t.line(0))
        self.assertEqual(session.finish(), 0)
        self.assertEqual(session.terminal.text().strip(), "")

    def test_dumb_terminal(self):
        target = self.leaking()
        session = Session(["sh", "-c", '"$0" -p "$1" -d 2 >/dev/null', harness.BIN,
                           str(target.pid)], term="dumb")
        self.addCleanup(session.close)
        self.assertEqual(session.finish(), 0)
        self.assertEqual(session.raw, b"")


if __name__ == "__main__":
    harness.main()
