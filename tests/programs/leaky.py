#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A small "service" with a leak whose size is known exactly.

One line, in remember(), keeps every object it makes: 1,000-byte and 100-byte
blocks, each at --rate per second.  Three other lines make --churn times as
many objects and keep none.  Nothing else grows.

    leaky.py                      leak from the start, until killed
    leaky.py --hold               churn only; the leak begins at SIGUSR1
    leaky.py --status FILE        the exact truth as JSON, every 100 ms

Signals: SIGUSR1 is the "go" mark (the truth counts from here), SIGUSR2 ends
the leak and leaves the service running.  The truth is what the leaking line
has kept since the mark: number of blocks and bytes asked of the allocator.
"""
import argparse
import json
import os
import signal
import sys
import time

# A bytes object of n bytes asks the allocator for 33 + n, in one block.
HEADER = sys.getsizeof(b"")
UNIT = b"x"
SLAB = 1024
TICK = 0.01


def remember(slab, slot, unit, length):
    slab[slot] = unit * length  # THE LEAK: the only line that keeps what it makes


class Cache:
    """Keeps objects for ever.  Slots are made beforehand, by another line."""

    def __init__(self):
        self.slabs = []
        self.used = SLAB
        self.kept = {}

    def add(self, size):
        if self.used == SLAB:
            self.slabs.append([None] * SLAB)
            self.used = 0
        remember(self.slabs[-1], self.used, UNIT, size - HEADER)
        self.used += 1
        self.kept[size] = self.kept.get(size, 0) + 1

    def mark(self):
        self.kept = {}


def render_page(unit, length):
    return unit * length  # 1,000-byte blocks, dropped by the caller


def make_key(unit, length):
    return unit * length  # 100-byte blocks, dropped by the caller


def read_row(unit, length):
    return bytearray(length) + unit  # 600 to 4,000 bytes, dropped by the caller


class Rate:
    """Turns a rate into whole events, without drift."""

    def __init__(self, per_second):
        self.per_second = per_second
        self.restart(time.monotonic())

    def restart(self, now):
        self.start = now
        self.done = 0

    def due(self, now):
        want = int((now - self.start) * self.per_second)
        # A service that was held up does not make up for it in one burst.
        n = min(want - self.done, int(self.per_second * 0.25) + 1)
        self.done = want
        return n


class Service:
    def __init__(self, args):
        self.args = args
        self.cache = Cache()
        self.leaking = not args.hold
        self.pending = None
        self.requests = 0
        self.big = Rate(args.rate)
        self.small = Rate(args.rate if args.small_rate is None else args.small_rate)
        self.churn = Rate(args.rate * args.churn)

    def on_signal(self, signum, _frame):
        self.pending = signum

    def apply_signal(self, now):
        signum, self.pending = self.pending, None
        self.leaking = signum == signal.SIGUSR1
        if self.leaking:
            self.cache.mark()
            self.big.restart(now)
            self.small.restart(now)

    def handle_request(self, i):
        unit = UNIT
        render_page(unit, self.args.big - HEADER)
        make_key(unit, self.args.small - HEADER)
        if i % 4 == 0:
            read_row(unit, 600 + i % 3400)

    def tick(self, now):
        if self.pending is not None:
            self.apply_signal(now)
        for _ in range(self.churn.due(now)):
            self.handle_request(self.requests)
            self.requests += 1
        if self.leaking:
            for _ in range(self.big.due(now)):
                self.cache.add(self.args.big)
            for _ in range(self.small.due(now)):
                self.cache.add(self.args.small)

    def truth(self):
        code = remember.__code__
        kept = sorted(self.cache.kept.items())
        return {
            "pid": os.getpid(),
            "python": sys.version.split()[0],
            "leaking": self.leaking,
            "file": code.co_filename,
            "function": code.co_name,
            "line": code.co_firstlineno + 1,
            "blocks": sum(n for _, n in kept),
            "bytes": sum(size * n for size, n in kept),
            "by_size": {str(size): n for size, n in kept},
            "requests": self.requests,
        }

    def run(self):
        now = time.monotonic()
        end = now + self.args.seconds if self.args.seconds else None
        report_at = now
        while end is None or now < end:
            self.tick(now)
            if self.args.status and now >= report_at:
                write_status(self.args.status, self.truth())
                report_at = now + 0.1
            time.sleep(TICK)
            now = time.monotonic()


def write_status(path, truth):
    tmp = path + ".tmp"
    with open(tmp, "w") as f:
        json.dump(truth, f)
    os.replace(tmp, path)


def parse_args():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--rate", type=float, default=600, help="objects kept per second, of each size")
    p.add_argument("--small-rate", type=float, help="the same for the small ones (default: --rate)")
    p.add_argument("--churn", type=float, default=10, help="requests per kept object (default 10)")
    p.add_argument("--seconds", type=float, default=0, help="end after so long (default: never)")
    p.add_argument("--big", type=int, default=1000, help="bytes of a large object")
    p.add_argument("--small", type=int, default=100, help="bytes of a small object")
    p.add_argument("--status", metavar="FILE", help="write the truth there")
    p.add_argument("--hold", action="store_true", help="do not leak before SIGUSR1")
    return p.parse_args()


def main():
    service = Service(parse_args())
    signal.signal(signal.SIGUSR1, service.on_signal)
    signal.signal(signal.SIGUSR2, service.on_signal)
    print(os.getpid(), flush=True)
    service.run()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
