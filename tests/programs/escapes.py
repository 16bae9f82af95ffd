#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Keeps memory under names that would take over a terminal that printed them.

Prints {"function": .., "file": ..}, then allocates when stdin says so, one
block for every line read.
"""
import ctypes
import json
import os
import sys

FUNCTION = "\x1b]0;owned-title\x07\x1b[2J\x9b31m\r\nrow\x7f\u202enomel"
FILE = "/srv/\x1b[41mred\x1b[0m\x08\x08\n\x85app.py"

SOURCE = """
def hold(kept, unit):
    kept.append(unit * 100000)
"""


def evil():
    scope = {}
    exec(compile(SOURCE, FILE, "exec"), scope)
    hold = scope["hold"]
    names = {"co_name": FUNCTION}
    if hasattr(hold.__code__, "co_qualname"):
        names["co_qualname"] = FUNCTION
    hold.__code__ = hold.__code__.replace(**names)
    return hold


def main():
    hold = evil()
    kept = []
    # 15 bytes are all that the kernel keeps of a name.
    ctypes.CDLL(None).prctl(15, b"\x1b[31mevil\n", 0, 0, 0)
    print(json.dumps({"pid": os.getpid(), "function": FUNCTION, "file": FILE}), flush=True)
    while sys.stdin.readline():
        hold(kept, b"x")
        print(json.dumps({"kept": len(kept)}), flush=True)


if __name__ == "__main__":
    main()
