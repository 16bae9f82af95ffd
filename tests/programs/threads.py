#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Threads that hold as many blocks as they are told to.

Reads a command a line on stdin, answers with one line of JSON each: the thread's
id, the blocks that hold() allocated in it, their bytes, and the line.

    start N NAME     a thread that holds N blocks, and stays
    brief N NAME     one that has ended when the answer comes; its blocks stay
    main N           the main thread
    rename NAME      the thread that was started last has that name from now on
    pool N           a thread of an executor
    c N NAME         a thread without Python, of the library given as argument
    again N NAME TID as brief, with that thread id if the kernel can be made to; else 0 blocks
    leave            the main thread ends, without an answer; another one reads on
    left             it has ended
    alike N M        N threads, one after the other, each called "alike" and gone, hold M blocks
"""
import concurrent.futures
import ctypes
import json
import sys
import threading
import time

SIZE = 10000
HEADER = sys.getsizeof(b"")
TRIES = 50

kept = []
workers = []  # objects that outlive their threads, as of whoever joins them
stop = threading.Event()
executor = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="pool")


def hold(n):
    # One by one and in one line, whatever becomes of comprehensions.
    mine = [None] * n
    kept.append(mine)
    for i in range(n):
        mine[i] = bytes(SIZE)
    return threading.get_native_id()


def answer(tid, blocks):
    print(json.dumps({"tid": tid, "blocks": blocks, "bytes": blocks * (SIZE + HEADER),
                      "line": hold.__code__.co_firstlineno + 5}), flush=True)


class Worker(threading.Thread):
    """A subclass, with attributes of its own."""

    def __init__(self, blocks, stays, name):
        super().__init__(name=name, daemon=True)
        self.blocks = blocks
        self.stays = stays
        self.held = threading.Event()
        self.tid = 0

    def run(self):
        self.tid = hold(self.blocks)
        self.held.set()
        if self.stays:
            stop.wait()


def start(blocks, stays, name):
    worker = Worker(blocks, stays, name)
    workers.append(worker)
    worker.start()
    worker.held.wait()
    if not stays:
        worker.join()
    return worker


def again(blocks, name, wanted):
    for _ in range(TRIES):
        try:
            with open("/proc/sys/kernel/ns_last_pid", "w") as f:
                f.write(str(wanted - 1))
        except OSError:
            return None
        got = []
        tried = threading.Thread(
            target=lambda: (got.append(threading.get_native_id()),
                            hold(blocks) if got[0] == wanted else None), name=name)
        tried.start()
        tried.join()
        if got[0] == wanted:
            return wanted
    return None


def leave():
    """Its thread goes, without the interpreter's knowing."""
    threading.Thread(target=follow, name="heir").start()
    ctypes.CDLL(None).pthread_exit(None)


def main_has_ended():
    with open("/proc/self/stat") as f:
        return f.read().rsplit(")", 1)[1].split()[0] == "Z"


def main():
    print("ready", flush=True)
    follow()


def follow():
    for line in sys.stdin:
        word, *rest = line.rstrip("\n").split(" ", 2)
        if word in ("start", "brief"):
            worker = start(int(rest[0]), word == "start", rest[1])
            answer(worker.tid, worker.blocks)
        elif word == "main":
            answer(hold(int(rest[0])), int(rest[0]))
        elif word == "rename":
            workers[-1].name = " ".join(rest)
            answer(workers[-1].tid, workers[-1].blocks)
        elif word == "pool":
            answer(executor.submit(hold, int(rest[0])).result(), int(rest[0]))
        elif word == "leave":
            leave()
        elif word == "left":
            while not main_has_ended():
                time.sleep(0.01)
            answer(threading.get_native_id(), 0)
        elif word == "c":
            library = ctypes.CDLL(sys.argv[1])
            if library.stranger_start(rest[1].encode(), ctypes.c_size_t(int(rest[0])),
                                      ctypes.c_size_t(SIZE + HEADER)):
                raise RuntimeError("no thread")
            answer(0, int(rest[0]))
        elif word == "again":
            name, tid = rest[1].rsplit(" ", 1)
            answer(int(tid), int(rest[0]) if again(int(rest[0]), name, int(tid)) else 0)
        elif word == "alike":
            for _ in range(int(rest[0])):
                start(int(rest[1]), False, "alike")
            answer(0, int(rest[0]) * int(rest[1]))


if __name__ == "__main__":
    ctypes.CDLL(sys.argv[1])
    main()
