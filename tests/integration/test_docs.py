#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The documents against the program and the tree: options, pages, links."""
import glob
import os
import re
import shlex
import subprocess
import sys
import unittest

import harness

PAGES = [os.path.join(harness.TOP, name) for name in ("README.md", "CONTRIBUTING.md")]
PAGES += sorted(glob.glob(os.path.join(harness.TOP, "docs", "*.md")))
OPTION = re.compile(r"--[a-z][\w-]*|(?<![\w-])-[a-zA-Z]\b")


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def help_of(command):
    return subprocess.run([harness.BIN, *command, "--help"], stdout=subprocess.PIPE, check=True,
                          universal_newlines=True).stdout


def commands_shown():
    """(page, words) for each of our command lines in the shell blocks."""
    for page in PAGES:
        for block in re.findall(r"```sh\n(.*?)```", read(page), re.S):
            for line in block.replace("\\\n", " ").splitlines():
                line = line.split(" #")[0].split("|")[0].split("&&")[0]
                words = shlex.split(line) if "pyheaptrace" in line else []
                words = words[1:] if words[:1] == ["sudo"] else words
                # What follows belongs to the program that is run.
                words = words[:words.index("--")] if "--" in words else words
                if words[:1] == ["pyheaptrace"]:
                    yield page, words[1:]


class Docs(unittest.TestCase):
    def test_pages_and_completions_say_what_help_says(self):
        done = subprocess.run(
            [sys.executable, os.path.join(harness.TOP, "scripts", "gen-docs.py"), "--check",
             harness.BIN], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            universal_newlines=True)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_options_shown_exist(self):
        shown = list(commands_shown())
        self.assertGreater(len(shown), 10)
        for page, words in shown:
            command = [w for w in words[:1] if not w.startswith("-") and w != "check"]
            known = set(OPTION.findall(help_of(command)))
            for word in words:
                if OPTION.fullmatch(word):
                    self.assertIn(word, known, f"{page}: {' '.join(words)}")

    def test_links_lead_somewhere(self):
        for page in PAGES:
            for target in re.findall(r"\]\((?!https?:)([^)#]+)", read(page)):
                path = os.path.join(os.path.dirname(page), target)
                self.assertTrue(os.path.exists(path), f"{page}: {target}")

    def test_no_path_of_the_machine_it_was_written_on(self):
        files = PAGES + glob.glob(os.path.join(harness.TOP, "docs", "images", "*.svg"))
        for path in files + glob.glob(os.path.join(harness.TOP, "man", "*.1")):
            found = re.search(r"/(?:root|home|work)/\S*", read(path))
            self.assertIsNone(found, path)


if __name__ == "__main__":
    unittest.main(verbosity=2)
