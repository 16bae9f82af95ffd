# SPDX-License-Identifier: BSD-2-Clause
"""A target that does what the lines on its stdin say, one JSON answer each."""
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time

kept = []
signals = []


def nothing(_):
    return 0


def blocks(arg):
    """COUNT SIZE: bytes objects whose memory request is SIZE, kept."""
    count, size = map(int, arg.split())
    payload = size - sys.getsizeof(b"")
    maker = b"x".__mul__
    kept.append([maker(payload) for _ in range(count)])
    return len(kept[-1])


def drop(_):
    kept.clear()
    return 0


def grow(arg):
    """COUNT: one list grown by append; realloc from small to large."""
    out = []
    for i in range(int(arg)):
        out.append(None)
    return len(out)


def spin(arg):
    end = time.monotonic() + float(arg)
    n = 0
    while time.monotonic() < end:
        n += len([float(i) * 1.5 for i in range(100)])
        json.loads(json.dumps({"a": ["x" * 50] * 20, "b": {str(i): i for i in range(50)}}))
    return n


def threads(arg):
    """N SECONDS: as many threads spin and hand blocks to each other."""
    n, seconds = arg.split()
    box = []

    def work():
        end = time.monotonic() + float(seconds)
        while time.monotonic() < end:
            box.append(bytearray(700))
            if len(box) > 200:
                del box[:100]
            spin(0.001)
    ts = [threading.Thread(target=work) for _ in range(int(n))]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    return n


def fork(arg):
    """COUNT: children that allocate, and their exit statuses."""
    out = []
    for _ in range(int(arg)):
        pid = os.fork()
        if not pid:
            spin(0.05)
            os._exit(0)
        out.append(os.waitpid(pid, 0)[1])
    out.append(subprocess.call(["true"]))
    return out


def trace(arg):
    import tracemalloc
    getattr(tracemalloc, arg)()
    return 0


def wait(arg):
    """HOW SECONDS: time spent in one interruptible call."""
    how, seconds = arg.split()
    seconds = float(seconds)
    start = time.monotonic()
    if how == "sleep":
        time.sleep(seconds)
    elif how == "select":
        select.select([], [], [], seconds)
    elif how == "poll":
        select.poll().poll(seconds * 1000)
    elif how == "epoll":
        select.epoll().poll(seconds)
    elif how == "sigtimedwait":
        signal.sigtimedwait([signal.SIGUSR2], seconds)
    elif how == "lock":
        lock = threading.Lock()
        lock.acquire()
        lock.acquire(timeout=seconds)
    return time.monotonic() - start


def catch(_):
    def handler(number, frame):
        signals.append(number)
    for s in (signal.SIGUSR1, signal.SIGPROF, signal.SIGALRM):
        signal.signal(s, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    return 0


def caught(_):
    signal.setitimer(signal.ITIMER_REAL, 0)
    return [signals.count(signal.SIGUSR1), signals.count(signal.SIGALRM)]


def execute(_):
    os.execv(sys.executable, [sys.executable, __file__])


def pipe_wait(_):
    """C code in one blocking call that PEP 475 does not touch: errno is the answer."""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    r, _w = os.pipe()
    fds = (ctypes.c_int * 2)(r, 1)
    ctypes.set_errno(0)
    start = time.monotonic()
    n = libc.poll(fds, 1, 700)
    return [n, ctypes.get_errno(), time.monotonic() - start]


def epoll_wait(_):
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    ep = libc.epoll_create1(0)
    buf = ctypes.create_string_buffer(64)
    ctypes.set_errno(0)
    n = libc.epoll_wait(ep, buf, 1, 700)
    return [n, ctypes.get_errno()]


def narrow(arg):
    """LIBRARY COUNT LEFT: threads that wait with so many bytes of stack left."""
    import ctypes
    library, count, left = arg.split()
    wait = ctypes.CDLL(library).narrow_wait
    threading.stack_size(256 << 10)
    for _ in range(int(count)):
        threading.Thread(target=wait, args=(ctypes.c_ulong(int(left)),), daemon=True).start()
    while count_waiting() < int(count):
        time.sleep(0.001)
    return count


def count_waiting():
    """Threads in poll(), by the number of the system call (x86-64)."""
    n = 0
    for tid in os.listdir("/proc/self/task"):
        with open("/proc/self/task/%s/syscall" % tid) as f:
            n += f.read().startswith("7 ")
    return n


def prctl(arg):
    import ctypes
    numbers = [int(a, 0) for a in arg.split()]
    return ctypes.CDLL(None).prctl(*(ctypes.c_ulong(n) for n in numbers + [0] * (5 - len(numbers))))


def seccomp(arg):
    """NUMBER...: these system calls kill the process from now on (x86-64)."""
    import ctypes
    import struct
    numbers = [int(n) for n in arg.split()]
    code = [(0x20, 0, 0, 0)]  # load the number
    for i, n in enumerate(numbers):
        code.append((0x15, len(numbers) - i, 0, n))
    code += [(0x06, 0, 0, 0x7fff0000), (0x06, 0, 0, 0x80000000)]
    program = b"".join(struct.pack("HBBI", *c) for c in code)
    buf = ctypes.create_string_buffer(program, len(program))
    fprog = struct.pack("HxxxxxxQ", len(code), ctypes.addressof(buf))
    prog = ctypes.create_string_buffer(fprog, len(fprog))
    libc = ctypes.CDLL(None)
    return libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.c_void_p(ctypes.addressof(prog)), 0, 0)


def main():
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        name, _, arg = line.strip().partition(" ")
        print(json.dumps(globals()[name](arg)), flush=True)


main()
