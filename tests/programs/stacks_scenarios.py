# SPDX-License-Identifier: BSD-2-Clause
"""The frames in which stacks_target.py allocates: each scenario is one kind of them."""
import asyncio
import atexit
import contextlib
import ctypes
import dataclasses
import functools
import gc
import importlib
import itertools
import json
import os
import re
import runpy
import signal
import sys
import threading
import time
import weakref

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


CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int),
                            ctypes.POINTER(ctypes.c_int))


@CALLBACK
def compare(a, b):
    probe()
    return a[0] - b[0]


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
    values = (ctypes.c_int * 4)(4, 2, 3, 1)
    ctypes.CDLL(None).qsort(values, 4, ctypes.sizeof(ctypes.c_int), compare)
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


# ---- code that does not last


SOURCE = """
{blank}def {name}(n):
    {pad}
    return [probe(),
            n]
value = {name}({n})
"""


def run_source(n, name, filename, blank=0, pad="pass"):
    source = SOURCE.format(blank="\n" * blank, name=name, n=n, pad=pad)
    exec(compile(source, filename, "exec"), {"probe": probe})


def do_exec():
    for i in range(30):
        # The same size every time, so that each takes the place of the one before.
        run_source(i, "name_%04d" % i, "<exec>")
        run_source(i, "same", "<gen %04d>" % i)
        run_source(i, "same", "<exec>", blank=i % 7)
        run_source(i, "same", "<exec>", pad="; ".join(["n += 1"] * (i % 5 + 1)))
        run_source(i, "same", "<exec>", pad="\n    ".join(["n += 1"] * (i % 5 + 1)))
        run_source(i, "f" * (i + 1), "/" + "long/" * (i + 40) + "x.py")
        eval("probe() + %d" % i)
        exec("probe()\nprobe()")
        (lambda: eval("[probe() for _ in (1, 2)]", {"probe": probe}))()


do_exec.serial = itertools.count()


def do_exec_fresh():
    """Names that have never been seen before, and never will be again."""
    for _ in range(50):
        n = next(do_exec.serial)
        run_source(n, "fresh_%06d" % n, "<fresh>")
        run_source(n, "steady", "<fresh %06d>" % n)


# ---- names


MODULE = """
class Größe:
    def 測定(self, probe):
        return (lambda: probe())()
def naïve(probe):
    return [probe(), Größe().測定(probe)]
def 𐌰(probe):
    return naïve(probe)
"""


def do_names():
    for filename in ("<ascii>", "/tmp/café.py", "/tmp/δοκιμή/日本語.py", "/tmp/\U0001f600.py",
                     "/tmp/" + "é" * 200 + ".py", "/tmp/" + "語" * 300 + ".py"):
        scope = {}
        exec(compile(MODULE, filename, "exec"), scope)
        scope["𐌰"](probe)
        scope["naïve"](probe)
    path = os.path.join(directory, "mödul_ж.py")
    if not os.path.exists(path):
        with open(path, "w", encoding="utf-8") as f:
            f.write(MODULE)
    sys.path.insert(0, directory)
    importlib.invalidate_caches()
    importlib.import_module("mödul_ж").naïve(probe)
    sys.path.remove(directory)


# ---- modules, frozen code


IMPORTED = """
import sys
main = sys.modules["__main__"]
main.probe()
class C:
    main.probe()
main.probe() if True else None
"""


def do_imports():
    path = os.path.join(directory, "stacks_imported.py")
    if not os.path.exists(path):
        with open(path, "w") as f:
            f.write(IMPORTED)
    sys.path.insert(0, directory)
    importlib.invalidate_caches()
    # importlib is frozen, and each import is a way through it.
    import stacks_imported
    importlib.reload(stacks_imported)
    del sys.modules["stacks_imported"]
    importlib.import_module("stacks_imported")
    del sys.modules["stacks_imported"]
    __import__("stacks_imported")
    del sys.modules["stacks_imported"]
    runpy.run_path(path)
    runpy.run_module("stacks_imported")
    sys.path.remove(directory)

    class Finder:
        def find_spec(self, *args):
            probe()

    sys.meta_path.insert(0, Finder())
    try:
        import no_such_module
    except ImportError:
        probe()
    finally:
        del sys.meta_path[0]


# ---- threads


def in_thread(n):
    for i in range(n):
        recursive(i)
        (lambda: probe())()


