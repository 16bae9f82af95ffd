# SPDX-License-Identifier: BSD-2-Clause
"""Makes many kinds of objects, each in a function of its own; keeps books if asked.

    kinds.py LIBRARY INTERVAL OWN     LIBRARY: ledger.c built, or - for no books
                                      OWN: 1 to count pymalloc's own tables, or 0

Reads a command a line on stdin, answers with one line of JSON each:

    make N      N objects of each kind, all kept
    half        every second of them is freed
    drop        all are freed
    churn N     N objects made and freed at once, a few kinds in turn
    reset       the books start anew
    truth       {kind: [blocks, bytes, live blocks, live bytes, variance of both estimates]}

The tracer's rows are told apart by the functions named kind_*.  Nothing is
collected behind our back: the cyclic collector is off.
"""
import array
import collections
import ctypes
import datetime
import decimal
import fractions
import functools
import gc
import io
import json
import re
import struct
import sys
import types

kept = {}
ledger = None


class Plain:
    def __init__(self, i):
        self.number = i
        self.text = None

    def method(self):
        return self.number


class Slotted:
    __slots__ = ("a", "b", "c")

    def __init__(self, i):
        self.a = i


Point = collections.namedtuple("Point", "x y z")


class Quad(ctypes.Structure):
    _fields_ = [("a", ctypes.c_double), ("b", ctypes.c_double)]


Eight = ctypes.c_long * 8
WORD = re.compile(r"(\w+) (\w+)")
DOCUMENT = json.dumps({"name": "some words", "list": [1.5, 2.5, None, True], "map": {"k": "v"}})
PLAIN = Plain(0)


@types.coroutine
def suspend():
    yield


# Bodies are loops over a list made before, so that its growth is not part of a kind.


def kind_int(out):
    for i in range(len(out)):
        out[i] = i + 1000003


def kind_big_int(out):
    for i in range(len(out)):
        out[i] = i << 900 | 1


def kind_float(out):
    for i in range(len(out)):
        out[i] = i * 1.5


def kind_complex(out):
    for i in range(len(out)):
        out[i] = complex(i, 1.5)


def kind_str(out):
    for i in range(len(out)):
        out[i] = str(i + 1000003)


def kind_concat(out):
    tail = "-" * 40
    for i in range(len(out)):
        out[i] = tail + tail[i % 40:]


def kind_growing_str(out):
    """Appended to in place: realloc."""
    for i in range(len(out)):
        text = ""
        for _ in range(8):
            text += "twelve bytes"
        out[i] = text


def kind_wide_str(out):
    for i in range(len(out)):
        out[i] = "\u4e2d" * (20 + i % 7)


def kind_format(out):
    for i in range(len(out)):
        out[i] = "%d of %s, %.3f" % (i, "many", i * 0.5)


def kind_bytes(out):
    for i in range(len(out)):
        out[i] = b"%d" % (i * 1000003)


def kind_bytearray(out):
    for i in range(len(out)):
        out[i] = bytearray(50 + i % 100)


def kind_large_buffer(out):
    """Beyond pymalloc's 512 bytes."""
    for i in range(len(out)):
        out[i] = bytearray(600 + i % 900)


def kind_empty_list(out):
    for i in range(len(out)):
        out[i] = []


def kind_list(out):
    for i in range(len(out)):
        out[i] = [i, out, None]


def kind_growing_list(out):
    for i in range(len(out)):
        one = []
        for _ in range(30):
            one.append(None)
        out[i] = one


def kind_tuple(out):
    for i in range(len(out)):
        out[i] = (out, i, None)


def kind_empty_dict(out):
    for i in range(len(out)):
        out[i] = {}


def kind_dict(out):
    for i in range(len(out)):
        out[i] = {"a": None, "b": i, "c": out, i: None, "d": 1, "e": 2, "f": 3}


def kind_set(out):
    for i in range(len(out)):
        out[i] = {i, "a", "b", "c", "d", "e"}


def kind_frozenset(out):
    three = (1, 2, 3)
    for i in range(len(out)):
        out[i] = frozenset(three)


def kind_instance(out):
    for i in range(len(out)):
        out[i] = Plain(i)


def kind_slots(out):
    for i in range(len(out)):
        out[i] = Slotted(None)


def kind_function(out):
    for i in range(len(out)):
        def function(a, b=None):
            return a
        out[i] = function


def kind_closure(out):
    def outer(value):
        return lambda: value
    for i in range(len(out)):
        out[i] = outer(out)


def kind_method(out):
    for i in range(len(out)):
        out[i] = PLAIN.method


def kind_partial(out):
    for i in range(len(out)):
        out[i] = functools.partial(print, "a", sep="")


