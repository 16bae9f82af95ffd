# SPDX-License-Identifier: BSD-2-Clause
"""Works all the time in one or more threads, and checks what it works out.

    spinner.py [THREADS [PAUSE]]     PAUSE: seconds between rounds, for a lighter load

Reads a command a line on stdin, answers with one line of JSON each:

    ping            the number of rounds worked so far, in all threads
    speed N         processor time of each of N rounds, in the main thread
    blocks N SIZE   N bytearrays of SIZE bytes each, kept: true
    forget          they are freed: true

Wrong results end it at once with status 9.
"""
import json
import os
import select
import sys
import threading
import time

kept = []
rounds = [0]
EXPECTED = {}


def work(n):
    """What servers do: decode, build, join, sort, encode."""
    rows = json.loads(json.dumps([{"id": i, "name": "row %d" % i, "score": i * n % 97}
                                  for i in range(40)]))
    rows.sort(key=lambda row: (row["score"], row["id"]))
    text = ",".join("%s=%d" % (row["name"], row["score"]) for row in rows)
    buffers = [bytearray(200 * i) for i in range(1, 12)]
    return hash((text[:20], sum(map(len, buffers)), rows[7]["id"]))


def check(n):
    if work(n) != EXPECTED[n]:
        os._exit(9)


def one_round(n):
    check(n % 50)
    rounds[0] += 1


def spin(pause):
    n = 0
    while True:
        one_round(n)
        n += 1
        time.sleep(pause)


def speed(arg):
    out = []
    for _ in range(int(arg)):
        start = time.thread_time()
        for n in range(50):
            check(n)
        out.append(time.thread_time() - start)
    return out


def blocks(arg):
    count, size = map(int, arg.split())
    for _ in range(count):
        kept.append(bytearray(size))
    return True


def forget(_):
    kept.clear()
    return True


def ping(_):
    return rounds[0]


def read_line():
    """Unbuffered, so that select() tells the truth about what is waiting."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            sys.exit(0)
        line += byte
    return line.decode()


def say(what):
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main():
    for n in range(50):
        EXPECTED[n] = work(n)
    threads, pause = (int(sys.argv[1]) if len(sys.argv) > 1 else 1,
                      float(sys.argv[2]) if len(sys.argv) > 2 else 0)
    for _ in range(threads - 1):
        # Not all at once: the main one has to get its turn.
        threading.Thread(target=spin, args=(pause or 0.02,), daemon=True).start()
    say("ready")
    n = 0
    while True:
        one_round(n)
        n += 1
        if select.select([0], [], [], pause)[0]:
            name, _, arg = read_line().strip().partition(" ")
            say(globals()[name](arg))


if __name__ == "__main__":
    main()
