# SPDX-License-Identifier: BSD-2-Clause
"""Small programs of the kind that explain tracemalloc, with marks where a
snapshot is wanted.

tutorial.py NAME DIR    under tracemalloc: each mark dumps a snapshot to DIR
tutorial.py NAME        each mark prints its name and waits for a line

The programs are compiled under a name of their own, EXAMPLES, so that what the
marks themselves allocate is not among their lines.
"""
import os
import sys
import tracemalloc  # in both cases: it imports modules that the examples import too

NAME = "examples.py"

EXAMPLES = '''
def words(count):
    return ["word %d" % (i * 1000003) for i in range(count)]


def table(rows):
    return {i * 1009: bytes(200 + i % 7) for i in range(rows)}


def in_a_helper(mark):
    """The same helpers called from several places."""
    mark("before")
    first = words(4000)
    second = table(1500)
    mark("first")
    third = [table(300) for _ in range(5)]
    del first
    mark("second")
    return second, third


def in_a_loop(mark):
    """Thirty times 1 MiB is kept, compared every ten."""
    kept = []
    mark("before")
    for i in range(30):
        kept.append(bytearray(1 << 20))
        if i % 10 == 9:
            mark("after-%d" % (i + 1))
    return kept


def through_imports(mark):
    """Most of what an import allocates is the import system's."""
    mark("before")
    import decimal
    import xml.dom.minidom
    import tarfile
    kept = [bytes(3000) for _ in range(500)]
    mark("imported")
    return decimal, xml.dom.minidom, tarfile, kept
'''


def fill_free_lists():
    """Freed lists, dicts and tuples are kept for later by CPython, and what is made of them is no
    allocation: so that as many are kept whatever a mark did."""
    kept = [[] for _ in range(200)] + [{} for _ in range(200)]
    for size in range(1, 20):
        kept.append([tuple([None] * size) for _ in range(2100)])
    del kept


def main():
    space = {"__name__": "examples"}
    exec(compile(EXAMPLES, NAME, "exec"), space)
    example = space[sys.argv[1].replace("-", "_")]
    # What taking and dumping a snapshot leaves behind is there before, in both cases.
    tracemalloc.start(100)
    tracemalloc.take_snapshot().dump(os.devnull)
    if len(sys.argv) > 2:
        def mark(name):
            tracemalloc.take_snapshot().dump(os.path.join(sys.argv[2], name))
            fill_free_lists()
    else:
        tracemalloc.stop()

        def mark(name):
            print(name, flush=True)
            sys.stdin.readline()
            fill_free_lists()

    mark("ready")
    kept = example(mark)
    print("done", flush=True)
    if len(sys.argv) == 2:
        sys.stdin.readline()
    del kept


main()
