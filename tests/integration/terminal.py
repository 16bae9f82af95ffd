# SPDX-License-Identifier: BSD-2-Clause
"""A program in a pseudo-terminal, and what a terminal of that size would show.

Knows what curses sends to an xterm: cursor movement, erasing, inserting and
deleting, scrolling, colours, the alternate screen.  Sequences it does not know
are kept in Terminal.unknown, so that a test can see that there were none.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
import unicodedata

TOKEN = re.compile(rb"\x1b\[([?>!]?)([0-9;]*)([@A-Za-z`])|\x1b\]([^\x07\x1b]*)(?:\x07|\x1b\\)"
                   rb"|\x1b[()]([A-Z0-9])|\x1b([=>78MDEc])|([\x00-\x1f\x7f])"
                   rb"|([^\x00-\x1f\x7f\x1b]+)")
UNFINISHED = re.compile(rb"\x1b(\[[?>!]?[0-9;]*|\][^\x07\x1b]*|[()])?\Z")
PLAIN = (None, False, False, False)  # colour, bold, dim, reverse


def char_width(char):
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


class Terminal:
    """What has been sent, as cells of (character, style)."""

    def __init__(self, rows, columns):
        self.unknown = []
        self.titles = []
        self.bells = 0
        self.alternate = False
        self.cursor_shown = True
        self.style = PLAIN
        self.rest = b""
        self.last = " "
        self.resize(rows, columns, True)

    def resize(self, rows, columns, clear=False):
        self.rows, self.columns = rows, columns
        self.grid = self.fitted([] if clear else self.grid)
        self.region = (0, rows - 1)
        self.y, self.x = (0, 0) if clear else (min(self.y, rows - 1), min(self.x, columns - 1))
        self.saved = (self.y, self.x)

    def fitted(self, old):
        """Lines of another size as lines of this one."""
        grid = [self.blank() for _ in range(self.rows)]
        for line, cells in zip(grid, old):
            line[:min(len(cells), self.columns)] = cells[:self.columns]
        return grid

    def blank(self):
        return [(" ", PLAIN)] * self.columns

    # ---- reading it

    def line(self, y):
        return "".join(char for char, _ in self.grid[y]).rstrip()

    def lines(self):
        return [self.line(y) for y in range(self.rows)]

    def text(self):
        return "\n".join(self.lines())

    def marked(self):
        """The number of the first line in reverse, or None."""
        for y, cells in enumerate(self.grid):
            if cells[0][1][3]:
                return y
        return None

    # ---- being sent something

    def feed(self, data):
        data = self.rest + data
        unfinished = UNFINISHED.search(data)
        cut = unfinished.start() if unfinished else len(data)
        # Nor half a character.
        while cut and cut == len(data) and self.broken(data[:cut]):
            cut -= 1
        self.rest, data = data[cut:], data[:cut]
        for token in TOKEN.finditer(data):
            private, params, final, title, charset, single, control, plain = token.groups()
            if final:
                self.csi(private.decode(), params.decode(), final.decode())
            elif title is not None:
                self.titles.append(title)
            elif single:
                self.escape(single.decode())
            elif control:
                self.control(control.decode())
            elif plain:
                for char in plain.decode("utf-8", "replace"):
                    self.put(char)
            elif not charset:
                self.unknown.append(token.group())

    @staticmethod
    def broken(data):
        for back in range(1, 4):
            if len(data) >= back and data[-back] >= 0xc0:
                need = 2 if data[-back] < 0xe0 else 3 if data[-back] < 0xf0 else 4
                return back < need
        return False

    def put(self, char):
        width = char_width(char)
        if not width:
            y, x = self.y, max(self.x - 1, 0)
            self.grid[y][x] = (self.grid[y][x][0] + char, self.grid[y][x][1])
            return
        if self.x + width > self.columns:
            self.x = 0
            self.down()
        self.grid[self.y][self.x] = (char, self.style)
        for i in range(1, width):
            self.grid[self.y][self.x + i] = ("", self.style)
        self.x += width
        self.last = char

    def down(self):
        if self.y == self.region[1]:
            self.scroll(1)
        elif self.y < self.rows - 1:
            self.y += 1

    def scroll(self, lines, top=None):
        first, last = self.region if top is None else (top, self.region[1])
        for _ in range(abs(lines)):
            if lines > 0:
                del self.grid[first]
                self.grid.insert(last, self.blank())
            else:
                del self.grid[last]
                self.grid.insert(first, self.blank())

    def control(self, char):
        if char in "\n\x0b\x0c":
            self.down()
        elif char == "\r":
            self.x = 0
        elif char == "\b":
            self.x = max(0, self.x - 1)
        elif char == "\t":
            self.x = min(self.columns - 1, (self.x // 8 + 1) * 8)
        elif char == "\x07":
            self.bells += 1
        elif char not in "\x0e\x0f\x00":
            self.unknown.append(char)

    def escape(self, char):
        if char == "7":
            self.saved = (self.y, self.x)
        elif char == "8":
            self.y, self.x = self.saved
        elif char == "M":
            if self.y == self.region[0]:
                self.scroll(-1)
            else:
                self.y -= 1
        elif char in "DE":
            self.down()
            self.x = 0 if char == "E" else self.x
        elif char == "c":
            self.resize(self.rows, self.columns, True)

    def mode(self, numbers, on):
        for n in numbers:
            if n in (47, 1047, 1049) and on != self.alternate:
                self.alternate = on
                if on:
                    self.main = (self.grid, self.y, self.x)
                    self.grid = [self.blank() for _ in range(self.rows)]
                else:
                    grid, y, x = self.main
                    self.grid = self.fitted(grid)
                    self.y, self.x = min(y, self.rows - 1), min(x, self.columns - 1)
            elif n == 25:
                self.cursor_shown = on

    def sgr(self, numbers):
        color, bold, dim, reverse = self.style
        numbers = list(numbers) or [0]
        while numbers:
            n = numbers.pop(0)
            if n == 0:
                color, bold, dim, reverse = PLAIN
            elif n == 1:
                bold = True
            elif n == 2:
                dim = True
            elif n == 22:
                bold = dim = False
            elif n in (7, 27):
                reverse = n == 7
            elif n in (38, 48):
                del numbers[:2 if numbers[:1] == [5] else 4]
            elif n == 39:
                color = None
            elif 30 <= n <= 37 or 90 <= n <= 97:
                color = n if n < 40 else n - 60
        self.style = (color, bold, dim, reverse)

    def erase(self, y, start, end):
        self.grid[y][start:end] = [(" ", PLAIN)] * (end - start)

    def csi(self, private, params, final):
        numbers = [int(p or 0) for p in params.split(";")] if params else []
        if private:
            if private == "?" and final in "hl":
                self.mode(numbers, final == "h")
            return
        n = max(1, numbers[0] if numbers else 1)
        if final == "m":
            self.sgr(numbers)
        elif final in "Hf":
            self.y = min(self.rows, n) - 1
            self.x = min(self.columns, max(1, numbers[1] if len(numbers) > 1 else 1)) - 1
        elif final == "d":
            self.y = min(self.rows, n) - 1
        elif final in "G`":
            self.x = min(self.columns, n) - 1
        elif final == "A":
            self.y = max(0, self.y - n)
        elif final == "B":
            self.y = min(self.rows - 1, self.y + n)
        elif final == "C":
            self.x = min(self.columns - 1, self.x + n)
        elif final == "D":
            self.x = max(0, self.x - n)
        elif final == "K":
            kind = numbers[0] if numbers else 0
            self.erase(self.y, 0 if kind else self.x,
                       min(self.x + 1, self.columns) if kind == 1 else self.columns)
        elif final == "J":
            kind = numbers[0] if numbers else 0
            if kind == 0:
                self.erase(self.y, self.x, self.columns)
            for y in range(0 if kind >= 2 else self.y + 1, self.rows):
                self.grid[y] = self.blank()
        elif final == "X":
            self.erase(self.y, self.x, min(self.columns, self.x + n))
        elif final == "P":
            line = self.grid[self.y]
            del line[self.x:self.x + n]
            line += [(" ", PLAIN)] * (self.columns - len(line))
        elif final == "@":
            line = self.grid[self.y]
            line[self.x:self.x] = [(" ", PLAIN)] * n
            del line[self.columns:]
        elif final in "LM":
            self.scroll(n if final == "M" else -n, self.y)
        elif final in "ST":
            self.scroll(n if final == "S" else -n)
        elif final == "b":
            for _ in range(n):
                self.put(self.last)
        elif final == "r":
            top = n - 1
            self.region = (top, (numbers[1] if len(numbers) > 1 and numbers[1] else self.rows) - 1)
            self.y = self.x = 0
        elif final not in "hlnct":
            self.unknown.append("CSI %s%s" % (params, final))


class Session:
    """A command in a terminal of its own, its controlling one."""

    def __init__(self, argv, rows=30, columns=110, env=None, term="xterm-256color"):
        self.terminal = Terminal(rows, columns)
        self.raw = b""
        self.status = None
        self.master, slave = pty.openpty()
        self.winsize(rows, columns)
        self.before = termios.tcgetattr(slave)
        environment = {k: v for k, v in os.environ.items()
                       if k not in ("NO_COLOR", "LINES", "COLUMNS")}
        environment.update(TERM=term, LANG="C.UTF-8", LC_ALL="C.UTF-8")
        environment.update(env or {})
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
                for fd in range(3):
                    os.dup2(slave, fd)
                os.closerange(3, 256)
                os.execvpe(argv[0], [str(a) for a in argv], environment)
            finally:
                os._exit(127)
        # Kept open: the modes that the program leaves behind are read here.
        self.slave = slave

    def winsize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, rows, columns):
        self.terminal.resize(rows, columns)
        self.winsize(rows, columns)

    def read(self, timeout):
        """Take what there is; False: nothing came in that time."""
        if not select.select([self.master], [], [], timeout)[0]:
            return False
        data = os.read(self.master, 65536)
        self.raw += data
        self.terminal.feed(data)
        return True

    def wait(self, what, condition, deadline=60):
        """Until condition(terminal) is true of a screen that is drawn to its end."""
        end = time.monotonic() + deadline
        while True:
            while self.read(0.05):
                pass
            value = condition(self.terminal)
            if value:
                return value
            if time.monotonic() > end or (self.poll() is not None and not self.read(0.2)):
                raise AssertionError("waiting for %s; the screen:\n%s" % (what, self.terminal.text()))

    def type(self, keys):
        os.write(self.master, keys if isinstance(keys, bytes) else keys.encode())

    def poll(self):
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
        return self.status

    def finish(self, deadline=60):
        """Wait for the end; the wait status.  Everything sent has been taken."""
        end = time.monotonic() + deadline
        while self.poll() is None:
            self.read(0.05)
            if time.monotonic() > end:
                raise AssertionError("it does not end; the screen:\n" + self.terminal.text())
        while self.read(0.05):
            pass
        return self.status

    def printed(self):
        """What came behind the full screen."""
        return self.raw.rsplit(b"\x1b[?1049l", 1)[-1].decode("utf-8", "replace")

    def modes(self):
        return termios.tcgetattr(self.slave)

    def close(self):
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            self.status = os.waitpid(self.pid, 0)[1]
        os.close(self.master)
        os.close(self.slave)
