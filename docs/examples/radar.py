#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""NumPy code with the classic leak: a small view keeps a large array alive.

Each sweep is 2 MB; only its first ten values are kept, as a slice.  A slice is
a view, so the whole sweep stays.  Needs: pip install numpy.
"""
import time

import numpy as np

history = []


def receive(n=256 * 1024):
    return np.random.standard_normal(n)


def spectrum(sweep):
    return np.abs(np.fft.rfft(sweep))


def process():
    sweep = receive()
    power = spectrum(sweep)
    if power.max() > 0:
        history.append(sweep[:10])  # the fix: sweep[:10].copy()


def main():
    while True:
        process()
        time.sleep(0.2)


if __name__ == "__main__":
    main()
