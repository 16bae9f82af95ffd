# SPDX-License-Identifier: BSD-2-Clause
"""Sends HTTP requests to a server on this machine: a count on stdin, "ok COUNT" back.

A process of its own, so that what it costs is not charged to the server. Plain sockets kept
alive, one request in flight on each.
"""

import argparse
import json
import os
import selectors
import socket
import sys

TIMEOUT = 300


def encode(request):
    body = request.get("body", "").encode()
    head = "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\n" % (
        request["method"],
        request["path"],
    )
    if body:
        head += "Content-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
    return head.encode() + b"\r\n" + body


class Client:
    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.data = b""

    def send(self, request):
        self.data = b""
        self.sock.sendall(request)

    def receive(self):
        """True once the answer is complete."""
        got = self.sock.recv(1 << 16)
        if not got:
            raise ConnectionError("the server closed the connection after %r" % self.data[:200])
        self.data += got
        end = self.data.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = self.data[:end].lower()
        if b" 200 " not in head.split(b"\r\n")[0]:
            raise ConnectionError("the server answered %r" % self.data[:200])
        at = head.find(b"content-length:")
        if at < 0:
            raise ConnectionError("no Content-Length in %r" % head)
        length = int(head[at + 15 :].split(b"\r\n")[0])
        return len(self.data) >= end + 4 + length


class Load:
    def __init__(self, port, connections, requests):
        self.requests = requests
        self.next = 0
        self.selector = selectors.DefaultSelector()
        self.clients = [Client(port) for _ in range(connections)]
        for client in self.clients:
            self.selector.register(client.sock, selectors.EVENT_READ, client)

    def start(self, client):
        client.send(self.requests[self.next % len(self.requests)])
        self.next += 1

    def run(self, count):
        sent = done = 0
        for client in self.clients[:count]:
            self.start(client)
            sent += 1
        while done < count:
            ready = self.selector.select(TIMEOUT)
            if not ready:
                raise TimeoutError("no answer for %d seconds" % TIMEOUT)
            for key, _ in ready:
                if key.data.receive():
                    done += 1
                    if sent < count:
                        self.start(key.data)
                        sent += 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--requests", required=True, help="JSON: [{method, path, body}]")
    parser.add_argument("--cpus", default="")
    args = parser.parse_args()
    if args.cpus:
        os.sched_setaffinity(0, {int(cpu) for cpu in args.cpus.split(",")})
    load = Load(args.port, args.connections, [encode(r) for r in json.loads(args.requests)])
    for line in sys.stdin:
        load.run(int(line))
        print("ok", int(line), flush=True)


if __name__ == "__main__":
    main()
