#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Programs whose memory behaves in a known way, one per KIND; for pyheaptrace leaks.

    leaks_zoo.py KIND [--seconds S] [--library PATH]

Prints a JSON line that tells the line to watch, waits for a line on standard
input, then runs until it is killed.  S is how long it will be watched: caches
fill and garbage is collected in proportion to it.
"""
import argparse
import collections
import ctypes
import gc
import json
import os
import random
import sys
import threading
import time

TICK = 0.01
HEADER = sys.getsizeof(b"")
UNIT = b"x"


def sizes(seed):
    """What blocks ask for: 100 to 3,000 bytes."""
    rng = random.Random(seed)
    while True:
        yield 100 + int(2900 * rng.random() * rng.random())


class Pace:
    """Turns bytes a second into bytes due now; what was missed is not made up for."""

    def __init__(self, rate):
        self.rate = rate
        self.then = time.monotonic()
        self.rest = 0.0

    def blocks(self, sizes):
        """Sizes of the blocks that are due."""
        now = time.monotonic()
        self.rest += self.rate * min(now - self.then, 0.1)
        self.then = now
        while self.rest > 0:
            n = next(sizes)
            self.rest -= n + HEADER
            yield n


class Churn:
    """Elsewhere in the program memory comes and goes."""

    def __init__(self):
        self.pace = Pace(1000000)
        self.recent = collections.deque(maxlen=300)
        self.sizes = sizes(7)

    def tick(self):
        for n in self.pace.blocks(self.sizes):
            self.recent.append(UNIT * n)


class Linear:
    """Keeps all it makes."""

    def __init__(self, args):
        self.pace = Pace(250000)
        self.kept = []
        self.sizes = sizes(1)

    def make(self, n):
        return UNIT * n  # THE LINE

    def tick(self):
        for n in self.pace.blocks(self.sizes):
            self.kept.append(self.make(n))


class Slow(Linear):
    """Keeps one in a hundred; the others live for a moment."""

    def __init__(self, args):
        super().__init__(args)
        self.pace = Pace(20000000)
        self.recent = collections.deque(maxlen=2000)
        self.made = 0

    def make(self, n):
        return UNIT * n  # THE LINE

    def tick(self):
        for n in self.pace.blocks(self.sizes):
            block = self.make(n)
            self.made += 1
            (self.kept if self.made % 100 == 0 else self.recent).append(block)


class Fill(Linear):
    """A cache of a fixed set of keys: full after a third of the time."""

    def __init__(self, args):
        super().__init__(args)
        self.cache = {}
        self.end = args.seconds / 3 * self.pace.rate
        self.bytes = 0

    def make(self, n):
        return UNIT * n  # THE LINE

    def tick(self):
        for n in self.pace.blocks(self.sizes):
            if self.bytes >= self.end:
                break
            self.cache[len(self.cache)] = self.make(n)
            self.bytes += n + HEADER


class Lru(Linear):
    """Drops the oldest for each new one; turns over eight times."""

    def __init__(self, args):
        super().__init__(args)
        self.pace = Pace(1000000)
        self.cache = collections.OrderedDict()
        self.room = args.seconds / 8 * self.pace.rate
        self.bytes = self.made = 0

    def make(self, n):
        return UNIT * n  # THE LINE

    def tick(self):
        for n in self.pace.blocks(self.sizes):
            self.cache[self.made] = self.make(n)
            self.made += 1
            self.bytes += n + HEADER
            while self.bytes > self.room:
                self.bytes -= len(self.cache.popitem(last=False)[1]) + HEADER


class Node:
    __slots__ = ("me", "data")


class Sawtooth(Linear):
    """Garbage in cycles, collected six times."""

    def __init__(self, args):
        super().__init__(args)
        gc.disable()
        self.pace = Pace(3000000)
        self.every = args.seconds / 6
        self.last = time.monotonic()

    def make(self, n):
        return UNIT * n  # THE LINE

    def tick(self):
        for n in self.pace.blocks(self.sizes):
            node = Node()
            node.me = node
            node.data = self.make(n)
        if time.monotonic() - self.last >= self.every:
            self.last = time.monotonic()
            gc.collect()


class Fragment:
    """As much is live all the time, but never fits where something was freed.

    Each step frees every other block and takes as many bytes in blocks of
    twice the size: each hole is smaller than that, as one block is left in it.
    """

    TOTAL = 24 << 20
    FIRST = 1024

    def __init__(self, args):
        self.every = args.seconds / 7
        self.size = self.FIRST
        self.blocks = [self.make(self.size) for _ in range(self.TOTAL // self.size)]
        self.last = time.monotonic()

    def make(self, chunk):
        # malloc's chunk is 8 bytes more than what is asked for.
        return UNIT * (chunk - 8 - HEADER)  # THE LINE

    def tick(self):
        if time.monotonic() - self.last < self.every or self.size >= 64 << 10:
            return
        self.last += self.every
        self.size *= 2
        self.blocks = self.blocks[::2]
        self.blocks += [self.make(self.size) for _ in range(self.TOTAL // 2 // self.size)]


class ThreadLocal:
    """Threads of a pool keep what they make in thread-local storage."""

    def __init__(self, args):
        self.local = threading.local()
        for i in range(4):
            threading.Thread(target=self.work, args=(i,), daemon=True).start()

    def make(self, n):
        return UNIT * n  # THE LINE

    def work(self, i):
        self.local.kept = []
        pace, some = Pace(70000), sizes(i)
        while True:
            for n in pace.blocks(some):
                self.local.kept.append(self.make(n))
            time.sleep(TICK)

    def tick(self):
        pass


class Native:
    """A C library that is called through ctypes keeps memory that Python never sees."""

    def __init__(self, args):
        self.library = ctypes.PyDLL(args.library)
        self.library.leaks_native_keep.argtypes = [ctypes.c_size_t]
        self.library.leaks_native_use.argtypes = [ctypes.c_size_t]
        self.pace = Pace(250000)
        self.sizes = sizes(1)

    def make(self, n):
        self.library.leaks_native_keep(n)  # THE LINE

    def tick(self):
        for n in self.pace.blocks(self.sizes):
            self.make(n)
            self.library.leaks_native_use(n)


KINDS = {
    "linear": Linear, "slow": Slow, "fill": Fill, "lru": Lru, "sawtooth": Sawtooth,
    "fragment": Fragment, "threadlocal": ThreadLocal, "native": Native,
}


def line_of(kind):
    """The marked line of the class's make()."""
    code = kind.make.__code__
    with open(os.path.abspath(__file__)) as f:
        lines = f.read().splitlines()
    for number in range(code.co_firstlineno, len(lines) + 1):
        if "# THE LINE" in lines[number - 1]:
            return number
    raise AssertionError("no marked line")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("kind", choices=sorted(KINDS))
    p.add_argument("--seconds", type=float, default=12)
    p.add_argument("--library")
    args = p.parse_args()
    kind = KINDS[args.kind]
    print(json.dumps({"pid": os.getpid(), "file": os.path.abspath(__file__), "line": line_of(kind)}),
          flush=True)
    sys.stdin.readline()
    churn, program = Churn(), kind(args)
    while True:
        churn.tick()
        program.tick()
        time.sleep(TICK)


if __name__ == "__main__":
    main()
