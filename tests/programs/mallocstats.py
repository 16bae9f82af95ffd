# SPDX-License-Identifier: BSD-2-Clause
"""Writes sys._debugmallocstats() to a file and stops itself right behind it, so
that the heap from outside and from inside are the same heap.

For each "NAME FILE" on stdin: runs that workload, prints a line, writes, stops.
"""
import os
import random
import signal
import sys
import threading

keep = []


def idle():
    pass


def churn():
    """Random sizes of all classes, two thirds freed in random order."""
    rng = random.Random(7)
    blocks = [b"x" * rng.randrange(0, 480) for _ in range(60000)]
    rng.shuffle(blocks)
    keep.append(blocks[:20000])


def imports():
    import asyncio, decimal, email.mime.text, json, logging, re, unittest, xml.dom.minidom
    keep.append(json.loads(json.dumps([{"k%d" % i: [i, i * 1.5, str(i)]} for i in range(20000)])))
    keep.append(re.compile("|".join("w%d" % i for i in range(500))))


def reclaim():
    """Arenas that come and go: more were allocated than there are."""
    for _ in range(3):
        big = [(i, i + 0.5) for i in range(150000)]
        del big
    keep.append([{i: i} for i in range(10000)])


def freelists():
    """Objects of every kind that has a free list, then freed."""
    things = [[], {}, 0.1, ()] + [tuple([n] * n) for n in range(1, 25)]
    many = [[type(t)(t) if not isinstance(t, float) else t * n for t in things] for n in range(150)]
    many += [[0.5 * n for n in range(300)], [[n] for n in range(200)], [{n: n} for n in range(200)]]
    many += [[tuple(range(n, n + k)) for k in range(1, 22)] for n in range(1000)]
    del many


def threads():
    def work():
        local = [str(i) * 3 for i in range(20000)]
        keep.append(local[::50])

    pool = [threading.Thread(target=work) for _ in range(4)]
    for t in pool:
        t.start()
    for t in pool:
        t.join()


def report_and_stop(path, print_stats=sys._debugmallocstats, kill=os.kill, pid=os.getpid(),
                    stop=signal.SIGSTOP, dup2=os.dup2):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    saved = os.dup(2)
    dup2(fd, 2)
    # nothing between the two calls may allocate: their objects are at hand
    print_stats()
    kill(pid, stop)
    dup2(saved, 2)
    os.close(saved)
    os.close(fd)


def main():
    print("ready", flush=True)
    while True:
        line = sys.stdin.readline()
        if not line:
            break
        name, path = line.split()
        globals()[name]()
        report_and_stop(path)
        print("done", flush=True)


main()
