# SPDX-License-Identifier: BSD-2-Clause
"""Keeps blocks of known sizes, allocated by several threads at once.

Says "ready", waits for a line, allocates, says what and where, waits for another.
uWSGI and other programs that embed Python run it as they would run any file.
"""
import json
import os
import sys
import threading

THREADS = 4
BLOCKS = 20000
kept = []
together = threading.Barrier(THREADS)


def keep(mine):
    for i in range(BLOCKS):
        small = bytes(100)
        mine[i] = small
    for i in range(BLOCKS, 2 * BLOCKS):
        large = bytes(700)
        mine[i] = large


def work():
    mine = [None] * (2 * BLOCKS)
    kept.append(mine)
    together.wait()
    keep(mine)


def truth():
    first = keep.__code__.co_firstlineno
    return {"file": keep.__code__.co_filename, "function": "keep", "callers": ["work", "Thread.run"],
            "lines": {str(first + 2): THREADS * BLOCKS * sys.getsizeof(bytes(100)),
                      str(first + 5): THREADS * BLOCKS * sys.getsizeof(bytes(700))}}


def main():
    print(json.dumps({"ready": os.getpid()}), flush=True)
    sys.stdin.readline()
    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(json.dumps(truth()), flush=True)
    sys.stdin.readline()


main()
