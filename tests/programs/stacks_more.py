# SPDX-License-Identifier: BSD-2-Clause
"""More of stacks_scenarios.py: code and interpreters that come and go, threads, the end."""
import atexit
import importlib
import itertools
import json
import os
import runpy
import sys
import threading

from stacks_scenarios import hitting, numbers, recursive

main = probe = stacks_probe = None
directory = None


def prepare(target, where):
    global main, probe, stacks_probe, directory
    main, probe, stacks_probe, directory = target, target.probe, target.stacks_probe, where
    for name, function in sorted(globals().items()):
        if name.startswith("do_"):
            target.scenarios[name[3:]] = function


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


# ---- greenlets, bare and in an event loop


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


def do_gevent():
    import gevent
    import gevent.pool
    import gevent.queue

    def producer(queue, n):
        for i in range(n):
            queue.put(probe())
            recursive(i)
            gevent.sleep(0)

    def consumer(queue, n):
        return sum(queue.get() + probe() for _ in range(n))

    def from_hub():
        probe()
        waker.set()

    queue, waker = gevent.queue.Queue(1), gevent.event.Event()
    jobs = [gevent.spawn(consumer, queue, 6), gevent.spawn(producer, queue, 3),
            gevent.spawn_later(0.01, producer, queue, 3)]
    gevent.get_hub().loop.run_callback(from_hub)  # a callback runs in the hub itself
    waker.wait()
    gevent.joinall(jobs, raise_error=True)
    gevent.pool.Pool(2).map(recursive, range(4))
    gevent.get_hub().threadpool.apply(recursive, (2,))  # a thread of the system, not a greenlet


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
    sys.modules["stacks_more"].last = Last(probe, main.write_truth, sys.argv[2])

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
