# SPDX-License-Identifier: BSD-2-Clause
"""The frames in which stacks_target.py allocates: each scenario is one kind of them."""
import asyncio
import contextlib
import dataclasses
import functools
import gc
import itertools
import json
import os
import re
import signal
import sys
import weakref

try:
    import ctypes
except ImportError:
    ctypes = None  # built without libffi

main = probe = stacks_probe = None
directory = None


def prepare(target, where):
    """The scenarios call back into the program that runs them."""
    global main, probe, stacks_probe, directory
    main, probe, stacks_probe, directory = target, target.probe, target.stacks_probe, where
    for name, function in sorted(globals().items()):
        if name.startswith("do_"):
            target.scenarios[name[3:]] = function


@contextlib.contextmanager
def hitting(*which):
    """Other ways to allocate, for a while."""
    before = main.hits["chosen"]
    main.hits["chosen"] = which
    try:
        yield
    finally:
        main.hits["chosen"] = before


# ---- plain calls


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper


@decorated
@decorated
def twice_decorated(n):
    return probe() + n


def closure(n):
    def inner():
        nonlocal n
        n += probe()
        return lambda: (probe(), n)
    return inner()


def several_lines(a, b=2, *,
                  c=3):
    try:
        with contextlib.suppress(KeyError):
            value = [a,
                     probe(),
                     (b
                      + probe()
                      if c
                      else 0),
                     ]
            raise KeyError(value)
    finally:
        value = {"a": probe(), "b":
                 probe()}
    for _ in (probe(),
              probe()): probe()
    while probe():
        break
    assert probe() and \
        probe()
    return f"{probe()} {probe()}"


def do_plain():
    twice_decorated(2)
    closure(1)()
    (lambda: probe())()
    (lambda f: f())(lambda: (probe(),
                             probe()))
    several_lines(1)
    functools.partial(several_lines, 1, c=0)()
    for _ in range(3):
        probe()


# ---- generators and coroutines


def numbers(n):
    for i in range(n):
        probe()
        yield i
    return probe()


def delegating(n):
    got = yield from numbers(n)
    yield got + probe()


def receiving():
    total = 0
    while True:
        try:
            total += yield total
            probe()
        except ValueError:
            probe()
        finally:
            probe()


def do_generators():
    list(delegating(3))
    sum(probe() + i for i in delegating(2))
    for i in (probe() for _ in range(2)):
        probe()
    g = receiving()
    next(g)
    g.send(1)
    g.throw(ValueError())
    g.close()
    max(itertools.chain(numbers(2), map(lambda x: x + probe(), numbers(2))))
    a, *b = numbers(3)
    with contextlib.closing(numbers(3)) as n:
        next(n)
        del n


async def leaf(n):
    probe()
    await asyncio.sleep(0)
    return probe() + n


async def middle(n):
    return await leaf(n) + await leaf(n + 1)


async def ticks(n):
    for i in range(n):
        probe()
        yield await leaf(i)


class Awaitable:
    def __await__(self):
        probe()
        yield from leaf(1).__await__()


class Context:
    async def __aenter__(self):
        await leaf(0)

    async def __aexit__(self, *args):
        probe()


async def chain():
    await asyncio.gather(middle(1), middle(2), *[leaf(i) for i in range(2)])
    async for i in ticks(2):
        probe()
    [probe() async for i in ticks(2)]
    [await leaf(i) for i in range(2)]
    await Awaitable()
    async with Context():
        await asyncio.wait_for(middle(3), 10)
    task = asyncio.ensure_future(middle(4))
    task.add_done_callback(lambda t: probe())
    await task
    await asyncio.get_running_loop().run_in_executor(None, probe)


def do_coroutines():
    asyncio.run(chain())


# ---- calls that come out of C


class Special:
    def __init__(self, n=0):
        self.n = n + probe()

    def __getattr__(self, name):
        if name != "nothing":
            raise AttributeError(name)
        return probe()

    @property
    def value(self):
        return probe()

    def __eq__(self, other):
        return bool(probe())

    def __lt__(self, other):
        probe()
        return False

    def __hash__(self):
        return probe()

    def __iter__(self):
        return iter([probe()])

    def __format__(self, spec):
        return str(probe())

    def __contains__(self, x):
        return bool(probe())

    def __add__(self, other):
        return probe()

    def __getitem__(self, i):
        return probe()

    def __call__(self):
        return probe()

    def __enter__(self):
        probe()

    def __exit__(self, *args):
        probe()

    def __del__(self):
        probe()

    def __index__(self):
        return probe()


