# SPDX-License-Identifier: BSD-2-Clause
"""Shares its allocators with others, its memory with children, as it is told.

Reads a command a line on stdin, answers with one line of JSON each:

    blocks N SIZE     N bytes objects of SIZE bytes, kept: N
    churn N SIZE      the same, freed at once: N
    forget            what is kept is freed: 0
    trace start|stop  tracemalloc
    flip              tracemalloc comes and goes in a thread, until "still": 0
    still             how often it came
    hook LIBRARY      a hook through PyMem_SetAllocator(), ledger.c built: 0
    memray start FILE | memray stop
    fork N            N children work, and fork again: their statuses
    pool N            N processes of multiprocessing's: the sum they worked out
    linger            a child is forked that obeys what comes through fifo.PID, and
                      writes its answers to answers.PID: its pid
    other N SIZE      as blocks, by a sub-interpreter, which ends then: N
    exec              the same program again
    call NAME ARG...  libc's function, numbers only: its result
    seccomp N...      system calls of these numbers kill it: 0
"""
import collections
import ctypes
import itertools
import json
import multiprocessing
import os
import struct
import subprocess
import sys
import threading
import time
import types

NUMBERS = list(range(10000))
kept = []
hooks = []
memray_tracker = []
flips = types.SimpleNamespace()


def blocks(arg):
    count, size = map(int, arg.split())
    # Nothing else is allocated meanwhile: not even the numbers of a loop.
    out = [None] * count
    for i in NUMBERS[:count]:
        out[i] = b"x" * size
    kept.append(out)
    return count


def churn(arg):
    count, size = map(int, arg.split())
    collections.deque(map(b"x".__mul__, itertools.repeat(size, count)), maxlen=0)
    return count


def forget(_):
    kept.clear()
    return 0


def trace(arg):
    import tracemalloc
    getattr(tracemalloc, arg)()
    return 0


def flip_on():
    import tracemalloc
    while not flips.stop:
        tracemalloc.start()
        time.sleep(0.01)
        tracemalloc.stop()
        flips.count += 1
        time.sleep(0.01)


def flip(_):
    flips.stop, flips.count = False, 0
    flips.thread = threading.Thread(target=flip_on)
    flips.thread.start()
    return 0


def still(_):
    flips.stop = True
    flips.thread.join()
    return flips.count


def hook(arg):
    library = ctypes.PyDLL(arg)
    library.ledger_install.argtypes = [ctypes.c_double, ctypes.c_int]
    hooks.append(library)
    return library.ledger_install(1.0, 0)


def memray(arg):
    word, _, path = arg.partition(" ")
    if word == "start":
        import memray as module
        memray_tracker.append(module.Tracker(path, trace_python_allocators=True))
        memray_tracker[-1].__enter__()
    else:
        memray_tracker.pop().__exit__(None, None, None)
    return 0


def work():
    text = json.dumps([{"n": i, "s": str(i) * 9, "f": i * 1.5} for i in range(2000)])
    return len(json.loads(text)) + sum(len(bytearray(i)) for i in range(900))


def fork(arg):
    expected, out = work(), []
    for _ in range(int(arg)):
        pid = os.fork()
        if not pid:
            again = os.fork()
            same = work() == expected
            if not again:
                os._exit(0 if same else 5)
            status = os.waitpid(again, 0)[1]
            os._exit(0 if same and not status else 6)
        out.append(os.waitpid(pid, 0)[1])
    out.append(subprocess.call([sys.executable, "-c", "print(len(str(2**10000)))"],
                               stdout=subprocess.DEVNULL))
    return out


def square(n):
    return work() * 0 + n * n


def pool(arg):
    with multiprocessing.get_context("fork").Pool(int(arg)) as p:
        return sum(p.map(square, range(40)))


def linger(_):
    pid = os.fork()
    if pid:
        return pid
    os.mkfifo("fifo.%d" % os.getpid())
    with open("fifo.%d" % os.getpid()) as commands, \
            open("answers.%d" % os.getpid(), "w") as answers:
        for line in commands:
            print(json.dumps(obey(line)), file=answers, flush=True)
    os._exit(0)


OTHER = """
numbers = list(range(%d))
def other(size):
    out = [None] * len(numbers)
    for i in numbers:
        out[i] = b"x" * size
    return out
kept = other(%d)
"""


def other(arg):
    count, size = map(int, arg.split())
    try:
        import _interpreters as module
    except ImportError:
        import _xxsubinterpreters as module
    one = module.create()
    failed = module.run_string(one, OTHER % (count, size))
    module.destroy(one)
    return -1 if failed else count


def exec_again():
    os.execv(sys.executable, [sys.executable] + sys.argv)


def call(arg):
    name, *numbers = arg.split()
    return getattr(ctypes.CDLL(None), name)(*(ctypes.c_ulong(int(n, 0)) for n in numbers))


def seccomp(arg):
    """x86-64.  A classic BPF program: load the number, compare, kill or allow."""
    numbers = [int(n) for n in arg.split()]
    code = [(0x20, 0, 0, 0)]
    code += [(0x15, len(numbers) - i, 0, n) for i, n in enumerate(numbers)]
    code += [(0x06, 0, 0, 0x7fff0000), (0x06, 0, 0, 0x80000000)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *c) for c in code))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code),
                                                     ctypes.addressof(program)))
    libc = ctypes.CDLL(None)
    return libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, header, 0, 0)


def obey(line):
    name, _, arg = line.strip().partition(" ")
    if name == "exec":
        exec_again()
    return globals()[name](arg)


def main():
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        print(json.dumps(obey(line)), flush=True)


if __name__ == "__main__":
    main()
