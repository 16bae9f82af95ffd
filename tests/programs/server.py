# SPDX-License-Identifier: BSD-2-Clause
"""A busy multi-threaded HTTP server that counts the signals it gets.

Prints one line of JSON, {"port": ..}, and serves

    /work/N     work whose result depends on N alone, the body tells it
    /signals    {"queued": .., "alarms": .., "user": ..}

queued counts real-time signals (SIGRTMIN + 2), which the kernel never merges,
as they arrive in C; alarms is a chain in which each SIGALRM arms the next: one
that is lost is the last; user counts SIGUSR1.  Ends with its standard input.
"""
import http.server
import json
import os
import select
import signal
import sys
import threading
import time
import zlib

EVERY = 0.005
QUEUED = signal.SIGRTMIN + 2
counts = {"queued": 0, "alarms": 0, "user": 0}


def work(n):
    """Small and large objects, threads without the GIL, a few Python frames."""
    rows = [{"id": i, "name": "row %d of %d" % (i, n), "values": [i * 1.5, i * n, None]}
            for i in range(30 + n % 20)]
    text = json.dumps(rows)
    again = json.loads(text)
    packed = zlib.compress(text.encode() * 4)
    return {"n": n, "rows": len(again), "length": len(text),
            "crc": zlib.crc32(zlib.decompress(packed))}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        name, _, arg = self.path[1:].partition("/")
        body = json.dumps(counts if name == "signals" else work(int(arg))).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def on_alarm(*_):
    counts["alarms"] += 1
    signal.setitimer(signal.ITIMER_REAL, EVERY)


def on_user(*_):
    counts["user"] += 1


def count_queued(reader):
    """
    One byte for each signal, written by the C handler at once: into a pipe, which
    holds two minutes' worth where a socket is full after half a second.
    """
    while True:
        counts["queued"] += os.read(reader, 65536).count(bytes([QUEUED]))


def catch_signals():
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    threading.Thread(target=count_queued, args=(reader,), daemon=True).start()
    signal.set_wakeup_fd(writer)
    signal.signal(QUEUED, lambda *_: None)
    signal.signal(signal.SIGUSR1, on_user)
    signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, EVERY)


def wait_around():
    """Threads in calls of every kind, for the tracer to choose from."""
    def sleep():
        while True:
            time.sleep(0.02)

    def poll():
        one = select.epoll()
        while True:
            one.poll(0.03)

    def lock():
        never = threading.Event()
        while True:
            never.wait(0.05)

    for function in (sleep, poll, lock):
        threading.Thread(target=function, daemon=True).start()


def main():
    server = Server(("127.0.0.1", 0), Handler)
    catch_signals()
    wait_around()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(json.dumps({"port": server.server_port}), flush=True)
    # In a call that signals interrupt and Python restarts.
    while os.read(0, 1):
        pass
    signal.setitimer(signal.ITIMER_REAL, 0)
    server.shutdown()


if __name__ == "__main__":
    sys.exit(main())
