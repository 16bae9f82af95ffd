# SPDX-License-Identifier: BSD-2-Clause
"""What can be measured: the workloads and the configurations."""

from collections import namedtuple

# group: "real" programs count for the geometric mean that matters; "native" ones spend their
# time in C; "micro" ones do nothing but allocate, the worst case of any collector.
Workload = namedtuple("Workload", "name module cls group packages pinned what")


def _work(name, module, cls, group, what, packages=(), pinned=True):
    return Workload(name, module, cls, group, tuple(packages), pinned, what)


WORKLOADS = [
    _work("json", "data", "Json", "real", "json.dumps and json.loads of nested records"),
    _work("churn", "data", "Churn", "real", "instances and dicts made, linked, looked up, dropped"),
    _work("strings", "data", "Strings", "real", "format, split, join, re.sub, csv in and out"),
    _work("compile", "data", "Compile", "real", "ast.parse, a NodeTransformer, compile"),
    _work("http-asyncio", "web", "Asyncio", "real", "asyncio HTTP server, 8 keep-alive clients"),
    _work(
        "http-tornado",
        "web",
        "Tornado",
        "real",
        "tornado with templates and JSON, 8 keep-alive clients",
        ["tornado"],
    ),
    _work(
        "http-django",
        "web",
        "Django",
        "real",
        "django views, ORM on sqlite, templates; threaded WSGI server, 4 clients",
        ["django"],
    ),
    _work("unittest", "suite", "Suite", "real", "a generated unittest suite with mocks, subtests"),
    _work(
        "sqlite3", "db", "Sqlite", "real", "inserts, joins and aggregates in an in-memory database"
    ),
    _work(
        "numpy",
        "science",
        "Numpy",
        "real",
        "array temporaries of 1 KB to 1 MB, indexing, sorting",
        ["numpy"],
    ),
    _work(
        "pandas",
        "science",
        "Pandas",
        "real",
        "group-by, merge, read_csv and to_csv of 2,000 rows",
        ["numpy", "pandas"],
    ),
    _work(
        "threads",
        "native",
        "Threads",
        "real",
        "4 threads in zlib and hashlib with the GIL released",
        pinned=False,
    ),
    _work(
        "ext-lxml",
        "native",
        "Lxml",
        "native",
        "lxml: parse, XPath, serialize; libxml2 mallocs through the extension",
        ["lxml"],
    ),
    _work(
        "ext-words",
        "native",
        "Words",
        "native",
        "C library by ctypes: word count into a malloc'd hash table",
    ),
    _work(
        "ext-malloc",
        "native",
        "Malloc",
        "native",
        "C library by ctypes: nothing but malloc, realloc and free",
    ),
    _work("micro-object", "micro", "Objects", "micro", "object() and instances with __slots__"),
    _work("micro-int", "micro", "Ints", "micro", "list(range()) of ints above the small ones"),
    _work("micro-containers", "micro", "Containers", "micro", "small dicts, lists, tuples"),
    _work("micro-str", "micro", "Strings", "micro", "short strings made and dropped"),
    _work("micro-buffers", "micro", "Buffers", "micro", "bytes and bytearrays of 1 to 3 KB"),
]

# kind: "none" measures the noise, "pht" runs the tracer beside the program, "tool" is switched
# on inside the program (bench/worker.py), where such tools live.
Config = namedtuple("Config", "name kind collector interval packages what")


def _conf(name, kind, what, collector=None, interval=None, packages=()):
    return Config(name, kind, collector, interval, tuple(packages), what)


CONFIGS = [
    _conf("untraced", "none", "the same program again, nothing attached: the noise"),
    _conf("tramp-512K", "pht", "pyheaptrace --collector=trampoline -R 512K", "trampoline", "512K"),
    _conf("tramp-128K", "pht", "pyheaptrace --collector=trampoline -R 128K", "trampoline", "128K"),
    _conf("growth", "pht", "pyheaptrace --collector=growth -R 512K", "growth", "512K"),
    _conf("probe-512K", "pht", "pyheaptrace --collector=probe -R 512K", "probe", "512K"),
    _conf("tracemalloc", "tool", "tracemalloc.start(1): one frame per block"),
    _conf(
        "memray",
        "tool",
        "memray.Tracker, defaults: malloc and mmap, not pymalloc's blocks",
        packages=["memray"],
    ),
    _conf(
        "memray-all",
        "tool",
        "memray.Tracker with trace_python_allocators=True",
        packages=["memray"],
    ),
    _conf(
        "mprofile",
        "tool",
        "mprofile.start(sample_rate=512 KiB): Python's allocators only, not libc's",
        packages=["mprofile"],
    ),
]


def pick(table, wanted, what):
    """The rows of table that the comma separated names (or prefixes*) in wanted name."""
    if not wanted:
        return list(table)
    rows = []
    for pattern in wanted.split(","):
        if pattern.endswith("*"):
            found = [row for row in table if row.name.startswith(pattern[:-1])]
        else:
            found = [row for row in table if row.name == pattern]
        if not found:
            names = " ".join(row.name for row in table)
            raise SystemExit('bench: no %s "%s"; there are: %s' % (what, pattern, names))
        rows += [row for row in found if row not in rows]
    return rows
