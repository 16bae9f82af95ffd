# SPDX-License-Identifier: BSD-2-Clause
"""Work done in C: a library that mallocs hard, and threads that run without the GIL."""

import ctypes
import hashlib
import random
import threading
import zlib


class Library:
    def __init__(self, ctx):
        # CDLL, not PyDLL: the GIL is released, as extensions that work hard should do.
        self.lib = ctypes.CDLL(ctx.library)

    def close(self):
        pass


class Words(Library):
    def __init__(self, ctx):
        super().__init__(ctx)
        rnd = random.Random(11)
        words = [
            "".join(rnd.choice("abcdefghij") for _ in range(rnd.randrange(3, 24)))
            for _ in range(4000)
        ]
        self.text = " ".join(rnd.choice(words) for _ in range(6000)).encode()
        self.distinct = len(set(self.text.split()))
        self.fn = self.lib.bench_words
        self.fn.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_ulong)]
        self.fn.restype = ctypes.c_long

    def run(self, units):
        mallocs = ctypes.c_ulong(0)
        for _ in range(units):
            if self.fn(self.text, len(self.text), ctypes.byref(mallocs)) != self.distinct:
                raise AssertionError("words: wrong count")
        return {"mallocs": mallocs.value}


class Malloc(Library):
    def __init__(self, ctx):
        super().__init__(ctx)
        self.fn = self.lib.bench_malloc
        self.fn.argtypes = [ctypes.c_ulong, ctypes.c_ulong]
        self.fn.restype = ctypes.c_long

    def run(self, units):
        mallocs = 0
        for unit in range(units):
            done = self.fn(20000, unit)
            if done < 20000:
                raise AssertionError("malloc: out of memory")
            mallocs += done
        return {"mallocs": mallocs}


class Lxml:
    def __init__(self, ctx):
        import lxml.etree

        self.etree = lxml.etree
        items = "".join(
            '<item id="i%d" kind="k%d"><name>thing %d</name><price>%d.50</price><!-- c --></item>'
            % (i, i % 7, i, i)
            for i in range(150)
        )
        self.text = "<shop><list>%s</list></shop>" % items

    def run(self, units):
        for _ in range(units):
            root = self.etree.fromstring(self.text)
            found = root.xpath("//item[@kind='k3']/name/text()")
            for item in root.iter("item"):
                item.set("seen", item.get("id"))
                self.etree.SubElement(item, "extra").text = item.findtext("price")
            if len(found) != 21 or len(self.etree.tostring(root)) < len(self.text):
                raise AssertionError("lxml: nodes are gone")
        return None

    def close(self):
        pass


class Threads:
    THREADS = 4

    def __init__(self, ctx):
        rnd = random.Random(5)
        self.blocks = [
            b"".join(b"%d %x," % (rnd.randrange(99), i) for i in range(3000))
            for _ in range(self.THREADS)
        ]
        self.failed = []

    def work(self, block, units):
        for _ in range(units):
            packed = zlib.compress(block, 1)
            if zlib.decompress(packed) != block:
                self.failed.append("zlib")
            for offset in range(0, len(block), 4096):
                hashlib.sha256(block[offset : offset + 4096]).digest()

    def run(self, units):
        # The threads end with the block: a collector meets new ones all the time.
        threads = [threading.Thread(target=self.work, args=(b, units)) for b in self.blocks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failed:
            raise AssertionError("threads: %s" % self.failed)
        return None

    def close(self):
        pass
