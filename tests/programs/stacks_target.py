# SPDX-License-Identifier: BSD-2-Clause
"""Allocates in every kind of frame there is, and keeps the interpreter's own tracebacks.

Arguments: directory of stacks_probe.so, file for the truth, rounds, scenarios.
Each allocation of stacks_probe comes alone on its line, right after the stack
was walked with sys._getframe, and its size tells which stack that was.
"""
import json
import os
import sys
import threading

sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True

import stacks_probe  # noqa: E402

BASE = 1 << 20
LIMIT = 128

truth = {}  # clipped stack -> [size, how many]
heads = set()  # (function, file, line) of the innermost frame where only the probe allocates
# Finalizers and signal handlers come in between, so it is a lock that nests.
lock = threading.RLock()
HITS = (stacks_probe.hit_malloc, stacks_probe.hit_raw, stacks_probe.hit_object,
        stacks_probe.hit_malloc)
if hasattr(sys, "gettotalrefcount"):
    HITS = HITS[:1]  # the debug hooks ask libc for more than they were asked for
hits = {"chosen": HITS, "next": 0}


def record(frame, _truth=truth, _base=BASE, _limit=LIMIT, _lock=lock,
           _set=stacks_probe.set_size):
    """Set the size that stands for the stack that begins at frame."""
    stack = []
    depth = 0
    while frame is not None:
        code = frame.f_code
        if depth < _limit:
            stack.append((getattr(code, "co_qualname", code.co_name), code.co_filename,
                          # it is the next line that allocates
                          frame.f_lineno if depth else frame.f_lineno + 1))
        depth += 1
        frame = frame.f_back
    with _lock:
        entry = _truth.setdefault((depth > _limit, tuple(stack)), [0, 0])
        entry[1] += 1
        if not entry[0]:
            entry[0] = _base + len(_truth)
    _set(entry[0])


def probe(_record=record, _getframe=sys._getframe, _hits=hits, _len=len):
    """The one who allocates."""
    _hits["next"] += 1
    hit = _hits["chosen"][_hits["next"] % _len(_hits["chosen"])]
    _record(_getframe())
    hit()
    return 1


heads.add(("probe", __file__, probe.__code__.co_firstlineno + 5))

scenarios = {}


def scenario(function):
    scenarios[function.__name__] = function
    return function


def write_truth(path, as_text=json.dumps, _truth=truth, _heads=heads, _sorted=sorted, _open=os.open,
                _flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _write=os.write, _close=os.close,
                _rename=os.rename):
    """Names nothing but its arguments: it may run when modules have been torn down."""
    data = as_text({"heads": _sorted(_heads), "stacks": [
        {"size": size, "count": count, "truncated": truncated, "frames": frames}
        for (truncated, frames), (size, count) in _truth.items()]}).encode()
    f = _open(path + ".tmp", _flags)
    while data:
        data = data[_write(f, data):]
    _close(f)
    _rename(path + ".tmp", path)


def main():
    import stacks_more
    import stacks_scenarios
    for module in (stacks_scenarios, stacks_more):
        module.prepare(sys.modules["__main__"], sys.argv[1])
    rounds, names = int(sys.argv[3]), sys.argv[4:]
    print(json.dumps({"ready": os.getpid(), "scenarios": sorted(scenarios)}), flush=True)
    sys.stdin.readline()
    for name in names:
        for _ in range(rounds):
            scenarios[name]()
    write_truth(sys.argv[2])
    print(json.dumps({"done": sum(count for _, count in truth.values())}), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
