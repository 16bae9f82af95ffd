# SPDX-License-Identifier: BSD-2-Clause
"""What a run needs and must describe: interpreters, packages, the C library, the machine."""

import glob
import json
import os
import platform
import re
import shutil
import subprocess
from collections import namedtuple

from process import say

# Which CPUs the program is pinned to, and which are left for the tracer and the load.
Layout = namedtuple("Layout", "target others")

DESCRIBE = """
import json, platform, sys, sysconfig
var = lambda name: sysconfig.get_config_var(name) or ""
flags = var("CONFIG_ARGS")
print(json.dumps({
    "version": platform.python_version(),
    "prefix": sys.base_prefix,
    "pgo": "--enable-optimizations" in flags or "-fprofile-use" in var("PY_CORE_CFLAGS"),
    "lto": "--with-lto" in flags or "-flto" in var("PY_CORE_CFLAGS"),
    "compiler": platform.python_compiler(),
}))
"""


def cpu_layout(pin):
    cpus = sorted(os.sched_getaffinity(0))
    if not pin or len(cpus) < 2:
        return Layout("", "")
    return Layout(str(cpus[-1]), ",".join(str(cpu) for cpu in cpus[:-1]))


def default_pythons():
    """The distribution's, as a rule PGO and LTO, and a plain 3.12 of pyenv's."""
    found = [path for path in ["/usr/bin/python3"] if os.path.exists(path)]
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    found += sorted(glob.glob(os.path.join(root, "versions/3.12.*/bin/python3")))[-1:]
    return found


def describe_python(path):
    text = subprocess.run([path, "-c", DESCRIBE], check=True, stdout=subprocess.PIPE).stdout
    about = json.loads(text)
    about["path"] = path
    linked = subprocess.run(["ldd", os.path.realpath(path)], stdout=subprocess.PIPE, check=False)
    about["linkage"] = "shared libpython" if b"libpython" in linked.stdout else "static"
    if debian_static(path, about):
        # sysconfig describes libpython's build there; debian/rules builds this one with both.
        about["pgo"] = about["lto"] = True
    return about


def debian_static(path, about):
    return (
        about["linkage"] == "static"
        and os.path.exists("/etc/debian_version")
        and os.path.realpath(path).startswith("/usr/bin/")
    )


def python_label(about):
    how = "+".join(name for name in ("PGO", "LTO") if about[name.lower()]) or "no PGO"
    return "CPython %s (%s, %s)" % (about["version"], how, about["linkage"])


class Venv:
    """A virtual environment per interpreter, kept between runs."""

    def __init__(self, about, top):
        name = about["version"] + re.sub(r"\W+", "-", about["prefix"])
        self.path = os.path.join(top, name)
        self.python = os.path.join(self.path, "bin", "python3")
        self.missing = {}
        if not os.path.exists(self.python):
            say("making %s" % self.path)
            made = subprocess.run([about["path"], "-m", "venv", self.path], check=False)
            if made.returncode:
                say("SKIPPED: no virtual environment for %s, so no packages" % about["path"])
                shutil.rmtree(self.path, ignore_errors=True)
                self.python = about["path"]

    def has(self, package):
        got = subprocess.run(
            [self.python, "-c", "import " + package], stderr=subprocess.DEVNULL, check=False
        )
        return got.returncode == 0

    def require(self, package):
        """None, or why the package is not to be had."""
        if package in self.missing:
            return self.missing[package]
        why = None
        if not self.has(package):
            say("installing %s for %s" % (package, self.python))
            command = [self.python, "-m", "pip", "install", "-q", package]
            got = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
            )
            if got.returncode or not self.has(package):
                lines = got.stdout.decode(errors="replace").strip().split("\n")
                why = "%s could not be installed: %s" % (package, lines[-1][:160])
                say("SKIPPED: " + why)
        self.missing[package] = why
        return why

    def version(self, package):
        code = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
        got = subprocess.run(
            [self.python, "-c", code, package], stdout=subprocess.PIPE, check=False
        )
        return got.stdout.decode().strip() or None


def build_library(build):
    """The C extension's stand-in, compiled; its path."""
    here = os.path.dirname(os.path.abspath(__file__))
    out = os.path.join(build, "ext.so")
    command = [os.environ.get("CC", "cc"), "-std=gnu11", "-Wall", "-O2", "-g", "-shared", "-fPIC"]
    # Or the compiler turns malloc and free into nothing.
    command += ["-fno-builtin", os.path.join(here, "workloads", "ext.c"), "-o", out]
    subprocess.run(command, check=True)
    return out


def first_line(command):
    try:
        got = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
        )
    except OSError:
        return None
    return got.stdout.decode(errors="replace").strip().split("\n")[0] or None


def cpu_model():
    for line in open("/proc/cpuinfo", encoding="utf-8", errors="replace"):
        if line.lower().startswith(("model name", "cpu model")):
            return line.partition(":")[2].strip()
    return platform.machine()


def virtual_machine():
    name = first_line(["systemd-detect-virt", "--vm"])
    if name:
        return None if name == "none" else name
    for line in open("/proc/cpuinfo", encoding="utf-8", errors="replace"):
        if line.startswith("flags") and " hypervisor" in line:
            return "yes, kind unknown"
    return None


def os_name():
    try:
        text = open("/etc/os-release", encoding="utf-8").read()
    except OSError:
        return platform.system()
    found = re.search(r'^PRETTY_NAME="?([^"\n]*)', text, re.M)
    return found.group(1) if found else platform.system()


def memory_gib():
    text = open("/proc/meminfo", encoding="ascii").read()
    return int(re.search(r"MemTotal:\s+(\d+)", text).group(1)) / 2**20


def machine(tracer):
    return {
        "cpu": cpu_model(),
        "cpus": os.cpu_count(),
        "usable_cpus": len(os.sched_getaffinity(0)),
        "arch": platform.machine(),
        "vm": virtual_machine(),
        "memory_gib": round(memory_gib(), 1),
        "kernel": platform.release(),
        "os": os_name(),
        "libc": " ".join(platform.libc_ver()),
        "tracer": first_line([tracer, "--version"]),
        "load_before": os.getloadavg()[0],
    }
