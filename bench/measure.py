# SPDX-License-Identifier: BSD-2-Clause
"""One workload under every configuration: blocks of work in ABBA order, in one process."""

import os
import time

from process import Failed, Target, Tracer, cpu_clock, say


class Block:
    """A number of units, timed; cost is CPU per unit."""

    def __init__(self, reply):
        self.reply = reply
        self.cost = (reply["cpu"] + reply["children"]) / reply["units"]


def calibrate(target, seconds):
    """How many units take that long, and what they count per CPU second."""
    units = 1
    # Caches, free lists and the specializing interpreter settle meanwhile.
    target.run(3)
    while True:
        reply = target.run(units)
        took = max(reply["cpu"] + reply["children"], 1e-6)
        if took >= seconds / 3:
            break
        units = max(units * 2, min(units * 50, int(units * seconds / took / 2)))
    rates = {key: value / took for key, value in (reply["count"] or {}).items()}
    return max(1, round(units * seconds / took)), rates


class Nothing:
    """Attaches nothing: what the method itself reads when there is nothing to see."""

    def __init__(self, run, config):
        pass

    def on(self, target):
        pass

    def begin(self):
        pass

    def end(self, reply):
        pass

    def off(self, target):
        return {}

    def abort(self, target):
        """After a failure: leave nothing behind that later blocks would pay for."""


class Inside(Nothing):
    """A tool that the program switches on in itself."""

    def __init__(self, run, config):
        self.name = config.name

    def on(self, target):
        target.ask(do="on", tool=self.name)

    def off(self, target):
        return target.ask(do="off", tool=self.name)

    def abort(self, target):
        try:
            self.off(target)
        except Failed as exc:
            say("  %s: could not be switched off: %s" % (self.name, exc))


class Outside(Nothing):
    """pyheaptrace, another process."""

    def __init__(self, run, config):
        self.run = run
        self.config = config
        self.tracer = None

    def on(self, target):
        report = os.path.join(self.run.tmp, "report.json")
        # The guard would rightly refuse plain probes; here their price is the question.
        extra = ["--max-overhead", "1000"] if self.config.collector == "probe" else []
        self.cpu = self.wall = 0.0
        self.target_cpu = cpu_clock(target.pid)
        self.tracer = Tracer(
            self.run.binary, self.config, target, self.run.layout, report, extra + self.run.extra
        )

    def begin(self):
        self.before = self.tracer.cpu()

    def end(self, reply):
        self.cpu += self.tracer.cpu() - self.before
        self.wall += reply["wall"]

    def off(self, target):
        used = cpu_clock(target.pid) - self.target_cpu
        report = self.tracer.detach()
        warnings = self.tracer.warnings()
        self.tracer = None
        if report["end_reason"]:
            raise Failed("tracing ended early: %s" % report["end_reason"])
        totals = report["totals"]
        return {
            "collector": report["collector"],
            "interval": report["sample_interval"],
            "complete": report["coverage"]["complete"],
            "coverage": report["coverage"]["description"],
            "samples": totals["samples"],
            "samples_per_cpu_second": totals["samples"] / used if used else None,
            "losses": {k: v for k, v in report["losses"].items() if v},
            "tracer_cpu": self.cpu / self.wall if self.wall else None,
            "warnings": warnings,
        }

    def abort(self, target):
        if self.tracer:
            self.tracer.kill()
            self.tracer = None


KINDS = {"none": Nothing, "tool": Inside, "pht": Outside}


class Cell:
    """What was measured of one configuration on one workload."""

    def __init__(self, config, driver):
        self.config = config
        self.driver = driver
        self.pairs = []
        self.seen = []
        self.failed = None

    def result(self):
        ratios = [pair["with"] / pair["without"] for pair in self.pairs]
        return {"ratios": ratios, "pairs": self.pairs, "seen": self.seen, "failed": self.failed}


class Run:
    """The settings that hold for all workloads of one run."""

    def __init__(self, binary, layout, tmp, library, seconds, pairs, extra):
        self.binary = binary
        self.layout = layout
        self.tmp = tmp
        self.library = library
        self.seconds = seconds
        self.pairs = pairs
        self.extra = extra


def traced_units(run, target, units):
    """Fewer units where each takes long, so that slow tools are measured at all."""
    # The first unit may have waited for the tracer, which is still attaching.
    cost = max(min(target.run(1)["wall"] for _ in range(3)), 1e-6)
    if cost * units <= 3 * run.seconds:
        return units
    return max(1, min(units, int(run.seconds / cost)))


def untraced(target, units):
    target.run(1)
    return Block(target.run(units))


def quad(run, target, cell, units, before):
    """A (already run), B, B, A: two pairs whose drift points in opposite directions."""
    driver = cell.driver
    driver.on(target)
    blocks = []
    count = traced_units(run, target, units)
    for _ in range(2):
        driver.begin()
        blocks.append(Block(target.run(count)))
        driver.end(blocks[-1].reply)
    seen = driver.off(target)
    after = untraced(target, units)
    for block, other in zip(blocks, (before, after)):
        cell.pairs.append(
            {
                "with": block.cost,
                "without": other.cost,
                "units": count,
                "system": block.reply["system"],
            }
        )
    cell.seen.append(seen)
    return after


def interleave(run, target, cells, units):
    before = untraced(target, units)
    for turn in range((run.pairs + 1) // 2):
        order = cells[turn % len(cells) :] + cells[: turn % len(cells)]
        for cell in order:
            # Two pairs of the very slow are enough to know that they are slow.
            slow = cell.pairs and cell.pairs[0]["with"] / cell.pairs[0]["without"] > 8
            if cell.failed or (slow and len(cell.pairs) >= max(2, run.pairs // 4)):
                continue
            try:
                before = quad(run, target, cell, units, before)
            except Failed as exc:
                cell.driver.abort(target)
                cell.failed = str(exc)
                say("  %s: %s" % (cell.config.name, exc))
                if target.proc.poll() is not None:
                    raise
                before = untraced(target, units)
        say("  round %d of %d" % (turn + 1, (run.pairs + 1) // 2))


def workload(run, python, work, configs):
    """Everything about one workload, as it goes into the JSON file."""
    started = time.monotonic()
    cells = [Cell(config, KINDS[config.kind](run, config)) for config in configs]
    result = {"name": work.name, "group": work.group, "what": work.what, "failed": None}
    target = None
    try:
        target = Target(python, work, run.layout, run.tmp, run.library)
        units, result["rates"] = calibrate(target, run.seconds)
        result["units_per_block"] = units
        result["packages"] = target.packages
        interleave(run, target, cells, units)
    except Failed as exc:
        result["failed"] = str(exc)
        say("  FAILED: %s: %s" % (work.name, exc))
    finally:
        for cell in cells:
            if cell.config.kind == "pht":
                cell.driver.abort(target)
        if target:
            target.close()
    result["seconds"] = time.monotonic() - started
    result["cells"] = {cell.config.name: cell.result() for cell in cells}
    return result
