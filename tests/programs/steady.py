#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Works steadily and does as it is told, to see what a tracer does to a target.

Reads a command a line on stdin, answers with one line of JSON each:

    ping         {"pid": ..}
    speed N      works N rounds: {"rounds": [seconds of processor time, ...]}
    functions    {"addresses": {name: address}} of libc's malloc family
    threads      four threads work and end
    fork         a child works and ends: {"status": its exit status}
    exec         the same program again, in the same process
    exit         ends with status 0, after the answer

Between commands it goes on working.
"""
import ctypes
import json
import os
import select
import sys
import threading
import time

NAMES = ("malloc", "calloc", "realloc", "reallocarray", "free", "posix_memalign", "aligned_alloc",
         "memalign", "valloc", "pvalloc", "mmap", "munmap", "mremap")


def work(n=200):
    """Large and small objects, made and dropped; a few live on for a while."""
    kept = []
    for i in range(n):
        kept.append(bytearray(700 + i))
        text = str(i) * 9
        if len(kept) > 20:
            kept.clear()
    return len(text)


def timed(rounds):
    out = []
    for _ in range(rounds):
        start = time.thread_time()
        work(2000)
        out.append(time.thread_time() - start)
    return out


def addresses():
    libc = ctypes.CDLL(None)
    found = {}
    for name in NAMES:
        if hasattr(libc, name):
            found[name] = ctypes.cast(getattr(libc, name), ctypes.c_void_p).value
    return found


def work_in_threads():
    def run():
        for _ in range(20):
            work()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def work_in_child():
    pid = os.fork()
    if pid == 0:
        for _ in range(50):
            work()
        os._exit(7)
    return os.waitpid(pid, 0)[1]


def answer(**what):
    what["pid"] = os.getpid()
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def obey(command):
    word = command.split()
    if word[0] == "speed":
        answer(rounds=timed(int(word[1])))
    elif word[0] == "functions":
        answer(addresses=addresses())
    elif word[0] == "threads":
        work_in_threads()
        answer(threads=4)
    elif word[0] == "fork":
        answer(status=work_in_child())
    elif word[0] == "exec":
        os.execv(sys.executable, [sys.executable, os.path.abspath(__file__)])
    elif word[0] == "exit":
        answer(exit=0)
        sys.exit(0)
    else:
        answer()


def read_line():
    """Unbuffered, so that select() tells the truth about what is waiting."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            sys.exit(0)
        line += byte
    return line.decode()


def main():
    answer(ready=True)
    while True:
        work()
        if select.select([0], [], [], 0.01)[0]:
            obey(read_line())


if __name__ == "__main__":
    main()