def compare(a, b):
    probe()
    return a[0] - b[0]


def sort_in_libc():
    pointer = ctypes.POINTER(ctypes.c_int)
    callback = ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer)(compare)
    values = (ctypes.c_int * 4)(4, 2, 3, 1)
    ctypes.CDLL(None).qsort(values, 4, ctypes.sizeof(ctypes.c_int), callback)


def use_special():
    s = Special()
    s.nothing, s.value, s == 1, s < 1, hash(s), list(s), f"{s}", 1 in s, s + 1, s[0], s()
    {s: 1}
    [1, s].index(s)
    sorted([s, Special(), Special()])
    with s:
        probe()
    [1, 2][s]


def do_callbacks():
    sorted([3, 1, 2], key=lambda x: x + probe())
    sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: a - b + probe()))
    list(map(lambda x: probe(), [1, 2]))
    list(filter(lambda x: probe(), [1, 2]))
    functools.reduce(lambda a, b: a + b + probe(), [1, 2, 3])
    re.sub("a", lambda m: str(probe()), "banana")
    json.dumps({"a": Special}, default=lambda o: probe())
    json.loads('{"a": {"b": 1}}', object_hook=lambda o: probe())
    if ctypes:
        sort_in_libc()
    use_special()
    r = weakref.ref(Context(), lambda r: probe())
    del r
    x = Context()
    r = weakref.ref(x, lambda r: probe())
    del x
    cycle = [Special()]
    cycle.append(cycle)
    del cycle
    gc.collect()
    functools.lru_cache(None)(lambda n: probe())(1)
    iter(probe, 1)
    for _ in iter(lambda: probe() and 2, 2):
        pass
    old = signal.signal(signal.SIGUSR1, lambda *a: probe())
    os.kill(os.getpid(), signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, old)


# ---- classes


class Meta(type):
    def __new__(mcs, *args):
        probe()
        return super().__new__(mcs, *args)

    def __call__(cls, *args):
        probe()
        return super().__call__(*args)


class Plain:
    def __init__(self, n):
        self.n = n + probe()


class Derived(Plain):
    class Nested:
        where = None

        def method(self):
            return probe()

        @classmethod
        def of_class(cls):
            return cls().method()

        @staticmethod
        def static():
            return probe()

    def __new__(cls, *args):
        probe()
        return super().__new__(cls)

    def __init__(self, n):
        super().__init__(n)
        probe()


class Slotted:
    __slots__ = ("a",)

    def __init__(self, n):
        self.a = Plain(n)


@dataclasses.dataclass
class Data:
    a: int = dataclasses.field(default_factory=lambda: probe())

    def __post_init__(self):
        probe()


def make(cls, n):
    """Often enough for the interpreter to specialize the call."""
    for i in range(n):
        cls(i)


def do_classes():
    make(Plain, 40)
    make(Derived, 20)
    make(Slotted, 20)
    Data()
    Derived.Nested.of_class()
    Derived.Nested.static()

    class Local(metaclass=Meta):
        probe()
        attribute = [probe() for _ in range(2)]

        def __init__(self):
            probe()

    Local()


# ---- comprehensions, recursion


def do_comprehensions():
    [probe() for _ in range(2)]
    {probe() for _ in range(2)}
    {probe(): probe() for _ in range(2)}
    [[probe() for _ in range(2)]
     for _ in range(2)]
    [x
     for x in range(2)
     if probe()]
    any(not probe() for _ in range(2))
    [(lambda: probe())() for _ in range(2)]
    [*(probe() for _ in range(2))]


def recursive(n):
    if not n:
        return probe()
    return recursive(n - 1)


def mutual(n):
    return list(map(lambda m: mutual(m) if m else probe(), [n - 1]))


def do_recursion():
    here = 0
    frame = sys._getframe()
    while frame:
        here, frame = here + 1, frame.f_back
    for n in (10, 100, 126 - here, 127 - here, 128 - here, 200, 500):
        recursive(n)
    mutual(30)
    mutual(100)
