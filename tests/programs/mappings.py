#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Makes mappings of several kinds; one function each, so that a report tells them apart.

Speaks JSON lines: says "ready"; each line of stdin names a function to run.
"""
import json
import mmap
import sys
import tempfile

kept = []
file = tempfile.TemporaryFile()
file.truncate(1 << 20)


def anonymous():
    kept.append(mmap.mmap(-1, 300000))
    return 300000, 300000


def private_file():
    kept.append(mmap.mmap(file.fileno(), 1 << 20, access=mmap.ACCESS_COPY))
    return 1 << 20, 1 << 20


def shared_file():
    kept.append(mmap.mmap(file.fileno(), 200000))
    return 200000, 200000


def closed():
    m = mmap.mmap(-1, 400000)
    m.close()
    return 0, 400000


def dropped():
    for _ in range(10):
        mmap.mmap(-1, 500000)
    return 0, 5000000


def resized():
    m = mmap.mmap(-1, 100000, flags=mmap.MAP_PRIVATE)  # 3.14 does not let a shared one grow
    kept.append(m)
    m.resize(700000)
    m.resize(50000)
    return 50000, 850000


def fails():
    """The old mapping lives on."""
    m = mmap.mmap(-1, 600000)
    kept.append(m)
    try:
        m.resize(1 << 50)
    except (OSError, ValueError, MemoryError):
        pass
    try:
        mmap.mmap(-1, 1 << 50)
    except (OSError, ValueError, MemoryError):
        pass
    return 600000, 600000


def maps():
    return {f.__name__: f() for f in (anonymous, private_file, shared_file, closed, dropped,
                                      resized, fails)}


def small():
    kept.append([bytes(67) for _ in range(1000000)])
    return 1000000 * sys.getsizeof(bytes(67)) + sys.getsizeof(kept[-1])


def buffers():
    for i in range(20000):
        bytearray(256 << 10)
    return 20000


if __name__ == "__main__":
    kept.append(mmap.mmap(-1, 4096))
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        print(json.dumps(globals()[line.strip()]()), flush=True)
