#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""No leak: a burst of small objects, of which one in forty stays.

Nearly all is freed again, and yet the process stays big, because every arena
of pymalloc still holds a few of the survivors.
"""
import time


def main():
    burst = [str(i) * 9 for i in range(400_000)]
    survivors = burst[::40]
    del burst
    while survivors:
        time.sleep(1)


if __name__ == "__main__":
    main()
