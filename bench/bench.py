#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What tracing costs: CPU time with and without, in interleaved pairs within one process.

Prints a Markdown table on standard output and what it is doing on standard error. A program, not
a test: it judges nothing, because what a machine does meanwhile is not the tracer's doing.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time

import catalog
import environment
import measure
import report
from process import say

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BEGIN = "<!-- results: written by bench/bench.py --doc, do not edit -->"
END = "<!-- end of results -->"


def options():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--quick", action="store_true", help="4 short pairs: orders of magnitude only")
    p.add_argument("--workloads", metavar="NAMES", help="comma separated; a trailing * is a prefix")
    p.add_argument("--configs", metavar="NAMES", help="comma separated; a trailing * is a prefix")
    p.add_argument("--python", metavar="PATH", action="append", help="may be repeated")
    p.add_argument("--pairs", type=int, metavar="N", help="pairs per cell (default 6)")
    p.add_argument("--seconds", type=float, metavar="S", help="CPU time of a block (default 2.5)")
    p.add_argument("--no-pin", action="store_true", help="leave CPU placement to the kernel")
    p.add_argument("--tracer", default=os.path.join(TOP, "build", "pyheaptrace"), metavar="PATH")
    p.add_argument(
        "--tracer-arg", action="append", default=[], metavar="ARG", help="may be repeated"
    )
    p.add_argument(
        "--build",
        default=os.path.join(TOP, "build"),
        metavar="DIR",
        help="for virtual environments and compiled files",
    )
    p.add_argument("--json", metavar="FILE", help="write every pair here")
    p.add_argument("--markdown", metavar="FILE", help="write the tables here, too")
    p.add_argument("--doc", metavar="FILE", help="replace the results section of this document")
    p.add_argument("--render", metavar="FILE", help="measure nothing: the tables of this JSON file")
    p.add_argument("--list", action="store_true", help="name workloads and configurations")
    args = p.parse_args()
    args.pairs = args.pairs or (4 if args.quick else 6)
    args.seconds = args.seconds or (0.15 if args.quick else 2.5)
    if args.pairs < 2 or args.seconds <= 0:
        p.error("at least 2 pairs, and blocks longer than 0 s")
    return args


def interval_bytes(text):
    if text is None:
        return None
    return int(text[:-1]) * 1024 if text.endswith("K") else int(text)


def header(args, configs, layout):
    rows = [dict(c._asdict(), interval_bytes=interval_bytes(c.interval)) for c in configs]
    return {
        "date": time.strftime("%Y-%m-%d"),
        "machine": environment.machine(args.tracer),
        "pairs": args.pairs,
        "seconds": args.seconds,
        "pinned": bool(layout.target),
        "configs": rows,
        "pythons": [],
        "complete": False,
    }


def write(path, text):
    """All of it or nothing: a reader may look while we measure."""
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".tmp", path)


def save(args, data):
    if args.json:
        write(args.json, json.dumps(data, indent=1) + "\n")
    if args.markdown:
        write(args.markdown, report.markdown(data))


def available(venv, row):
    """None, or why a workload or configuration cannot run under this interpreter."""
    for package in row.packages:
        why = venv.require(package)
        if why:
            return why
    return None


def unavailable(works, configs, why):
    """Rows that say in the table why they are empty."""
    for work in works:
        yield {
            "name": work.name,
            "group": work.group,
            "what": work.what,
            "failed": why,
            "rates": {},
            "cells": {
                c.name: {"ratios": [], "pairs": [], "seen": [], "failed": None} for c in configs
            },
        }


def measure_python(args, run, path, works, configs, data):
    about = environment.describe_python(path)
    venv = environment.Venv(about, os.path.join(args.build, "bench-venv"))
    python = {
        "about": about,
        "label": environment.python_label(about),
        "results": [],
        "packages": {},
    }
    data["pythons"].append(python)
    missing = {c.name: available(venv, c) for c in configs}
    usable = [c for c in configs if not missing[c.name]]
    for c in usable:
        python["packages"].update({p: venv.version(p) for p in c.packages})
    for work in works:
        why = available(venv, work)
        if why:
            python["results"] += unavailable([work], configs, why)
            continue
        say("%s: %s" % (about["version"], work.name))
        with tempfile.TemporaryDirectory(prefix="pht-bench-") as run.tmp:
            result = measure.workload(run, venv.python, work, usable)
        for name, reason in missing.items():
            if reason:
                result["cells"][name] = {"ratios": [], "pairs": [], "seen": [], "failed": reason}
        python["results"].append(result)
        save(args, data)


def measure_all(args):
    works = catalog.pick(catalog.WORKLOADS, args.workloads, "workload")
    configs = catalog.pick(catalog.CONFIGS, args.configs, "configuration")
    if any(c.kind == "pht" for c in configs):
        if not os.access(args.tracer, os.X_OK):
            raise SystemExit("bench: no tracer at %s; run make first" % args.tracer)
        if os.geteuid() != 0:
            raise SystemExit("bench: attaching needs root")
    scratch = os.path.join(args.build, "bench")
    os.makedirs(scratch, exist_ok=True)
    layout = environment.cpu_layout(not args.no_pin)
    library = environment.build_library(scratch)
    run = measure.Run(args.tracer, layout, None, library, args.seconds, args.pairs, args.tracer_arg)
    data = header(args, configs, layout)
    try:
        for path in args.python or environment.default_pythons():
            if not shutil.which(path):
                raise SystemExit("bench: no interpreter %s" % path)
            measure_python(args, run, os.path.abspath(shutil.which(path)), works, configs, data)
        data["complete"] = True
    except KeyboardInterrupt:
        say("interrupted: what there is so far follows")
    save(args, data)
    return data


def update_doc(path, text):
    with open(path, encoding="utf-8") as file:
        old = file.read()
    if BEGIN not in old or END not in old:
        raise SystemExit("bench: %s has no results section" % path)
    start = old.index(BEGIN) + len(BEGIN)
    write(path, old[:start] + "\n\n" + text + "\n" + old[old.index(END) :])


def main():
    args = options()
    if args.list:
        for row in catalog.WORKLOADS + catalog.CONFIGS:
            print("%-18s %s" % (row.name, row.what))
        return 0
    if args.render:
        with open(args.render, encoding="utf-8") as file:
            data = json.load(file)
    else:
        data = measure_all(args)
    text = report.markdown(data)
    print(text, end="")
    if args.doc:
        update_doc(args.doc, text)
    return 0 if data["complete"] else 1


if __name__ == "__main__":
    sys.exit(main())
