# SPDX-License-Identifier: BSD-2-Clause
"""Print line tables of this interpreter and the lines it reads out of them.

Usage: python linetables.py [MODULE...]   (reads nothing but the modules' sources)

One line per code object: version, kind (0 lnotab, 1 linetable, 2 locations),
first line, table in hex, and runs UNITS:LINE over all code units (0: no line).
"""
import ast
import dis
import importlib.util
import sys

TRICKY = {}

TRICKY["worked"] = """def f(a):
    x = a

    y = [x,
         a]
    return y
"""

TRICKY["gap"] = "def f(a):\n    for i in a:\n" + "\n" * 300 + "        x = i\n        y = (x,\n" + (
    "\n" * 130 + "            i)\n    return a\n")

TRICKY["biggap"] = "x = 1\n" + "\n" * 70000 + "def f():\n    return (x,\n" + "\n" * 5000 + "x)\nf()\n"

TRICKY["calls"] = """
def call(f, a, b):
    r = f(
        a,
        b=f(
            b,

            f(a)),
        *f(a,
           b),
        **f(
            a=1)
    )(
        b)
    return (r.x
            .y(a)
            .z(
                b)[
                    a:
                    b])
"""

TRICKY["try"] = """
def t(a):
    try:
        a()
    except (ValueError,
            TypeError) as e:
        print(e)
        raise KeyError(
            e) from e
    except OSError:
        return 1
    else:
        a(2)
    finally:
        for x in a:
            try:
                if x:
                    continue
                break
            finally:
                a(
                    x)
    with a() as b, \\
            a(1) as c:
        return b, c
"""

TRICKY["comprehensions"] = """
def c(a, b):
    x = [i
         for i in a
         if i
         for j in
         b(i)]
    y = {k:
         v
         for k, v in x}
    z = {i for i in y
         if i and
         b}
    return (lambda q:
            (yy
             for yy in q
             if z))(x)
"""

TRICKY["decorators"] = """
def deco(*a):
    return lambda f: f

@deco(1,
      2)
@deco(
    3)
class K(deco.__class__,
        metaclass=type):
    '''doc'''
    @property
    @deco(5)
    def p(self, x=1,
          *, y: int =
          2) -> 'K':
        nonlocal_ = 1
        def inner():
            return (nonlocal_,
                    x)
        return inner

    async def co(self):
        async with self as q:
            async for i in q:
                yield i
                await (
                    i)
        z = [w async for w in
             q]
"""

TRICKY["flow"] = """
def w(a, b):
    while a:
        if (a and
            b or
                not a):
            a = b if (
                a) else (
                b)
        elif a: b = 1; a = 2; continue
        else:
            assert a, (
                b)
        del a[0], \\
            b
    else:
        return f'{a}' \\
            f'{b!r:>{a}}'
    global G
    G = a < \\
        b < 3
"""

TRICKY["long"] = "def f(a, b):\n" + "".join(
    "    a.x%d = b[%d] + a(%d, b)\n%s" % (i % 70, i, i, "\n" * (i % 5)) for i in range(250))

TRICKY["wide"] = "def f(a):\n    return a(" + " " * 300 + "a, " + "(" * 20 + "a" + ")" * 20 + " " * 140 + (
    ", a(a,\n a))\n")

TRICKY["match"] = """
def m(a):
    match a:
        case [1,
              2, *rest] if rest:
            return 1
        case {'k': v,
              **kw}:
            return v
        case int(x) | \\
                str(x):
            return x
        case _:
            pass
"""

TRICKY["star"] = """
def s(a):
    try:
        a()
    except* ValueError as e:
        a(
            e)
    except* (OSError,
             KeyError):
        pass
"""

DEFAULT_MODULES = ("argparse", "asyncio.base_events", "typing", "inspect", "dataclasses",
                   "_pydecimal", "difflib", "unittest.mock", "tarfile", "turtle", "enum")


def shuffled(source):
    """The same code with line numbers that jump wildly, also backwards."""
    tree = ast.parse(source)
    state = 12345
    for node in ast.walk(tree):
        if not hasattr(node, "lineno"):
            continue
        state = (state * 1103515245 + 12345) & 0x7fffffff
        span = (4, 60, 300, 3000)[state >> 8 & 3]
        node.lineno = 1 + (state >> 12) % span
        node.end_lineno = node.lineno + (state >> 5) % 3
        if node.end_col_offset < node.col_offset:
            node.col_offset = 0
    return tree


def sources(modules):
    for name, text in TRICKY.items():
        yield name, text
        try:
            if len(text) < 5000:
                yield name + "/shuffled", shuffled(text)
        except SyntaxError:
            pass
    for module in modules:
        try:
            spec = importlib.util.find_spec(module)
            with open(spec.origin, encoding="utf-8") as f:
                yield module, f.read()
        except (ImportError, AttributeError, OSError):
            pass


def walk(code):
    yield code
    for const in code.co_consts:
        if hasattr(const, "co_code"):
            yield from walk(const)


def lines_of(code):
    """The line of every code unit as this interpreter says."""
    units = len(code.co_code) // 2
    if hasattr(code, "co_lines"):
        lines = [0] * units
        for start, end, line in code.co_lines():
            for unit in range(start // 2, end // 2):
                lines[unit] = line or 0
        return lines
    try:
        import ctypes
        addr2line = ctypes.pythonapi.PyCode_Addr2Line
        return [addr2line(ctypes.py_object(code), 2 * unit) for unit in range(units)]
    except ImportError:
        starts = dict(dis.findlinestarts(code))
        line, lines = code.co_firstlineno, []
        for unit in range(units):
            line = starts.get(2 * unit, line)
            lines.append(line)
        return lines


def runs(lines):
    out = []
    for line in lines:
        if out and out[-1][1] == line:
            out[-1][0] += 1
        else:
            out.append([1, line])
    return ",".join("%d:%d" % (n, line) for n, line in out)


def main():
    modules = sys.argv[1:] or DEFAULT_MODULES
    version = sys.version_info
    kind = 0 if version < (3, 10) else 1 if version < (3, 11) else 2
    for name, source in sources(m for m in modules if m != "-"):
        try:
            top = compile(source, name, "exec")
        except SyntaxError:
            continue
        for code in walk(top):
            table = code.co_lnotab if kind == 0 else code.co_linetable
            print("%d.%d" % version[:2], kind, code.co_firstlineno, table.hex() or "-",
                  runs(lines_of(code)) or "-")


main()