def run_threads(n, function, *args):
    threads = [threading.Thread(target=function, args=args) for _ in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def do_threads():
    run_threads(8, in_thread, 20)


def do_nogil():
    with hitting(stacks_probe.hit_nogil):
        probe()
        run_threads(8, in_thread, 5)
        recursive(3)
        list(numbers(2))


def do_stranger():
    """Not in the truth: these have no Python stack."""
    for _ in range(20):
        stacks_probe.set_size(main.BASE)
        stacks_probe.hit_stranger()


# ---- sub-interpreters


INSIDE = """
import sys
sys.path.insert(0, {directory!r})
import stacks_probe

def walk(stack, frame):
    while frame:
        code = frame.f_code
        stack.append([getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno])
        frame = frame.f_back

class Inside:
    def probe(self, size, hit=stacks_probe.hit_malloc):
        stack = []
        stacks_probe.set_size(size)
        walk(stack, sys._getframe())
        hit()
        stack[0][2] += 1
        return stack

    def map(self, size):
        return list(map(self.probe, [size]))[0]

result = [
    Inside().probe({size}),
    Inside().map({size} + 1),
    [Inside().probe({size} + 2) for _ in "x"][0],
    Inside().probe({size} + 3, stacks_probe.hit_nogil),
]
import json
with open({answer!r}, "w") as f:
    json.dump(result, f)
"""


def new_interpreters():
    """(create, run, destroy) of each kind that this version has."""
    for module in ("_interpreters", "_xxsubinterpreters"):
        try:
            m = importlib.import_module(module)
        except ImportError:
            continue
        run = getattr(m, "run_string", None) or m.exec
        if module == "_interpreters":
            yield lambda: m.create("isolated"), run, m.destroy
            yield lambda: m.create("legacy"), run, m.destroy
        elif sys.version_info >= (3, 9):
            yield lambda: m.create(isolated=True), run, m.destroy
            yield lambda: m.create(isolated=False), run, m.destroy
        else:
            yield m.create, run, m.destroy
        return


INSIDE_SIZE = 3 << 19


def in_interpreter(create, run, destroy):
    answer = os.path.join(directory, "inside.json")
    which = create()
    try:
        failed = run(which, INSIDE.format(directory=directory, size=INSIDE_SIZE, answer=answer))
        if failed is not None:
            raise RuntimeError(failed)
    finally:
        destroy(which)
    with open(answer) as f:
        for i, stack in enumerate(json.load(f)):
            key = (False, tuple(tuple(frame) for frame in stack))
            main.truth.setdefault(key, [INSIDE_SIZE + i, 0])[1] += 1
            main.heads.add(tuple(stack[0]))


def do_subinterpreters():
    for create, run, destroy in new_interpreters():
        in_interpreter(create, run, destroy)
        run_threads(1, in_interpreter, create, run, destroy)


# ---- greenlets


def do_greenlets():
    import greenlet

    def child(n, *args):
        for i in range(n):
            probe()
            recursive(i)
            greenlet.getcurrent().parent.switch(i)
        list(map(lambda g: g.switch() if g else probe(), [None] + [greenlet.greenlet(leaf_child)]))
        return probe()

    def leaf_child():
        recursive(2)
        greenlet.getcurrent().parent.switch()
        return probe()

    children = [greenlet.greenlet(child) for _ in range(3)]
    for g in children:
        g.switch(2)
    while any(children):
        probe()
        for g in children:
            if g:
                g.switch()


# ---- the end of the interpreter


class Last:
    """Its finalizer runs when modules are torn down, without a name to rely on."""

    def __init__(self, probe, write, path):
        # repr, unlike json, is there to the very end.
        self.probe, self.write, self.path, self.as_text = probe, write, path, repr

    def __del__(self):
        self.probe()
        self.write(self.path, self.as_text)


def do_at_exit():
    """The truth is written by those who are there at the end."""
    sys.modules["stacks_scenarios"].last = Last(probe, main.write_truth, sys.argv[2])

    def at_exit():
        recursive(2)
        list(map(lambda x: probe(), [1]))
        run_threads(2, in_thread, 3)

    # After 3.12 no thread can be started in there.
    if sys.version_info < (3, 12):
        atexit.register(at_exit)
    else:
        atexit.register(recursive, 2)
    probe()