def kind_generator(out):
    def numbers():
        yield 1
        yield 2
    for i in range(len(out)):
        one = numbers()
        next(one)
        out[i] = one


def kind_coroutine(out):
    async def wait():
        await suspend()
    for i in range(len(out)):
        one = wait()
        one.send(None)
        out[i] = one


def kind_slice(out):
    for i in range(len(out)):
        out[i] = slice(1, out, 3)


def kind_range(out):
    for i in range(len(out)):
        out[i] = range(i, i + 100000, 7)


def kind_memoryview(out):
    data = b"some bytes"
    for i in range(len(out)):
        out[i] = memoryview(data)


def kind_exception(out):
    for i in range(len(out)):
        try:
            raise ValueError(i)
        except ValueError as e:
            out[i] = e.with_traceback(None)


def kind_iterator(out):
    for i in range(len(out)):
        out[i] = iter(out)


def kind_json(out):
    for i in range(len(out)):
        out[i] = json.loads(DOCUMENT)


def kind_deque(out):
    for i in range(len(out)):
        out[i] = collections.deque((1, 2))


def kind_namedtuple(out):
    for i in range(len(out)):
        out[i] = Point(i, None, None)


def kind_decimal(out):
    for i in range(len(out)):
        out[i] = decimal.Decimal(i) / 7


def kind_fraction(out):
    for i in range(len(out)):
        out[i] = fractions.Fraction(i, 7)


def kind_match(out):
    for i in range(len(out)):
        out[i] = WORD.match("some words")


def kind_array(out):
    for i in range(len(out)):
        out[i] = array.array("l", (1, 2, 3, 4))


def kind_datetime(out):
    for i in range(len(out)):
        out[i] = datetime.datetime(2020, 1, 1) + datetime.timedelta(days=i % 5000, seconds=i)


def kind_struct(out):
    for i in range(len(out)):
        out[i] = struct.pack("<qdq", i, 1.5, i)


def kind_unpacked(out):
    data = struct.pack("<qdq", 1 << 40, 1.5, 1 << 41)
    for i in range(len(out)):
        out[i] = struct.unpack("<qdq", data)


def kind_ctypes_array(out):
    for i in range(len(out)):
        out[i] = Eight()


def kind_ctypes_struct(out):
    for i in range(len(out)):
        out[i] = Quad(1, 2)


def kind_string_io(out):
    for i in range(len(out)):
        out[i] = io.BytesIO(b"some bytes")


KINDS = sorted(name for name in globals() if name.startswith("kind_"))


def mark(kind):
    if ledger:
        ledger.ledger_kind(kind)


def make(arg):
    count = int(arg)
    for number, name in enumerate(KINDS, 1):
        kept[name] = out = [None] * count
        function = globals()[name]
        mark(number)
        function(out)
        mark(0)
    return count


def half(_):
    for out in kept.values():
        for i in range(0, len(out), 2):
            out[i] = None
    return 0


def drop(_):
    kept.clear()
    gc.collect()
    return 0


def kind_churn(count):
    text = "x" * 30
    last = None
    for i in range(count // 10):
        last = [i + 1000003, i * 1.5, text + text, (i, text), {text: i}, {i, text}, Plain(i),
                Slotted(i), bytearray(i % 600)]
    return last is None


def churn(arg):
    mark(len(KINDS) + 1)
    kind_churn(int(arg))
    mark(0)
    return 0


def reset(_):
    if ledger:
        ledger.ledger_reset()
    return 0


class Sum(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("blocks", "bytes", "live_blocks",
                                                     "live_bytes")]
    _fields_ += [("var_blocks", ctypes.c_double), ("var_bytes", ctypes.c_double)]


def truth(_):
    found = {}
    one = Sum()
    for number, name in enumerate(KINDS + ["kind_churn"], 1):
        if ledger.ledger_sum(number, ctypes.byref(one)):
            raise RuntimeError("the books are full")
        found[name] = [getattr(one, field[0]) for field in Sum._fields_]
    return found


def main():
    global ledger
    gc.disable()
    if sys.argv[1] != "-":
        ledger = ctypes.PyDLL(sys.argv[1])
        ledger.ledger_install.argtypes = [ctypes.c_double, ctypes.c_int]
        if ledger.ledger_install(float(sys.argv[2]), int(sys.argv[3])):
            raise RuntimeError("cannot hook the allocators")
    # Caches and free lists fill up; what is imported on demand is there.
    make(100)
    drop(None)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        name, _, arg = line.strip().partition(" ")
        print(json.dumps(globals()[name](arg)), flush=True)


if __name__ == "__main__":
    main()
