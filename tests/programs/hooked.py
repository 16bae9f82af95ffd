#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Allocates in the company of other tools that hook Python's allocators.

    hooked.py [LIBRARY]

Speaks JSON lines: says "ready"; each line of stdin names a function to run.
"""
import ctypes
import json
import os
import sys
import tracemalloc

COUNT, SIZE = 20000, 1000
kept = {}
tracker = None
lib = ctypes.PyDLL(sys.argv[1]) if len(sys.argv) > 1 else None


def fill(size):
    out = [None] * COUNT
    for i in range(COUNT):
        out[i] = bytes(size)
    return out


def make():
    return fill(SIZE), fill(100)


def first():
    kept["first"] = make()


def second():
    kept["second"] = make()


def third():
    kept["third"] = make()


def dropped():
    make()


def drop_first():
    del kept["first"]


def drop_second():
    del kept["second"]


def install():
    lib.hook_install()


def remove():
    lib.hook_remove()
    return lib.hook_calls()


def trace():
    tracemalloc.start()


def untrace():
    tracemalloc.stop()


def memray_start():
    global tracker
    import memray
    tracker = memray.Tracker("memray.bin", trace_python_allocators=True)
    tracker.__enter__()


def memray_stop():
    """How many allocations memray itself saw."""
    import memray
    tracker.__exit__(None, None, None)
    seen = memray.FileReader("memray.bin").metadata.total_allocations
    os.unlink("memray.bin")
    return seen


if __name__ == "__main__":
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        print(json.dumps(globals()[line.strip()]()), flush=True)
