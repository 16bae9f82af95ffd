#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs a command in a pseudo-terminal and draws what it left there as an SVG.

The pictures in docs/images are made with it, so they are real output:

    term2svg.py --columns 110 -o picture.svg -- pyheaptrace -p 4242 -d 10
    term2svg.py --keys '10 b 20 s' -o picture.svg -- pyheaptrace -p 4242

Knows as much of a terminal as our reports use: SGR colours, cursor home and
position, erase to the end of the line or screen.  Other sequences are ignored,
what is on the alternate screen is gone when that is left.  With --keys it is
the full screen that is drawn: after so many seconds, key after key.
"""
import argparse
import fcntl
import os
import pty
import re
import struct
import sys
import termios
import time
import unicodedata
from xml.sax.saxutils import escape

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
import terminal  # noqa: E402 (after the path)

KEYS = {"Enter": "\r", "Esc": "\x1b", "Down": "\x1bOB", "Up": "\x1bOA", "Tab": "\t"}

CELL_W, CELL_H, FONT, PAD, BAR = 8.2, 18, 13.6, 16, 34
FONTS = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
BACKGROUND, FRAME, FOREGROUND, MUTED = "#11151c", "#2b3340", "#d5dbe5", "#8290a4"
COLORS = {
    30: "#4b5566", 31: "#ff7b72", 32: "#7ee787", 33: "#e3b341",
    34: "#79c0ff", 35: "#d2a8ff", 36: "#76e3ea", 37: "#f0f6fc",
}
TOKEN = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b\][^\x07]*\x07|\x1b[()][A-Z0-9]|\x1b.|([\x00-\x1f])"
                   r"|([^\x00-\x1f\x1b]+)")


def char_width(char):
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


class Screen:
    """Lines of cells (character, style); what scrolled off is kept."""

    def __init__(self, columns):
        self.columns = columns
        self.rows = []
        self.top = self.row = self.column = 0
        self.style = (None, False, False)  # colour, bold, dim

    def line(self):
        while len(self.rows) <= self.row:
            self.rows.append([])
        return self.rows[self.row]

    def put(self, char):
        width = char_width(char)
        if self.column + width > self.columns:
            self.row, self.column = self.row + 1, 0
        cells = self.line()
        cells.extend([(" ", (None, False, False))] * (self.column + 1 - len(cells)))
        cells[self.column] = (char, self.style)
        self.column += width

    def control(self, char):
        if char == "\n":
            self.row += 1
            self.line()
        elif char == "\r":
            self.column = 0
        elif char == "\t":
            self.column = min(self.columns - 1, (self.column // 8 + 1) * 8)

    def alternate(self, on):
        if on:
            self.main = self.rows, self.top, self.row, self.column
            self.rows, self.top, self.row, self.column = [], 0, 0, 0
        else:
            self.rows, self.top, self.row, self.column = self.main

    def sgr(self, params):
        color, bold, dim = self.style
        for p in params or [0]:
            if p == 0:
                color, bold, dim = None, False, False
            elif p in (1, 2):
                bold, dim = (True, dim) if p == 1 else (bold, True)
            elif p == 39:
                color = None
            elif p in COLORS or p - 60 in COLORS:
                color = p if p in COLORS else p - 60
        self.style = (color, bold, dim)

    def csi(self, params, final):
        if params in ("?1049", "?1047", "?47") and final in "hl":
            self.alternate(final == "h")
        if params.startswith("?"):
            return
        numbers = [int(p) for p in params.split(";") if p]
        if final == "m":
            self.sgr(numbers)
        elif final == "H":
            self.row = self.top + (numbers[0] - 1 if numbers else 0)
            self.column = numbers[1] - 1 if len(numbers) > 1 else 0
        elif final == "K":
            del self.line()[self.column:]
        elif final == "J":
            if numbers and numbers[0] >= 2:
                del self.rows[self.top:]
            else:
                del self.line()[self.column:]
                del self.rows[self.row + 1:]

    def feed(self, text):
        for token in TOKEN.finditer(text):
            params, final, control, plain = token.groups()
            if final:
                self.csi(params, final)
            elif control:
                self.control(control)
            for char in plain or "":
                self.put(char)


def run_in_pty(argv, columns, rows):
    pid, master = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLUMNS=str(columns), LANG="C.UTF-8")
        os.environ.pop("NO_COLOR", None)
        os.execvp(argv[0], argv)
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    chunks = []
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:  # the other side is closed
            break
        if not chunk:
            break
        chunks.append(chunk)
    _, status = os.waitpid(pid, 0)
    return b"".join(chunks).decode("utf-8", "replace"), os.waitstatus_to_exitcode(status)


def full_screen(argv, columns, rows, keys):
    """The cells of a full screen: keys is seconds and keys by turns."""
    session = terminal.Session(argv, rows, columns)
    session.wait("the screen", lambda t: t.alternate)
    for word in keys.split():
        if word.isdigit():
            end = time.monotonic() + int(word)
            while time.monotonic() < end:
                session.read(0.1)
        else:
            session.type(KEYS.get(word, word))
    while session.read(0.3):
        pass
    lines = [[(char, style) for char, style in line if char] for line in session.terminal.grid]
    session.type("q")
    status = session.finish()
    session.close()
    return lines, os.waitstatus_to_exitcode(status)


def runs(cells):
    """Neighbours of one style, as (column, text, style)."""
    start = 0
    while start < len(cells):
        end = start
        while end < len(cells) and cells[end][1] == cells[start][1]:
            end += 1
        text = "".join(char for char, _ in cells[start:end])
        # Not every renderer keeps spaces: words that stand apart are drawn apart.
        for word in re.finditer(r"\S+(?: \S+)*", text):
            yield start + word.start(), word.group(), cells[start][1]
        start = end


def text_element(x, y, text, style):
    color, bold, dim = style[:3]
    fill = COLORS.get(color, MUTED if dim else FOREGROUND)
    extra = ' font-weight="700"' if bold else ""
    extra += ' opacity="0.75"' if dim and color else ""
    width = sum(map(char_width, text)) * CELL_W
    # The length is given so that columns line up in whatever font there is.
    return (f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}" textLength="{width:.1f}" '
            f'lengthAdjust="spacingAndGlyphs"{extra}>{escape(text)}</text>')


def draw(lines, columns, title):
    width = columns * CELL_W + 2 * PAD
    height = len(lines) * CELL_H + BAR + 2 * PAD - 6
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" font-family="{FONTS}" font-size="{FONT}">',
        f"<title>{escape(title)}</title>",
        f'<rect x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1:.0f}" rx="9" '
        f'fill="{BACKGROUND}" stroke="{FRAME}"/>',
    ]
    for i, fill in enumerate(("#ff5f57", "#febc2e", "#28c840")):
        out.append(f'<circle cx="{20 + 18 * i}" cy="{BAR / 2 + 1:.0f}" r="5.5" fill="{fill}"/>')
    out.append(f'<text x="{width / 2:.0f}" y="{BAR / 2 + 6:.0f}" fill="{MUTED}" '
               f'text-anchor="middle">{escape(title)}</text>')
    out.append('<g style="white-space:pre">')
    for i, cells in enumerate(lines):
        y = BAR + PAD + i * CELL_H + 8
        if cells and cells[0][1][3:] == (True,):
            out.append(f'<rect x="{PAD - 4}" y="{y - 13.5:.1f}" width="{columns * CELL_W + 8:.1f}" '
                       f'height="{CELL_H}" rx="3" fill="{FRAME}"/>')
        out += [text_element(PAD + col * CELL_W, y, text, style)
                for col, text, style in runs(cells)]
    return "\n".join(out + ["</g>", "</svg>", ""])


def parse_args():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--columns", type=int, default=110)
    p.add_argument("--rows", type=int, default=50, help="height that the command is told")
    p.add_argument("--title", default="", help="for the bar on top")
    p.add_argument("--prompt", default="", help="a command line to show before the output")
    p.add_argument("--last", type=int, default=0, help="only so many lines from the end")
    p.add_argument("--first", type=int, default=0, help="only so many lines from the start")
    p.add_argument("--raw", metavar="FILE", help="keep the terminal's bytes there, too")
    p.add_argument("--keys", metavar="SECONDS KEY ...", help="draw the full screen, after these")
    p.add_argument("-o", "--output", required=True)
    p.add_argument("command", nargs="+")
    return p.parse_args()


def main():
    args = parse_args()
    if args.keys:
        lines, status = full_screen(args.command, args.columns, args.rows, args.keys)
    else:
        text, status = run_in_pty(args.command, args.columns, args.rows)
        if args.raw:
            with open(args.raw, "w", encoding="utf-8") as f:
                f.write(text)
        screen = Screen(args.columns)
        screen.feed(text)
        lines = screen.rows
    while lines and not lines[-1]:
        lines.pop()
    if args.first:
        lines = lines[:args.first]
    lines = lines[-args.last:]
    if args.prompt:
        prompt = [(c, (32, True, False)) for c in "$ "]
        lines = [prompt + [(c, (None, True, False)) for c in args.prompt]] + lines
    with open(args.output, "w", encoding="utf-8") as f:
        f.write(draw(lines, args.columns, args.title))
    return status


if __name__ == "__main__":
    sys.exit(main())
