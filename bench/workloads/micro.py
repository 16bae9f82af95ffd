# SPDX-License-Identifier: BSD-2-Clause
"""Nothing but allocations: the worst case for anything that looks at each of them."""


class Micro:
    def __init__(self, ctx):
        pass

    def run(self, units):
        for _ in range(units):
            self.unit()
        return None

    def close(self):
        pass


class Point:
    __slots__ = ("x", "y")


class Objects(Micro):
    def unit(self):
        make = object
        keep = [None] * 64
        for i in range(10000):
            keep[i & 63] = make()
        make = Point
        for i in range(10000):
            keep[i & 63] = make()


class Ints(Micro):
    def unit(self):
        for _ in range(20):
            list(range(1000000, 1002000))


class Containers(Micro):
    def unit(self):
        keep = [None] * 64
        for i in range(4000):
            keep[i & 63] = ({"a": i, "b": None}, [i, i, i], (i, "x"), {i})


class Strings(Micro):
    def unit(self):
        keep = [None] * 64
        text = "abcdefghijklmnopqrstuvwxyz" * 8
        for i in range(10000):
            keep[i & 63] = text[i & 63 : (i & 63) + 40]
        for i in range(5000):
            keep[i & 63] = "%d-%d" % (i, i)


class Buffers(Micro):
    def unit(self):
        keep = [None] * 64
        for i in range(5000):
            keep[i & 63] = bytes(1024 + (i * 37 & 2047))
        for i in range(5000):
            keep[i & 63] = bytearray(1024 + (i * 53 & 2047))
