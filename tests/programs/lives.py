#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Allocates blocks whose number, size and lifetime it knows, when told to.

Reads a command a line on stdin, answers with one line of JSON each: what was
asked of the allocator, in one line of which function.

    peak N       N blocks of 1 MiB, all live at once, then none of them
    brief N      N blocks of 5,033 bytes, each gone before the next
    while N MS   N blocks of 100,033 bytes that live for MS milliseconds and a bit
    keep N       N blocks of 20,033 bytes, for good
    small N      N blocks of 133 bytes, for good
"""
import json
import sys
import time

HEADER = sys.getsizeof(b"")


def peak(n):
    out = []
    for _ in range(n):
        out.append(bytes((1 << 20) - HEADER))
    return out


def brief(n):
    for _ in range(n):
        bytes(5000)


def awhile(n, ms):
    held = list(map(bytes, [100000] * n))
    time.sleep(ms / 1000)
    return held


kept = []


def keep(n):
    for _ in range(n):
        kept.append(bytes(20000))


def small(n):
    for _ in range(n):
        kept.append(bytes(100))


def answer(function, blocks, size):
    code = function.__code__
    print(json.dumps({"function": code.co_name, "bytes": blocks * size, "blocks": blocks}),
          flush=True)


def main():
    print("ready", flush=True)
    for line in sys.stdin:
        word, *numbers = line.split()
        numbers = [int(n) for n in numbers]
        if word == "peak":
            peak(*numbers)
            answer(peak, numbers[0], 1 << 20)
        elif word == "brief":
            brief(*numbers)
            answer(brief, numbers[0], 5000 + HEADER)
        elif word == "while":
            awhile(*numbers)
            answer(awhile, numbers[0], 100000 + HEADER)
        elif word == "keep":
            keep(*numbers)
            answer(keep, numbers[0], 20000 + HEADER)
        elif word == "small":
            small(*numbers)
            answer(small, numbers[0], 100 + HEADER)


if __name__ == "__main__":
    main()
