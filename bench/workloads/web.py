# SPDX-License-Identifier: BSD-2-Clause
"""HTTP servers under load: the server in this process, the clients in another."""

import asyncio
import html
import json
import os
import subprocess
import sys
import threading
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
ITEMS = [{"id": i, "name": "item & co %d" % i, "price": i * 1.25} for i in range(25)]
BODY = json.dumps({"order": 17, "lines": ITEMS[:8], "note": "as discussed"})
REQUESTS = [
    {"method": "GET", "path": "/items?page=2&sort=name%20desc&q=a"},
    {"method": "GET", "path": "/page/Someone"},
    {"method": "POST", "path": "/orders", "body": BODY},
]


class Server:
    """Subclasses serve() in a thread, say the port with listens(), and end at stop()."""

    connections = 8
    requests_per_unit = 15

    def __init__(self, ctx):
        self.ctx = ctx
        self.port = None
        self.error = None
        self.listening = threading.Event()
        self.thread = threading.Thread(target=self.guarded, daemon=True)
        self.thread.start()
        self.listening.wait(60)
        if self.port is None:
            raise RuntimeError("the server did not start: %s" % self.error)
        command = [sys.executable, os.path.join(HERE, "loadgen.py"), "--port", str(self.port)]
        command += ["--connections", str(self.connections), "--requests", json.dumps(REQUESTS)]
        command += ["--cpus", ctx.load_cpus]
        self.load = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True
        )

    def guarded(self):
        try:
            self.serve()
        except Exception as exc:
            self.error = exc
        self.listening.set()

    def listens(self, port):
        self.port = port
        self.listening.set()

    def run(self, units):
        count = units * self.requests_per_unit
        self.load.stdin.write("%d\n" % count)
        self.load.stdin.flush()
        if self.load.stdout.readline() != "ok %d\n" % count:
            raise RuntimeError("the load generator failed; it said why on stderr")
        return {"requests": count}

    def close(self):
        self.load.stdin.close()
        self.load.wait(30)
        self.stop()
        self.thread.join(10)


class LoopServer(Server):
    """One whose thread runs an asyncio loop."""

    def serve(self):
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.done = asyncio.Event()
        self.loop.run_until_complete(self.main())

    def stop(self):
        self.loop.call_soon_threadsafe(self.done.set)


class Asyncio(LoopServer):
    async def main(self):
        server = await asyncio.start_server(self.client, "127.0.0.1", 0)
        self.listens(server.sockets[0].getsockname()[1])
        await self.done.wait()
        server.close()

    async def client(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await self.respond(head.decode("latin-1"), reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def respond(self, head, reader, writer):
        first, *lines = head.split("\r\n")
        method, target, _ = first.split(" ")
        headers = dict(line.lower().split(": ", 1) for line in lines if line)
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        url = urllib.parse.urlsplit(target)
        query = urllib.parse.parse_qs(url.query)
        if url.path == "/items":
            answer = json.dumps({"query": query, "items": ITEMS})
        elif method == "POST":
            order = json.loads(body)
            total = sum(line["price"] for line in order["lines"])
            answer = json.dumps({"order": order["order"], "total": total})
        else:
            rows = ["<li>%s: %.2f</li>" % (html.escape(i["name"]), i["price"]) for i in ITEMS]
            answer = "<h1>%s</h1><ul>%s</ul>" % (html.escape(url.path), "".join(rows))
        data = answer.encode()
        reply = "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(data)
        writer.write(reply.encode() + data)
        await writer.drain()


class Tornado(LoopServer):
    async def main(self):
        import tornado.httpserver
        import tornado.netutil
        import tornado.template
        import tornado.web

        page = tornado.template.Template(
            "<h1>{{ who }}</h1><ul>{% for i in items %}<li>{{ i['name'] }}: "
            "{{ '%.2f' % i['price'] }}</li>{% end %}</ul>"
        )

        class Items(tornado.web.RequestHandler):
            def get(self):
                self.write({"page": self.get_argument("page"), "items": ITEMS})

        class Page(tornado.web.RequestHandler):
            async def get(self, who):
                self.finish(page.generate(who=who, items=ITEMS))

        class Orders(tornado.web.RequestHandler):
            def post(self):
                order = json.loads(self.request.body)
                self.write({"total": sum(line["price"] for line in order["lines"])})

        routes = [("/items", Items), ("/page/(.*)", Page), ("/orders", Orders)]
        sockets = tornado.netutil.bind_sockets(0, "127.0.0.1")
        server = tornado.httpserver.HTTPServer(
            tornado.web.Application(routes, log_function=lambda handler: None)
        )
        server.add_sockets(sockets)
        self.listens(sockets[0].getsockname()[1])
        await self.done.wait()
        server.stop()


class Django(Server):
    # Each connection is a thread of the server.
    connections = 4
    requests_per_unit = 6

    def serve(self):
        import djangosite
        from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler

        class Handler(WSGIRequestHandler):
            # Head and body are written apart: without this each answer waits for a delayed ACK.
            disable_nagle_algorithm = True

            def log_message(self, *args):
                pass

        self.server = ThreadedWSGIServer(("127.0.0.1", 0), Handler)
        self.server.set_app(djangosite.application(self.ctx.tmp, ITEMS))
        self.listens(self.server.server_port)
        self.server.serve_forever()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
