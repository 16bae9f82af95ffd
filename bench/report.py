# SPDX-License-Identifier: BSD-2-Clause
"""The results as Markdown tables."""

import re

from stats import geometric_mean, summary

GROUPS = [
    ("real", "Programs"),
    ("native", "C code that mallocs hard"),
    ("micro", "Nothing but allocations"),
]


def number(x):
    if x < 10:
        return "%.3f" % x
    return "%.1f" % x if x < 100 else "%.0f" % x


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def median(result, config):
    cell = result["cells"].get(config)
    if not cell or not cell["ratios"]:
        return None
    return summary(cell["ratios"])["median"]


class Notes:
    """Footnotes, each text once."""

    def __init__(self):
        self.texts = []

    def mark(self, text):
        if text not in self.texts:
            self.texts.append(text)
        return "<sup>%d</sup>" % (self.texts.index(text) + 1)

    def lines(self):
        return ["<sup>%d</sup> %s  " % (i + 1, text) for i, text in enumerate(self.texts)]


def plain(message):
    """A message of the tracer's, without what differs from run to run."""
    return re.sub(r"\bprocess \d+", "the program", message.replace("pyheaptrace: ", ""))


def remarks(config, cell):
    """What makes a ratio mean less than it seems to."""
    out = []
    for seen in cell["seen"]:
        if "samples" in seen:
            if not seen["samples"] and config["collector"] != "growth":
                out.append(
                    "the tracer took no sample: the ratio is not that of a working collector"
                )
            if str(seen["interval"]) != str(config["interval_bytes"]):
                out.append("the overhead guard raised the sampling interval")
            if not seen["complete"]:
                out.append("it saw a part of the allocations: %s" % seen["coverage"])
            if seen["losses"]:
                out.append("events were lost: " + ", ".join(sorted(seen["losses"])))
            out += [plain(line) for line in seen["warnings"]]
        if seen.get("without_stack", 0) > 0.5:
            out.append("most of its samples had no Python stack, so it did not pay for walking one")
    return list(dict.fromkeys(out))


def common_remarks(config, results):
    """What holds for every measured cell of a column, and so is said once, in its head."""
    cells = [r["cells"].get(config["name"]) for r in results]
    sets = [set(remarks(config, cell)) for cell in cells if cell and cell["ratios"]]
    return sorted(set.intersection(*sets)) if sets else []


def cell_text(config, cell, notes, common):
    if cell is None:
        return "–"
    if not cell["ratios"]:
        return "–" + (notes.mark(plain(cell["failed"])) if cell["failed"] else "")
    s = summary(cell["ratios"])
    text = "%s [%s–%s]" % (number(s["median"]), number(s["q1"]), number(s["q3"]))
    if cell["failed"]:
        text += notes.mark(plain(cell["failed"]))
    for remark in remarks(config, cell):
        if remark not in common:
            text += notes.mark(remark)
    return text


def summary_rows(label, results, configs):
    """Geometric mean and worst case over the workloads of a group."""
    mean = ["**%s: geometric mean**" % label]
    worst = ["**%s: worst**" % label]
    for config in configs:
        medians = [m for m in (median(r, config["name"]) for r in results) if m is not None]
        if not medians:
            mean.append("–")
            worst.append("–")
            continue
        partial = (
            "" if len(medians) == len(results) else " (%d of %d)" % (len(medians), len(results))
        )
        mean.append("**%s**%s" % (number(geometric_mean(medians)), partial))
        worst.append(number(max(medians)))
    return [mean, worst]


def ratio_table(results, configs, notes):
    common = {c["name"]: common_remarks(c, results) for c in configs}
    head = ["CPU time, ratio to untraced"]
    head += [c["name"] + "".join(map(notes.mark, common[c["name"]])) for c in configs]
    rows = []
    for group, label in GROUPS:
        members = [r for r in results if r["group"] == group]
        for r in members:
            row = [r["name"] + (notes.mark(r["failed"]) if r["failed"] else "")]
            for c in configs:
                row.append(cell_text(c, r["cells"].get(c["name"]), notes, common[c["name"]]))
            rows.append(row)
        if members:
            rows += summary_rows(label, members, configs)
    return table(head, rows)


def mean(values):
    values = [v for v in values if v is not None]
    return sum(values) / len(values) if values else None


def tracer_table(results, configs):
    """What the tracer itself did meanwhile: samples, and CPU on another core."""
    configs = [c for c in configs if c["kind"] == "pht"]
    rows = []
    for r in results:
        row = [r["name"]]
        for config in configs:
            seen = r["cells"].get(config["name"], {}).get("seen") or []
            rate = mean([s["samples_per_cpu_second"] for s in seen])
            cpu = mean([s["tracer_cpu"] for s in seen])
            row.append(
                "–" if rate is None or cpu is None else "%.0f/s, %.1f %%" % (rate, cpu * 100)
            )
        rows.append(row)
    if not configs or all(set(row[1:]) == {"–"} for row in rows):
        return []
    head = ["samples per CPU second, tracer's own CPU"] + [c["name"] for c in configs]
    return ["", "What the tracer did meanwhile, in CPU time not counted above:", ""] + table(
        head, rows
    )


def rate_text(r):
    return ", ".join("%.3g %s per CPU second" % (v, k) for k, v in (r.get("rates") or {}).items())


def python_section(python, configs):
    notes = Notes()
    lines = ["", "### " + python["label"], ""]
    lines += ratio_table(python["results"], configs, notes)
    if notes.texts:
        lines += [""] + notes.lines()
    lines += tracer_table(python["results"], configs)
    packages = dict(python["packages"])
    for r in python["results"]:
        packages.update(r.get("packages") or {})
    if packages:
        lines += ["", "Packages: %s." % ", ".join("%s %s" % p for p in sorted(packages.items()))]
    return lines


def machine_lines(data):
    m = data["machine"]
    where = "%s, %d cores%s, %s GiB, Linux %s, %s" % (
        m["cpu"],
        m["cpus"],
        " (VM: %s)" % m["vm"] if m["vm"] else " (no VM)",
        m["memory_gib"],
        m["kernel"],
        m["os"],
    )
    how = "%d pairs of blocks of %.2f s CPU per cell (2 and up where the ratio is above 8), %s" % (
        data["pairs"],
        data["seconds"],
        "program pinned to one CPU" if data["pinned"] else "nothing pinned",
    )
    lines = ["Machine: %s." % where, "Tracer: %s, %s." % (m["tracer"], m["libc"])]
    lines.append("Measured %s; %s." % (data["date"], how))
    lines.append("Load average of the machine before: %.2f." % m["load_before"])
    if not data["complete"]:
        lines.append("**This run was not finished.**")
    return ["  \n".join(lines)]


def legend(data):
    lines = ["", "Configurations:", ""]
    lines += ["- **%s**: %s" % (c["name"], c["what"]) for c in data["configs"]]
    seen = {}
    for python in data["pythons"]:
        for r in python["results"]:
            seen.setdefault(r["name"], (r["what"], rate_text(r)))
    lines += ["", "Workloads:", ""]
    lines += [
        "- **%s**: %s%s" % (n, w, " (%s)" % rate if rate else "") for n, (w, rate) in seen.items()
    ]
    return lines


def markdown(data):
    lines = machine_lines(data)
    for python in data["pythons"]:
        lines += python_section(python, data["configs"])
    return "\n".join(lines + legend(data)) + "\n"
