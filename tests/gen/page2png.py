#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Pictures of a flame graph page, light and dark: page2png.py PAGE NAME FRAME

Writes NAME.png and NAME-dark.png, with the mouse on the first frame called FRAME.
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
import browser

WHERE = """(() => {
    const at = document.getElementById("graph").getBoundingClientRect();
    for (let i = 0; i < page.graph.rows.length; i++)
        for (const p of page.graph.rows[i])
            if (page.graph.nameOf(p.box, "") === %s)
                return [at.left + p.x + Math.min(p.w, 300) / 2, at.top + i * ROW + ROW / 2];
})()"""


def main():
    html, name, frame = sys.argv[1:]
    path = browser.find_chromium()
    if not path:
        sys.exit("page2png: no chromium; scripts/install-deps.sh --browser")
    chromium = browser.Browser(path)
    try:
        for dark in (False, True):
            page = chromium.open("file://" + os.path.abspath(html), 1180, 700, dark,
                                 "typeof page !== 'undefined' && page.firstPainted")
            page.move(*page.eval(WHERE % json.dumps(frame)))
            page.screenshot(name + ("-dark.png" if dark else ".png"))
            page.close()
    finally:
        chromium.close()


if __name__ == "__main__":
    main()
