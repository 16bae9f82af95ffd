# SPDX-License-Identifier: BSD-2-Clause
"""Print code objects of this process for an outside reader, then stay alive until stdin ends.

First line: pid, version, head of _PyRuntime in hex ("-": none).  Then per code
object: address, addresses of name and file name, first line, first traceable
unit, expected file and name (UTF-8, hex), table (hex), runs UNITS:LINE.
A last line holds "." and all is flushed.
"""
import os
import sys


def runtime_head():
    try:
        import ctypes
        start = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
        return ctypes.string_at(start, 1024).hex()
    except (ImportError, ValueError):
        return "-"


def shown(text, clip):
    """What the reader makes of a string."""
    out = b""
    for c in text:
        n = ord(c)
        if not n or 0xdc80 <= n <= 0xdcff:
            piece = b"\\x%02x" % (n & 0xff)
        elif 0xd800 <= n <= 0xdfff:
            piece = "\ufffd".encode()
        else:
            piece = c.encode()
        if len(out) + len(piece) > clip:
            break
        out += piece
    return out.hex() or "-"


def first_traceable(code):
    if sys.version_info < (3, 11):
        return 0
    import dis
    for ins in dis.get_instructions(code):
        if ins.opname == "RESUME":
            return ins.offset // 2
    return len(code.co_code) // 2


def lines_of(code):
    units = len(code.co_code) // 2
    lines = [0] * units
    if hasattr(code, "co_lines"):
        for start, end, line in code.co_lines():
            for unit in range(start // 2, end // 2):
                lines[unit] = line or 0
    else:
        import dis
        starts = dict(dis.findlinestarts(code))
        line = code.co_firstlineno
        for unit in range(units):
            line = lines[unit] = starts.get(2 * unit, line)
    return ",".join("1:%d" % line for line in lines)


def walk(code):
    yield code
    for const in code.co_consts:
        if hasattr(const, "co_code"):
            yield from walk(const)


NAMES = ("plain", "caf\xe9", "\u0436\u0443\u043a", "\U0001d518nicode", "\u6f22" * 200, "n" * 1500,
         "\xe9" * 700)
FILES = ("/tmp/plain.py", "/tmp/\xe9t\xe9.py", "/tmp/\u6f22\u5b57.py", "/tmp/\U0001f40d.py",
         "/tmp/raw\udcff\udc80.py", "/tmp/half\ud83d.py", "<string>", "", "/x" * 3000,
         "/tmp/\x7f\x80\u07ff\u0800\uffff\U00010000\U0010ffff")

TEMPLATE = """

def NAME(a):
    def inner(b):
        return (a,
                b)
    class K:
        def method(self):
            yield self
    x = [inner(i)
         for i in a]
    return x
"""


def codes():
    for i in range(max(len(NAMES), len(FILES))):
        source = TEMPLATE.replace("NAME", NAMES[i % len(NAMES)])
        yield from walk(compile(source, FILES[i % len(FILES)], "exec"))
    base = codes.__code__
    yield base
    yield base.replace(co_name="nul\0 lone\ud800", co_filename="a\0b")
    if hasattr(base, "co_qualname"):
        yield base.replace(co_qualname="\0\udc41\udcfe")


def main():
    keep = list(codes())
    print(os.getpid(), sys.hexversion, runtime_head())
    for code in keep:
        name = getattr(code, "co_qualname", code.co_name)
        table = code.co_linetable if hasattr(code, "co_linetable") else code.co_lnotab
        print(id(code), id(code.co_name), id(code.co_filename), code.co_firstlineno,
              first_traceable(code), shown(code.co_filename, 4096), shown(name, 1024),
              table.hex() or "-", lines_of(code))
    print(".", flush=True)
    sys.stdin.read()


main()
