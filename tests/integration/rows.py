# SPDX-License-Identifier: BSD-2-Clause
"""The rows of docs/matrix.md: what they are of, how one is made, what the file says.

tests/matrix.py writes the file, test_matrix.py compares with it.
"""
import glob
import hashlib
import json
import os
import re
import subprocess

import harness
import stacks

COLLECTORS = ("trampoline", "probe")
DOCUMENT = os.path.join(harness.TOP, "docs", "matrix.md")
COLUMNS = ("version", "build", "collector", "samples", "distinct", "stacks", "names", "lines",
           "no_name", "coverage")
EXACT = "100 %"
# What a run may lose by its nature: the programs go deeper than the limit, allocate in threads
# of no Python, and free code that ran once.
EXPECTED_LOSSES = ("stack_truncated", "no_python_state", "code_gone")

DESCRIBE = """
import json, platform, sys, sysconfig
get = lambda name: sysconfig.get_config_var(name) or ""
release = {}
try:
    with open("/etc/os-release") as f:
        release = dict(line.rstrip().split("=", 1) for line in f if "=" in line)
except OSError:
    pass
print(json.dumps({
    "version": sys.version.split()[0],
    "debug": bool(get("Py_DEBUG")),
    "compiler": platform.python_compiler(),
    "configured": get("CONFIG_ARGS"),
    "os": release.get("PRETTY_NAME", "").strip('"')}))
"""


class Row:
    """One line of the table, its coverage in full words instead of a note's number."""

    def __init__(self, cells):
        self.cells = list(cells)
        for name, cell in zip(COLUMNS, self.cells):
            setattr(self, name, cell)

    @property
    def key(self):
        return self.version, self.build, self.collector

    @property
    def faultless(self):
        return {self.stacks, self.names, self.lines} == {EXACT}


class Case:
    """What stacks.Run wants of a test case."""

    def __init__(self):
        self.cleanups = []

    def addCleanup(self, function, *args):
        self.cleanups.append((function, args))

    def close(self):
        for function, args in reversed(self.cleanups):
            function(*args)


# ---- what there is a row for


def builds(roots=()):
    """Every supported Python at hand, each binary once; those of the chroots in roots too."""
    found = harness.all_interpreters()
    for root in roots:
        for path in sorted(glob.glob(root + "/usr/bin/python3.*")):
            if re.search(r"/python3\.\d+d?$", path):
                found.append(harness.Interpreter(path[len(root):], root))
    seen, kept = set(), []
    for i in found:
        with open(os.path.realpath(i.root + i.path), "rb") as f:
            identity = hashlib.sha1(f.read()).digest()
        # The same binary may be in several places; pyenv's are small and alike.
        if i.minor in harness.SUPPORTED and (not i.root or identity not in seen):
            kept.append(i)
        seen.add(identity)
    return sorted(kept, key=lambda i: numbers(i.version))


def numbers(text):
    return [int(n) for n in re.findall(r"\d+", text)]


def how_built(told):
    """A compiler other than gcc, and what is optimized beyond a plain build."""
    words = []
    clang = re.match(r"Clang (\d+)", told["compiler"], re.I)
    if clang:
        words.append("clang " + clang.group(1))
    for option, word in (("--with-lto=thin", "ThinLTO"), ("--with-lto'", "LTO"),
                         ("--enable-optimizations", "PGO"),
                         ("--with-tail-call-interp", "tail calls"), ("-fno-plt", "`-fno-plt`")):
        if option in told["configured"]:
            words.append(word)
    return words


def describe(interpreter):
    out = subprocess.run(interpreter.command("-c", DESCRIBE), stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, check=True)
    told = json.loads(out.stdout.decode())
    path = os.path.realpath(interpreter.root + interpreter.path)
    elf = subprocess.run(["readelf", "-Wdl", path], stdout=subprocess.PIPE, check=True).stdout
    words = ["shared library" if b"[libpython" in elf else "static"]
    if interpreter.path.startswith("/usr/"):
        words.insert(0, told["os"] or "the system's")  # it configures what it installs otherwise
    elif ".pyenv" in interpreter.path:
        words.insert(0, "pyenv")
    else:
        words.insert(0, "built from source")
        words += how_built(told)
    if b"/ld-musl-" in elf:
        words.append("musl")
    if told["debug"]:
        words.append("`--with-pydebug`")
    return ", ".join(words)


def version_of(interpreter):
    return interpreter.version + ("t" if interpreter.free_threaded else "")


# ---- making one


def share(wrong, samples):
    """Never 100 % for what is not all."""
    if not wrong:
        return EXACT
    return "%.3f %%" % min(100.0 * (samples - wrong) / samples, 99.999)


def coverage_words(report):
    coverage = report["coverage"]
    words = "complete" if coverage["complete"] else coverage["description"]
    lost = {k: v for k, v in report["losses"].items() if v and k not in EXPECTED_LOSSES}
    if lost:
        words += "; lost: " + ", ".join("%s %d" % kv for kv in sorted(lost.items()))
    return words


def make(interpreter, build, collector, rounds):
    """(row, tally) of a run; the tally is None where the target was not traced."""
    key = [version_of(interpreter), build, collector]
    case = Case()
    try:
        report, tally = stacks.Run(case, interpreter, collector, stacks.SCENARIOS, rounds).finish()
    except AssertionError as e:
        reason = str(e).strip().splitlines()[-1]
        reason = re.sub(r"^.*?pyheaptrace: ", "", reason)[:160]
        return Row(key + ["not traced: " + reason.replace("|", "/")] + [""] * 6), None
    finally:
        case.close()
    key[2] = report["collector"]
    n = tally.samples
    return Row(key + [str(n), str(tally.stacks), share(tally.shape + tally.missing, n),
                      share(tally.names + tally.shape, n),
                      share(tally.lines + tally.names + tally.shape, n),
                      str(tally.unresolved), coverage_words(report)]), tally


# ---- what the file says


def read(path=DOCUMENT):
    """[Row]"""
    with open(path) as f:
        text = f.read()
    told = dict(re.findall(r"^- \[(\d+)\] (.*)$", text, re.M))
    found = []
    for line in re.findall(r"^\| (\d.*) \|$", text, re.M):
        cells = line.split(" | ")
        if len(cells) != len(COLUMNS):
            raise ValueError("%s: not %d columns: %s" % (path, len(COLUMNS), line))
        cells[-1] = re.sub(r"partial \[(\d+)\]", lambda m: told[m.group(1)], cells[-1])
        found.append(Row(cells))
    return found


def row_for(documented, key):
    """The row of this build, or that of another patch version of it, or None.

    A distribution updates its Python, and what a row says is about how it was built.
    """
    version, build, collector = key
    alike = [r for r in documented if (r.build, r.collector) == (build, collector)
             and series(r.version) == series(version)]
    exact = [r for r in alike if r.version == version]
    return (exact or sorted(alike, key=lambda r: numbers(r.version))[-1:] or [None])[0]


def series(version):
    """3.13 of 3.13.5, 3.13t of 3.13.5t"""
    return ".".join(version.split(".")[:2]) + ("t" if version.endswith("t") else "")
