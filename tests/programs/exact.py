#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs exact.c's script, each operation from a line of its own.

    exact.py LIBRARY CALLS

Speaks JSON lines: says {"ready": ...}, waits for a line on stdin, runs the
script, says {"truth": [...]}: per Python line what is live and what was
allocated since; then stays as it is until stdin ends.

A ctypes call without arguments and result allocates nothing once its line has
run: so the script runs once unarmed (the library does nothing), then for real.
"""
import ctypes
import json
import os
import sys
import threading

FIELDS = ("live_blocks", "live_bytes", "allocated_blocks", "allocated_bytes")


def script(lib, start_workers, join_workers):
    lib.op_malloc()
    lib.op_calloc()
    lib.op_realloc_source()
    lib.op_realloc()
    lib.op_reallocarray()
    lib.op_free_source()
    lib.op_free()
    lib.op_posix_memalign()
    lib.op_aligned_alloc()
    lib.op_memalign()
    lib.op_valloc()
    lib.op_pvalloc()
    lib.op_mmap()
    lib.op_munmap()
    lib.op_mremap()
    lib.op_realloc_null()
    lib.op_realloc_zero()
    lib.op_realloc_in_place()
    lib.op_realloc_fails()
    lib.op_free_null()
    lib.op_calloc_overflow()
    lib.op_fails()
    lib.op_mapped_by_malloc()
    lib.op_realloc_mapped()
    lib.op_inside_libc()
    lib.op_many_blocks()
    start_workers()
    join_workers()
    lib.op_free_threads()


def worker_a(lib, go):
    go.wait()
    lib.op_thread_a()


def worker_b(lib, go):
    go.wait()
    lib.op_thread_b()


class Workers:
    """Two threads that allocate at the same time, outside the GIL."""

    def __init__(self, lib):
        self.lib = lib

    def start(self):
        go = threading.Event()
        self.threads = [threading.Thread(target=f, args=(self.lib, go)) for f in (worker_a, worker_b)]
        for t in self.threads:
            t.start()
        go.set()

    def join(self):
        for t in self.threads:
            t.join()


def op_lines():
    """Operation -> (function, line), read off this very source."""
    found = {}
    function = None
    with open(__file__) as f:
        for number, text in enumerate(f, 1):
            if text.startswith("def "):
                function = text[4 : text.index("(")]
            text = text.strip()
            if text.startswith("lib.op_") and text.endswith("()"):
                found[text[len("lib.op_") : -2]] = (function, number)
    return found


def open_library(path, names):
    lib = ctypes.CDLL(path)
    for name in names:
        getattr(lib, "op_" + name).restype = None
    lib.exact_name.restype = ctypes.c_char_p
    lib.exact_arm.argtypes = [ctypes.c_ulong]
    return lib


def truth(lib, lines):
    out = []
    op = 0
    while True:
        name = lib.exact_name(op)
        if name is None:
            return out
        row = (ctypes.c_uint64 * 4)()
        lib.exact_account(op, row)
        function, line = lines[name.decode()]
        entry = {"op": name.decode(), "file": __file__, "function": function, "line": line}
        entry.update(zip(FIELDS, row))
        out.append(entry)
        op += 1


def main():
    path, calls = sys.argv[1], int(sys.argv[2])
    lines = op_lines()
    lib = open_library(path, lines)
    workers = Workers(lib)
    script(lib, workers.start, workers.join)
    print(json.dumps({"ready": os.getpid(), "python": sys.version.split()[0]}), flush=True)
    sys.stdin.readline()
    lib.exact_arm(calls)
    script(lib, workers.start, workers.join)
    print(json.dumps({"surprises": lib.exact_surprises(), "truth": truth(lib, lines)}), flush=True)
    sys.stdin.readline()
    # The live set is as it was told: no destructor, no unwinding.
    os._exit(0)


if __name__ == "__main__":
    main()
