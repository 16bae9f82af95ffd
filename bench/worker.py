# SPDX-License-Identifier: BSD-2-Clause
"""The process that is measured: does units of work on command and says what they cost.

One JSON object per line on stdin, one per line back. Runs under the interpreter that is being
measured, so it keeps to what Python 3.8 knows.
"""

import argparse
import gc
import importlib
import json
import os
import resource
import sys
import time
import traceback


class Tracemalloc:
    def on(self):
        import tracemalloc

        tracemalloc.start(1)

    def off(self):
        import tracemalloc

        seen = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return {"peak_bytes": seen}


class Memray:
    def __init__(self, tmp, everything):
        self.path = os.path.join(tmp, "memray.bin")
        self.everything = everything
        self.tracker = None

    def on(self):
        import memray

        self.tracker = memray.Tracker(
            destination=memray.FileDestination(self.path, overwrite=True),
            trace_python_allocators=self.everything,
        )
        try:
            self.tracker.__enter__()
        except Exception:
            self.tracker = None
            raise

    def off(self):
        if not self.tracker:
            return None
        self.tracker.__exit__(None, None, None)
        self.tracker = None
        size = os.path.getsize(self.path)
        os.unlink(self.path)
        return {"file_bytes": size}


class Mprofile:
    def on(self):
        import mprofile

        mprofile.start(sample_rate=512 * 1024)

    def off(self):
        import mprofile

        stats = mprofile.take_snapshot().statistics("filename")
        total = sum(s.size for s in stats)
        blind = sum(s.size for s in stats if s.traceback[0].filename == "<unknown>")
        mprofile.stop()
        return {"peak_bytes": total, "without_stack": blind / total if total else 0}


def tools(tmp):
    return {
        "tracemalloc": Tracemalloc(),
        "memray": Memray(tmp, False),
        "memray-all": Memray(tmp, True),
        "mprofile": Mprofile(),
    }


def run_block(workload, units):
    """CPU of this process, all threads, user and system; plus what its reaped children used."""
    gc.collect()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    wall = time.perf_counter()
    cpu = time.process_time()
    count = workload.run(units)
    cpu = time.process_time() - cpu
    wall = time.perf_counter() - wall
    usage2 = resource.getrusage(resource.RUSAGE_SELF)
    children2 = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "units": units,
        "cpu": cpu,
        "wall": wall,
        "user": usage2.ru_utime - usage.ru_utime,
        "system": usage2.ru_stime - usage.ru_stime,
        "children": sum(children2[:2]) - sum(children[:2]),
        "count": count,
    }


def describe():
    names = ("tornado", "django", "numpy", "pandas", "lxml", "memray", "mprofile")
    versions = {}
    for name in names:
        module = sys.modules.get(name)
        if module is not None:
            versions[name] = str(getattr(module, "__version__", None) or module.version)
    return versions


def complaint(exc):
    traceback.print_exc()
    return {"error": "%s: %s" % (type(exc).__name__, exc)}


def obey(command, workload, own_tools):
    if command["do"] == "run":
        return run_block(workload, command["units"])
    tool = own_tools[command["tool"]]
    return (tool.on() if command["do"] == "on" else tool.off()) or {}


def serve(args, replies):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "workloads"))
    cls = getattr(importlib.import_module(args.module), args.cls)
    workload = cls(args)
    own_tools = tools(args.tmp)
    try:
        print(json.dumps({"ready": os.getpid(), "packages": describe()}), file=replies, flush=True)
        for line in sys.stdin:
            try:
                answer = obey(json.loads(line), workload, own_tools)
            except Exception as exc:
                answer = complaint(exc)
            print(json.dumps(answer), file=replies, flush=True)
    finally:
        workload.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--module", required=True)
    parser.add_argument("--cls", required=True)
    parser.add_argument("--tmp", required=True)
    parser.add_argument("--library", default="")
    parser.add_argument("--cpus", default="")
    parser.add_argument("--load-cpus", default="")
    args = parser.parse_args()
    if args.cpus:
        os.sched_setaffinity(0, {int(cpu) for cpu in args.cpus.split(",")})
    # The workload may print: keep the line to the driver to ourselves.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        serve(args, replies)
    except Exception as exc:
        print(json.dumps(complaint(exc)), file=replies, flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
