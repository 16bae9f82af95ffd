# SPDX-License-Identifier: BSD-2-Clause
"""What a tracer may leave behind: BPF objects in the kernel, bytes in a target."""
import ctypes
import hashlib
import json
import os
import shutil
import struct
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


# bpf(2) on x86-64, and what of it and of struct bpf_prog_info is used.
BPF_SYSCALL = 321
BPF_PROG_GET_FD_BY_ID, BPF_OBJ_GET_INFO_BY_FD = 13, 15
INFO_SIZE, INFO_CODE_SIZE, INFO_CODE, INFO_NAME = 256, 16, 24, slice(64, 80)
CODE_MAX = 1 << 20


def machine_code(program):
    """(name, x86-64 code) of a program by its id; no code where it is interpreted."""
    libc = ctypes.CDLL(None, use_errno=True)

    def bpf(command, attr):
        result = libc.syscall(BPF_SYSCALL, command, attr, len(attr))
        if result < 0:
            raise OSError(ctypes.get_errno(), "bpf(%d)" % command)
        return result

    code = ctypes.create_string_buffer(CODE_MAX)
    info = ctypes.create_string_buffer(INFO_SIZE)
    struct.pack_into("I", info, INFO_CODE_SIZE, CODE_MAX)
    struct.pack_into("Q", info, INFO_CODE, ctypes.addressof(code))
    fd = bpf(BPF_PROG_GET_FD_BY_ID, ctypes.create_string_buffer(struct.pack("I", program), 128))
    try:
        attr = struct.pack("IIQ", fd, INFO_SIZE, ctypes.addressof(info))
        bpf(BPF_OBJ_GET_INFO_BY_FD, ctypes.create_string_buffer(attr, 128))
    finally:
        os.close(fd)
    size = struct.unpack_from("I", info, INFO_CODE_SIZE)[0]
    return info.raw[INFO_NAME].rstrip(b"\0").decode(), code.raw[:size]


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
