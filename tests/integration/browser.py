# SPDX-License-Identifier: BSD-2-Clause
"""A headless Chromium, driven through --remote-debugging-pipe: no other package needed."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

DEADLINE = float(os.environ.get("PHT_DEADLINE", "60"))
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find_chromium():
    """Its path, or None.  PHT_CHROMIUM names another one."""
    given = os.environ.get("PHT_CHROMIUM")
    return given or next(filter(None, map(shutil.which, NAMES)), None)


class Error(Exception):
    pass


class Browser:
    """One Chromium; closes with close()."""

    def __init__(self, path):
        self.profile = tempfile.mkdtemp(prefix="pht-chromium-")
        to_child, self.write_fd = os.pipe()
        self.read_fd, from_child = os.pipe()
        command = ["sh", "-c", 'exec "$0" "$@" 3<&%d 4>&%d' % (to_child, from_child), path,
                   "--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run",
                   "--disable-background-networking", "--disable-extensions", "--hide-scrollbars",
                   "--user-data-dir=" + self.profile]
        if os.geteuid() == 0:
            command.append("--no-sandbox")
        self.log = tempfile.TemporaryFile()
        self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log,
                                      stderr=self.log, pass_fds=(to_child, from_child))
        os.close(to_child)
        os.close(from_child)
        self.last = 0
        self.buffer = b""
        self.events = []

    def close(self):
        try:
            self.call("Browser.close")
        except (Error, OSError):
            self.child.kill()
        try:
            self.child.wait(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        os.close(self.write_fd)
        os.close(self.read_fd)
        self.log.close()
        shutil.rmtree(self.profile, ignore_errors=True)

    def message(self, end):
        while b"\0" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.read_fd], [], [], left)[0]:
                raise Error("the browser does not answer")
            data = os.read(self.read_fd, 1 << 20)
            if not data:
                raise Error("the browser has gone")
            self.buffer += data
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text.decode("utf-8"))

    def call(self, method, session=None, **params):
        """The result of a command; events that come by are kept."""
        self.last += 1
        request = {"id": self.last, "method": method, "params": params}
        if session:
            request["sessionId"] = session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.write_fd, data):]
        end = time.monotonic() + DEADLINE
        while True:
            message = self.message(end)
            if message.get("id") == self.last:
                if "error" in message:
                    raise Error("%s: %s" % (method, message["error"]))
                return message["result"]
            if "method" in message:
                self.events.append(message)

    def open(self, url, width=1280, height=800, dark=False, ready="true"):
        """A page of its own, loaded: until the expression ready is true."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        page = Page(self, self.call("Target.attachToTarget", targetId=target,
                                    flatten=True)["sessionId"], target)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.call(domain + ".enable")
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)
        page.dark(dark)
        page.call("Page.navigate", url=url)
        page.wait(ready)
        return page


class Page:
    KEYS = {"Enter": 13, "Escape": 27, "Backspace": 8, "ArrowLeft": 37, "ArrowUp": 38,
            "ArrowRight": 39, "ArrowDown": 40, "Tab": 9}

    def __init__(self, browser, session, target):
        self.browser = browser
        self.session = session
        self.target = target

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)

    def events(self, method):
        return [e["params"] for e in self.browser.events
                if e["method"] == method and e.get("sessionId") == self.session]

    def eval(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in result:
            raise Error("%s: %s" % (expression, json.dumps(result["exceptionDetails"])[:600]))
        return result["result"].get("value")

    def wait(self, expression):
        end = time.monotonic() + DEADLINE
        while not self.eval("Boolean(%s)" % expression):
            if time.monotonic() > end:
                raise Error("deadline passed waiting for " + expression)
            time.sleep(0.01)

    def frame(self):
        """Until what was asked for has been painted."""
        self.eval("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def click(self, x, y):
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, clickCount=1,
                      button="none" if kind == "mouseMoved" else "left")
        self.frame()

    def move(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.frame()

    def key(self, name):
        params = {"key": name}
        if name in self.KEYS:
            params["windowsVirtualKeyCode"] = self.KEYS[name]
        else:
            params["text"] = name
        self.call("Input.dispatchKeyEvent", type="keyDown", **params)
        self.call("Input.dispatchKeyEvent", type="keyUp", **params)
        self.frame()

    def type(self, text):
        self.call("Input.insertText", text=text)
        self.frame()

    def dark(self, on):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if on else "light"}])

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))
