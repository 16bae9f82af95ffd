#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Does what its arguments say, one after another, to see what is seen of it.

    keep N        N blocks of SIZE bytes that stay
    out TEXT      TEXT to standard output
    line          "line" to standard output, then a line of input is waited for
    echo          standard input to standard output, until it ends
    again N       executes itself N times more, each time having kept 100 * N blocks
    rethread N    the same, but another thread than the first one executes it
    trap          SIGTERM and SIGINT are counted from here on, and end a pause
    pause         until a signal; then "caught NAME:COUNT ..." to standard output
    workers N S   N children, each of which leaks on a line of its own, "ready" when
                  all of them hold what they will, and end after a line of input;
                  child I keeps S * (I + 1) blocks and drops what it inherited
    crew N S      the same, but "forked PID ..." first, and a line of input before they leak
    segv          dies
    exit CODE     ends
    quit CODE     ends without the interpreter's shutting down
"""
import ctypes
import os
import signal
import sys
import threading

SIZE = 10000
kept = []
caught = {}


def keep(n):
    for _ in range(n):
        kept.append(bytearray(SIZE))


def leak_0(n):
    for _ in range(n):
        kept.append(bytearray(SIZE))


def leak_1(n):
    for _ in range(n):
        kept.append(bytearray(SIZE))


def leak_2(n):
    for _ in range(n):
        kept.append(bytearray(SIZE))


def leak_3(n):
    for _ in range(n):
        kept.append(bytearray(SIZE))


def leak_4(n):
    for _ in range(n):
        kept.append(bytearray(SIZE))


def leak_5(n):
    for _ in range(n):
        kept.append(bytearray(SIZE))


def leak_6(n):
    for _ in range(n):
        kept.append(bytearray(SIZE))


def leak_7(n):
    for _ in range(n):
        kept.append(bytearray(SIZE))


LEAKS = [leak_0, leak_1, leak_2, leak_3, leak_4, leak_5, leak_6, leak_7]


def say(text):
    os.write(1, (text + "\n").encode())


def on_signal(number, _frame):
    name = signal.Signals(number).name
    caught[name] = caught.get(name, 0) + 1


def trap():
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    say("trapping")


def pause():
    while not caught:
        signal.pause()
    say("caught " + " ".join("%s:%d" % item for item in sorted(caught.items())))


def worker(i, size, start, ready, go):
    if start is not None:
        os.read(start, 1)
    kept.clear()
    LEAKS[i](size * (i + 1))
    os.write(ready, b"r")
    os.read(go, 1)
    os._exit(10 + i)


def workers(count, size, at_once=True):
    start, start_in = (None, None) if at_once else os.pipe()
    ready, ready_in = os.pipe()
    go, go_in = os.pipe()
    pids = []
    for i in range(count):
        pid = os.fork()
        if not pid:
            os.close(go_in)
            if not at_once:
                os.close(start_in)
            worker(i, size, start, ready_in, go)
        pids.append(pid)
    if not at_once:
        say("forked " + " ".join(str(pid) for pid in pids))
        sys.stdin.readline()
        os.close(start_in)
    got = 0
    while got < count:
        got += len(os.read(ready, count))
    say("ready " + " ".join(str(pid) for pid in pids))
    sys.stdin.readline()
    os.close(go)
    os.close(go_in)
    codes = [os.waitpid(pid, 0)[1] >> 8 for pid in pids]
    if codes != [10 + i for i in range(count)]:
        sys.exit("children ended with %s" % codes)


def execute(word, n):
    os.execv(sys.executable, [sys.executable, __file__, word, str(n)])


def again(n):
    keep(100 * n)
    if n:
        execute("again", n - 1)
    sys.exit(5)


def rethread(n):
    keep(100 * n)
    if n:
        thread = threading.Thread(target=execute, args=("rethread", n - 1))
        thread.start()
        thread.join()
    sys.exit(5)


def main():
    words = iter(sys.argv[1:])
    for word in words:
        if word == "keep":
            keep(int(next(words)))
        elif word == "out":
            say(next(words))
        elif word == "line":
            say("line")
            sys.stdin.readline()
        elif word == "echo":
            for line in sys.stdin:
                say(line.rstrip("\n"))
        elif word == "again":
            again(int(next(words)))
        elif word == "rethread":
            rethread(int(next(words)))
        elif word == "trap":
            trap()
        elif word == "pause":
            pause()
        elif word == "workers":
            workers(int(next(words)), int(next(words)))
        elif word == "crew":
            workers(int(next(words)), int(next(words)), False)
        elif word == "segv":
            ctypes.string_at(0)
        elif word == "exit":
            sys.exit(int(next(words)))
        elif word == "quit":
            os._exit(int(next(words)))


if __name__ == "__main__":
    main()
