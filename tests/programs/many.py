#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Keeps something at each of many places: many.py [PLACES], then sleeps.

Prints "ready", waits for a line on stdin, allocates, prints "kept".
"""
import sys
import time

FUNCTION = """
def place_{0}(kept):
    kept.append(b"x" * {1})
"""


def main():
    places = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    scope = {}
    exec(compile("".join(FUNCTION.format(i, 10000 + 10 * i) for i in range(places)),
                 "/srv/many/places.py", "exec"), scope)
    kept = []
    print("ready", flush=True)
    sys.stdin.readline()
    for i in range(places):
        scope["place_%d" % i](kept)
    print("kept", flush=True)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
