# SPDX-License-Identifier: BSD-2-Clause
"""What a tracer may leave behind: BPF objects in the kernel, bytes in a target."""
import hashlib
import json
import os
import shutil
import subprocess

import harness

PAGE = 4096


def bpftool():
    for path in [shutil.which("bpftool"), "/usr/sbin/bpftool"]:
        if path and os.path.exists(path):
            return path
    found = harness.glob.glob("/usr/lib/linux-tools*/*/bpftool")
    return found[0] if found else None


def bpf_objects():
    """{(kind, id): entry} of all programs, links and maps in the kernel."""
    found = {}
    for kind in ("prog", "link", "map"):
        out = subprocess.run([bpftool(), "-j", kind, "list"], stdout=subprocess.PIPE, check=True)
        for entry in json.loads(out.stdout or b"[]"):
            found[kind, entry["id"]] = entry
    return found


def held_by(pid):
    """{(kind, id)} of what a process has descriptors of."""
    found = set()
    for name in os.listdir("/proc/%d/fdinfo" % pid):
        try:
            with open("/proc/%d/fdinfo/%s" % (pid, name)) as f:
                fields = dict(line.split(":", 1) for line in f if ":" in line)
        except FileNotFoundError:
            continue
        found.update((kind, int(fields[kind + "_id"])) for kind in ("prog", "link", "map")
                     if kind + "_id" in fields)
    return found


class BpfWatch:
    """Ids are never used twice: what appeared with the tracer must be gone after it."""

    def __init__(self):
        self.before = set(bpf_objects())
        self.tracers = {}

    def tracer_attached(self, pid):
        """Note what is new and its own: others may load programs too."""
        own = held_by(pid)
        self.tracers = {k: e for k, e in bpf_objects().items()
                        if k not in self.before and k in own}
        return self.tracers

    def left_behind(self):
        now = set(bpf_objects())
        return sorted(k for k in self.tracers if k in now)


def code_mappings(pid):
    with open("/proc/%d/maps" % pid) as f:
        for line in f:
            fields = line.split(None, 5)
            path = fields[5].strip() if len(fields) > 5 else ""
            if "x" in fields[1] and path.startswith("/"):
                start, end = (int(x, 16) for x in fields[0].split("-"))
                yield start, end, path


def code_pages(pid):
    """{page address: digest} of all file-backed code of a process, as it would run."""
    pages = {}
    with open("/proc/%d/mem" % pid, "rb", buffering=0) as mem:
        for start, end, _ in code_mappings(pid):
            mem.seek(start)
            data = b""
            while len(data) < end - start:
                more = mem.read(end - start - len(data))
                if not more:
                    break
                data += more
            for at in range(0, len(data), PAGE):
                pages[start + at] = hashlib.md5(data[at:at + PAGE]).digest()
    return pages


def changed_pages(before, after):
    """Pages in both that differ (a target may load further libraries in between)."""
    return sorted(a for a, digest in before.items() if a in after and after[a] != digest)
